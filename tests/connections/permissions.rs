//! An ACL user with exactly the permissions that `docs/REDIS.md` lists, on real servers.
//!
//! Promises: with all listed permissions, each feature works. Without any single permission, the server refuses a
//! command, and some feature fails. Four commands are exceptions: without one of them, the features work less well.
//! So the list is neither too short nor too long.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use redis::{Value, cmd};
use redquorum::{LockOptions, Quorum, RedLock, admin, error::NodeReplies, inspection::LockState};
use redquorum_tests::{Cluster, Kind, Server, ServerOptions, eventually};

use super::SOON;

/// The deadline for an effect that happens at once, or never.
const MOMENT: Duration = Duration::from_secs(2);

/// The earliest attempt of a waiter without a notice, after its call: half of the first poll interval.
const FIRST_POLL: Duration = Duration::from_millis(250);

/// The number of tries, of which one has to be faster than any poll.
const TRIES: usize = 3;

/// Returns the permissions that the page lists after the name of the user.
fn documented() -> Vec<String> {
    let page = include_str!("../../docs/REDIS.md");
    let (_, rest) = page.split_once("ACL SETUSER redquorum ").expect("the page has the command");
    let (rules, _) = rest.split_once("```").expect("the command is a block");
    rules.split_whitespace().map(str::to_owned).collect()
}

/// Returns the commands that the page permits.
fn commands() -> Vec<String> {
    documented().into_iter().filter_map(|rule| rule.strip_prefix('+').map(str::to_owned)).collect()
}

/// Empties the server and makes the user again, with all listed permissions except `missing`. Returns the url
/// of the user.
///
/// The permission is never given, because servers before version 7 cannot revoke a single subcommand.
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
async fn refused_objects(server: &Server) -> BTreeSet<String> {
    let log: Vec<std::collections::HashMap<String, Value>> =
        server.query(cmd("ACL").arg("LOG").arg(1000)).await;
    let object = |entry: &std::collections::HashMap<String, Value>| match &entry["object"] {
        Value::BulkString(name) => String::from_utf8_lossy(name).to_ascii_lowercase(),
        other => panic!("{other:?}"),
    };
    log.iter().map(object).collect()
}

/// Whether waiters enter the queue, and an unlock of the holder wakes them one after the other before any of
/// them polls.
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

/// One try of [`wakes_waiters_in_turn`].
async fn wakes_waiters_in_turn_once(
    holder: &RedLock,
    waiters: &[RedLock],
    are_waiting: &impl AsyncFn() -> bool,
) -> bool {
    let Ok(Some(held)) = holder.try_lock_for(MOMENT).await else { return false };
    let begin = Instant::now();
    let waits = waiters.iter().map(|waiter| {
        let waiter = waiter.clone().options(LockOptions::new().quorum_timeout(Duration::from_millis(500)));
        // The last subscription ends with this unlock.
        tokio::spawn(async move {
            let Ok(guard) = waiter.lock().await else { return false };
            let is_woken = begin.elapsed() < FIRST_POLL;
            guard.unlock().await.is_ok() && is_woken
        })
    });
    let waits: Vec<_> = waits.collect();
    let begins = async {
        while !are_waiting().await && !waits.iter().any(|wait| wait.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let is_seen = tokio::time::timeout(MOMENT / 2, begins).await.is_ok();
    let is_unlocked = held.unlock().await.is_ok();
    let woken = tokio::time::timeout(MOMENT, futures::future::join_all(waits)).await;
    let are_woken = woken.is_ok_and(|woken| woken.into_iter().all(|woken| woken.is_ok_and(|woken| woken)));
    is_seen && is_unlocked && are_woken
}

/// Tries each feature as the user, and returns the names of those that fail.
async fn failing_features(server: &Server, url: &str) -> BTreeSet<&'static str> {
    let builder = || Quorum::builder().nodes([url]).connect_timeout(SOON);
    if admin::init(&builder()).await.is_err() {
        return ["init"].into();
    }
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
            note("held by another", matches!(other.red_lock("lock:1").try_lock().await, Ok(None)));
            note("unlock", guard.unlock().await.is_ok());
            token
        }
        _ => {
            note("lock", false);
            1
        }
    };
    // The refused newcomer has left a yield mark, which would make the node refuse newcomers for a while.
    server.command(&["DEL", "redquorum:yield_mark:{lock:1}"]).await;
    // A node that may have lost votes gives no vote below its minimum token.
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
    let silent = async {
        while subscribers().await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    note("leave no subscription", tokio::time::timeout(MOMENT, silent).await.is_ok());

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
async fn with_the_documented_permissions_all_features_work_and_no_command_is_refused() {
    let cluster = Cluster::processes(1).await;
    let server = cluster.server(0);
    let url = set_user(server, "").await;
    assert_eq!(failing_features(server, &url).await, BTreeSet::new());
    // The redis crate announces itself by `CLIENT SETINFO`, which the list does not permit. Servers before version 7
    // log no subcommands.
    let is_announcement = |name: &String| matches!(&**name, "client|setinfo" | "client");
    let refused: Vec<String> =
        refused_objects(server).await.into_iter().filter(|name| !is_announcement(name)).collect();
    assert_eq!(refused, Vec::<String>::new());
}

/// A list with needless permissions would be as wrong as a list with missing permissions. Without most commands, a
/// feature fails, too.
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
                    // Without these commands the script uses another way, or leaves a counter that is one too
                    // large.
                    "incr" | "decr" => {
                        assert_eq!(broken, BTreeSet::new(), "without {missing}");
                        continue;
                    }
                    // Without these commands the queue has entries, but waiters learn no rank. They poll in
                    // no order, and sometimes succeed in time.
                    "zscore" | "zrank" => continue,
                    // A waiter that got the lock stays in the queue until its entry ends.
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

/// The patterns cover the keys and channels whose names derive from those of resources.
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
    // A resource whose key no pattern permits is refused, although a pattern permits its channel.
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

/// The ways in which a server refuses notices: a setting of the server, and the rules of the user.
const REFUSALS: [(Option<&str>, &str); 5] = [
    // A user as Redis 7 makes one by default: every key, every command and no channel.
    (None, "~* resetchannels +@all"),
    (None, "~* &* +@all -publish"),
    (None, "~* &* +@all -subscribe -unsubscribe"),
    (Some("PUBLISH \"\""), "~* &* +@all"),
    (Some("SUBSCRIBE \"\""), "~* &* +@all"),
];

#[track_caller]
fn is_confirmed(replies: &NodeReplies) {
    assert!(replies.has_quorum(), "{replies}");
}

/// Waiters live by ttls and polls, in the order of their arrival if the wait queue survives.
#[tokio::test]
async fn a_client_without_notices_does_everything_that_it_reports() {
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

        is_confirmed(&quorum.red_lock("a").lock().await.unwrap().unlock().await.unwrap());
        is_confirmed(&quorum.red_lock("{a}").lock().await.unwrap().unlock().await.unwrap());
        is_confirmed(&quorum.multi_lock(["a", "b"]).lock().await.unwrap().unlock().await.unwrap());
        is_confirmed(&quorum.rw_lock("a").read().await.unwrap().unlock().await.unwrap());
        let reader = quorum.rw_lock("a").write().await.unwrap().downgrade().await.unwrap();
        is_confirmed(&reader.unlock().await.unwrap());
        is_confirmed(&quorum.semaphore("a", 2).acquire().await.unwrap().release().await.unwrap());
        quorum.latch("a", 1).arrive().await.unwrap();
        assert!(other.latch("a", 1).wait_for(MOMENT).await.unwrap());
        let leadership = quorum.election("a").campaign("one").await.unwrap();
        leadership.proclaim("two").await.unwrap();
        assert_eq!(other.election("a").leader().await.unwrap().unwrap().value(), b"two");
        is_confirmed(&leadership.resign().await.unwrap());
        let held = quorum.red_lock("a").lock().await.unwrap();
        is_confirmed(&admin::force_unlock(&other, "a").await.unwrap());
        assert!(held.renew().await.is_err(), "{rules}");
        drop(held);

        let held = quorum.red_lock("w").lock().await.unwrap();
        let waits = [&other, &quorum].map(|quorum| {
            let lock = quorum.red_lock("w");
            tokio::spawn(async move { lock.lock().await.unwrap().unlock().await.unwrap() })
        });
        tokio::time::sleep(MOMENT / 4).await;
        is_confirmed(&held.unlock().await.unwrap());
        for wait in waits {
            is_confirmed(&tokio::time::timeout(SOON, wait).await.unwrap().unwrap());
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

/// A waiter subscribes to its wake and to releases in one command.
#[tokio::test]
async fn a_forbidden_channel_takes_no_other_subscription_along() {
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
