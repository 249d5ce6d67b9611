#!/usr/bin/env bash
# Runs a command beside a Redis Cluster of three masters and three replicas, and ends the cluster with the command:
#
#     examples/redis-cluster.sh target/debug/examples/quickstart
#
# REDQUORUM_NODES names the cluster as the only node. Without a command, the script prints the url and waits for the end
# of its input. docs/CLUSTER.md states what a cluster as the only node does not promise.
set -euo pipefail

servers=6
program=$(command -v redis-server || command -v valkey-server) || {
    echo "there is no redis-server and no valkey-server: install one, of Redis 7.0 or later or of Valkey" >&2
    exit 1
}
client=$(command -v redis-cli || command -v valkey-cli) || {
    echo "there is no redis-cli and no valkey-cli: install one" >&2
    exit 1
}

scratch=$(mktemp -d)
pids=()
end() {
    if ((${#pids[@]})); then kill "${pids[@]}" 2>/dev/null || true; fi
    wait 2>/dev/null || true
    rm -rf "$scratch"
}
trap end EXIT

# wait_until WORDS COMMAND...: waits until the command succeeds, for at most 30 s.
wait_until() {
    local words=$1
    shift
    for _ in {1..300}; do
        if "$@"; then return; fi
        sleep 0.1
    done
    cat "$scratch"/*.log >&2
    echo "$words: not within 30 s" >&2
    return 1
}

answers() { [[ $("$client" -p "$1" PING 2>/dev/null) == PONG ]]; }

# The cluster serves all slots, and the masters have replicas.
serves() {
    [[ $("$client" -p "$1" CLUSTER INFO) == *cluster_state:ok* ]] &&
        [[ $("$client" -p "$1" CLUSTER NODES | grep -c slave) == $((servers / 2)) ]]
}

# A server also uses the port that is higher by 10,000, to talk to the other servers. The system gives ports from 32768 on
# to clients.
base=$((15000 + RANDOM % 7000))
addresses=()
for ((port = base; port < base + servers; port++)); do
    mkdir "$scratch/$port"
    "$program" --port "$port" --bind 127.0.0.1 --dir "$scratch/$port" --save '' --cluster-enabled yes \
        --cluster-node-timeout 2000 --cluster-require-full-coverage no --repl-diskless-sync-delay 0 \
        --shutdown-timeout 0 \
        >"$scratch/$port.log" 2>&1 &
    pids+=("$!")
    wait_until "the server at port $port" answers "$port"
    addresses+=("127.0.0.1:$port")
done
"$client" --cluster create "${addresses[@]}" --cluster-replicas 1 --cluster-yes >"$scratch/create.log" || {
    cat "$scratch/create.log" >&2
    exit 1
}
for ((port = base; port < base + servers; port++)); do
    wait_until "the cluster at port $port" serves "$port"
done

seeds=$(IFS=,; echo "${addresses[*]}")
export REDQUORUM_NODES=redis+cluster://$seeds
if (($#)); then
    "$@"
else
    echo "export REDQUORUM_NODES=$REDQUORUM_NODES"
    cat >/dev/null
fi
