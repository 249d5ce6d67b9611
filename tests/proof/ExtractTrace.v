(** Extracts the trace checker to OCaml, for check.ml. The integers of OCaml have 63 bits, which is enough for the
    nanoseconds of a century. *)
From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.
From Redquorum Require Import Trace.
Extraction "trace.ml" check first_state.
