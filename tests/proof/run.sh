#!/usr/bin/env bash
# Checks the proof (README.md), compares the executable node of the proof with the pure node of the library, and checks
# whether the clients of simulated runs take steps of the model. Needs
# `coqc` and `ocamlfind` (on Debian, `apt-get install --no-install-recommends coq` brings both) and cargo-nextest.
#
#   tests/proof/run.sh                     300,000 random steps and 300 schedules
#   tests/proof/run.sh --steps 1000000     more steps
#   tests/proof/run.sh --schedules 20000   more schedules
#   tests/proof/run.sh --scenarios         also the scenarios of the simulator, which takes many minutes
#   tests/proof/run.sh --without-rust      only the proof
#
# All generated files are in target/proof, and those of mutants.sh in target/proof-mutants.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

steps=300000
schedules=300
with_rust=true
with_scenarios=false
while (($#)); do
    case $1 in
    --steps)
        steps=$2
        shift 2
        ;;
    --schedules)
        schedules=$2
        shift 2
        ;;
    --scenarios)
        with_scenarios=true
        shift
        ;;
    --without-rust)
        with_rust=false
        shift
        ;;
    *)
        echo "usage: tests/proof/run.sh [--steps NUMBER] [--schedules NUMBER] [--scenarios] [--without-rust]" >&2
        exit 2
        ;;
    esac
done

say() { printf 'proof: %s\n' "$*" >&2; }

source tests/proof/compile.sh
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
work=$target/proof
rm -rf "$work"
mkdir -p "$work/scenarios"
cp tests/proof/*.v tests/proof/*.ml "$work"

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
build_check "$work"
$with_rust || exit 0

# run_tests FILTER [OPTION...]: runs tests of the library, which write files.
run_tests() {
    cargo nextest run --package redquorum --package redquorum-cli --package redquorum-tests --all-features \
        --color never --lib -E "$@" >"$work/tests.log" 2>&1 || { cat "$work/tests.log" && exit 1; }
}

# accepts WHAT COMMAND...: the command must succeed.
accepts() {
    local result
    if ! result=$("${@:2}"); then
        echo "$result"
        say "$1 differ from the proof"
        exit 1
    fi
    say "$1: $result"
}

# rejects COMMAND FOLDER: the command must fail for each file. A comparison that cannot fail shows nothing.
rejects() {
    local file result
    for file in "$2"/*; do
        if result=$("$1" "$file"); then
            say "with the rule $(basename "$file") broken, nothing differs"
            exit 1
        fi
        say "with the rule broken, $(basename "${file%.*}"): $(tail -n 1 <<<"$result")"
    done
}

export REDQUORUM_PROOF_FOLDER=$work REDQUORUM_PROOF_STEPS=$steps REDQUORUM_PROOF_SCHEDULES=$schedules
run_tests 'test(written_for_the_proof)' --run-ignored only
accepts "the steps of the pure node" "$work/compare" "$work/whole.steps"
rejects "$work/compare" "$work/broken"

# The clients of simulated runs take steps of the model.
accepts "the clients of random schedules" "$work/check" "$work/schedules.trace"
rejects "$work/check" "$work/broken-clients"
# The time of a check grows with the square of the length of a trace, so the longest traces are not checked.
if $with_scenarios; then
    REDQUORUM_PROOF_TRACES=$work/scenarios run_tests 'test(sim::scenarios::)'
    while read -r trace; do say "not checked, too long: $(basename "$trace")"; done \
        < <(find "$work/scenarios" -size +24M)
    mapfile -t traces < <(find "$work/scenarios" -type f -not -size +24M)
    accepts "the clients of the scenarios" "$work/check" "${traces[@]}"
fi
