#!/usr/bin/env bash
# Runs the checks of this repository, and first installs what the checks need and this machine lacks: a Redis server,
# openssl, systemd-analyze and coq (apt-get), and cargo-nextest (cargo install).
#
#   tests/run.sh          before each change: format, lint, tests on nodes in memory, in the simulator and on real
#                         servers as processes, tests in documents, examples, and the proof if coq is installed
#   tests/run.sh --all    before a release, too: the search of the model, broken rules of the proof, the copies of rooms
#                         for mutation testing, servers in containers and of other versions, the code for other systems,
#                         the oldest Rust, recipes, benchmarks, histories of processes that are killed, the image, the
#                         packages
#
# The script prints the time of each stage to stderr. The report at the end names the checks that could not run.
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
# The packages that each stage builds together. Each stage names the same packages, so their dependencies have the
# same features in all stages, and are compiled once. The other members of the workspace need further dependencies.
members=(--package redquorum --package redquorum-cli --package redquorum-tests)
other_members=(--package redquorum-benches --package redquorum-recipes --package redquorum-histories)
published_flags=${RUSTFLAGS-}
if $is_all; then
    # The flags add the search of the model, and servers in containers. Both need further dependencies.
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

# stage NAME COMMAND...: runs a command and prints its time. Because of `set -e`, a failing command ends the script.
stage() {
    local name=$1 begin=$SECONDS
    shift
    say "$name ..."
    "$@"
    say "$name: $((SECONDS - begin)) s"
}

# not_run NAME REASON: reports that a check did not run, now and in the final report.
left_out=()
not_run() {
    say "$1: NOT RUN, $2"
    left_out+=("$1: NOT RUN, $2")
}

# as_published COMMAND...: runs a command without the flags of `--all`, as users of the library build it.
as_published() { RUSTFLAGS=$published_flags "$@"; }

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

server_program() { command -v "${REDQUORUM_TEST_SERVER:-redis-server}" || command -v valkey-server; }

# install_package PACKAGE PROGRAM: installs a Debian package.
install_package() {
    if ! command -v apt-get >/dev/null; then
        say "$2 is missing, and there is no apt-get: install the program (on Debian, by the package $1)"
        return 1
    fi
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$1"
}

# The tests on containers also need an installed server, because their image contains its program.
install_server() { server_program >/dev/null || install_package redis-server "redis-server or valkey-server"; }

# The recipe `certificates.sh` and its tests call openssl.
install_openssl() { command -v openssl >/dev/null || install_package openssl openssl; }

install_systemd() { command -v systemd-analyze >/dev/null || install_package systemd systemd-analyze; }

has_coq() { command -v coqc >/dev/null && command -v ocamlfind >/dev/null; }

# The package coq brings OCaml.
install_coq() { has_coq || install_package coq "coqc or ocamlfind"; }

install_cargo_tools() {
    cargo nextest --version >/dev/null 2>&1 || cargo install --locked cargo-nextest
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
}

# Containers must use the network of this machine. Containers of a rootless engine or of Docker Desktop cannot.
docker_runs_tests() {
    local engine
    engine=$(docker info --format '{{.OperatingSystem}} {{.SecurityOptions}}' 2>/dev/null) || return 1
    [[ $engine != *rootless* && $engine != *"Docker Desktop"* ]]
}

# The tests without servers keep all cores busy. The tests on real servers measure times, so they are another stage.
test_without_servers() {
    cargo nextest run "${members[@]}" --all-features --color never \
        -E 'not (binary(real) + binary(cli) + binary(connections))' 2>&1 | tee "$scratch/without-servers.passed"
}

# test_on KIND THREADS [FILTER]: runs the tests on real servers of this kind, THREADS tests at a time.
test_on() {
    REDQUORUM_TEST_SERVERS=$1 cargo nextest run "${members[@]}" --all-features --color never --profile servers \
        --test-threads "$2" -E "${3:-all()}" 2>&1 | tee "$scratch/$1.passed"
}

# The tests whose results may depend on the version of the server: scripts, permissions, `doctor`, and Redis Clusters.
depends_on_version='test(node::redis::) + test(permissions::) + test(doctor::) + test(redis_cluster::)'

# Of these, the tests of a Redis Cluster as a node, which needs the sharded channels of Redis 7.0.
needs_sharded_channels='test(node::redis::tests::hash_slot) + test(a_cluster_as_a_node) + test(a_whole_redis_cluster)'
needs_sharded_channels+=' + test(redis_cluster::) + test(a_user_of_locks_in_a_cluster)'
needs_sharded_channels+=' + test(one_cluster_as_two_nodes_and_two_clusters)'

# version_of PROGRAM: prints a version such as `Redis 7.0.15` or `Valkey 9.1.2`.
version_of() { "$1" --version | sed -E 's/^(Redis|Valkey) server v=([^ ]+).*/\1 \2/'; }

# fetch_server NAME WORDS: adds the program of a server to $others. If the server is not available, the check counts
# as not run.
others=()
fetch_server() {
    local program
    if program=$(tests/servers.sh "$1" 2>"$scratch/why"); then
        others+=("$program")
    else
        not_run "tests on $2" "$(<"$scratch/why")"
    fi
}

# Runs the tests on all other servers at the same time. Most tests need little processor time, because they wait for the
# deadline of an event that must not happen.
test_on_others() {
    local program version filter run runs=() failed=0
    for program in "${others[@]}"; do
        version=$(version_of "$program")
        filter=$depends_on_version
        if [[ $version == "Redis 6."* ]]; then filter="($filter) - ($needs_sharded_channels)"; fi
        REDQUORUM_TEST_SERVER=$program REDQUORUM_TEST_SERVERS=processes cargo nextest run "${members[@]}" \
            --all-features --color never -E "$filter" >"$scratch/$version.passed" 2>&1 &
        runs+=("$!:$version")
    done
    for run in "${runs[@]}"; do
        wait "${run%%:*}" || failed=1
        cat "$scratch/${run#*:}.passed"
    done
    return "$failed"
}

# Runs the code for systems other than Linux, on Linux. Tests of the model, the simulator and the node rules are left
# out, because they do not depend on the system. The remaining tests are short, so an optimized build would take longer
# than the time that it saves.
depends_on_system='not (test(model::) + test(sim::) + test(simulated) + test(agreement::))'
test_portable() {
    CARGO_PROFILE_DEV_OPT_LEVEL=0 RUSTC_WORKSPACE_WRAPPER=$PWD/tests/portable.sh cargo nextest run "${members[@]}" \
        --all-features --color never --lib --bins -E "$depends_on_system" 2>&1 | tee "$scratch/portable.passed"
}

# begin_oldest_rust VERSION: starts a check that the published packages compile with the oldest supported Rust, if
# that version can be installed. The check runs in the background at low priority, beside tests on real servers that
# mostly wait.
begin_oldest_rust() {
    oldest_rust "$1" >"$scratch/oldest.log" 2>&1 &
    oldest_pid=$!
}

oldest_rust() {
    if ! command -v rustup >/dev/null; then
        echo "there is no rustup to install this version with" >"$scratch/without-oldest"
    elif ! rustup run "$1" cargo --version >/dev/null 2>&1 &&
        ! rustup toolchain install --profile minimal --no-self-update "$1" >"$scratch/why-oldest" 2>&1; then
        echo "rustup cannot install this version: $(grep -m 1 error "$scratch/why-oldest" || tail -n 1 "$scratch/why-oldest")" \
            >"$scratch/without-oldest"
    else
        nice -n 19 cargo "+$1" check --package redquorum --package redquorum-cli --all-features \
            --target-dir "$target/rust-$1"
    fi
}

# end_oldest_rust VERSION: waits for the check, and prints its output.
end_oldest_rust() {
    local failed=0
    wait "$oldest_pid" || failed=1
    oldest_pid=
    cat "$scratch/oldest.log"
    if [[ -e $scratch/without-oldest ]]; then not_run "Rust $1" "$(<"$scratch/without-oldest")"; fi
    return "$failed"
}

# Ratios of times that servers spend. The results depend on the machine, so this test runs alone, like a benchmark.
measures='test(semaphores::a_newcomer_at_a_large_full_semaphore)'
test_measures() {
    REDQUORUM_TEST_SERVERS=processes cargo nextest run "${members[@]}" --all-features --color never --profile servers \
        --test-threads 1 -E "$measures" 2>&1 | tee "$scratch/measures.passed"
}

# Simulations of thousands of clients.
large_simulations() {
    cargo nextest run "${members[@]}" --all-features --color never --run-ignored only \
        -E 'test(s72_large_) + test(s90_large_)' 2>&1 | tee "$scratch/large-simulations.passed"
}

# Each kind of flood, from all nodes at once. The first tier has the worst kinds.
floods() {
    REDQUORUM_TEST_SERVERS=processes cargo nextest run "${members[@]}" --all-features --color never --run-ignored only \
        -E 'test(the_client_survives_each_flood_of_all_nodes)' 2>&1 | tee "$scratch/floods.passed"
}

# The tests that start, freeze, kill or restart servers. The code for these steps differs between processes and
# containers. All other tests only send requests.
depends_on_kind='test(real::fixture) + test(real::guard) + test(real::faults) + test(real::acceptance) + test(real::election)'

doc_tests() { cargo test --doc "${members[@]}" --all-features --color never 2>&1 | tee "$scratch/documentation.passed"; }

# passed RESULTS: adds up the numbers of passed tests in the summaries of nextest and cargo.
passed() {
    grep -E '^ *Summary|^test result' "$scratch/$1.passed" | grep -oE '[0-9]+ passed' |
        awk '{ sum += $1 } END { print sum + 0 }'
}

# Runs the built examples. `cargo run` would choose other features of dependencies for a single package, and build
# them again.
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

# answers PORT: whether a server answers PING on this port.
answers() {
    local reply=
    { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'PING\r\n' >&3
    IFS= read -r -t 5 reply <&3 || true
    exec 3>&-
    [[ $reply == +PONG* ]]
}

# Starts a server on a free port, and stores the port in $port.
start_node() {
    local program pid
    program=$(server_program)
    for _ in {1..20}; do
        port=$((15000 + RANDOM % 15000))
        if answers "$port"; then continue; fi
        "$program" --port "$port" --bind 127.0.0.1 --save '' --dir "$scratch" >"$scratch/node.log" 2>&1 &
        pid=$!
        # If another program takes the port first, the server ends at once, and the loop tries another port.
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

examples_on_cluster() {
    local example
    for example in quickstart leader_election blocking; do
        examples/redis-cluster.sh "$target/debug/examples/$example"
    done
}

# Tests that cannot have a Redis Cluster of one server in the place of each server, with the reason. All other tests on
# real servers also run on these clusters.
needs_standalone_servers=(
    # Clients without a restart guard, which a Redis Cluster refuses.
    'test(tokens_increase_from_lease_to_lease_while_servers_come_and_go)'
    'test(a_renewal_heals_servers_and_replies_show_the_margin)'
    'test(a_failed_renewal_deletes_nothing_and_leaves_the_end_of_validity)'
    'test(a_meaningless_answer_is_reported_as_a_protocol_error)'
    'test(tokens_keep_growing_after_a_majority_is_restored_from_a_snapshot)'
    'test(the_error_of_a_user_without_info_names_the_remedy)'
    'test(verify_proves_a_lease_while_a_quorum_has_its_counter)'
    'test(a_failover_gives_a_plain_lock_away_but_no_lease_beside_the_cluster)'
    'test(settings_that_can_lose_votes_are_found_without_a_restart_guard)'
    # `REPLICAOF`, which a Redis Cluster refuses.
    'test(guard::promotion)'
    'test(a_replica_is_reported)'
    'test(a_replica_and_its_master_are_found)'
    'test(init_if_needed_fails_unless_a_quorum_of_an_existing_quorum_takes_part)'
    # Replacements of a node, which are refused for a node in a Redis Cluster.
    'test(cli::replace)'
    'test(guard::replacing)'
    # Redisson's clients and other programs that use the keys of a standalone server.
    'test(real::redisson)'
    'test(a_list_finds_all_locks_among_many_keys_in_small_steps)'
    # URLs that begin with `redis://`.
    'test(a_server_behind_two_addresses_is_refused_at_connect)'
    'test(the_variable_of_the_ttl_overrides_only_a_file_of_a_variable)'
    'test(several_names_have_one_lease_with_one_token)'
    # A longer quarantine, in which no renewal counts.
    'test(the_error_of_new_servers_names_the_remaining_time_and_the_remedy)'
    'test(guard::healing)'
    'test(a_lease_survives_restarts_of_all_servers_in_turn_without_a_second_holder)'
    # A restarted server that answers at once. A cluster of one server accepts commands two seconds later.
    'test(a_shutdown_waits_its_grace_and_unlocks_a_dead_server_after_its_restart)'
    'test(a_server_that_changes_back_during_a_reconfiguration_is_changed_again)'
    # Notices without listeners, which are not published in a Redis Cluster.
    'test(a_notice_that_a_server_refuses_is_counted_and_changes_no_unlock)'
    # Users with the permissions for a standalone server.
    'test(cli::permissions)'
    'test(missing_permissions_are_found)'
    'test(the_keys_of_locks_are_checked)'
    'test(the_remedy_for_missing_keys_names_keys)'
    'test(list_names_the_missing_scan_permission_and_omits_foreign_keys)'
    # Checks of `doctor`, which warns that a cluster of one server has no replica.
    'test(a_sound_quorum_is_reported_in_one_line_or_by_check)'
    'test(recipes::lock_servers)'
    'test(the_remedy_for_a_cluster_node_is_a_standalone_master)'
    # Lines whose length depends on the addresses of nodes.
    'test(list_and_inspect_show_latches)'
    'test(a_lock_has_one_line_that_fits_the_terminal)'
    'test(clients_that_wait_for_each_other_are_marked_in_a_list)'
    'test(cycles_of_readers_groups_and_permits_are_marked)'
    # Its own cluster of six servers.
    'test(a_whole_redis_cluster_is_checked_as_one_node)'
    # Times that servers spend.
    "$measures"
)
test_on_redis_clusters() {
    local excluded
    excluded=$(printf ' + %s' "${needs_standalone_servers[@]}")
    REDQUORUM_TEST_SERVERS=redis-clusters cargo nextest run "${members[@]}" --all-features --color never \
        --profile redis-clusters --test-threads 12 -E "not (${excluded:3})" 2>&1 | tee "$scratch/redis-clusters.passed"
}

# Recipes and benchmarks need dependencies that no other stage needs.
recipes() {
    cargo nextest run --package redquorum-recipes --all-features --color never --profile servers --test-threads 6 2>&1 |
        tee "$scratch/recipes.passed"
}

# Histories of workers on real servers, judged by the checkers of other authors. Without tokens, two seeds of each kind
# of lock must show a lost update, at the latest after a minute. With tokens, a seed of each kind must show no fault.
histories() {
    local kind
    cargo nextest run --package redquorum-histories --color never 2>&1 | tee "$scratch/histories.passed"
    cargo build --package redquorum-histories
    for kind in lock rw-lock semaphore election ticket; do
        "$target/debug/redquorum-histories" play "$kind" plain --seeds 2
        "$target/debug/redquorum-histories" play "$kind" fenced --seconds 20
    done
}

contention() {
    cargo run --package redquorum-benches --example contention -- \
        --nodes 5 --contenders 1,2,10 --plot "$scratch/contention.svg"
}

# A small fleet of clients through all faults of the benchmark. The ttl is short, so that leases are renewed within the
# watched time, and longer than the time in which all restarted nodes take no renewals.
fleet() {
    cargo test --package redquorum-benches --bench fleet -- --clients 20 --ttl 15 --watch 6 --check
}

# Starts the command in a container, as a user other than root.
image() {
    local status=0
    tests/image.sh "$target/debug/redquorum" || status=$?
    if ((status == 3)); then
        not_run "image of the command" "no Docker engine answers"
        status=0
    fi
    return "$status"
}

# Verifies the systemd units of the recipes. The program of a unit must exist, so the built command replaces the
# installed command.
units() {
    local unit
    mkdir "$scratch/units"
    for unit in examples/recipes/files/*.{service,timer}; do
        sed "s|^ExecStart=/usr/local/bin/redquorum |ExecStart=$target/debug/redquorum |" "$unit" >"$scratch/units/$(basename "$unit")"
    done
    # Without `--recursive-errors=no`, systemd-analyze also succeeds for units that it understands only in part, and
    # fails for other units of this machine.
    systemd-analyze verify --man=no --recursive-errors=no "$scratch"/units/*
}

documentation() { RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features; }

# A dry run of the release: the packages of the library and of the command compile on their own, the command with the
# packaged library, and cargo prints no warning. Only the upload is missing.
#
# Uncommitted changes are included, so the check can run before a commit. The packages are checked with the
# dependencies that earlier stages have compiled. Cargo's own verification would compile them again.
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

# semver RELEASE: checks that the public API has not changed since the release in a way that the version does not
# announce.
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
    stage "examples on a Redis Cluster" examples_on_cluster
    if $is_all; then stage "install coq" install_coq; fi
    if has_coq; then
        stage "proof" tests/proof/run.sh
    else
        not_run "proof" "coq is not installed"
    fi
}

second_tier() {
    oldest=$(sed -n 's/^package = .*rust-version = "\([^"]*\)".*/\1/p' Cargo.toml)
    begin_oldest_rust "$oldest"
    stage "broken rules of the proof" tests/proof/mutants.sh
    if command -v python3 >/dev/null; then
        stage "rooms of mutation testing" tests/mutants/run.py check
    else
        not_run "rooms of mutation testing" "python3 is not installed"
    fi
    stage "costs at real servers" test_measures
    stage "large simulations" large_simulations
    stage "floods of every kind" floods
    if docker_runs_tests; then
        stage "tests, real servers as containers" test_on containers 6 "$depends_on_kind"
    else
        not_run "tests, real servers as containers" "no Docker engine that shares this machine's network answers"
    fi
    stage "tests, Redis Clusters of one server as nodes" test_on_redis_clusters
    [[ $installed == "Redis 7.0."* ]] || not_run "tests on Redis 7.0" "the installed server is $installed"
    fetch_server redis-6.2 "Redis 6.2"
    fetch_server redis-8 "Redis 8"
    fetch_server valkey Valkey
    if ((${#others[@]})); then stage "tests on other servers" test_on_others; fi
    stage "tests of the code for other systems" test_portable
    stage "Rust $oldest" end_oldest_rust "$oldest"
    stage "lint of recipes, benchmarks and histories" cargo clippy "${other_members[@]}" --all-targets --all-features -- -D warnings
    stage "recipes" recipes
    stage "histories" histories
    stage "contention" contention
    stage "fleet of 20 clients" fleet
    stage "install systemd-analyze" install_systemd
    stage "units of systemd" units
    stage "image of the command" image
    stage "lint without features" as_published cargo clippy --lib -- -D warnings
    stage "documentation" documentation
    stage "package" package
    if release=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null); then
        stage "compatibility with $release" semver "$release"
    else
        not_run "compatibility with the last release" "there is no release (no tag v*)"
    fi
}

first_tier
installed=$(version_of "$(server_program)")
if $is_all; then
    second_tier
else
    not_run "the checks of tests/run.sh --all" "run with --all for these checks"
fi

# Reached only if all stages have succeeded.
total=0
for results in "$scratch"/*.passed; do
    kind=$(basename "$results" .passed)
    count=$(passed "$kind")
    total=$((total + count))
    echo "$kind: $count passed"
done
echo "all tests on $installed"
for program in ${others[@]+"${others[@]}"}; do echo "tests that depend on the version: $(version_of "$program")"; done
if ((${#left_out[@]})); then printf '%s\n' "${left_out[@]}"; fi
echo "$total passed, 0 failed in $SECONDS s"
