//! `redquorum doctor` on sound and unsound servers.

use std::{collections::HashMap, process::Output, time::Duration};

use redquorum::{Quorum, QuorumBuilder, admin, unstable_redis::redis};
use redquorum_tests::{Cluster, Kind, Port, RedisCluster, Server, ServerOptions, eventually};
use serde_json::Value;

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, command_on, exit_code, json, output, redquorum, stderr,
        stdout, without_patience,
    },
    scratch::Scratch,
};

/// The arguments for all checks, without the time for the drift of clocks.
const QUICK: [&str; 5] = ["--json", "doctor", "--all", "--watch", "0"];

fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().nodes(cluster.urls())
}

/// Starts servers and initialises them as a quorum.
async fn initialised_cluster(options: ServerOptions) -> Cluster {
    let cluster = Cluster::start_with(3, options).await;
    admin::init(&builder(&cluster)).await.unwrap();
    cluster
}

/// Returns the level and the text of a finding of this check, for the node with this server or, without a server, for
/// all nodes.
#[track_caller]
fn found(doctor: &Output, check: &str, server: Option<&Server>) -> (String, String) {
    let findings = json(doctor);
    let node = server.map_or(Value::Null, |server| server.address().into());
    let finding = findings.iter().find(|finding| finding["check"] == check && finding["node"] == node);
    let finding = finding.unwrap_or_else(|| panic!("no {check} of {node} in {}", stdout(doctor)));
    let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    (text("level"), format!("{}; {}", text("found"), text("advice")))
}

#[track_caller]
fn assert_finding(doctor: &Output, check: &str, server: Option<&Server>, level: &str, words: &str) {
    let (actual, found) = found(doctor, check, server);
    assert_eq!(actual, level, "{check}: {found}");
    assert!(found.contains(words), "{words:?} is not in: {found}");
}

fn summary(doctor: &Output) -> Value {
    json(doctor).pop().unwrap()
}

/// Waits until no key of the doctor is left. The doctor deletes its keys. Without the permission to
/// delete, the keys expire.
async fn wait_for_clean_nodes(cluster: &Cluster) {
    for server in cluster.servers() {
        eventually(TIME_LIMIT, "only the metadata is left", async || {
            server.keys().await == ["redquorum:node"]
        })
        .await;
    }
}

#[tokio::test]
async fn a_sound_quorum_is_reported_in_one_line_or_by_check() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let brief = stdout(&output(command_on(&cluster, ["doctor"])).await);
    assert!(brief.lines().all(|line| !line.starts_with("ok ")), "{brief}");
    let is_last = |text: &str, end| {
        text.lines().last().is_some_and(|line| line.starts_with("3 nodes, ") && line.ends_with(end))
    };
    assert!(is_last(&brief, ", 0 failures; sound"), "{brief}");
    assert!(!brief.contains("note  "), "{brief}");
    let findings = json(&output(command_on(&cluster, ["--json", "doctor", "--watch", "0"])).await);
    assert!(findings.iter().rev().skip(1).all(|finding| finding["level"] != "note"), "{findings:?}");
    let doctor = output(command_on(&cluster, ["doctor", "--all"])).await;
    assert_eq!((exit_code(&doctor), stderr(&doctor)), (0, String::new()), "{}", stdout(&doctor));
    let text = stdout(&doctor);
    // The note explains why a lock whose key was deleted exists again.
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("note  ")).collect();
    let [note] = *notes else { panic!("{text}") };
    for words in ["`redquorum force-unlock NAME`", "DEL", "forceUnlock", "next renewal"] {
        assert!(note.contains(words), "{words}: {note}");
    }
    // The servers are on one machine, which is a warning. Load may add warnings about latency.
    let not_ok = text.lines().filter(|line| !line.starts_with("ok ") && !line.contains("  latency "));
    let not_ok: Vec<&str> =
        not_ok.filter(|line| !line.contains("  drift ") && !line.starts_with("note ")).collect();
    assert_eq!(not_ok.len(), 2, "{text}");
    assert!(not_ok[0].starts_with("warn  machines     all  127.0.0.1:"), "{text}");
    assert!(is_last(&text, ", 0 failures; sound"), "{text}");
    for check in ["reachable", "permissions", "scripts", "notices", "writes", "metadata", "drift", "clock"] {
        let lines = text.lines().filter(|line| line.split_whitespace().nth(1) == Some(check));
        assert_eq!(lines.count(), 3, "{check}: {text}");
    }
    wait_for_clean_nodes(&cluster).await;
}

#[tokio::test]
async fn strict_turns_warnings_into_failures() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let doctor = output(command_on(&cluster, ["--json", "doctor", "--strict", "--watch", "0"])).await;
    assert_eq!(exit_code(&doctor), 81);
    assert_eq!((&summary(&doctor)["is_sound"], &summary(&doctor)["fail"]), (&false.into(), &0.into()));
}

#[tokio::test]
async fn servers_that_evict_keys_or_have_no_memory_are_found() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let (evicting, full) = (cluster.server(0), cluster.server(2));
    evicting.command(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
    evicting.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).await;
    full.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let doctor = output(command_on(&cluster, QUICK)).await;
    assert_eq!(exit_code(&doctor), 81);
    assert_finding(&doctor, "eviction", Some(evicting), "fail", "volatile-lru");
    assert_finding(&doctor, "memory", Some(full), "fail", "counter_ttl");
    assert_finding(&doctor, "writes", Some(full), "fail", "OOM");
    assert_finding(&doctor, "quorum", None, "warn", "2 of 3 nodes vote");
    assert_finding(&doctor, "eviction", Some(cluster.server(1)), "ok", "noeviction");
}

#[tokio::test]
async fn a_missing_permission_to_unsubscribe_or_to_load_scripts_is_found_alone() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let node = Some(cluster.server(1));
    let mute = doctor_with_permissions(&cluster, &["~*", "&*", "+@all", "-unsubscribe"], &[]).await;
    let (level, text) = found(&mute, "notices", node);
    assert_eq!((level.as_str(), text.contains("waiters poll")), ("warn", false), "{text}");
    assert!(text.contains("): channels stay subscribed; ACL SETUSER ... +subscribe +unsubscribe"), "{text}");
    assert_finding(&mute, "quorum", None, "ok", "3 of 3 nodes vote");
    let blind = doctor_with_permissions(&cluster, &["~*", "&*", "+@all", "-script"], &[]).await;
    let (level, text) = found(&blind, "scripts", node);
    assert_eq!(level, "fail", "{text}");
    assert!(text.starts_with("scripts do not work: script|load ("), "{text}");
    assert!(text.contains("a server without the script, such as after a restart, grants no lock"), "{text}");
    assert!(text.ends_with("; ACL SETUSER ... +script|load"), "{text}");
    // The servers have the script since `init`, so they grant locks to this user.
    assert_finding(&blind, "quorum", None, "ok", "3 of 3 nodes vote");
}

#[tokio::test]
async fn a_replica_and_its_master_are_found() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let (master, replica) = (cluster.server(0), cluster.server(1));
    let port = master.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    eventually(TIME_LIMIT, "the replica follows", async || {
        replica.info_field("replication", "master_link_status").await == "up"
            && master.info_field("replication", "connected_slaves").await == "1"
    })
    .await;
    let doctor = output(command_on(&cluster, QUICK)).await;
    assert_eq!(exit_code(&doctor), 81);
    assert_finding(&doctor, "role", Some(replica), "fail", "replica");
    assert_finding(&doctor, "writes", Some(replica), "fail", "READONLY");
    assert_finding(&doctor, "replicas", Some(master), "warn", "1 replica");
}

#[tokio::test]
async fn one_server_under_two_addresses_is_found() {
    let cluster = Cluster::start(2).await;
    let [twice, once] = [cluster.server(0).port(), cluster.server(1).port()];
    let urls = format!("redis://127.0.0.1:{twice},redis://localhost:{twice},redis://127.0.0.1:{once}");
    let mut command = redquorum(QUICK);
    command.env("REDQUORUM_NODES", urls);
    let doctor = output(command).await;
    assert_eq!(exit_code(&doctor), 81);
    assert_finding(
        &doctor,
        "servers",
        None,
        "fail",
        &format!("127.0.0.1:{twice} and localhost:{twice} are one server"),
    );
}

#[tokio::test]
async fn dead_and_hung_nodes_are_found() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let (dead, hung) = (cluster.server(0), cluster.server(1));
    dead.kill().await;
    hung.freeze().await;
    let doctor = output(command_on(&cluster, QUICK)).await;
    assert_eq!(exit_code(&doctor), 81);
    assert_finding(&doctor, "reachable", Some(dead), "fail", "refused");
    assert_finding(&doctor, "reachable", Some(hung), "fail", "no answer to HELLO within");
    assert_finding(&doctor, "quorum", None, "fail", "1 of 3 nodes votes, 2 needed");
}

/// The user has the permissions of docs/REDIS.md, without the permission to read settings. Each
/// case takes one permission away.
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
        "+pexpireat",
        "+zcount",
        "+zremrangebyscore",
    ];
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("://", "://locker:first@")).collect();
    let doctor = async |taken: &[&str]| {
        for server in cluster.servers() {
            let user = ["ACL", "SETUSER", "locker", "on", ">first"];
            server.command(&[&user, RULES, taken].concat()).await;
        }
        let mut command = redquorum(QUICK);
        command.env("REDQUORUM_NODES", urls.join(","));
        output(command).await
    };
    let node = Some(cluster.server(1));
    let whole = doctor(&[]).await;
    assert_eq!(exit_code(&whole), 0, "{}", stdout(&whole));
    for check in ["permissions", "waiting", "scripts", "notices", "writes"] {
        assert_finding(&whole, check, node, "ok", "");
    }
    wait_for_clean_nodes(&cluster).await;
    for (taken, check, level, words) in [
        ("-hset", "permissions", "fail", "+hset"),
        ("-del", "permissions", "fail", "+del"),
        ("-set", "permissions", "fail", "+set"),
        ("-exists", "permissions", "fail", "+exists"),
        ("-zadd", "waiting", "fail", "+zadd"),
        ("-zcount", "waiting", "fail", "+zcount"),
        ("-zremrangebyscore", "waiting", "fail", "+zremrangebyscore"),
        ("-pexpireat", "waiting", "fail", "+pexpireat"),
        ("-evalsha", "scripts", "fail", "+evalsha"),
        ("-eval", "scripts", "fail", "+eval"),
        ("-subscribe", "notices", "warn", "+subscribe"),
        ("-publish", "notices", "warn", "+publish"),
        ("resetchannels", "notices", "warn", "&redisson_lock__channel:*"),
        ("-info", "info", "fail", "+info"),
        ("-time", "clock", "warn", "+time"),
        ("-hmget", "metadata", "warn", "+hmget"),
        ("-pttl", "quarantine", "warn", "+pttl"),
    ] {
        assert_finding(&doctor(&[taken]).await, check, node, level, words);
    }
    let narrow = doctor(&["resetkeys", "~redquorum:*"]).await;
    assert_finding(&narrow, "permissions", node, "fail", "ACL SETUSER ... ~redisson_lock_token:*");
    wait_for_clean_nodes(&cluster).await;
}

/// Runs `doctor` as the user `locker` with these permissions.
async fn doctor_with_permissions(cluster: &Cluster, rules: &[&str], names: &[&str]) -> Output {
    for server in cluster.servers() {
        let user = ["ACL", "SETUSER", "locker", "reset", "on", ">first"];
        server.command(&[&user, rules].concat()).await;
    }
    let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("://", "://locker:first@")).collect();
    let mut command = redquorum(QUICK);
    command.args(names).env("REDQUORUM_NODES", urls.join(","));
    output(command).await
}

/// Whether the server distinguishes permissions to read keys (`%R~`) from permissions to write, which Redis 7.0 added.
async fn has_read_permissions(server: &Server) -> bool {
    let version = server.info_field("server", "redis_version").await;
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.expect("the version begins with a number") >= 7
}

/// The user has all commands, but not all keys. Therefore the remedy names keys and no command.
#[tokio::test]
async fn the_remedy_for_missing_keys_names_keys() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let node = Some(cluster.server(1));
    for (keys, lacking) in [
        (&["~lock:*"][..], "ACL SETUSER ... ~redquorum:* ~redisson_lock_token:*"),
        (&["~lock:*", "~redquorum:*"], "ACL SETUSER ... ~redisson_lock_token:*"),
        (&["~lock:*", "~redisson_lock_token:*", "~redquorum:node", "~redquorum:[a-kn-z]*"], "~redquorum:*"),
    ] {
        let doctor = doctor_with_permissions(&cluster, &[keys, &["&*", "+@all"]].concat(), &[]).await;
        assert_eq!(exit_code(&doctor), 81);
        assert_finding(&doctor, "permissions", node, "fail", lacking);
        let (_, found) = found(&doctor, "permissions", node);
        assert!(!found.contains(" +"), "a command is named: {found}");
    }
}

#[tokio::test]
async fn the_keys_of_locks_are_checked() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let node = Some(cluster.server(1));
    let own = ["~redquorum:*", "~redisson_lock_token:*", "&*", "+@all"];
    // The user may read its permissions, which allow no key of a lock.
    let no_locks = doctor_with_permissions(&cluster, &own, &[]).await;
    assert_finding(&no_locks, "keys", node, "fail", "~lock:*");
    assert_eq!(exit_code(&no_locks), 81);
    let some = [&["~lock:*"], &own[..]].concat();
    assert_finding(&doctor_with_permissions(&cluster, &some, &[]).await, "keys", node, "ok", "~lock:*");
    // Without that permission, the doctor needs a name.
    let blind = [&some[..], &["-acl"]].concat();
    let unknown = doctor_with_permissions(&cluster, &blind, &[]).await;
    assert_finding(&unknown, "keys", node, "warn", "`redquorum doctor NAME`");
    assert_eq!(exit_code(&unknown), 0, "{}", stdout(&unknown));
    let named = doctor_with_permissions(&cluster, &blind, &["lock:a", "job"]).await;
    assert_finding(&named, "keys", node, "fail", "ACL SETUSER ... ~job");
    assert_eq!(exit_code(&named), 81);
    let named = doctor_with_permissions(&cluster, &blind, &["lock:a"]).await;
    assert_finding(&named, "keys", node, "ok", "lock:a");
    assert_eq!(exit_code(&named), 0, "{}", stdout(&named));
    if has_read_permissions(cluster.server(1)).await {
        // Read permissions are not enough.
        let read_only = [&["%R~lock:*"], &own[..], &["-acl"]].concat();
        let named = doctor_with_permissions(&cluster, &read_only, &["lock:a"]).await;
        assert_finding(&named, "keys", node, "fail", "ACL SETUSER ... ~lock:a");
    }
    let all = doctor_with_permissions(&cluster, &["~*", "&*", "+@all"], &[]).await;
    assert_finding(&all, "keys", node, "ok", "all names");
    wait_for_clean_nodes(&cluster).await;
}

/// The doctor checks the keys of a held lock without a change of the lock.
#[tokio::test]
async fn a_check_of_the_keys_of_a_lock_changes_no_lock() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let quorum = builder(&cluster).connect().await.unwrap();
    let guard = quorum.red_lock("lock:a").lock().await.unwrap();
    let doctor = output(command_on(&cluster, [&QUICK[..], &["lock:a"]].concat())).await;
    assert_eq!(exit_code(&doctor), 0, "{}", stdout(&doctor));
    guard.renew().await.unwrap();
    assert!(guard.unlock().await.unwrap().has_quorum());
    cluster.server(1).command(&["SET", "text", "1"]).await;
    let doctor = output(command_on(&cluster, [&QUICK[..], &["text"]].concat())).await;
    assert_finding(&doctor, "keys", Some(cluster.server(1)), "fail", "WRONGTYPE");
    let refused = output(command_on(&cluster, ["doctor", "redquorum:node"])).await;
    assert_eq!(exit_code(&refused), 64, "{}", stderr(&refused));
}

/// A renamed command is not a missing permission, so the remedy names the command and no permission.
#[tokio::test]
async fn the_remedy_for_a_renamed_command_names_the_command() {
    for (renamed, check) in
        [("TIME", "commands"), ("ZADD", "commands"), ("EVAL", "scripts"), ("INFO", "info")]
    {
        let lower = renamed.to_lowercase();
        let options = ServerOptions::default().config("rename-command", &format!("{renamed} OTHER"));
        let cluster = Cluster::start_with(1, options).await;
        let doctor = output(command_on(&cluster, QUICK)).await;
        assert_eq!(exit_code(&doctor), 81);
        let node = Some(cluster.server(0));
        let words = format!("the server has no command `{lower}`");
        assert_finding(&doctor, check, node, "fail", &words);
        for finding in json(&doctor) {
            let text = finding.to_string();
            for wrong in ["ACL SETUSER", "MISCONF", "beginning with", "return 1"] {
                assert!(!text.contains(wrong), "{wrong:?} is in {text}");
            }
        }
        if renamed == "INFO" {
            let run = output(command_on(&cluster, ["run", "job", "--wait", "0", "--", "true"])).await;
            let init = output(command_on(&cluster, ["init"])).await;
            for refused in [run, init] {
                assert_eq!(exit_code(&refused), 78, "{}", stderr(&refused));
                let text = stderr(&refused);
                assert!(text.contains("no command INFO") && text.contains("`rename-command`"), "{text}");
                assert!(!text.contains("ACL SETUSER"), "{text}");
            }
        }
        if matches!(renamed, "TIME" | "ZADD") {
            let run = ["run", "job", "--shared", "--quorum-timeout", "0s", "-c", "true"];
            let run = output(without_patience(command_admitting_new_nodes(&cluster, run))).await;
            assert_eq!(exit_code(&run), 69, "{renamed}: {}", stderr(&run));
            assert!(stderr(&run).contains("`redquorum doctor` names the command"), "{}", stderr(&run));
        }
        if renamed == "EVAL" {
            // SCRIPT LOAD is enough for locks.
            let run = output(command_admitting_new_nodes(&cluster, ["run", "job", "--", "true"])).await;
            assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
            assert!(!stderr(&run).contains("beginning with"), "the script is quoted: {}", stderr(&run));
        }
    }
}

#[tokio::test]
async fn a_listing_needs_scan() {
    let cluster = initialised_cluster(ServerOptions::default()).await;
    let node = Some(cluster.server(1));
    let doctor = doctor_with_permissions(&cluster, &["~*", "&*", "+@all", "-scan"], &[]).await;
    assert_finding(&doctor, "listing", node, "warn", "+scan");
    assert_eq!(exit_code(&doctor), 0, "{}", stdout(&doctor));
}

/// A node of a cluster refuses reads for a reason that no permission removes.
#[tokio::test]
async fn the_remedy_for_a_cluster_node_is_a_standalone_master() {
    let options = ServerOptions::default().config("cluster-enabled", "yes");
    let cluster = Cluster::start_with(1, options).await;
    let doctor = output(command_on(&cluster, QUICK)).await;
    assert_eq!(exit_code(&doctor), 81);
    assert!(
        !stdout(&doctor).contains("ACL SETUSER") && !stdout(&doctor).contains("allow "),
        "{}",
        stdout(&doctor)
    );
    let node = Some(cluster.server(0));
    assert_finding(&doctor, "mode", node, "fail", "beside the cluster (docs/CLUSTER.md)");
    assert_finding(&doctor, "metadata", node, "warn", "standalone");
    for command in [&["run", "job", "-c", "true"][..], &["init"], &["init", "--if-needed"]] {
        let refused = output(command_on(&cluster, command)).await;
        assert_eq!(exit_code(&refused), 78, "{command:?}: {}", stderr(&refused));
        let error = stderr(&refused);
        for words in ["small servers beside the cluster", "redis+cluster://HOST:PORT (docs/CLUSTER.md)"] {
            assert!(error.contains(words), "{command:?}: {error}");
        }
    }
}

/// The url names a server of another shard. `init` and `doctor` find the master of the hash slot.
#[tokio::test]
async fn a_whole_redis_cluster_is_checked_as_one_node() {
    let (cluster, beside) = tokio::join!(RedisCluster::start(Duration::from_secs(2)), Cluster::processes(2));
    let shard = cluster.shard_of("{redquorum}").await;
    let seed = cluster.master((shard + 1) % 3).address();
    let nodes = [format!("redis+cluster://{seed}")].into_iter().chain(beside.urls()).collect::<Vec<_>>();
    let run = async |arguments: &[&str]| {
        let mut command = redquorum(arguments);
        command.env("REDQUORUM_NODES", nodes.join(","));
        output(command).await
    };
    let init = run(&["init", "--yes"]).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    // The cluster names a replica to clients only when the master has received the replication offset of the replica.
    eventually(TIME_LIMIT, "the cluster names the replica", async || {
        stdout(&run(&QUICK).await).contains("replicas can be reached at")
    })
    .await;
    let doctor = run(&QUICK).await;
    assert_eq!(exit_code(&doctor), 0, "{}", stdout(&doctor));
    let node = format!("{seed}/redquorum");
    let findings = json(&doctor);
    for (check, level, words) in [
        ("mode", "ok", "a Redis Cluster, as one node"),
        ("replicas", "ok", "1 replica is connected"),
        ("announced", "ok", &*format!("replicas can be reached at {}", cluster.replica(shard).address())),
        ("coverage", "warn", "cluster-require-full-coverage no"),
        ("slot", "ok", "does not move"),
        ("failover", "warn", "min-replicas-to-write 1"),
        ("eviction", "ok", "noeviction"),
        ("permissions", "ok", ""),
        ("scripts", "ok", ""),
        ("notices", "ok", ""),
        ("writes", "ok", ""),
        ("listing", "ok", ""),
        ("metadata", "ok", ""),
    ] {
        let finding = findings.iter().find(|finding| finding["check"] == check && finding["node"] == *node);
        let finding = finding.unwrap_or_else(|| panic!("no {check} of {node} in {}", stdout(&doctor)));
        assert_eq!(finding["level"], level, "{finding}");
        assert!(finding.to_string().contains(words), "{finding}");
    }
    // The master of the slot is on the machine of the other nodes.
    let (level, machines) = found(&doctor, "machines", None);
    assert!(level == "warn" && machines.contains(&node), "{machines}");
    cluster.replica(shard).command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let doctor = run(&QUICK).await;
    let eviction = json(&doctor).into_iter().find(|finding| finding["check"] == "eviction").unwrap();
    let at_replica = format!("at the replica {}: ", cluster.replica(shard).address());
    assert!(eviction["level"] == "warn" && eviction.to_string().contains(&at_replica), "{eviction}");
    // The replica announces an address at which no server listens.
    let (replica, unused) = (cluster.replica(shard), Port::reserve());
    replica.command(&["CONFIG", "SET", "cluster-announce-port", &unused.number().to_string()]).await;
    eventually(TIME_LIMIT, "the replica cannot be reached", async || {
        let doctor = run(&QUICK).await;
        let announced = json(&doctor).into_iter().find(|finding| finding["check"] == "announced").unwrap();
        announced["level"] == "warn"
            && announced.to_string().contains(&format!("127.0.0.1:{}: ", unused.number()))
    })
    .await;
    let master = cluster.master(shard);
    eventually(TIME_LIMIT, "only the metadata is left", async || master.keys().await == ["redquorum:node"])
        .await;
}

async fn quick_doctor_of(nodes: &[String]) -> Output {
    let mut doctor = redquorum(QUICK);
    doctor.env("REDQUORUM_NODES", nodes.join(","));
    output(doctor).await
}

/// Clients refuse a second node in a cluster, and take the first server of a url that answers.
#[tokio::test]
async fn one_cluster_as_two_nodes_and_two_clusters_as_one_node_are_found() {
    let clusters = Cluster::start_as(Kind::RedisClusters, 2, ServerOptions::default()).await;
    let standalone = Cluster::processes(1).await;
    let [first, second] = [0, 1].map(|number| format!("127.0.0.1:{}", clusters.server(number).port()));
    let doctor = quick_doctor_of(&["one", "two"].map(|tag| format!("redis+cluster://{first}/{tag}"))).await;
    let words = format!("{first}/one and {first}/two are one Redis Cluster");
    assert_finding(&doctor, "servers", None, "fail", &words);
    let (other, unused) = (standalone.server(0).address(), Port::reserve());
    let dead = format!("127.0.0.1:{}", unused.number());
    for (seed, level, words) in [
        (&second, "fail", format!("{second} is in another")),
        (&other, "warn", format!("{other}: it is a standalone server")),
        (&dead, "warn", format!("{dead}: unreachable")),
    ] {
        let doctor = quick_doctor_of(&[format!("redis+cluster://{first},{seed}")]).await;
        let seeds = json(&doctor).into_iter().find(|finding| finding["check"] == "seeds").unwrap();
        assert_eq!(seeds["level"], level, "{seeds}");
        assert!(seeds.to_string().contains(&words), "{seeds}");
    }
}

/// Returns the permissions of a user in a cluster, as the pages list them.
fn documented_permissions_in_a_cluster() -> Vec<String> {
    let (redis, cluster) = (include_str!("../../../docs/REDIS.md"), include_str!("../../../docs/CLUSTER.md"));
    let (_, command) = redis.split_once("ACL SETUSER redquorum ").unwrap();
    let (rules, _) = command.split_once("```").unwrap();
    let (_, item) = cluster.split_once("* **Permissions**").unwrap();
    let (item, _) = item.split_once("\n\n").unwrap();
    let commands = rules.split_whitespace().filter(|rule| rule.starts_with('+'));
    let added = item.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    commands.chain(added.filter(|rule| rule.starts_with(['+', '~', '&']))).map(str::to_owned).collect()
}

/// Only `CONFIG GET` shows the settings of a cluster.
#[tokio::test]
async fn a_user_of_locks_in_a_cluster_lacks_only_config_get() {
    let cluster = Cluster::start_as(Kind::RedisClusters, 1, ServerOptions::default()).await;
    let server = cluster.server(0);
    let rules = documented_permissions_in_a_cluster();
    let rules = rules.iter().map(String::as_str).chain(["+scan"]);
    let user = ["ACL", "SETUSER", "app", "on", ">pw"].into_iter().chain(rules).collect::<Vec<_>>();
    server.command(&user).await;
    server.command(&["ACL", "LOG", "RESET"]).await;
    let doctor = quick_doctor_of(&[format!("redis+cluster://app:pw@127.0.0.1:{}", server.port())]).await;
    let findings = json(&doctor);
    let unknown = findings.iter().filter(|finding| finding.to_string().contains("cannot tell"));
    let unknown: Vec<&str> = unknown.filter_map(|finding| finding["check"].as_str()).collect();
    // A cluster of one server has no known address.
    assert_eq!(unknown, ["coverage", "failover", "machines"], "{}", stdout(&doctor));
    for (check, level) in
        [("slot", "ok"), ("announced", "ok"), ("seeds", "ok"), ("permissions", "ok"), ("keys", "ok")]
    {
        let finding = findings.iter().find(|finding| finding["check"] == check).unwrap();
        assert_eq!(finding["level"], level, "{finding}");
    }
    let log: Vec<HashMap<String, redis::Value>> = server.query(redis::cmd("ACL").arg("LOG").arg(100)).await;
    let refused: Vec<String> = log.iter().map(|entry| format!("{:?}", entry["object"])).collect();
    let is_expected = |name: &String| name.contains("config|get") || name.contains("client|setinfo");
    assert!(refused.iter().all(is_expected), "{refused:?}");
}

/// Servers with these settings can lose votes in a restart. With a restart guard, this breaks no promise.
#[tokio::test]
async fn settings_that_can_lose_votes_are_found_without_a_restart_guard() {
    let cluster = Cluster::start_with(3, ServerOptions::persistent()).await;
    let (synced_every_second, without_persistence) = (cluster.server(1), cluster.server(2));
    synced_every_second.command(&["CONFIG", "SET", "appendfsync", "everysec"]).await;
    without_persistence.command(&["CONFIG", "SET", "appendonly", "no"]).await;
    let scratch = Scratch::new();
    let config = scratch.file("off.toml");
    std::fs::write(&config, "restart_guard = \"off\"\n").unwrap();
    let doctor = output(command_on(&cluster, [&["--config", &*config], &QUICK[..]].concat())).await;
    assert_eq!(exit_code(&doctor), 81);
    assert_finding(&doctor, "persistence", Some(cluster.server(0)), "ok", "appendfsync always");
    assert_finding(&doctor, "truncated", Some(cluster.server(0)), "fail", "aof-load-truncated yes");
    assert_finding(&doctor, "persistence", Some(synced_every_second), "fail", "everysec");
    assert_finding(&doctor, "persistence", Some(without_persistence), "fail", "appendonly no");
    assert_finding(&doctor, "metadata", Some(synced_every_second), "ok", "none is needed");
}

#[tokio::test]
async fn uninitialised_nodes_and_nodes_of_another_quorum_are_found() {
    let cluster = Cluster::start(3).await;
    let new = output(command_on(&cluster, QUICK)).await;
    assert_eq!(exit_code(&new), 81);
    assert_finding(&new, "metadata", Some(cluster.server(0)), "warn", "redquorum init");
    assert_finding(&new, "quorum", None, "fail", "0 of 3 nodes vote");
    for server in cluster.servers() {
        assert!(server.keys().await.is_empty(), "the doctor has written keys");
    }
    admin::init(&builder(&cluster).name("other")).await.unwrap();
    let doctor = output(command_on(&cluster, QUICK)).await;
    assert_finding(&doctor, "metadata", Some(cluster.server(0)), "fail", "name=other");
    assert_eq!(exit_code(&doctor), 81);
}

#[tokio::test]
async fn a_restarted_node_is_found_before_and_in_quarantine() {
    let cluster = initialised_cluster(ServerOptions::persistent()).await;
    let node = cluster.server(1);
    node.restart_keeping_data().await;
    let before = output(command_on(&cluster, QUICK)).await;
    assert_eq!(exit_code(&before), 0, "{}", stdout(&before));
    assert_finding(&before, "quarantine", Some(node), "warn", "begins with the next");
    assert_finding(&before, "quorum", None, "warn", "2 of 3 nodes vote");
    drop(builder(&cluster).connect().await.unwrap());
    let within = output(command_on(&cluster, QUICK)).await;
    assert_finding(&within, "quarantine", Some(node), "warn", "the node gives no votes for");
    assert_finding(&within, "quorum", None, "warn", "2 of 3 nodes vote");
}

#[tokio::test]
async fn invalid_settings_are_an_error_instead_of_a_finding() {
    let cluster = Cluster::start(1).await;
    let url = &cluster.urls()[0];
    let doctor = output(redquorum(["--node", url, "--node", url, "doctor"])).await;
    assert_eq!((exit_code(&doctor), stdout(&doctor)), (78, String::new()));
    assert!(
        stderr(&doctor).contains("the node is named twice: each server has one vote"),
        "{}",
        stderr(&doctor)
    );
}

/// Servers with room for 100 clients. A user with only the permissions of locks may not read all settings.
#[tokio::test]
async fn room_for_a_number_of_clients_is_checked_on_request() {
    let cluster = initialised_cluster(ServerOptions::default().config("maxclients", "500")).await;
    let server = cluster.server(1);
    let node = Some(server);
    let doctor =
        async |clients| output(command_on(&cluster, [&QUICK[..], &["--clients", clients]].concat())).await;
    let few = doctor("100").await;
    assert_eq!(exit_code(&few), 0, "{}", stdout(&few));
    assert_finding(&few, "connections", node, "ok", "maxclients 500, for 100 clients");
    assert_finding(&few, "backlog", node, "ok", "tcp-backlog 511");
    assert_finding(&few, "timeout", node, "ok", "timeout 0");
    assert_finding(&few, "capacity", node, "ok", "with 100 clients");
    server.command(&["CONFIG", "SET", "timeout", "60"]).await;
    server.command(&["CONFIG", "SET", "maxmemory", "20mb"]).await;
    let many = doctor("2000").await;
    assert_eq!(exit_code(&many), 81);
    assert_finding(&many, "connections", node, "fail", "CONFIG SET maxclients 4100");
    assert_finding(&many, "backlog", node, "warn", "net.core.somaxconn 2000");
    assert_finding(&many, "timeout", node, "warn", "CONFIG SET timeout 0");
    assert_finding(&many, "capacity", node, "fail", "raise maxmemory");
    let none = output(command_on(&cluster, QUICK)).await;
    for finding in json(&none) {
        assert!(finding["check"] != "connections" && finding["check"] != "backlog", "{finding}");
    }
    let blind = ["~*", "&*", "+@all", "-config"];
    let blind = doctor_with_permissions(&cluster, &blind, &["--clients", "100"]).await;
    assert_finding(&blind, "connections", node, "ok", "maxclients 500");
    for check in ["backlog", "timeout"] {
        assert_finding(&blind, check, node, "warn", "cannot tell");
        assert_finding(&blind, check, node, "warn", "+config|get");
    }
}
