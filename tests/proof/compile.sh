# Sourced by run.sh and mutants.sh.

# The files of the proof, in the order of their dependencies.
proof_files=(Model Exclusion Tokens Tickets Majority Node Refinement Joining Trace)

# compile FOLDER FILE: compiles one file of the proof in this folder.
compile() { (cd "$1" && coqc -q -Q . Redquorum "$2.v"); }

# build_compare FOLDER: extracts the executable node, and builds the program `compare`.
build_compare() {
    compile "$1" Extract
    (cd "$1" && ocamlfind ocamlopt -w -a node.mli node.ml compare.ml -o compare)
}

# build_check FOLDER: extracts the trace checker, and builds the program `check`.
build_check() {
    compile "$1" ExtractTrace
    (cd "$1" && ocamlfind ocamlopt -w -a trace.mli trace.ml check.ml -o check)
}
