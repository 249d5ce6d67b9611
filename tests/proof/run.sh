#!/usr/bin/env bash
# Checks the proof (README.md), and compares the executable node of the proof with the pure node of the library. Needs
# `coqc` and `ocamlfind` (on Debian, `apt-get install --no-install-recommends coq` brings both) and cargo-nextest.
#
#   tests/proof/run.sh                   300,000 random steps
#   tests/proof/run.sh --steps 1000000   more steps
#   tests/proof/run.sh --without-rust    only the proof, without the comparison
#
# All generated files are in target/proof, and those of mutants.sh in target/proof-mutants.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

steps=300000
with_rust=true
while (($#)); do
    case $1 in
    --steps)
        steps=$2
        shift 2
        ;;
    --without-rust)
        with_rust=false
        shift
        ;;
    *)
        echo "usage: tests/proof/run.sh [--steps NUMBER] [--without-rust]" >&2
        exit 2
        ;;
    esac
done

say() { printf 'proof: %s\n' "$*" >&2; }

source tests/proof/compile.sh
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
work=$target/proof
rm -rf "$work"
mkdir -p "$work/broken"
cp tests/proof/*.v tests/proof/compare.ml "$work"

# No statement is admitted, and no axiom is added. The assumptions of the theorems are premises.
if grep -nE '\b(Admitted|admit|Axiom|Axioms|Parameter|Parameters|Conjecture|Abort|give_up)\b' "$work"/*.v; then
    say "the proof has a gap"
    exit 1
fi
# The comments name the places of the real things.
for path in $(grep -ohE '\b(src|docs|tests)/[a-z_/]*[a-z](\.[a-z]+)?' "$work"/*.v | sort -u); do
    if [[ ! -e $path && ! -e $path.rs ]]; then
        say "a comment names $path, which does not exist"
        exit 1
    fi
done
for file in "${proof_files[@]}"; do
    say "$file.v"
    compile "$work" "$file"
done

# Each theorem depends on nothing but its premises.
mapfile -t theorems < <(cd "$work" && for file in "${proof_files[@]}"; do
    sed -nE "s/^Theorem ([A-Za-z0-9_]+).*/$file.\1/p" "$file.v"
done)
{
    printf 'From Redquorum Require %s.\n' "${proof_files[@]}"
    printf 'Print Assumptions %s.\n' "${theorems[@]}"
} >"$work/Assumptions.v"
compile "$work" Assumptions >"$work/assumptions.txt"
closed=$(grep -c '^Closed under the global context$' "$work/assumptions.txt" || true)
if ((${#theorems[@]} == 0 || closed != ${#theorems[@]})) || grep -q '^Axioms:' "$work/assumptions.txt"; then
    cat "$work/assumptions.txt"
    say "$closed of ${#theorems[@]} theorems are closed under the global context"
    exit 1
fi
say "${#theorems[@]} theorems, each closed under the global context"

build_compare "$work"
$with_rust || exit 0

REDQUORUM_PROOF_FOLDER=$work REDQUORUM_PROOF_STEPS=$steps cargo nextest run \
    --package redquorum --package redquorum-cli --package redquorum-tests --all-features --color never --lib \
    --run-ignored only -E 'test(sequences_are_written_for_the_proof)' >"$work/sequences.log" 2>&1 ||
    { cat "$work/sequences.log" && exit 1; }
if ! result=$("$work/compare" "$work/whole.steps"); then
    echo "$result"
    say "the executable node differs from the pure node"
    exit 1
fi
say "the pure node: $result"
# A comparison that cannot fail shows nothing: with each rule of the pure node broken, steps differ.
for sequences in "$work"/broken/*.steps; do
    rule=$(basename "$sequences" .steps)
    if result=$("$work/compare" "$sequences"); then
        say "with the rule $rule broken, no step differs"
        exit 1
    fi
    say "with the rule broken, $rule: $(tail -n 1 <<<"$result")"
done
