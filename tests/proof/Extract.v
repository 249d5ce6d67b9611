(** Extracts the executable node to OCaml, for compare.ml. The integers of OCaml have 63 bits, which is enough for
    tokens (53 bits) and for milliseconds. *)
From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.
From Redquorum Require Import Node.
Extraction "node.ml" execute.
