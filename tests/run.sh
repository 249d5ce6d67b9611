#!/usr/bin/env bash
# Runs the checks of this repository, and first installs what the checks need and this machine lacks: a Redis server,
# openssl and systemd-analyze (apt-get), and cargo-nextest (cargo install).
#
#   tests/run.sh          before each change: format, lint, tests on nodes in memory, in the simulator and on real
#                         servers as processes, tests in documents, examples
#   tests/run.sh --all    before a release, too: the search of the model, servers in containers and of other versions,
#                         the code for other systems, the oldest Rust, recipes, benchmarks, the image, the packages
#
# The time of each stage is on stderr. The end of the report names the checks that could not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

is_all=false
case $* in
'') ;;
--all) is_all=true ;;
*)
    echo "usage: tests/run.sh [--all]" >&2
    exit 2
    ;;
esac

scratch=$(mktemp -d)
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
node_pids=()
oldest_pid=
# The packages that each stage builds. Their names select the same features of their dependencies in each stage, so that
# nothing is built twice. The other members of the workspace need dependencies of their own.
members=(--package redquorum --package redquorum-cli --package redquorum-tests)
other_members=(--package redquorum-benches --package redquorum-recipes)
published_flags=${RUSTFLAGS-}
if $is_all; then
    # The flags add the search of the model and servers in containers, each with dependencies of its own.
    export RUSTFLAGS="$published_flags --cfg redquorum_model --cfg redquorum_containers"
fi
clean_up() {
    if [[ -n $oldest_pid ]]; then kill "$oldest_pid" 2>/dev/null || true; fi
    if ((${#node_pids[@]})); then
        kill "${node_pids[@]}" 2>/dev/null || true
        wait
    fi
    rm -rf "$scratch"
}
trap clean_up EXIT

say() { printf 'run.sh: %s\n' "$*" >&2; }

# stage NAME COMMAND...: runs the command; with `set -e`, a failing one ends the script here.
stage() {
    local name=$1 begin=$SECONDS
    shift
    say "$name ..."
    "$@"
    say "$name: $((SECONDS - begin)) s"
}

# not_run NAME WHY: says that something was not checked, now and once more at the end.
left_out=()
not_run() {
    say "$1: NOT RUN, $2"
    left_out+=("$1: NOT RUN, $2")
}

# as_published COMMAND...: runs the command without those flags, as everybody else builds the library.
as_published() { RUSTFLAGS=$published_flags "$@"; }

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

server_program() { command -v "${REDQUORUM_TEST_SERVER:-redis-server}" || command -v valkey-server; }

# install_package PACKAGE WHAT: installs a package of Debian.
install_package() {
    if ! command -v apt-get >/dev/null; then
        say "no $2 here, and no apt-get to install it with: please install it (Debian's package $1)"
        return 1
    fi
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$1"
}

# The image of the container tests is made from the installed server too, so Docker alone is not enough.
install_server() { server_program >/dev/null || install_package redis-server "redis-server or valkey-server"; }

# The recipe for an own CA calls it, and so do its tests.
install_openssl() { command -v openssl >/dev/null || install_package openssl openssl; }

install_systemd() { command -v systemd-analyze >/dev/null || install_package systemd systemd-analyze; }

install_cargo_tools() {
    cargo nextest --version >/dev/null 2>&1 || cargo install --locked cargo-nextest
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
}

# Containers must share the network of this machine, which those of a rootless engine and of Docker Desktop cannot.
docker_runs_tests() {
    local engine
    engine=$(docker info --format '{{.OperatingSystem}} {{.SecurityOptions}}' 2>/dev/null) || return 1
    [[ $engine != *rootless* && $engine != *"Docker Desktop"* ]]
}

# Apart from the tests on real servers: those measure time, and these keep every core busy.
test_without_servers() {
    cargo nextest run "${members[@]}" --all-features --color never \
        -E 'not (binary(real) + binary(cli) + binary(connections))' 2>&1 | tee "$scratch/without-servers.passed"
}

# test_on KIND THREADS [FILTER]: runs the tests on real servers, on servers of this kind, so many at a time.
test_on() {
    REDQUORUM_TEST_SERVERS=$1 cargo nextest run "${members[@]}" --all-features --color never --profile servers \
        --test-threads "$2" -E "${3:-all()}" 2>&1 | tee "$scratch/$1.passed"
}

# What a server of another version may answer otherwise: to the script, to a user who lacks a permission, to questions about itself.
depends_on_version='test(node::redis::) + test(permissions::) + test(doctor::)'

# version_of PROGRAM: `Redis 7.0.15`, `Valkey 9.1.2`.
version_of() { "$1" --version | sed -E 's/^(Redis|Valkey) server v=([^ ]+).*/\1 \2/'; }

# fetch_server NAME WORDS: adds this server to $others, if it can be had.
others=()
fetch_server() {
    local program
    if program=$(tests/servers.sh "$1" 2>"$scratch/why"); then
        others+=("$program")
    else
        not_run "tests on $2" "$(<"$scratch/why")"
    fi
}

# All at once, for most of the time they wait for what must not happen.
test_on_others() {
    local program version run runs=() failed=0
    for program in "${others[@]}"; do
        version=$(version_of "$program")
        REDQUORUM_TEST_SERVER=$program REDQUORUM_TEST_SERVERS=processes cargo nextest run "${members[@]}" \
            --all-features --color never -E "$depends_on_version" >"$scratch/$version.passed" 2>&1 &
        runs+=("$!:$version")
    done
    for run in "${runs[@]}"; do
        wait "${run%%:*}" || failed=1
        cat "$scratch/${run#*:}.passed"
    done
    return "$failed"
}

# The ways for systems other than Linux, under Linux. What runs in virtual time alone depends on none of them, nor do the
# rules of nodes; without it, to optimise would take longer than it saves.
depends_on_system='not (test(model::) + test(sim::) + test(simulated) + test(agreement::))'
test_portable() {
    CARGO_PROFILE_DEV_OPT_LEVEL=0 RUSTC_WORKSPACE_WRAPPER=$PWD/tests/portable.sh cargo nextest run "${members[@]}" \
        --all-features --color never --lib --bins -E "$depends_on_system" 2>&1 | tee "$scratch/portable.passed"
}

# begin_oldest_rust VERSION: sees that what is published compiles with the oldest Rust that it promises to compile with, if
# that can be had. Beside the tests on real servers, which go first, and wait more than they work.
begin_oldest_rust() {
    oldest_rust "$1" >"$scratch/oldest.log" 2>&1 &
    oldest_pid=$!
}

oldest_rust() {
    if ! command -v rustup >/dev/null; then
        echo "there is no rustup to install it with" >"$scratch/without-oldest"
    elif ! rustup run "$1" cargo --version >/dev/null 2>&1 &&
        ! rustup toolchain install --profile minimal --no-self-update "$1" >"$scratch/why-oldest" 2>&1; then
        echo "rustup cannot install it: $(grep -m 1 error "$scratch/why-oldest" || tail -n 1 "$scratch/why-oldest")" \
            >"$scratch/without-oldest"
    else
        nice -n 19 cargo "+$1" check --package redquorum --package redquorum-cli --all-features \
            --target-dir "$target/rust-$1"
    fi
}

# end_oldest_rust VERSION: what came of it.
end_oldest_rust() {
    local failed=0
    wait "$oldest_pid" || failed=1
    oldest_pid=
    cat "$scratch/oldest.log"
    if [[ -e $scratch/without-oldest ]]; then not_run "Rust $1" "$(<"$scratch/without-oldest")"; fi
    return "$failed"
}

# Ratios of the times that servers spend, which depend on the machine as a benchmark does.
measures='test(semaphores::a_newcomer_at_a_full_semaphore_of_a_thousand)'
test_measures() {
    REDQUORUM_TEST_SERVERS=processes cargo nextest run "${members[@]}" --all-features --color never --profile servers \
        --test-threads 1 -E "$measures" 2>&1 | tee "$scratch/measures.passed"
}

# A semaphore of 1,024 permits and 3,000 processes takes minutes to simulate.
large_semaphores() {
    cargo nextest run "${members[@]}" --all-features --color never --run-ignored only \
        -E 'test(s72_large_saturated_semaphores_use_most_permits)' 2>&1 | tee "$scratch/large-semaphores.passed"
}

# What is started, frozen, killed and started again in another way: the rest only talks to servers.
depends_on_kind='test(real::fixture) + test(real::guard) + test(real::faults) + test(real::acceptance) + test(real::election)'

doc_tests() { cargo test --doc "${members[@]}" --all-features --color never 2>&1 | tee "$scratch/documentation.passed"; }

# passed RESULTS: adds up the summaries of nextest and of cargo.
passed() {
    grep -E '^ *Summary|^test result' "$scratch/$1.passed" | grep -oE '[0-9]+ passed' |
        awk '{ sum += $1 } END { print sum + 0 }'
}

# Runs what was built with everything else: for one package, `cargo run` would choose fewer features of dependencies, and
# build those anew.
examples() {
    local source name program arguments
    for source in examples/*.rs examples/campaign; do
        name=$(basename "$source" .rs)
        program=$target/debug/examples/$name
        arguments=()
        if [[ $name == campaign ]]; then arguments=(--schedules 1000); fi
        say "example $name"
        "$program" "${arguments[@]}"
    done
}

# answers PORT: whether a server answers PING there.
answers() {
    local reply=
    { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'PING\r\n' >&3
    IFS= read -r -t 5 reply <&3 || true
    exec 3>&-
    [[ $reply == +PONG* ]]
}

# Starts one server on a free port and leaves the port in $port.
start_node() {
    local program pid
    program=$(server_program)
    for _ in {1..20}; do
        port=$((15000 + RANDOM % 15000))
        if answers "$port"; then continue; fi
        "$program" --port "$port" --bind 127.0.0.1 --save '' --dir "$scratch" >"$scratch/node.log" 2>&1 &
        pid=$!
        # A server that loses the race for its port ends at once; then another port is tried.
        while kill -0 "$pid" 2>/dev/null; do
            if answers "$port"; then
                node_pids+=("$pid")
                return
            fi
            sleep 0.05
        done
    done
    cat "$scratch/node.log" >&2
    return 1
}

examples_on_servers() {
    local nodes=() port example
    for _ in 1 2 3 4 5; do
        start_node
        nodes+=("redis://127.0.0.1:$port")
    done
    for example in quickstart leader_election blocking; do
        REDQUORUM_NODES=$(IFS=,; echo "${nodes[*]}") "$target/debug/examples/$example"
    done
}

# Recipes and benchmarks need crates that nothing else here needs.
recipes() {
    cargo nextest run --package redquorum-recipes --all-features --color never --profile servers --test-threads 6 2>&1 |
        tee "$scratch/recipes.passed"
}

contention() {
    cargo run --package redquorum-benches --example contention -- \
        --nodes 5 --contenders 1,2,10 --plot "$scratch/contention.svg"
}

# The command starts in a container, as a user who is not root.
image() {
    local status=0
    tests/image.sh "$target/debug/redquorum" || status=$?
    if ((status == 3)); then
        not_run "image of the command" "no Docker engine answers"
        status=0
    fi
    return "$status"
}

# The units of the recipes, with the command that was built: what a unit runs has to be there.
units() {
    local unit
    mkdir "$scratch/units"
    for unit in examples/recipes/files/*.{service,timer}; do
        sed "s|^ExecStart=/usr/local/bin/redquorum |ExecStart=$target/debug/redquorum |" "$unit" >"$scratch/units/$(basename "$unit")"
    done
    # Without the option, it also ends well where it has understood only a part, and badly for other units of the machine.
    systemd-analyze verify --man=no --recursive-errors=no "$scratch"/units/*
}

documentation() { RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features; }

# A dry run of the release: what would be uploaded of the library and of the command compiles by itself, the command with
# that library, and cargo has no warning about either. Only the upload itself cannot be run. Working files that are not
# committed are part of it, so that this can be run before a commit. The packages are checked rather than built, with what
# the lint without features and the tests have left of their dependencies: cargo's own verification would compile those
# once more.
package() {
    local version crate
    version=$(cargo pkgid | sed 's/.*[#@]//')
    cargo publish --dry-run --locked --package redquorum --package redquorum-cli --allow-dirty --no-verify 2>&1 |
        tee "$scratch/package.log"
    if grep '^warning' "$scratch/package.log" | grep -v 'aborting upload due to dry run'; then return 1; fi
    for crate in redquorum redquorum-cli; do
        tar --extract --file "$target/package/tmp-crate/$crate-$version.crate" --directory "$scratch"
    done
    as_published cargo check --manifest-path "$scratch/redquorum-$version/Cargo.toml" --target-dir "$target"
    as_published cargo check --manifest-path "$scratch/redquorum-cli-$version/Cargo.toml" --target-dir "$target" \
        --config "patch.crates-io.redquorum.path='$scratch/redquorum-$version'"
}

# Nothing public may change in a way that the version does not say, since the last release.
semver() {
    local release=$1
    cargo semver-checks --version >/dev/null 2>&1 || cargo install --locked cargo-semver-checks
    as_published cargo semver-checks --package redquorum --baseline-rev "$release" --all-features
}

first_tier() {
    stage "install a server" install_server
    stage "install openssl" install_openssl
    stage "install cargo's tools" install_cargo_tools
    stage "format" cargo fmt --all --check
    stage "build" cargo build "${members[@]}" --lib --bins --tests --examples --all-features
    stage "lint" cargo clippy "${members[@]}" --all-targets --all-features -- -D warnings
    stage "tests without real servers" test_without_servers
    stage "tests, real servers as processes" test_on processes 6 "not $measures"
    stage "tests in the documentation" doc_tests
    stage "examples on nodes in memory" examples
    stage "examples on five real servers" examples_on_servers
}

second_tier() {
    oldest=$(sed -n 's/^package = .*rust-version = "\([^"]*\)".*/\1/p' Cargo.toml)
    begin_oldest_rust "$oldest"
    stage "costs at real servers" test_measures
    stage "large semaphores in the simulator" large_semaphores
    if docker_runs_tests; then
        stage "tests, real servers as containers" test_on containers 6 "$depends_on_kind"
    else
        not_run "tests, real servers as containers" "no Docker engine that shares this machine's network answers"
    fi
    [[ $installed == "Redis 7.0."* ]] || not_run "tests on Redis 7.0" "the installed server is $installed"
    fetch_server redis-6.2 "Redis 6.2"
    fetch_server redis-8 "Redis 8"
    fetch_server valkey Valkey
    if ((${#others[@]})); then stage "tests on other servers" test_on_others; fi
    stage "tests of the ways for other systems" test_portable
    stage "Rust $oldest" end_oldest_rust "$oldest"
    stage "lint of recipes and benchmarks" cargo clippy "${other_members[@]}" --all-targets --all-features -- -D warnings
    stage "recipes" recipes
    stage "contention" contention
    stage "install systemd-analyze" install_systemd
    stage "units of systemd" units
    stage "image of the command" image
    stage "lint without features" as_published cargo clippy --lib -- -D warnings
    stage "documentation" documentation
    stage "package" package
    if release=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null); then
        stage "compatibility with $release" semver "$release"
    else
        not_run "compatibility with the last release" "there is no release (no tag v*) to be compatible with"
    fi
}

first_tier
installed=$(version_of "$(server_program)")
if $is_all; then
    second_tier
else
    not_run "the checks of tests/run.sh --all" "only the first tier was asked for"
fi

# Reached only when every stage has succeeded.
total=0
for results in "$scratch"/*.passed; do
    kind=$(basename "$results" .passed)
    count=$(passed "$kind")
    total=$((total + count))
    echo "$kind: $count passed"
done
echo "all tests on $installed"
for program in ${others[@]+"${others[@]}"}; do echo "what depends on the version on $(version_of "$program")"; done
if ((${#left_out[@]})); then printf '%s\n' "${left_out[@]}"; fi
echo "$total passed, 0 failed in $SECONDS s"
