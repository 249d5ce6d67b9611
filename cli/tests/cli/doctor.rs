//! `redquorum doctor` on servers with faults.

use std::process::Output;

use redquorum::{Quorum, QuorumBuilder, admin};
use redquorum_tests::{Cluster, ServerOptions, eventually};
use serde_json::Value;

use super::{
    redquorum::{SOON, code, json, output, plainly, redquorum, stderr, stdout},
    scratch::Scratch,
};

/// The arguments for checks that do not concern clocks.
const QUICK: [&str; 5] = ["--json", "doctor", "--all", "--watch", "0"];

fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().nodes(cluster.urls())
}

/// Starts servers and initialises them as a quorum.
async fn made(options: ServerOptions) -> Cluster {
    let cluster = Cluster::start_with(3, options).await;
    admin::init(&builder(&cluster)).await.unwrap();
    cluster
}

/// Returns the level and the text of a check, of the node with this port, or of all nodes.
#[track_caller]
fn found(doctor: &Output, check: &str, port: Option<u16>) -> (String, String) {
    let findings = json(doctor);
    let node = port.map_or(Value::Null, |port| format!("127.0.0.1:{port}").into());
    let finding = findings.iter().find(|finding| finding["check"] == check && finding["node"] == node);
    let finding = finding.unwrap_or_else(|| panic!("no {check} of {node} in {}", stdout(doctor)));
    let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    (text("level"), format!("{}; {}", text("found"), text("advice")))
}

#[track_caller]
fn finds(doctor: &Output, check: &str, port: Option<u16>, level: &str, words: &str) {
    let (is, found) = found(doctor, check, port);
    assert_eq!(is, level, "{check}: {found}");
    assert!(found.contains(words), "{words:?} is not in: {found}");
}

fn summary(doctor: &Output) -> Value {
    json(doctor).pop().unwrap()
}

/// Waits until no key of the doctor is left: deleted, or without that permission, ended by its ttl.
async fn is_left_clean(cluster: &Cluster) {
    for server in cluster.servers() {
        eventually(SOON, "only the metadata is left", async || server.keys().await == ["redquorum:node"])
            .await;
    }
}

#[tokio::test]
async fn a_sound_quorum_is_reported_in_one_line_or_by_check() {
    let cluster = made(ServerOptions::default()).await;
    let brief = stdout(&output(plainly(&cluster, ["doctor"])).await);
    assert!(brief.lines().all(|line| !line.starts_with("ok ")), "{brief}");
    let is_last = |text: &str, end| {
        text.lines().last().is_some_and(|line| line.starts_with("3 nodes, ") && line.ends_with(end))
    };
    assert!(is_last(&brief, ", 0 failures; sound"), "{brief}");
    // The note helps a user whose deleted lock came back.
    let notes: Vec<&str> = brief.lines().filter(|line| line.starts_with("note  ")).collect();
    let [note] = *notes else { panic!("{brief}") };
    for words in ["`redquorum force-unlock NAME`", "DEL", "forceUnlock", "next renewal"] {
        assert!(note.contains(words), "{words}: {note}");
    }
    let told = json(&output(plainly(&cluster, ["--json", "doctor", "--watch", "0"])).await);
    assert!(told.iter().rev().skip(1).all(|finding| finding["level"] != "note"), "{told:?}");
    let doctor = output(plainly(&cluster, ["doctor", "--all"])).await;
    assert_eq!((code(&doctor), stderr(&doctor)), (0, String::new()), "{}", stdout(&doctor));
    let text = stdout(&doctor);
    // The servers are on one machine, which is a warning. Load may add warnings about latency.
    let odd = text.lines().filter(|line| !line.starts_with("ok ") && !line.contains("  latency "));
    let odd: Vec<&str> =
        odd.filter(|line| !line.contains("  drift ") && !line.starts_with("note ")).collect();
    assert_eq!(odd.len(), 2, "{text}");
    assert!(odd[0].starts_with("warn  machines     all  127.0.0.1:"), "{text}");
    assert!(is_last(&text, ", 0 failures; sound"), "{text}");
    for check in ["reachable", "permissions", "scripts", "notices", "writes", "metadata", "drift", "clock"] {
        let lines = text.lines().filter(|line| line.split_whitespace().nth(1) == Some(check));
        assert_eq!(lines.count(), 3, "{check}: {text}");
    }
    is_left_clean(&cluster).await;
}

#[tokio::test]
async fn strict_turns_warnings_into_failures() {
    let cluster = made(ServerOptions::default()).await;
    let doctor = output(plainly(&cluster, ["--json", "doctor", "--strict", "--watch", "0"])).await;
    assert_eq!(code(&doctor), 81);
    assert_eq!((&summary(&doctor)["is_sound"], &summary(&doctor)["fail"]), (&false.into(), &0.into()));
}

#[tokio::test]
async fn evicting_and_full_servers_are_found() {
    let cluster = made(ServerOptions::default()).await;
    let (evicting, full) = (cluster.server(0), cluster.server(2));
    evicting.command(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
    evicting.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).await;
    full.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let doctor = output(plainly(&cluster, QUICK)).await;
    assert_eq!(code(&doctor), 81);
    finds(&doctor, "eviction", Some(evicting.port()), "fail", "volatile-lru");
    finds(&doctor, "memory", Some(full.port()), "fail", "counter_ttl");
    finds(&doctor, "writes", Some(full.port()), "fail", "OOM");
    finds(&doctor, "eviction", Some(cluster.server(1).port()), "ok", "noeviction");
}

#[tokio::test]
async fn a_replica_and_its_master_are_found() {
    let cluster = made(ServerOptions::default()).await;
    let (master, replica) = (cluster.server(0), cluster.server(1));
    let port = master.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    eventually(SOON, "the replica follows", async || {
        replica.info_field("replication", "master_link_status").await == "up"
            && master.info_field("replication", "connected_slaves").await == "1"
    })
    .await;
    let doctor = output(plainly(&cluster, QUICK)).await;
    assert_eq!(code(&doctor), 81);
    finds(&doctor, "role", Some(replica.port()), "fail", "replica");
    finds(&doctor, "writes", Some(replica.port()), "fail", "READONLY");
    finds(&doctor, "replicas", Some(master.port()), "warn", "1 replica");
}

#[tokio::test]
async fn one_server_under_two_addresses_is_found() {
    let cluster = Cluster::start(2).await;
    let [one, other] = [cluster.server(0).port(), cluster.server(1).port()];
    let urls = format!("redis://127.0.0.1:{one},redis://localhost:{one},redis://127.0.0.1:{other}");
    let mut command = redquorum(QUICK);
    command.env("REDQUORUM_NODES", urls);
    let doctor = output(command).await;
    assert_eq!(code(&doctor), 81);
    finds(&doctor, "servers", None, "fail", &format!("127.0.0.1:{one} and localhost:{one} are one server"));
}

#[tokio::test]
async fn dead_and_hung_nodes_are_found() {
    let cluster = made(ServerOptions::default()).await;
    let (dead, hung) = (cluster.server(0), cluster.server(1));
    dead.kill().await;
    hung.freeze().await;
    let doctor = output(plainly(&cluster, QUICK)).await;
    assert_eq!(code(&doctor), 81);
    finds(&doctor, "reachable", Some(dead.port()), "fail", "refused");
    finds(&doctor, "reachable", Some(hung.port()), "fail", "no connection within");
    finds(&doctor, "quorum", None, "fail", "1 of 3 nodes votes, 2 needed");
}

/// The user of docs/REDIS.md, without the permission to read settings, loses one permission after
/// another.
#[tokio::test]
async fn missing_permissions_are_found() {
    const RULES: &[&str] = &[
        "resetkeys",
        "resetchannels",
        "~lock:*",
        "~redisson_lock_token:*",
        "~redquorum:*",
        "&redisson_lock__channel:*",
        "-@all",
        "+hello",
        "+script|load",
        "+eval",
        "+evalsha",
        "+subscribe",
        "+unsubscribe",
        "+exists",
        "+hlen",
        "+hgetall",
        "+hmget",
        "+hset",
        "+hdel",
        "+get",
        "+set",
        "+incr",
        "+decr",
        "+del",
        "+pttl",
        "+pexpire",
        "+publish",
        "+time",
        "+info",
        "+zadd",
        "+zrem",
        "+zrange",
        "+zrank",
        "+zscore",
    ];
    let cluster = made(ServerOptions::default()).await;
    let urls: Vec<_> =
        cluster.urls().iter().map(|url| url.replace("redis://", "redis://locker:first@")).collect();
    let doctor = async |taken: &[&str]| {
        for server in cluster.servers() {
            let user = ["ACL", "SETUSER", "locker", "on", ">first"];
            server.command(&[&user, RULES, taken].concat()).await;
        }
        let mut command = redquorum(QUICK);
        command.env("REDQUORUM_NODES", urls.join(","));
        output(command).await
    };
    let port = Some(cluster.server(1).port());
    let whole = doctor(&[]).await;
    assert_eq!(code(&whole), 0, "{}", stdout(&whole));
    for check in ["permissions", "waiting", "scripts", "notices", "writes"] {
        finds(&whole, check, port, "ok", "");
    }
    is_left_clean(&cluster).await;
    for (taken, check, level, words) in [
        ("-hset", "permissions", "fail", "+hset"),
        ("-del", "permissions", "fail", "+del"),
        ("-set", "permissions", "fail", "+set"),
        ("-zadd", "waiting", "warn", "+zadd"),
        ("-evalsha", "scripts", "fail", "+evalsha"),
        ("-eval", "scripts", "fail", "+eval"),
        ("-subscribe", "notices", "warn", "+subscribe"),
        ("-publish", "notices", "warn", "+publish"),
        ("resetchannels", "notices", "warn", "&redisson_lock__channel:*"),
        ("-info", "info", "fail", "+info"),
        ("-time", "clock", "warn", "+time"),
        ("-hmget", "metadata", "warn", "cannot tell"),
        ("-pttl", "quarantine", "warn", "cannot tell"),
    ] {
        finds(&doctor(&[taken]).await, check, port, level, words);
    }
    let narrow = doctor(&["resetkeys", "~redquorum:*"]).await;
    finds(&narrow, "permissions", port, "fail", "forbidden: set");
    is_left_clean(&cluster).await;
}

/// These settings are harmless only with a restart guard.
#[tokio::test]
async fn settings_that_lose_votes_are_found_without_a_restart_guard() {
    let cluster = Cluster::start_with(3, ServerOptions::persistent()).await;
    let (lazy, forgetful) = (cluster.server(1), cluster.server(2));
    lazy.command(&["CONFIG", "SET", "appendfsync", "everysec"]).await;
    forgetful.command(&["CONFIG", "SET", "appendonly", "no"]).await;
    let scratch = Scratch::new();
    let config = scratch.file("off.toml");
    std::fs::write(&config, "restart_guard = \"off\"\n").unwrap();
    let doctor = output(plainly(&cluster, [&["--config", &*config], &QUICK[..]].concat())).await;
    assert_eq!(code(&doctor), 81);
    finds(&doctor, "persistence", Some(cluster.server(0).port()), "ok", "appendfsync always");
    finds(&doctor, "truncated", Some(cluster.server(0).port()), "fail", "aof-load-truncated yes");
    finds(&doctor, "persistence", Some(lazy.port()), "fail", "everysec");
    finds(&doctor, "persistence", Some(forgetful.port()), "fail", "appendonly no");
    finds(&doctor, "metadata", Some(lazy.port()), "ok", "none is needed");
}

#[tokio::test]
async fn uninitialised_nodes_and_nodes_of_another_quorum_are_found() {
    let cluster = Cluster::start(3).await;
    let new = output(plainly(&cluster, QUICK)).await;
    assert_eq!(code(&new), 81);
    finds(&new, "metadata", Some(cluster.server(0).port()), "warn", "redquorum init");
    finds(&new, "quorum", None, "fail", "0 of 3 nodes vote");
    for server in cluster.servers() {
        assert!(server.keys().await.is_empty(), "asking writes no metadata");
    }
    admin::init(&builder(&cluster).name("theirs")).await.unwrap();
    let doctor = output(plainly(&cluster, QUICK)).await;
    finds(&doctor, "metadata", Some(cluster.server(0).port()), "fail", "name=theirs");
    assert_eq!(code(&doctor), 81);
}

#[tokio::test]
async fn a_restarted_node_is_found_before_and_in_quarantine() {
    let cluster = made(ServerOptions::persistent()).await;
    let node = cluster.server(1);
    node.restart_keeping_data().await;
    let before = output(plainly(&cluster, QUICK)).await;
    assert_eq!(code(&before), 0, "{}", stdout(&before));
    finds(&before, "quarantine", Some(node.port()), "warn", "begins with the next");
    finds(&before, "quorum", None, "warn", "2 of 3 nodes vote");
    drop(builder(&cluster).connect().await.unwrap());
    let within = output(plainly(&cluster, QUICK)).await;
    finds(&within, "quarantine", Some(node.port()), "warn", "it gives no votes for");
    finds(&within, "quorum", None, "warn", "2 of 3 nodes vote");
}

#[tokio::test]
async fn invalid_settings_are_an_error_and_no_finding() {
    let cluster = Cluster::start(1).await;
    let url = &cluster.urls()[0];
    let doctor = output(redquorum(["--node", url, "--node", url, "doctor"])).await;
    assert_eq!((code(&doctor), stdout(&doctor)), (78, String::new()));
    assert!(
        stderr(&doctor).contains("the node is named twice: each server has one vote"),
        "{}",
        stderr(&doctor)
    );
}
