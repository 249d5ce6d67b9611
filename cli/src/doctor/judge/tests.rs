//! The findings of each check at each level. Each case is a change of a sound quorum.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use redquorum::{RestartGuard, error::NodeError};

use super::*;
use crate::{
    connect::Reply,
    doctor::{
        facts::{
            Access, ClockReading, ClusterFacts, ClusterSettings, CommandTrial, ConnectionSettings, Info,
            LockKeys, NodeMetadata, NotSearched, NoticeFailure, NoticePermission, Persistence, Rate,
            RefusedNotice, Replica, ReplicaFacts, Seed,
        },
        finding::Level,
    },
};

const FINGERPRINT: &str = "name=redquorum nodes=3 needed=2";

/// Returns the facts of a sound quorum of three nodes.
fn sound_quorum() -> Facts {
    let expected = ExpectedSettings {
        fingerprint: FINGERPRINT.to_owned(),
        votes_needed: 2,
        guard: RestartGuard::PerConnection,
        node_timeout: Duration::from_secs(1),
        ttl: Duration::from_secs(30),
        max_ttl: Duration::from_secs(60),
        drift: 0.01,
        clients: None,
    };
    Facts { expected, nodes: (1..=3).map(node).collect(), cycles: Ok(Vec::new()) }
}

fn node(number: u8) -> NodeFacts {
    let info = Info {
        kind: "Redis".to_owned(),
        version: "7.0.15".to_owned(),
        mode: "standalone".to_owned(),
        run_id: format!("run{number}"),
        replication_id: "life".to_owned(),
        role: "master".to_owned(),
        replicas: 0,
        requires_replicas: false,
        max_connections: 10_000,
        connections: 7,
        used_memory: 50 << 20,
        machine_memory: 1 << 30,
        max_memory: 100 << 20,
        eviction: "noeviction".to_owned(),
        appends: true,
    };
    let persistence = Persistence {
        appendfsync: Ok("always".to_owned()),
        no_appendfsync_on_rewrite: Ok("no".to_owned()),
        aof_load_truncated: Ok("no".to_owned()),
    };
    let access = Access {
        by_text: Ok(()),
        loads: Ok(()),
        by_hash: Ok(()),
        trial: Ok(CommandTrial::default()),
        lacking_keys: Vec::new(),
        lock_keys: Ok(LockKeys::All),
        notices: Ok(()),
    };
    let rate = Some(Rate { gain: 0.0001, error_bound: 0.001, watched: 1.0 });
    let server = ServerFacts {
        metadata: Ok(Some(NodeMetadata {
            incarnation: format!("run{number}/life"),
            fingerprint: FINGERPRINT.to_owned(),
        })),
        info: Ok(info),
        persistence,
        max_lag: Ok("10".to_owned()),
        cluster: None,
        connections: None,
        latencies: vec![Duration::from_millis(1), Duration::from_millis(3), Duration::from_millis(2)],
        clock: Ok(ClockReading { ahead: 0.02, error_bound: 0.001, rate }),
        access,
        quarantine: Ok(None),
    };
    NodeFacts {
        address: format!("node-{number}:6379"),
        hosts: vec![IpAddr::from([10, 0, 0, number])],
        run_ids: BTreeMap::new(),
        is_behind_sentinel: false,
        is_in_cluster: false,
        seeds: Vec::new(),
        server: Ok(server),
    }
}

/// Returns the server of the second node, which the cases change.
fn server(facts: &mut Facts) -> &mut ServerFacts {
    facts.nodes[1].server.as_mut().unwrap()
}

fn info(facts: &mut Facts) -> &mut Info {
    server(facts).info.as_mut().unwrap()
}

fn clock(facts: &mut Facts) -> &mut ClockReading {
    server(facts).clock.as_mut().unwrap()
}

fn disconnected(error: Option<NodeError>) -> Result<ServerFacts, Disconnected> {
    Err(Disconnected { reason: "refused".to_owned(), error })
}

fn forbidden() -> String {
    "NOPERM no".to_owned()
}

/// Turns the restart guard off.
fn without_guard(facts: &mut Facts) -> &mut Facts {
    facts.expected.guard = RestartGuard::Off;
    facts
}

fn trial(facts: &mut Facts) -> &mut CommandTrial {
    server(facts).access.trial.as_mut().unwrap()
}

/// Puts the second node behind Sentinels, with sound settings.
fn behind_sentinel(facts: &mut Facts) -> &mut Facts {
    facts.nodes[1].is_behind_sentinel = true;
    info(facts).replicas = 1;
    info(facts).requires_replicas = true;
    facts
}

/// Makes the second node a Redis Cluster with sound settings.
fn in_cluster(facts: &mut Facts) -> &mut Facts {
    let info = info(facts);
    info.mode = "cluster".to_owned();
    info.replicas = 1;
    info.requires_replicas = true;
    let of_replica =
        ReplicaFacts { info: Ok(info.clone()), max_lag: Ok("10".to_owned()), settings: cluster_settings() };
    server(facts).cluster = Some(ClusterFacts {
        settings: cluster_settings(),
        is_moving: Ok(false),
        host: None,
        members: members(["master", "replica"]),
        replicas: Ok(vec![replica(Ok(of_replica))]),
    });
    facts.nodes[1].seeds = vec![seed("a:6379", Ok(members(["replica", "master"])))];
    facts
}

fn cluster_settings() -> ClusterSettings {
    ClusterSettings { requires_coverage: Ok("no".to_owned()), node_timeout: Ok("5000".to_owned()) }
}

fn members(ids: [&str; 2]) -> Reply<BTreeSet<String>> {
    Ok(ids.map(str::to_owned).into())
}

fn seed(address: &str, members: Result<Reply<BTreeSet<String>>, Disconnected>) -> Seed {
    Seed { address: address.to_owned(), members }
}

/// Adds a server to the url of the second node, which is a cluster.
fn add_seed(facts: &mut Facts, members: Result<Reply<BTreeSet<String>>, Disconnected>) {
    in_cluster(facts).nodes[1].seeds.push(seed("b:6379", members));
}

/// Returns a replica of the second node.
fn replica(server: Result<ReplicaFacts, Disconnected>) -> Replica {
    Replica { address: Some(("10.0.0.9".to_owned(), 6379)), server: Some(server) }
}

/// Returns a replica of the second node that the doctor cannot connect to.
fn failed_replica(reason: &str, error: Option<NodeError>) -> Replica {
    replica(Err(Disconnected { reason: reason.to_owned(), error }))
}

/// Returns the facts of the replica of the second node, which is a cluster.
fn of_replica(facts: &mut Facts) -> &mut ReplicaFacts {
    let replicas = cluster(facts).replicas.as_mut().unwrap();
    replicas[0].server.as_mut().unwrap().as_mut().unwrap()
}

fn cluster(facts: &mut Facts) -> &mut ClusterFacts {
    server(in_cluster(facts)).cluster.as_mut().unwrap()
}

/// Checks the nodes for this number of clients. The second node has room for 2,000 clients.
fn for_clients(facts: &mut Facts, clients: u64) -> &mut Facts {
    facts.expected.clients = Some(clients);
    info(facts).max_memory = 1 << 30;
    server(facts).connections =
        Some(ConnectionSettings { backlog: Ok("2000".to_owned()), idle_timeout: Ok("0".to_owned()) });
    facts
}

fn connection_settings(facts: &mut Facts) -> &mut ConnectionSettings {
    server(for_clients(facts, 2000)).connections.as_mut().unwrap()
}

/// Only turns the restart guard off, as a case without another change.
fn only_without_guard(facts: &mut Facts) {
    without_guard(facts);
}

fn refuse(facts: &mut Facts, command: &str, text: &str) {
    trial(facts).refused.push((command.to_owned(), text.to_owned()));
}

fn forbid(facts: &mut Facts, command: &str) {
    refuse(facts, command, &forbidden());
}

fn set_lock_keys(facts: &mut Facts, patterns: Option<&[&str]>) {
    let patterns = patterns.map(|patterns| patterns.iter().map(ToString::to_string).collect());
    server(facts).access.lock_keys = Ok(LockKeys::Some(patterns));
}

fn refuse_notices(facts: &mut Facts, refused: &[(&'static str, Option<NoticePermission>)]) {
    let refused =
        refused.iter().map(|&(command, missing)| RefusedNotice { command, missing, text: forbidden() });
    server(facts).access.notices = Err(NoticeFailure::Refused(refused.collect()));
}

/// Gives the second node two addresses with these servers.
fn with_two_addresses(facts: &mut Facts, run_ids: [&str; 2]) {
    let addresses = run_ids
        .into_iter()
        .zip(1..)
        .map(|(run_id, number)| (IpAddr::from([10, 1, 0, number]), run_id.to_owned()));
    facts.nodes[1].run_ids = addresses.collect();
}

type FactsChange = fn(&mut Facts);

/// Each case: a change of the second node, the check, the expected level, and parts of the expected text, separated by
/// `; `.
const CASES: &[(FactsChange, &str, Level, &str)] = &[
    (
        |facts| facts.nodes[1].server = disconnected(None),
        "reachable",
        Level::Fail,
        "refused; start the server",
    ),
    (
        |facts| facts.nodes[1].server = disconnected(Some(NodeError::NoAuth("why".into()))),
        "reachable",
        Level::Fail,
        "refused; correct the user or password",
    ),
    (
        |facts| facts.nodes[1].server = disconnected(Some(NodeError::Tls("why".into()))),
        "reachable",
        Level::Fail,
        "refused; certificate",
    ),
    (
        |facts| facts.nodes[1].server = disconnected(Some(NodeError::NoPermission("why".into()))),
        "reachable",
        Level::Fail,
        "refused; +select",
    ),
    (
        |facts| {
            facts.nodes[1].is_in_cluster = true;
            facts.nodes[1].server = disconnected(Some(NodeError::NoPermission("why".into())));
        },
        "reachable",
        Level::Fail,
        "refused; +ssubscribe +cluster|nodes",
    ),
    (
        |facts| facts.nodes[1].server = disconnected(Some(NodeError::NoSlotMaster("why".into()))),
        "reachable",
        Level::Fail,
        "refused; start the servers of the shard",
    ),
    (
        |facts| facts.nodes[1].server = disconnected(Some(NodeError::ClusterDown("why".into()))),
        "reachable",
        Level::Fail,
        "refused; start the servers of the shard",
    ),
    (|facts| with_two_addresses(facts, ["a", "a"]), "addresses", Level::Ok, "one server"),
    (
        |facts| with_two_addresses(facts, ["a", "b"]),
        "addresses",
        Level::Warn,
        "10.1.0.1 (run_id a), 10.1.0.2 (run_id b); a name of its own",
    ),
    (|facts| info(facts).version = "6.2.0".to_owned(), "version", Level::Ok, "6.2.0"),
    (|facts| info(facts).version = "6.0.16".to_owned(), "version", Level::Fail, "6.2 or later"),
    (|facts| info(facts).version = "10.0".to_owned(), "version", Level::Ok, "10.0"),
    (|facts| info(facts).version = "new".to_owned(), "version", Level::Warn, "cannot tell"),
    (|facts| info(facts).mode = "cluster".to_owned(), "mode", Level::Fail, "Cluster"),
    (|facts| _ = in_cluster(facts), "mode", Level::Ok, "a Redis Cluster, as one node"),
    (|facts| _ = in_cluster(facts), "replicas", Level::Ok, "1 replica is connected, which the cluster may"),
    (|facts| info(in_cluster(facts)).replicas = 0, "replicas", Level::Warn, "has none; start a replica"),
    (|facts| _ = in_cluster(facts), "announced", Level::Ok, "replicas can be reached at 10.0.0.9:6379"),
    (
        |facts| cluster(facts).replicas.as_mut().unwrap().push(failed_replica("no route", None)),
        "announced",
        Level::Warn,
        "10.0.0.9:6379: no route; cluster-announce-ip",
    ),
    (
        |facts| {
            let error = Some(NodeError::NoAuth("why".into()));
            cluster(facts).replicas = Ok(vec![failed_replica("no such user", error)]);
        },
        "announced",
        Level::Warn,
        "refuses the user: 10.0.0.9:6379: no such user; the same users",
    ),
    (
        |facts| cluster(facts).replicas = Ok(vec![Replica { address: None, server: None }]),
        "announced",
        Level::Warn,
        "names no host; cluster-announce-hostname",
    ),
    (|facts| cluster(facts).replicas = Ok(Vec::new()), "announced", Level::Ok, "no replica"),
    (|facts| cluster(facts).replicas = Err(forbidden()), "announced", Level::Warn, "NOPERM no; "),
    (|facts| _ = in_cluster(facts), "coverage", Level::Ok, "other shards"),
    (
        |facts| cluster(facts).settings.requires_coverage = Ok("yes".to_owned()),
        "coverage",
        Level::Warn,
        "any shard; cluster-require-full-coverage no",
    ),
    (
        |facts| cluster(facts).settings.requires_coverage = Err(forbidden()),
        "coverage",
        Level::Warn,
        "NOPERM no; ",
    ),
    (
        |facts| of_replica(facts).settings.requires_coverage = Ok("yes".to_owned()),
        "coverage",
        Level::Warn,
        "at the replica 10.0.0.9:6379: while any shard; cluster-require-full-coverage no",
    ),
    (
        |facts| of_replica(facts).info.as_mut().unwrap().eviction = "allkeys-lru".to_owned(),
        "eviction",
        Level::Fail,
        "at the replica 10.0.0.9:6379: maxmemory-policy allkeys-lru; noeviction",
    ),
    (
        |facts| of_replica(facts).info.as_mut().unwrap().requires_replicas = false,
        "failover",
        Level::Warn,
        "at the replica 10.0.0.9:6379: a master that is cut off; min-replicas-to-write 1",
    ),
    (
        |facts| {
            of_replica(facts).settings =
                ClusterSettings { requires_coverage: Err(forbidden()), node_timeout: Err(forbidden()) }
        },
        "failover",
        Level::Ok,
        "6.5s after the promotion",
    ),
    (|facts| _ = in_cluster(facts), "seeds", Level::Ok, "in one cluster"),
    (
        |facts| add_seed(facts, Ok(members(["x", "y"]))),
        "seeds",
        Level::Fail,
        "not all servers of the url are in one cluster: b:6379 is in another; servers of one cluster alone",
    ),
    (
        |facts| add_seed(facts, Ok(Err("ERR This instance has cluster support disabled".to_owned()))),
        "seeds",
        Level::Warn,
        "b:6379: it is a standalone server; name other servers of the cluster",
    ),
    (
        |facts| add_seed(facts, Err(Disconnected { reason: "no route".to_owned(), error: None })),
        "seeds",
        Level::Warn,
        "b:6379: no route; name other servers of the cluster",
    ),
    (
        |facts| {
            add_seed(facts, Ok(members(["x", "y"])));
            facts.nodes[1].server = disconnected(None);
        },
        "seeds",
        Level::Fail,
        "b:6379 is in another; servers of one cluster alone",
    ),
    (|facts| _ = in_cluster(facts), "slot", Level::Ok, "does not move"),
    (
        |facts| cluster(facts).is_moving = Ok(true),
        "slot",
        Level::Warn,
        "moves to another server; `redis-cli --cluster fix HOST:PORT`",
    ),
    (|facts| cluster(facts).is_moving = Err(forbidden()), "slot", Level::Warn, "NOPERM no; "),
    (|facts| _ = in_cluster(facts), "failover", Level::Ok, "6.5s after the promotion"),
    (
        |facts| info(in_cluster(facts)).requires_replicas = false,
        "failover",
        Level::Warn,
        "without replicas; min-replicas-to-write 1",
    ),
    (
        |facts| cluster(facts).settings.node_timeout = Ok("60000".to_owned()),
        "failover",
        Level::Warn,
        "78.0s after the promotion; a shorter cluster-node-timeout",
    ),
    (|facts| cluster(facts).settings.node_timeout = Err(forbidden()), "failover", Level::Warn, "NOPERM no; "),
    (
        |facts| server(in_cluster(facts)).max_lag = Ok("30".to_owned()),
        "failover",
        Level::Warn,
        "votes for 30.0s without replicas; min-replicas-max-lag 10; a max_ttl of 61.0s",
    ),
    (|facts| server(in_cluster(facts)).max_lag = Ok("29".to_owned()), "failover", Level::Ok, "6.5s"),
    (|facts| server(in_cluster(facts)).max_lag = Err(forbidden()), "failover", Level::Ok, "6.5s"),
    (
        |facts| info(facts).mode = "sentinel".to_owned(),
        "mode",
        Level::Fail,
        "Sentinel; redis+sentinel://HOST:PORT/NAME",
    ),
    (|facts| info(facts).mode = String::new(), "mode", Level::Warn, "cannot tell"),
    (|facts| info(facts).role = "slave".to_owned(), "role", Level::Fail, "replica; its master"),
    (|facts| info(facts).role = String::new(), "role", Level::Warn, "cannot tell"),
    (
        |facts| info(facts).replicas = 1,
        "replicas",
        Level::Warn,
        "1 replica is connected; causes a quarantine",
    ),
    (
        |facts| info(without_guard(facts)).replicas = 2,
        "replicas",
        Level::Warn,
        "2 replicas are connected; two clients could then hold",
    ),
    (
        |facts| _ = behind_sentinel(facts),
        "replicas",
        Level::Ok,
        "1 replica is connected, which Sentinels may promote",
    ),
    (
        |facts| info(behind_sentinel(facts)).replicas = 0,
        "replicas",
        Level::Warn,
        "none is connected; start a replica",
    ),
    (
        |facts| info(without_guard(behind_sentinel(facts))).replicas = 1,
        "replicas",
        Level::Warn,
        "two clients could then hold",
    ),
    (|facts| _ = behind_sentinel(facts), "failover", Level::Ok, "votes for 10.0s without replicas"),
    (
        |facts| server(behind_sentinel(facts)).max_lag = Err(forbidden()),
        "failover",
        Level::Ok,
        "a master without replicas stops voting",
    ),
    (
        |facts| info(behind_sentinel(facts)).requires_replicas = false,
        "failover",
        Level::Fail,
        "vote beside the promoted server; min-replicas-to-write 1",
    ),
    (
        |facts| server(behind_sentinel(facts)).max_lag = Ok("29".to_owned()),
        "failover",
        Level::Warn,
        "29.0s; a max_ttl of 61.0s",
    ),
    (
        |facts| info(facts).eviction = "volatile-lru".to_owned(),
        "eviction",
        Level::Fail,
        "volatile-lru; noeviction",
    ),
    (
        |facts| {
            info(facts).eviction = "allkeys-lru".to_owned();
            info(facts).max_memory = 0;
        },
        "eviction",
        Level::Warn,
        "without a maxmemory",
    ),
    (|facts| info(facts).eviction = String::new(), "eviction", Level::Warn, "cannot tell"),
    (|facts| info(facts).max_memory = 0, "memory", Level::Ok, "without a maxmemory"),
    (|facts| info(facts).used_memory = 89 << 20, "memory", Level::Ok, "89 %"),
    (|facts| info(facts).used_memory = 90 << 20, "memory", Level::Warn, "90 %; counter_ttl"),
    (|facts| info(facts).used_memory = 101 << 20, "memory", Level::Fail, "101 %"),
    (
        |facts| info(facts).max_memory = 1,
        "memory",
        Level::Fail,
        "50 MiB used, more than the maxmemory of 1 byte",
    ),
    (|facts| _ = for_clients(facts, 2000), "connections", Level::Ok, "maxclients 10000, for 2000 clients"),
    (
        |facts| _ = for_clients(facts, 4951),
        "connections",
        Level::Warn,
        "for 4951 clients; CONFIG SET maxclients 10002",
    ),
    (|facts| _ = for_clients(facts, 9900), "connections", Level::Warn, "LimitNOFILE"),
    (|facts| _ = for_clients(facts, 9901), "connections", Level::Fail, "maxclients 10000, for 9901 clients"),
    (
        |facts| info(for_clients(facts, 2000)).max_connections = 0,
        "connections",
        Level::Warn,
        "cannot tell; maxclients is 4100",
    ),
    (
        |facts| server(for_clients(facts, 2000)).info = Err(forbidden()),
        "connections",
        Level::Warn,
        "cannot tell; maxclients is 4100",
    ),
    (|facts| _ = for_clients(facts, 2000), "backlog", Level::Ok, "tcp-backlog 2000; somaxconn"),
    (
        |facts| _ = for_clients(facts, 2001),
        "backlog",
        Level::Warn,
        "tcp-backlog 2000, for 2001 clients; set tcp-backlog 2001; net.core.somaxconn 2001",
    ),
    (
        |facts| connection_settings(facts).backlog = Err(forbidden()),
        "backlog",
        Level::Warn,
        "cannot tell: NOPERM; ACL SETUSER ... +config|get, or make sure of tcp-backlog 2000",
    ),
    (
        |facts| connection_settings(facts).backlog = Ok("many".to_owned()),
        "backlog",
        Level::Warn,
        "cannot tell: the server reports \"many\"",
    ),
    (|facts| _ = for_clients(facts, 2000), "timeout", Level::Ok, "timeout 0"),
    (
        |facts| connection_settings(facts).idle_timeout = Ok("60".to_owned()),
        "timeout",
        Level::Warn,
        "idle for 60 s, and 2000 clients dial again; CONFIG SET timeout 0",
    ),
    (
        |facts| connection_settings(facts).idle_timeout = Err(forbidden()),
        "timeout",
        Level::Warn,
        "cannot tell: NOPERM; +config|get, or make sure of timeout 0",
    ),
    // The memory in use is 50 MiB, and 7 of the clients are connected.
    (
        |facts| _ = for_clients(facts, 2007),
        "capacity",
        Level::Ok,
        "up to 175 MiB with 2007 clients, 17 % of 1024 MiB (maxmemory)",
    ),
    (
        |facts| info(for_clients(facts, 2007)).max_memory = 194 << 20,
        "capacity",
        Level::Warn,
        "90 % of 194 MiB; raise maxmemory",
    ),
    (
        |facts| info(for_clients(facts, 2007)).max_memory = 175 << 20,
        "capacity",
        Level::Fail,
        "100 % of 175 MiB; grants no locks",
    ),
    (
        |facts| {
            info(for_clients(facts, 2007)).max_memory = 0;
            info(facts).machine_memory = 512 << 20;
        },
        "capacity",
        Level::Ok,
        "34 % of 512 MiB (the machine)",
    ),
    (
        |facts| {
            info(for_clients(facts, 2007)).max_memory = 0;
            info(facts).machine_memory = 0;
        },
        "capacity",
        Level::Warn,
        "cannot tell: INFO has no memory",
    ),
    (
        |facts| server(for_clients(facts, 2007)).info = Err(forbidden()),
        "capacity",
        Level::Warn,
        "cannot tell",
    ),
    (|facts| info(facts).appends = false, "persistence", Level::Ok, "any setting is safe"),
    (
        |facts| server(facts).persistence.appendfsync = Err(forbidden()),
        "persistence",
        Level::Ok,
        "appendonly yes",
    ),
    (
        |facts| info(without_guard(facts)).appends = false,
        "persistence",
        Level::Fail,
        "appendonly no; loses every vote",
    ),
    (only_without_guard, "persistence", Level::Ok, "appendfsync always"),
    (
        |facts| server(without_guard(facts)).persistence.appendfsync = Ok("everysec".to_owned()),
        "persistence",
        Level::Fail,
        "everysec; set appendfsync always",
    ),
    (
        |facts| server(without_guard(facts)).persistence.appendfsync = Err(forbidden()),
        "persistence",
        Level::Warn,
        "cannot tell; always",
    ),
    (only_without_guard, "rewrite", Level::Ok, "no-appendfsync-on-rewrite no"),
    (
        |facts| server(without_guard(facts)).persistence.no_appendfsync_on_rewrite = Ok("yes".to_owned()),
        "rewrite",
        Level::Fail,
        "no-appendfsync-on-rewrite yes",
    ),
    (
        |facts| server(without_guard(facts)).persistence.no_appendfsync_on_rewrite = Err(forbidden()),
        "rewrite",
        Level::Warn,
        "cannot tell",
    ),
    (only_without_guard, "truncated", Level::Ok, "aof-load-truncated no"),
    (
        |facts| server(without_guard(facts)).persistence.aof_load_truncated = Ok("yes".to_owned()),
        "truncated",
        Level::Fail,
        "aof-load-truncated yes",
    ),
    (
        |facts| server(without_guard(facts)).persistence.aof_load_truncated = Err(forbidden()),
        "truncated",
        Level::Warn,
        "cannot tell",
    ),
    (|facts| server(facts).info = Err(forbidden()), "info", Level::Fail, "NOPERM; +info"),
    (|facts| server(without_guard(facts)).info = Err(forbidden()), "info", Level::Warn, "cannot tell; +info"),
    (
        |facts| server(facts).latencies.push(Duration::from_millis(251)),
        "latency",
        Level::Warn,
        "251.0ms; several times",
    ),
    (|facts| server(facts).latencies.push(Duration::from_secs(1)), "latency", Level::Fail, "1.0s"),
    (|facts| server(facts).latencies.clear(), "latency", Level::Warn, "no answer was measured"),
    (|facts| clock(facts).ahead = -3.0, "clock", Level::Warn, "3.0 s behind this machine; stopped"),
    (|facts| clock(facts).ahead = 3602.0, "clock", Level::Fail, "ahead of; clients refuse the node"),
    (
        |facts| {
            clock(facts).ahead = 3.0;
            clock(facts).error_bound = 2.5;
        },
        "clock",
        Level::Ok,
        "(± 2.5 s)",
    ),
    (|facts| server(facts).clock = Err(forbidden()), "clock", Level::Warn, "cannot tell; +time"),
    (
        |facts| clock(facts).rate = Some(Rate { gain: -0.083, error_bound: 0.001, watched: 1.0 }),
        "drift",
        Level::Fail,
        "gains -8.300 %; maxslewrate",
    ),
    (
        |facts| clock(facts).rate = Some(Rate { gain: 0.007, error_bound: 0.001, watched: 1.0 }),
        "drift",
        Level::Warn,
        "gains 0.700 %",
    ),
    (
        |facts| clock(facts).rate = Some(Rate { gain: 0.007, error_bound: 0.02, watched: 0.5 }),
        "drift",
        Level::Warn,
        "cannot tell in 0.5 s; --watch",
    ),
    (|facts| forbid(facts, "hset"), "permissions", Level::Fail, "forbidden: hset (NOPERM; +hset"),
    (
        |facts| server(facts).info = Err("ERR unknown command".to_owned()),
        "info",
        Level::Fail,
        "no command `info`",
    ),
    (|facts| forbid(facts, "zadd"), "waiting", Level::Fail, "zadd (NOPERM; ACL SETUSER ... +zadd"),
    (|facts| forbid(facts, "zadd"), "waiting", Level::Fail, "clients that read are refused"),
    (
        |facts| forbid(facts, "zrange"),
        "waiting",
        Level::Fail,
        "the keys of readers stay until their ttl ends",
    ),
    (|facts| forbid(facts, "zscore"), "waiting", Level::Fail, "clients that wait poll in no order: zscore"),
    (|facts| forbid(facts, "pexpireat"), "waiting", Level::Fail, "+pexpireat"),
    (|facts| forbid(facts, "scan"), "listing", Level::Warn, "`redquorum list`; +scan"),
    (
        |facts| refuse(facts, "time", "ERR Unknown Redis command called from script"),
        "commands",
        Level::Fail,
        "missing on the server: time; `rename-command`",
    ),
    (|facts| refuse(facts, "time", "ERR unknown command"), "writes", Level::Ok, "accepts"),
    (|facts| refuse(facts, "set", "LOADING why"), "writes", Level::Fail, "LOADING; wait until the server"),
    (|facts| refuse(facts, "set", "MISCONF why"), "writes", Level::Fail, "MISCONF; write to its disk"),
    (|facts| refuse(facts, "set", "LOADING why"), "permissions", Level::Ok, "all commands"),
    (
        |facts| {
            let access = &mut server(facts).access;
            access.lacking_keys =
                vec![("~redquorum:*".to_owned(), "NOPERM No permissions to access a key".to_owned())];
        },
        "permissions",
        Level::Fail,
        "forbidden: ~redquorum:*; ACL SETUSER ... ~redquorum:*",
    ),
    (
        |facts| refuse(facts, "set", "NOPERM No permissions to access a key"),
        "permissions",
        Level::Fail,
        "ACL SETUSER ... ~redquorum:*",
    ),
    (|facts| set_lock_keys(facts, None), "keys", Level::Warn, "cannot tell; `redquorum doctor NAME`"),
    (
        |facts| set_lock_keys(facts, Some(&["~redquorum:*"])),
        "keys",
        Level::Fail,
        "no key of a lock, only ~redquorum:*; ~lock:*",
    ),
    (
        |facts| set_lock_keys(facts, Some(&["~redquorum:*", "~job:*"])),
        "keys",
        Level::Ok,
        "of the pattern ~job:*",
    ),
    (
        |facts| {
            let refused = Err("NOPERM No permissions to access a key".to_owned());
            let names = vec![("a".to_owned(), Ok(())), ("b".to_owned(), refused)];
            server(facts).access.lock_keys = Ok(LockKeys::Named(names));
        },
        "keys",
        Level::Fail,
        "cannot lock b (NOPERM; ACL SETUSER ... ~b",
    ),
    (
        |facts| {
            let names = vec![("a".to_owned(), Err("WRONGTYPE why".to_owned()))];
            server(facts).access.lock_keys = Ok(LockKeys::Named(names));
        },
        "keys",
        Level::Fail,
        "cannot lock a (WRONGTYPE; delete the key",
    ),
    (
        |facts| server(facts).access.lock_keys = Err(forbidden()),
        "keys",
        Level::Warn,
        "cannot tell; the failure of scripts",
    ),
    (
        |facts| server(facts).access.by_text = Err("ERR unknown command 'EVAL'".to_owned()),
        "scripts",
        Level::Fail,
        "do not work: eval; no command `eval`",
    ),
    (
        |facts| server(facts).access.trial = Err("LOADING why".to_owned()),
        "permissions",
        Level::Warn,
        "cannot tell; wait until the server",
    ),
    (|facts| server(facts).access.trial = Err(forbidden()), "commands", Level::Warn, "cannot tell; scripts"),
    (
        |facts| facts.nodes[1].server = disconnected(Some(NodeError::Loading)),
        "reachable",
        Level::Fail,
        "refused; wait until the server",
    ),
    (
        |facts| server(facts).metadata = Err("CLUSTERDOWN Hash slot not served".to_owned()),
        "metadata",
        Level::Warn,
        "cannot tell: CLUSTERDOWN; standalone master",
    ),
    (|facts| server(facts).access.by_hash = Err(forbidden()), "scripts", Level::Fail, "evalsha; +evalsha"),
    (|facts| server(facts).access.by_text = Err(forbidden()), "scripts", Level::Fail, "do not work: eval"),
    (|facts| server(facts).access.loads = Err(forbidden()), "scripts", Level::Fail, "+script|load"),
    (
        |facts| refuse_notices(facts, &[("subscribe", Some(NoticePermission::Command))]),
        "notices",
        Level::Warn,
        "waiters poll; +subscribe +unsubscribe",
    ),
    (
        |facts| refuse_notices(facts, &[("publish", Some(NoticePermission::Command))]),
        "notices",
        Level::Warn,
        "(publish: NOPERM no): waiters poll; +publish",
    ),
    (
        |facts| {
            let missing = Some(NoticePermission::Channel);
            refuse_notices(facts, &[("subscribe", missing), ("publish", missing)]);
        },
        "notices",
        Level::Warn,
        "publish: NOPERM no): waiters poll; ACL SETUSER ... &redisson_lock__channel:*",
    ),
    (
        |facts| refuse_notices(facts, &[("unsubscribe", Some(NoticePermission::Command))]),
        "notices",
        Level::Warn,
        "(unsubscribe: NOPERM no): channels stay subscribed; ACL SETUSER ... +subscribe +unsubscribe",
    ),
    (
        |facts| {
            let missing = Some(NoticePermission::Command);
            refuse_notices(facts, &[("subscribe", missing), ("publish", missing), ("unsubscribe", missing)]);
        },
        "notices",
        Level::Warn,
        "waiters poll; ACL SETUSER ... +subscribe +unsubscribe +publish",
    ),
    (
        |facts| refuse_notices(facts, &[("publish", None)]),
        "notices",
        Level::Warn,
        "waiters poll; `publish` under its own name",
    ),
    (
        |facts| server(facts).access.notices = Err(NoticeFailure::Other("lost".to_owned())),
        "notices",
        Level::Warn,
        "do not arrive (lost): waiters poll; proxy",
    ),
    (|facts| refuse(facts, "set", "OOM why"), "writes", Level::Fail, "OOM; maxmemory"),
    (
        |facts| server(facts).access.trial = Err(forbidden()),
        "permissions",
        Level::Warn,
        "cannot tell; scripts",
    ),
    (|facts| server(facts).access.trial = Err(forbidden()), "waiting", Level::Warn, "cannot tell; scripts"),
    (|facts| server(facts).access.trial = Err(forbidden()), "writes", Level::Warn, "cannot tell; scripts"),
    (
        |facts| server(facts).metadata = Ok(None),
        "metadata",
        Level::Warn,
        "not initialised; redquorum init; move",
    ),
    (|facts| server(without_guard(facts)).metadata = Ok(None), "metadata", Level::Ok, "none is needed"),
    (
        |facts| {
            server(facts).metadata =
                Ok(Some(NodeMetadata { incarnation: "run2/life".to_owned(), fingerprint: "x".to_owned() }))
        },
        "metadata",
        Level::Fail,
        "the node has (x), these settings are (name=redquorum; correct the settings",
    ),
    (
        |facts| {
            let fingerprint = "closed for name=b from name=a by 1".to_owned();
            server(facts).metadata =
                Ok(Some(NodeMetadata { incarnation: "run2/life".to_owned(), fingerprint }))
        },
        "metadata",
        Level::Fail,
        "closed by a move of the quorum: the node has (closed for name=b from name=a by 1); --give-up",
    ),
    (
        |facts| {
            let fingerprint = format!("closed for {FINGERPRINT} replaced by d:1");
            server(facts).metadata =
                Ok(Some(NodeMetadata { incarnation: "run2/life".to_owned(), fingerprint }))
        },
        "metadata",
        Level::Fail,
        "the node was replaced by d:1; give these settings, and every client, the new address",
    ),
    (
        |facts| {
            let fingerprint = "closed for name=b replaced by d:1".to_owned();
            server(facts).metadata =
                Ok(Some(NodeMetadata { incarnation: "run2/life".to_owned(), fingerprint }))
        },
        "metadata",
        Level::Fail,
        "the node was replaced by d:1 in another quorum: it had (name=b); correct the address",
    ),
    (
        |facts| {
            let fingerprint = format!("closed for {FINGERPRINT} in place of c:1 by 7");
            server(facts).metadata =
                Ok(Some(NodeMetadata { incarnation: "run2/life".to_owned(), fingerprint }))
        },
        "metadata",
        Level::Fail,
        "closed by a replacement of c:1, which was interrupted; redquorum replace",
    ),
    (|facts| server(facts).metadata = Err(forbidden()), "metadata", Level::Warn, "cannot tell"),
    (
        |facts| server(facts).quarantine = Ok(Some(Duration::from_secs(40))),
        "quarantine",
        Level::Warn,
        "gives no votes for 40.0s; wait",
    ),
    (
        |facts| server(without_guard(facts)).quarantine = Ok(Some(Duration::from_secs(40))),
        "quarantine",
        Level::Warn,
        "to clients that have a restart guard",
    ),
    (|facts| info(facts).run_id = "next".to_owned(), "quarantine", Level::Warn, "begins with the next"),
    (|facts| server(facts).quarantine = Err(forbidden()), "quarantine", Level::Warn, "cannot tell"),
];

/// As [`CASES`], for the findings about all nodes together.
const CASES_OF_ALL_NODES: &[(FactsChange, &str, Level, &str)] = &[
    (|facts| facts.nodes.truncate(1), "nodes", Level::Warn, "single-node"),
    (|facts| facts.nodes.push(node(4)), "nodes", Level::Warn, "4 nodes; odd"),
    (
        |facts| facts.expected.votes_needed = 3,
        "nodes",
        Level::Warn,
        "of which 3 are a quorum; no node may be down",
    ),
    (
        |facts| info(facts).run_id = "run1".to_owned(),
        "servers",
        Level::Fail,
        "node-1:6379 and node-2:6379 are one",
    ),
    (
        |facts| {
            let own = cluster(facts).clone();
            // Each hash slot has another master, and each server knows the other.
            facts.nodes[2].server.as_mut().unwrap().cluster =
                Some(ClusterFacts { members: members(["other", "replica"]), ..own });
        },
        "servers",
        Level::Fail,
        "node-2:6379 and node-3:6379 are one Redis Cluster; name the cluster once",
    ),
    (
        |facts| {
            let own = cluster(facts).clone();
            facts.nodes[2].server.as_mut().unwrap().cluster =
                Some(ClusterFacts { members: members(["x", "y"]), ..own });
        },
        "servers",
        Level::Ok,
        "all different",
    ),
    (
        |facts| server(facts).info = Err(forbidden()),
        "servers",
        Level::Warn,
        "1 of 3 nodes reports no run_id; answer INFO",
    ),
    (
        |facts| facts.nodes[1].hosts = facts.nodes[2].hosts.clone(),
        "machines",
        Level::Warn,
        "node-2:6379 and node-3:6379 are on one machine (10.0.0.3)",
    ),
    (|facts| facts.nodes[1].hosts.clear(), "machines", Level::Warn, "cannot tell"),
    (
        |facts| facts.cycles = Ok(vec!["2 clients wait for each other".to_owned()]),
        "waits",
        Level::Warn,
        "2 clients wait for each other; look at the programs first; for a permit with `--slot`",
    ),
    (
        |facts| facts.cycles = Err(NotSearched::Failed("no quorum answers".to_owned())),
        "waits",
        Level::Ok,
        "not searched: no quorum answers",
    ),
    (
        |facts| facts.cycles = Err(NotSearched::TookTooLong("the list takes too long".to_owned())),
        "waits",
        Level::Info,
        "not searched: the list takes too long; redquorum list",
    ),
    (
        |facts| clock(facts).ahead = 2.0,
        "clocks",
        Level::Warn,
        "within 2.0 s of each other (± 2.000 ms): node-2:6379 has the latest time, and node-; tokens",
    ),
    (
        |facts| server(facts).quarantine = Ok(Some(Duration::from_secs(1))),
        "quorum",
        Level::Warn,
        "2 of 3 nodes vote",
    ),
    (|facts| facts.nodes[1].server = disconnected(None), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| refuse(facts, "set", "OOM why"), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| refuse(without_guard(facts), "set", "READONLY why"), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| info(facts).role = "slave".to_owned(), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| info(facts).mode = "cluster".to_owned(), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| forbid(facts, "hset"), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| server(facts).access.by_hash = Err(forbidden()), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| server(facts).access.by_text = Err(forbidden()), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (|facts| server(facts).access.loads = Err(forbidden()), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (|facts| forbid(facts, "decr"), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (|facts| forbid(facts, "del"), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (|facts| forbid(facts, "hdel"), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (|facts| forbid(facts, "hgetall"), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (|facts| forbid(facts, "get"), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| server(facts).info = Err(forbidden()), "quorum", Level::Warn, "2 of 3 nodes vote"),
    (|facts| clock(facts).ahead = 3602.0, "quorum", Level::Warn, "2 of 3 nodes vote"),
    (
        |facts| {
            refuse(facts, "set", "OOM why");
            facts.nodes[0].server = facts.nodes[1].server.clone();
        },
        "quorum",
        Level::Fail,
        "1 of 3 nodes votes",
    ),
    // Without these permissions, the node still grants locks.
    (|facts| forbid(facts, "zadd"), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (|facts| forbid(facts, "scan"), "quorum", Level::Ok, "3 of 3 nodes vote"),
    (
        |facts| {
            facts.nodes[0].server = disconnected(None);
            info(facts).run_id = "next".to_owned();
        },
        "quorum",
        Level::Fail,
        "1 of 3 nodes votes",
    ),
    (
        |facts| {
            facts.nodes[0].server = disconnected(None);
            server(facts).metadata = Err(forbidden());
        },
        "quorum",
        Level::Warn,
        "1 node is unknown",
    ),
    (|facts| server(without_guard(facts)).metadata = Ok(None), "quorum", Level::Ok, "3 of 3 nodes vote"),
];

/// Returns the only finding of this check about this node, or about all nodes.
fn finding_of<'a>(findings: &'a [Finding], check: &str, node: Option<&str>) -> &'a Finding {
    let is_wanted = |finding: &&Finding| finding.check == check && finding.node.as_deref() == node;
    let mut found = findings.iter().filter(is_wanted);
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "{check} has two findings");
    first.unwrap_or_else(|| panic!("{check} of {node:?} is not among {findings:#?}"))
}

#[test]
fn no_remedy_names_init_while_a_move_has_closed_a_node() {
    let mut facts = sound_quorum();
    server(&mut facts).metadata = Ok(None);
    server(&mut facts).quarantine = Ok(Some(Duration::from_secs(40)));
    let names_init = |facts: &Facts| judge(facts).iter().any(|finding| finding.to_string().contains("init`"));
    assert!(names_init(&facts));
    let fingerprint = "closed for name=b from name=a by 1".to_owned();
    let closed = NodeMetadata { incarnation: "run1/life".to_owned(), fingerprint };
    facts.nodes[0].server.as_mut().unwrap().metadata = Ok(Some(closed));
    assert!(!names_init(&facts), "{:?}", judge(&facts));
    let finding = judge(&facts);
    let finding = finding_of(&finding, "metadata", Some("node-2:6379"));
    assert!(finding.to_string().contains("end the move or give it up"), "{finding}");
}

#[test]
fn no_remedy_names_init_for_a_node_that_a_replacement_has_closed() {
    for closed in ["in place of c:1 by 7", "replaced by d:1"] {
        let mut facts = sound_quorum();
        server(&mut facts).quarantine = Ok(Some(Duration::from_secs(40)));
        let fingerprint = format!("closed for {FINGERPRINT} {closed}");
        server(&mut facts).metadata =
            Ok(Some(NodeMetadata { incarnation: "run2/life".to_owned(), fingerprint }));
        let findings = judge(&facts);
        assert!(!findings.iter().any(|finding| finding.to_string().contains("init`")), "{findings:?}");
    }
}

fn check_case(case: &(FactsChange, &str, Level, &str), node: Option<&str>) {
    let (change, check, level, words) = case;
    let mut facts = sound_quorum();
    change(&mut facts);
    let findings = judge(&facts);
    let finding = finding_of(&findings, check, node);
    assert_eq!(finding.level, *level, "{finding:?}");
    let text = finding.to_string();
    for words in words.split("; ") {
        assert!(text.contains(words), "{words:?} is not in: {text}");
    }
    assert_eq!(finding.advice.is_none(), finding.level == Level::Ok, "advice: {text}");
}

/// A Sentinel refuses almost every command, so other findings would have remedies for a master.
#[test]
fn the_only_failure_of_a_sentinel_is_its_mode() {
    let mut facts = sound_quorum();
    info(&mut facts).mode = "sentinel".to_owned();
    for command in ["set", "get", "time"] {
        refuse(&mut facts, command, "ERR unknown command");
    }
    let findings = judge(&facts);
    let of_sentinel: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.node.as_deref() == Some("node-2:6379") && finding.level > Level::Ok)
        .map(|finding| finding.check)
        .collect();
    assert_eq!(of_sentinel, ["mode"]);
    assert!(finding_of(&findings, "quorum", None).found.contains("2 of 3 nodes vote"));
}

#[test]
fn a_sound_quorum_has_no_warning_or_failure() {
    for finding in judge(&sound_quorum()) {
        assert_eq!(finding.level, Level::Ok, "{finding:?}");
    }
}

#[test]
fn a_change_of_a_node_is_found_at_that_node() {
    for case in CASES {
        check_case(case, Some("node-2:6379"));
    }
}

#[test]
fn a_change_of_the_whole_quorum_is_found() {
    for case in CASES_OF_ALL_NODES {
        check_case(case, None);
    }
}

#[test]
fn each_check_has_a_case_with_a_warning_or_failure() {
    let is_not_ok = |case: &&(FactsChange, &'static str, Level, &str)| case.2 > Level::Ok;
    let covered: BTreeSet<&str> =
        CASES.iter().chain(CASES_OF_ALL_NODES).filter(is_not_ok).map(|case| case.1).collect();
    let mut quorum_without_guard = sound_quorum();
    without_guard(&mut quorum_without_guard);
    let all = judge(&sound_quorum()).into_iter().chain(judge(&quorum_without_guard));
    let missing: Vec<_> = all.map(|finding| finding.check).filter(|check| !covered.contains(check)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn without_a_number_of_clients_there_is_no_finding_about_a_fleet() {
    let mut facts = sound_quorum();
    // The server would fail each check for 9,901 clients.
    server(for_clients(&mut facts, 9901)).connections =
        Some(ConnectionSettings { backlog: Err(forbidden()), idle_timeout: Err(forbidden()) });
    facts.expected.clients = None;
    let checks: BTreeSet<&str> = judge(&facts).iter().map(|finding| finding.check).collect();
    for check in ["connections", "backlog", "timeout", "capacity"] {
        assert!(!checks.contains(check), "{check}");
    }
}
