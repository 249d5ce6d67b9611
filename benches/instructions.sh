#!/usr/bin/env bash
# Counts the instructions of one lock and its unlock on five nodes in memory, by valgrind's callgrind:
#
#     benches/instructions.sh [--profile]
#
# The difference between 1,100 and 100 of them, divided by 1,000, so that start and end do not count. With --profile, shows
# the functions that they are spent in as well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for tool in valgrind callgrind_annotate; do
    command -v "$tool" >/dev/null || { echo "no $tool: apt-get install valgrind" >&2; exit 1; }
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

program=$(cargo bench --no-run --bench instructions --message-format json 2>"$scratch/build.log" |
    sed -n 's/.*"executable":"\([^"]*instructions-[^"]*\)".*/\1/p') || true
[[ -x $program ]] || { cat "$scratch/build.log" >&2; exit 1; }

# count TIMES: the instructions of so many locks and unlocks, start and end included.
count() {
    valgrind --tool=callgrind --callgrind-out-file="$scratch/$1" "$program" "$1" 2>"$scratch/valgrind.log" ||
        { cat "$scratch/valgrind.log" >&2; exit 1; }
    sed -n 's/^\(summary\|totals\): //p' "$scratch/$1" | head -n 1
}

few=$(count 100)
many=$(count 1100)
echo "$(((many - few) / 1000)) instructions for one lock and its unlock"
if [[ ${1-} == --profile ]]; then
    callgrind_annotate --inclusive=no "$scratch/1100" | head -n 60
fi
