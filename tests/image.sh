#!/usr/bin/env bash
# Checks a built command in a container image that needs no registry:
#
#   tests/image.sh target/debug/redquorum
#
# The image has the program, the libraries and the loader that `ldd` lists, and the user of `Dockerfile`. If no Docker
# engine answers, the exit status is 3.
set -euo pipefail
# All users can read files without an explicit mode.
umask 022

say() { printf 'image.sh: %s\n' "$*" >&2; }

if (($# != 1)) || [[ ! -x $1 || -d $1 ]]; then
    say "usage: tests/image.sh PROGRAM"
    exit 2
fi
program=$1
if ! docker info >/dev/null 2>&1; then
    say "no Docker engine answers (docker info), so no image was started"
    exit 3
fi

scratch=$(mktemp -d)
image=
clean_up() {
    if [[ -n $image ]]; then
        docker ps --all --quiet --filter "ancestor=$image" | xargs --no-run-if-empty docker rm --force >/dev/null
        docker image rm --force "$image" >/dev/null
    fi
    rm -rf "$scratch"
}
trap clean_up EXIT

user=65532:65532
root=$scratch/root
install -D --mode 755 "$program" "$root/usr/local/bin/redquorum"
# A static program has no libraries, and `ldd` fails.
for library in $(ldd "$program" 2>/dev/null | grep --only-matching '/[^ ]*' || true); do
    install -D --mode 755 "$library" "$root$library"
done
mkdir "$root/etc"
echo "redquorum:x:$user::/:/sbin/nologin" >"$root/etc/passwd"
# Settings that only root can read.
install --mode 600 /dev/null "$root/etc/of-root.toml"
image=$(tar --create --owner 0 --group 0 --directory "$root" . |
    docker import --change "USER $user" --change 'ENTRYPOINT ["/usr/local/bin/redquorum"]' -)

# expect STATUS STREAM TEXT ARGUMENT...: runs the command, and checks its exit status and that STREAM contains TEXT.
expect() {
    local status=$1 stream=$2 text=$3 got=0
    shift 3
    timeout 120 docker run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges \
        "$image" "$@" >"$scratch/stdout" 2>"$scratch/stderr" || got=$?
    if ((got != status)) || ! grep --quiet --fixed-strings --regexp "$text" "$scratch/$stream"; then
        say "redquorum $*: exit status $got, expected $status with '$text' on $stream"
        cat "$scratch/stdout" "$scratch/stderr" >&2
        return 1
    fi
}

expect 0 stdout "$("$program" --version)" --version
# Without nodes: 78, the settings cannot work.
expect 78 stderr REDQUORUM_NODES doctor
# With a node that refuses connections: 81, not sound.
expect 81 stdout '"check":"reachable","level":"fail"' doctor --json --node redis://127.0.0.1:1
# By a user other than root: 74, a file cannot be read.
expect 74 stderr "Permission denied" doctor --config /etc/of-root.toml
say "version, doctor and user are right"
