#!/usr/bin/env bash
# Counts the instructions of one lock and its unlock, by valgrind's callgrind:
#
#     benches/instructions.sh [--profile]   instructions of the library, on five nodes in memory
#     benches/instructions.sh --server      instructions of one redis-server
#
# The result is the difference between 1,100 and 100 repetitions, divided by 1,000, so that start and end do not count. With
# --profile, the script also shows the functions in which the instructions are spent.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for tool in valgrind callgrind_annotate; do
    command -v "$tool" >/dev/null || { echo "no $tool: apt-get install valgrind" >&2; exit 1; }
done

scratch=$(mktemp -d)
server=
clean_up() {
    if [[ -n $server ]]; then kill "$server" 2>/dev/null || true; fi
    rm -rf "$scratch"
}
trap clean_up EXIT

program=$(cargo bench --package redquorum-benches --no-run --bench instructions --message-format json 2>"$scratch/build.log" |
    sed -n 's/.*"executable":"\([^"]*instructions-[^"]*\)".*/\1/p') || true
[[ -x $program ]] || { cat "$scratch/build.log" >&2; exit 1; }

counted() { valgrind --tool=callgrind --callgrind-out-file="$scratch/$1" "${@:2}"; }
total() { sed -n 's/^\(summary\|totals\): //p' "$scratch/$1" | head -n 1; }

# count TIMES: the instructions of this many locks and unlocks, with start and end.
count() {
    counted "$1" "$program" "$1" 2>"$scratch/valgrind.log" || { cat "$scratch/valgrind.log" >&2; exit 1; }
    total "$1"
}

# count_server TIMES: the instructions of a server that serves this many locks and unlocks.
count_server() {
    local port=$((20000 + RANDOM % 10000))
    counted "$1" redis-server --port "$port" --bind 127.0.0.1 --save '' --hz 1 --dir "$scratch" >"$scratch/server.log" 2>&1 &
    server=$!
    until redis-cli -p "$port" ping 2>/dev/null | grep -q PONG; do
        kill -0 "$server" 2>/dev/null || { cat "$scratch/server.log" >&2; exit 1; }
        sleep 0.1
    done
    "$program" "$1" "redis://127.0.0.1:$port"
    redis-cli -p "$port" shutdown nosave
    wait "$server" || true
    server=
    total "$1"
}

counter=count
if [[ ${1-} == --server ]]; then counter=count_server; fi
few=$("$counter" 100)
many=$("$counter" 1100)
echo "$(((many - few) / 1000)) instructions for one lock and its unlock"
if [[ ${1-} == --profile ]]; then
    callgrind_annotate --inclusive=no "$scratch/1100" | head -n 60
fi
