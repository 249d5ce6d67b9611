//! Users with restricted permissions, on real servers.
//!
//! Promises: with exactly the permissions that `docs/REDIS.md` lists, each feature works. If one permission of the list
//! is missing, the server refuses a command, and a feature fails. Therefore the list is neither too short nor too long.
//! Five commands are exceptions: without `incr` or `decr`, each feature still works; without `zrank`, `zscore` or
//! `zrem`, a feature may fail or work. Without the permissions for notices, each call still succeeds, but waiters wait
//! longer.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use redis::{Value, cmd};
use redquorum::{LockOptions, Quorum, RedLock, admin, error::NodeReplies, inspection::LockState};
use redquorum_tests::{Cluster, Kind, Server, ServerOptions, eventually};

use super::SOON;

/// The time after which a feature counts as failed.
const MOMENT: Duration = Duration::from_secs(2);

/// The earliest attempt of a waiter without a notice, after its call: half of the first poll interval.
const FIRST_POLL: Duration = Duration::from_millis(250);

/// The number of tries of a wake. In one of the tries, each waiter has to lock before its first poll.
const TRIES: usize = 3;

/// Returns the words of the `ACL SETUSER` command in `docs/REDIS.md` after the name of the user: the permissions and
/// the password.
fn documented() -> Vec<String> {
    let page = include_str!("../../docs/REDIS.md");
    let (_, rest) = page.split_once("ACL SETUSER redquorum ").expect("the page has the command");
    let (rules, _) = rest.split_once("```").expect("the command is a block");
    rules.split_whitespace().map(str::to_owned).collect()
}

/// Returns the commands that `docs/REDIS.md` permits.
pub(super) fn commands() -> Vec<String> {
    documented().into_iter().filter_map(|rule| rule.strip_prefix('+').map(str::to_owned)).collect()
}

/// Empties the server and makes the user again, with all listed permissions except `missing`. Returns the URL
/// of the user.
///
/// The missing permission is left out of the command, and not revoked by a further rule. The reason is that servers
/// before version 7 cannot revoke a single subcommand.
async fn set_user(server: &Server, missing: &str) -> String {
    let rules = documented();
    let rules = rules.iter().map(String::as_str).filter(|rule| *rule != missing);
    let words: Vec<&str> = ["ACL", "SETUSER", "redquorum", "reset"].into_iter().chain(rules).collect();
    server.command(&["FLUSHALL"]).await;
    server.command(&["SCRIPT", "FLUSH"]).await;
    server.command(&words).await;
    server.command(&["ACL", "LOG", "RESET"]).await;
    server.url().replace("//", "//redquorum:PASSWORD@")
}

/// Returns the commands, keys and channels that the server has refused to the user.
pub(super) async fn refused_objects(server: &Server) -> BTreeSet<String> {
    let log: Vec<std::collections::HashMap<String, Value>> =
        server.query(cmd("ACL").arg("LOG").arg(1000)).await;
    let object = |entry: &std::collections::HashMap<String, Value>| match &entry["object"] {
        Value::BulkString(name) => String::from_utf8_lossy(name).to_ascii_lowercase(),
        other => panic!("{other:?}"),
    };
    log.iter().map(object).collect()
}

/// Whether `are_waiting` becomes true during the calls of the waiters, and an unlock of the holder then wakes the
/// waiters one after the other, each before its first poll.
async fn wakes_waiters_in_turn(
    holder: &RedLock,
    waiters: &[RedLock],
    are_waiting: impl AsyncFn() -> bool,
) -> bool {
    for _ in 0..TRIES {
        if wakes_waiters_in_turn_once(holder, waiters, &are_waiting).await {
            return true;
        }
    }
    false
}

/// Does the same as [`wakes_waiters_in_turn`], but in a single try.
async fn wakes_waiters_in_turn_once(
    holder: &RedLock,
    waiters: &[RedLock],
    are_waiting: &impl AsyncFn() -> bool,
) -> bool {
    let Ok(Some(held)) = holder.try_lock_for(MOMENT).await else { return false };
    let begin = Instant::now();
    let waits = waiters.iter().map(|waiter| {
        let waiter = waiter.clone().options(LockOptions::new().quorum_timeout(Duration::from_millis(500)));
        tokio::spawn(async move {
            let Ok(guard) = waiter.lock().await else { return false };
            let is_woken = begin.elapsed() < FIRST_POLL;
            // The unlock wakes the next waiter.
            guard.unlock().await.is_ok() && is_woken
        })
    });
    let waits: Vec<_> = waits.collect();
    let waiting = async {
        while !are_waiting().await && !waits.iter().any(|wait| wait.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let has_waited = tokio::time::timeout(MOMENT / 2, waiting).await.is_ok();
    let is_unlocked = held.unlock().await.is_ok();
    let woken = tokio::time::timeout(MOMENT, futures::future::join_all(waits)).await;
    let are_woken = woken.is_ok_and(|woken| woken.into_iter().all(|woken| woken.is_ok_and(|woken| woken)));
    has_waited && is_unlocked && are_woken
}

/// Uses each feature as the user of this URL, and returns the names of the features that fail. If a client cannot
/// connect, no further feature is used.
async fn failing_features(server: &Server, url: &str) -> BTreeSet<&'static str> {
    let builder = || Quorum::builder().nodes([url]).connect_timeout(SOON);
    if admin::init(&builder()).await.is_err() {
        return ["init"].into();
    }
    // The administrator has delivered the script by `SCRIPT LOAD`. A client delivers it by `EVAL`.
    server.command(&["SCRIPT", "FLUSH"]).await;
    let (Ok(quorum), Ok(other)) = (builder().connect().await, builder().connect().await) else {
        return ["connect"].into();
    };
    let mut broken = BTreeSet::new();
    let mut note = |feature, works: bool| {
        if !works {
            broken.insert(feature);
        }
    };
    let lock = quorum.red_lock("lock:1");
    let token = match lock.try_lock().await {
        Ok(Some(guard)) => {
            let token = guard.fencing_token().as_u64();
            note("renew", guard.renew().await.is_ok());
            note("verify", guard.verify().await.is_ok());
            let seen = other.inspect("lock:1").await;
            note("inspect", seen.is_ok_and(|seen| seen.state() == LockState::Held));
            note("refuse a held lock", matches!(other.red_lock("lock:1").try_lock().await, Ok(None)));
            note("unlock", guard.unlock().await.is_ok());
            token
        }
        _ => {
            note("lock", false);
            1
        }
    };
    // After the refused attempt, the server has a yield mark, by which the node would refuse the next attempt.
    server.command(&["DEL", "redquorum:yield_mark:{lock:1}"]).await;
    // The node must vote above its minimum token. Only a node that may have lost votes has one.
    let minimum = token + 1_000;
    server.command(&["HSET", "redquorum:node", "minimum_token", &minimum.to_string()]).await;
    let above = lock.try_lock().await;
    note(
        "lock above the minimum token",
        above.is_ok_and(|guard| guard.is_some_and(|guard| guard.fencing_token().as_u64() > minimum)),
    );

    let channel = "redisson_lock__channel:{lock:2}";
    let subscribers = async || -> u64 {
        let (_, count): (String, u64) = server.query(cmd("PUBSUB").arg("NUMSUB").arg(channel)).await;
        count
    };
    let (first, second) = (quorum.red_lock("lock:2"), other.red_lock("lock:2"));
    note("wait and wake", wakes_waiters_in_turn(&first, &[second], async || subscribers().await > 0).await);
    let unsubscribed = async {
        while subscribers().await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    note("leave no subscription", tokio::time::timeout(MOMENT, unsubscribed).await.is_ok());

    let Ok(third) = builder().connect().await else { return ["connect"].into() };
    let waiters = [&other, &third].map(|quorum| quorum.red_lock("lock:3"));
    let are_queued = async || server.query::<u64>(cmd("ZCARD").arg("redquorum:queue:{lock:3}")).await == 2;
    note("wait in the queue", wakes_waiters_in_turn(&quorum.red_lock("lock:3"), &waiters, are_queued).await);
    tokio::time::timeout(MOMENT, third.shutdown()).await.ok();

    let both = quorum.multi_lock(["lock:4", "lock:5"]).try_lock().await;
    note(
        "lock several",
        match both {
            Ok(Some(guard)) => guard.unlock().await.is_ok(),
            _ => false,
        },
    );

    let read = match (quorum.rw_lock("lock:8").try_read().await, other.rw_lock("lock:8").try_read().await) {
        (Ok(Some(one)), Ok(Some(two))) => {
            let is_renewed = one.renew().await.is_ok();
            let seen = quorum.inspect("lock:8").await;
            let is_seen = seen.is_ok_and(|seen| (seen.state(), seen.holds()) == (LockState::Shared, 2));
            let are_unlocked = one.unlock().await.is_ok() && two.unlock().await.is_ok();
            is_renewed && is_seen && are_unlocked
        }
        _ => false,
    };
    note("read", read);

    let impatient = LockOptions::new().quorum_timeout(Duration::from_millis(500));
    let election = quorum.election("lock:6").options(impatient);
    note(
        "elect",
        match election.campaign("me").await {
            Ok(leadership) => {
                let leader = other.election("lock:6").leader().await;
                let is_seen = leader.is_ok_and(|leader| leader.is_some_and(|leader| leader.value() == b"me"));
                leadership.resign().await.is_ok() && is_seen
            }
            Err(_) => false,
        },
    );

    let forced = match quorum.red_lock("lock:7").try_lock().await {
        Ok(Some(guard)) => {
            let forced = admin::force_unlock(&other, "lock:7").await.is_ok();
            let seen = other.inspect("lock:7").await;
            let is_free = seen.is_ok_and(|seen| seen.state() == LockState::Free);
            drop(guard);
            forced && is_free
        }
        _ => false,
    };
    note("force unlock", forced);
    tokio::time::timeout(MOMENT, quorum.shutdown()).await.ok();
    tokio::time::timeout(MOMENT, other.shutdown()).await.ok();
    broken
}

#[tokio::test]
async fn all_features_work_with_the_documented_permissions_and_no_command_is_refused() {
    let cluster = Cluster::processes(1).await;
    let server = cluster.server(0);
    let url = set_user(server, "").await;
    assert_eq!(failing_features(server, &url).await, BTreeSet::new());
    // The redis crate sends `CLIENT SETINFO` on each connection. The list does not permit this command, and a refusal
    // has no effect. Servers before version 7 log only the name of the command, without the subcommand.
    let is_announcement = |name: &String| matches!(&**name, "client|setinfo" | "client");
    let refused: Vec<String> =
        refused_objects(server).await.into_iter().filter(|name| !is_announcement(name)).collect();
    assert_eq!(refused, Vec::<String>::new());
}

/// If one listed command is not permitted, the server refuses this command, so the features use the command. A feature
/// then fails, except without the five commands of the header.
#[tokio::test]
async fn features_use_each_documented_command() {
    let commands = commands();
    assert!(commands.len() > 25, "{commands:?}");
    let cluster = Cluster::start_as(Kind::Processes, 3, ServerOptions::default()).await;
    let shares = cluster.servers().iter().enumerate().map(|(number, server)| {
        let share: Vec<&String> = commands.iter().skip(number).step_by(3).collect();
        async move {
            for missing in share {
                let url = set_user(server, &format!("+{missing}")).await;
                let broken = failing_features(server, &url).await;
                let refused = refused_objects(server).await;
                eprintln!("{missing}: {broken:?}");
                let command = missing.split('|').next().unwrap();
                assert!(
                    refused.contains(missing) || refused.contains(command),
                    "{missing} is not needed; refused: {refused:?}"
                );
                let expected = match &**missing {
                    "zadd" | "zrange" => Some("wait in the queue"),
                    "subscribe" => Some("wait and wake"),
                    "unsubscribe" => Some("leave no subscription"),
                    // Without `incr`, the script uses a slower way. Without `decr`, a counter may stay one too large.
                    "incr" | "decr" => {
                        assert_eq!(broken, BTreeSet::new(), "without {missing}");
                        continue;
                    }
                    // Without these commands, the queue has entries, but the answers have no rank. The waiters then
                    // poll in no order, and may or may not lock in time.
                    "zscore" | "zrank" => continue,
                    // Without this command, the entry of a waiter that has locked stays in the queue until the entry
                    // ends. The wake of the next waiter may or may not be in time.
                    "zrem" => continue,
                    _ => broken.first().copied(),
                };
                let is_as_expected = expected.is_some_and(|expected| broken.contains(expected));
                assert!(is_as_expected, "without {missing}, {broken:?} does not work");
            }
        }
    });
    futures::future::join_all(shares).await;
}

/// The patterns permit the keys of resources, the counters, the further keys of the library, and the channels.
#[tokio::test]
async fn without_a_documented_pattern_a_feature_fails() {
    let cluster = Cluster::processes(1).await;
    let server = cluster.server(0);
    let patterns: Vec<String> =
        documented().into_iter().filter(|rule| rule.starts_with(['~', '&'])).collect();
    assert_eq!(patterns.len(), 4);
    for missing in &patterns {
        let url = set_user(server, missing).await;
        assert_ne!(failing_features(server, &url).await, BTreeSet::new(), "without {missing}");
    }
    // No pattern permits the key of this resource. A pattern permits its channel, but the lock is refused.
    let url = set_user(server, "").await;
    let quorum = Quorum::builder().nodes([url]).admit_new_nodes().connect().await.unwrap();
    let other = quorum.red_lock("other:1").try_lock().await.unwrap_err();
    eventually(MOMENT, "the server has refused the name", async || !refused_objects(server).await.is_empty())
        .await;
    assert!(other.to_string().contains("permission"), "{other}");
    assert!(other.to_string().contains("user redquorum"), "{other}");
    assert!(!other.to_string().contains("PASSWORD"), "{other}");
}

/// Returns the permissions that the page lists for a user of locks, semaphores and latches of certain names alone.
fn documented_for_confined_users() -> Vec<String> {
    let page = include_str!("../../docs/REDIS.md");
    let (_, rest) = page.split_once("replace `~redquorum:*` by ").expect("the page has the patterns");
    let (patterns, _) = rest.split_once("name a lock for the doctor").expect("the patterns end");
    let patterns = patterns.split('`').filter(|text| text.starts_with('~')).map(str::to_owned);
    documented().into_iter().filter(|rule| rule != "~redquorum:*").chain(patterns).collect()
}

#[tokio::test]
async fn with_the_documented_confining_patterns_all_features_work_and_no_key_is_refused() {
    let rules = documented_for_confined_users();
    assert!(rules.contains(&"~redquorum:*{lock:*".to_owned()), "{rules:?}");
    let cluster = Cluster::processes(1).await;
    let server = cluster.server(0);
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    server.command(&[&["ACL", "SETUSER", "redquorum", "reset"], &rules[..]].concat()).await;
    let url = server.url().replace("//", "//redquorum:PASSWORD@");
    // `failing_features` calls `init` and `connect` for new nodes.
    assert_eq!(failing_features(server, &url).await, BTreeSet::new());
    let quorum = Quorum::builder().nodes([&url]).connect().await.unwrap();
    let health = quorum.health().await;
    assert!(health.has_quorum(), "{health:?}");
    quorum.latch("lock:latch", 1).arrive().await.unwrap();
    quorum.latch("lock:latch", 1).wait().await.unwrap();
    quorum.semaphore("lock:permits", 2).acquire().await.unwrap().release().await.unwrap();
    let is_announcement = |name: &String| matches!(&**name, "client|setinfo" | "client");
    let refused: Vec<String> =
        refused_objects(server).await.into_iter().filter(|name| !is_announcement(name)).collect();
    assert_eq!(refused, Vec::<String>::new());
    let semaphore = quorum.semaphore("other", 2);
    assert!(semaphore.try_acquire().await.unwrap_err().to_string().contains("permission"));
    let latch = quorum.latch("other", 1);
    assert!(latch.arrivals().await.unwrap_err().to_string().contains("permission"));
}

/// The ways in which a server refuses notices. Each has a value of the setting `rename-command` or none, and the rules
/// of the user.
const REFUSALS: [(Option<&str>, &str); 5] = [
    // A user as Redis 7 makes one by default: every key, every command and no channel.
    (None, "~* resetchannels +@all"),
    (None, "~* &* +@all -publish"),
    (None, "~* &* +@all -subscribe -unsubscribe"),
    (Some("PUBLISH \"\""), "~* &* +@all"),
    (Some("SUBSCRIBE \"\""), "~* &* +@all"),
];

/// Asserts that a quorum has confirmed a call.
#[track_caller]
fn assert_confirmed(replies: &NodeReplies) {
    assert!(replies.has_quorum(), "{replies}");
}

/// Without notices, a waiter attempts at the end of a ttl and by polls.
#[tokio::test]
async fn each_call_succeeds_without_notices() {
    for (renamed, rules) in REFUSALS {
        let renames = |renamed| ServerOptions::default().config("rename-command", renamed);
        let options = renamed.map_or_else(ServerOptions::default, renames);
        let cluster = Cluster::start_as(Kind::Processes, 3, options).await;
        for server in cluster.servers() {
            let user = ["ACL", "SETUSER", "app", "on", ">pw"].into_iter().chain(rules.split(' '));
            server.command(&user.collect::<Vec<_>>()).await;
        }
        let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("//", "//app:pw@")).collect();
        let builder = || Quorum::builder().nodes(&urls).connect_timeout(SOON);
        admin::init(&builder()).await.unwrap();
        let (quorum, other) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());

        assert_confirmed(&quorum.red_lock("a").lock().await.unwrap().unlock().await.unwrap());
        assert_confirmed(&quorum.red_lock("{a}").lock().await.unwrap().unlock().await.unwrap());
        assert_confirmed(&quorum.multi_lock(["a", "b"]).lock().await.unwrap().unlock().await.unwrap());
        assert_confirmed(&quorum.rw_lock("a").read().await.unwrap().unlock().await.unwrap());
        let reader = quorum.rw_lock("a").write().await.unwrap().downgrade().await.unwrap();
        assert_confirmed(&reader.unlock().await.unwrap());
        assert_confirmed(&quorum.semaphore("a", 2).acquire().await.unwrap().release().await.unwrap());
        quorum.latch("a", 1).arrive().await.unwrap();
        assert!(other.latch("a", 1).wait_for(MOMENT).await.unwrap());
        let leadership = quorum.election("a").campaign("one").await.unwrap();
        leadership.proclaim("two").await.unwrap();
        assert_eq!(other.election("a").leader().await.unwrap().unwrap().value(), b"two");
        assert_confirmed(&leadership.resign().await.unwrap());
        let held = quorum.red_lock("a").lock().await.unwrap();
        assert_confirmed(&admin::force_unlock(&other, "a").await.unwrap());
        assert!(held.renew().await.is_err(), "{rules}");
        drop(held);

        let held = quorum.red_lock("w").lock().await.unwrap();
        let waits = [&other, &quorum].map(|quorum| {
            let lock = quorum.red_lock("w");
            tokio::spawn(async move { lock.lock().await.unwrap().unlock().await.unwrap() })
        });
        tokio::time::sleep(MOMENT / 4).await;
        assert_confirmed(&held.unlock().await.unwrap());
        for wait in waits {
            assert_confirmed(&tokio::time::timeout(SOON, wait).await.unwrap().unwrap());
        }
        quorum.shutdown().await;
        other.shutdown().await;
        for server in cluster.servers() {
            assert!(
                !server.keys().await.iter().any(|key| ["a", "b", "{a}", "w"].contains(&&**key)),
                "{rules}"
            );
        }
    }
}

/// A waiter subscribes to the channel of its wake and to the channel of release notices in one command. The server
/// refuses the command, because the user may not subscribe to release notices. The waiter is woken in spite of this.
#[tokio::test]
async fn a_refused_channel_does_not_prevent_a_wake_on_another_channel() {
    let cluster = Cluster::processes(1).await;
    let server = cluster.server(0);
    let rules = ["~*", "resetchannels", "&redisson_lock__channel:redquorum:*", "+@all"];
    server.command(&[&["ACL", "SETUSER", "app", "on", ">pw"][..], &rules].concat()).await;
    let url = server.url().replace("//", "//app:pw@");
    let builder = || Quorum::builder().nodes([&url]).admit_new_nodes();
    let (quorum, other) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let locks = [&quorum, &other].map(|quorum| quorum.red_lock("lock:1"));
    let is_queued = async || server.query::<u64>(cmd("ZCARD").arg("redquorum:queue:{lock:1}")).await == 1;
    assert!(wakes_waiters_in_turn(&locks[0], &locks[1..], is_queued).await);
}
