//! Shared resources on a real server: the keys of readers, and foreign keys with the same names.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    node::{
        Answer, Holder, Operation, Queued, names,
        operation::samples::{
            enqueue, inspect, lease_id, lock, parameters, renew, renew_idle, resource, take, unlock,
            unlock_late, write_back,
        },
        redis::script::tests::server::Server,
        state::LARGEST_COUNTER,
    },
    values::{LeaseId, NodeError},
};

const READERS: &str = "redquorum:readers:{a}";

/// A time in the far future, in milliseconds since the epoch.
const FAR_FUTURE: u64 = 9_999_999_999_999;

/// Returns a registered server with a counter of `a`, so that readers take the fast paths of the
/// script.
fn registered() -> Server {
    let mut server = Server::start();
    server.register();
    server.one(&parameters(), &lock("a", "before", 5000, 0));
    server.one(&parameters(), &unlock("a", "before", true, false));
    server
}

/// Returns a registered server that is a dirty node with a yield mark, so that readers take the general paths of the
/// script.
fn marked() -> Server {
    let mut server = registered();
    server.run("SET redquorum:yield_mark:{a} 1 PX 50000");
    server.run("SET redquorum:dirty 1 PX 120000");
    server
}

impl Server {
    /// Adds a reader, as a newcomer, or as a woken waiter if newcomers are refused. Returns the vote.
    fn add_reader(&mut self, by: &str, ttl: u64) -> u64 {
        let mut answer = self.one(&parameters(), &lock("*a", by, ttl, 0));
        if matches!(answer, Answer::Queued(_)) {
            answer = self.one(&parameters(), &take("*a", by, ttl));
        }
        let Answer::Granted { vote } = answer else { panic!("{answer:?}") };
        vote
    }

    /// Returns the phase and epoch of the readers of `a`, their lease ids, and the ttls of both
    /// keys.
    fn readers_of_a(&mut self) -> (Option<String>, Vec<String>, [i64; 2]) {
        let value = self.get(redis::cmd("HGET").arg("a").arg("redquorum:shared"));
        let readers = self.get(redis::cmd("ZRANGE").arg(READERS).arg(0).arg(-1));
        (value, readers, [self.ttl(b"a"), self.ttl(READERS.as_bytes())])
    }
}

fn is_about(remaining: i64, ttl: i64) -> bool {
    (ttl - 2000..=ttl).contains(&remaining)
}

#[test]
fn both_keys_of_readers_are_deleted_with_the_last_reader() {
    for mut server in [registered(), marked()] {
        let vote = server.add_reader("1", 10_000);
        let expected = |readers: &[&str]| {
            (Some(format!("{vote}:{vote}")), readers.iter().map(|name| (*name).to_owned()).collect())
        };
        for (reader, ttl, both) in [("2", 50_000, 50_000), ("3", 30_000, 50_000), ("2", 20_000, 50_000)] {
            assert_eq!(
                server.add_reader(reader, ttl),
                vote,
                "a reader that joins other readers gets their vote"
            );
            let (_, _, [key, readers]) = server.readers_of_a();
            assert!(is_about(key, both) && is_about(readers, both), "{key} {readers}");
        }
        let mut remaining = ["1", "3", "2"].to_vec();
        for (reader, both) in [("2", 30_000), ("1", 30_000), ("3", 0)] {
            let (value, readers, _) = server.readers_of_a();
            assert_eq!((value, readers), expected(&remaining));
            let answer = server.one(&parameters(), &unlock("*a", reader, true, false));
            assert_eq!(answer, Answer::Unlocked { deleted: 1 });
            let (_, _, [key, readers]) = server.readers_of_a();
            assert!(both == 0 || is_about(key, both) && is_about(readers, both), "{key} {readers}");
            remaining.retain(|name| *name != reader);
        }
        assert_eq!(server.readers_of_a(), (None, vec![], [-2, -2]));
    }
}

#[test]
fn a_new_reader_removes_expired_readers() {
    for mut server in [registered(), marked()] {
        server.add_reader("1", 10_000);
        server.add_reader("2", 20_000);
        server.run(&format!("ZADD {READERS} 1 1"));
        let inspection = server.one(&parameters(), &inspect("a"));
        assert!(matches!(&inspection, Answer::Inspected(seen) if seen.readers.len() == 1), "{inspection:?}");
        server.add_reader("3", 30_000);
        assert_eq!(server.readers_of_a().1, ["2", "3"]);
    }
}

/// Every client sees another holder, because the key of the resource has the field of readers, but there is no reader.
#[test]
fn a_key_of_readers_without_readers_counts_as_held() {
    for (hash, members) in [
        ("redquorum:shared 7:8", ""),
        ("redquorum:shared 7:8", "1 1"),
        ("redquorum:shared 7", "LATER 1"),
        ("redquorum:shared :", "LATER 1"),
        ("redquorum:shared 7:8:9", "LATER 1"),
        ("redquorum:shared -7:8", "LATER 1"),
        ("redquorum:shared 9007199254740992:9007199254740993", "LATER 1"),
        ("redquorum:shared 7:8 other 1", "LATER 1"),
    ] {
        let mut server = registered();
        server.run("SET redisson_lock_token:{a} 8 PX 7200000");
        server.run(&format!("HSET a {hash}"));
        server.run("PEXPIRE a 50000");
        if !members.is_empty() {
            server.run(&format!("ZADD {READERS} {}", members.replace("LATER", &FAR_FUTURE.to_string())));
            server.run(&format!("PEXPIRE {READERS} 50000"));
        }
        let before: BTreeMap<String, String> = server.get(redis::cmd("HGETALL").arg("a"));
        for operation in [
            lock("*a", "me", 5000, 0),
            take("*a", "1", 5000),
            lock("a", "me", 5000, 0),
            renew("*a", "1", 1, 90_000, LARGEST_COUNTER),
            enqueue("*a", "me", "w:shared", 0, 0),
        ] {
            let answer = server.one(&parameters(), &operation);
            let (Answer::Held(Holder { remaining, .. })
            | Answer::Queued(Queued { holder: Some(Holder { remaining, .. }), .. })) = answer
            else {
                panic!("{hash}: {operation:?}: {answer:?}")
            };
            assert!(remaining > Duration::from_secs(40), "{hash}");
        }
        let answer = server.one(&parameters(), &write_back("*a", "1", LARGEST_COUNTER));
        assert!(matches!(answer, Answer::NotWrittenBack { .. }), "{hash}: {answer:?}");
        let Answer::Inspected(seen) = server.one(&parameters(), &inspect("a")) else { panic!("{hash}") };
        assert_eq!((seen.held.map(|held| held.holds), seen.readers.len()), (Some(0), 0), "{hash}");
        let after: BTreeMap<String, String> = server.get(redis::cmd("HGETALL").arg("a"));
        assert_eq!(after, before, "{hash}");
        assert!(is_about(server.ttl(b"a"), 50_000), "{hash}");
    }
}

#[test]
fn a_shared_key_without_a_ttl_gets_the_longest_ttl() {
    let mut server = registered();
    server.run("HSET a redquorum:shared 7:8");
    for by in ["a", "*a"] {
        server.run("PERSIST a");
        let Answer::Held(holder) = server.one(&parameters(), &take(by, "me", 5000)) else { panic!("{by}") };
        assert_eq!(holder.remaining, parameters().max_ttl);
        assert!(is_about(server.ttl(b"a"), 60_000), "{by}");
    }
}

#[test]
fn operations_of_readers_change_neither_the_key_of_a_writer_nor_its_ttl() {
    for mut server in [registered(), marked()] {
        server.add_reader("1", 10_000);
        server.add_reader("2", 20_000);
        server.run("DEL a");
        assert!(matches!(server.one(&parameters(), &take("a", "me", 50_000)), Answer::Granted { .. }));
        for (by, is_late) in [("1", false), ("2", true)] {
            let unlock = if is_late { unlock_late("*a", by, true) } else { unlock("*a", by, true, false) };
            assert_eq!(server.one(&parameters(), &unlock), Answer::Unlocked { deleted: 0 });
            let has_tombstone = server.keys().contains(&names::tombstone(&resource("a"), &lease_id(by)));
            assert_eq!(has_tombstone, is_late);
            let renewed = server.one(&parameters(), &renew("*a", "3", 1, 90_000, 7));
            assert!(matches!(renewed, Answer::Held(_)), "{renewed:?}");
            assert_eq!(server.holds(&resource("a"), &lease_id("me")), Some(1));
            assert!(is_about(server.ttl(b"a"), 50_000));
        }
        assert_eq!(server.ttl(READERS.as_bytes()), -2);
    }
}

#[test]
fn readers_without_the_key_of_the_resource_do_not_join_the_next_phase() {
    for mut server in [registered(), marked()] {
        let first = server.add_reader("1", 50_000);
        server.run("DEL a");
        assert_eq!(server.add_reader("2", 10_000), first + 1);
        let (value, readers, [key, of_readers]) = server.readers_of_a();
        assert_eq!((value, readers), (Some(format!("{0}:{0}", first + 1)), vec!["2".to_owned()]));
        assert!(is_about(key, 10_000) && is_about(of_readers, 10_000));
    }
}

#[test]
fn a_readers_key_of_another_type_fails_operations_of_readers_only() {
    let mut server = registered();
    server.add_reader("1", 50_000);
    server.run(&format!("DEL {READERS}"));
    server.run(&format!("SET {READERS} text"));
    let operations = [
        lock("*a", "2", 5000, 0),
        renew("*a", "1", 1, 5000, 7),
        write_back("*a", "1", 7),
        unlock("*a", "1", true, false),
        inspect("a"),
        lock("*a b", "2", 5000, 0),
        lock("b", "2", 5000, 0),
    ];
    let answers = server.call(&parameters(), &operations);
    assert!(answers[..6].iter().all(|answer| *answer == Answer::Error(NodeError::WrongType)), "{answers:?}");
    assert!(matches!(answers[6], Answer::Granted { .. }), "{answers:?}");
    server.run("DEL a");
    assert_eq!(server.one(&parameters(), &take("*a", "2", 5000)), Answer::Error(NodeError::WrongType));
    assert_eq!(server.ttl(b"a"), -2);
    assert!(matches!(server.one(&parameters(), &take("a", "2", 5000)), Answer::Granted { .. }));
}

#[test]
fn an_inspection_returns_the_first_readers_to_expire() {
    let mut server = registered();
    for reader in 0..20_u64 {
        server.add_reader(&format!("r{reader:02}"), 50_000 - 1000 * reader);
    }
    let Answer::Inspected(seen) = server.one(&parameters(), &inspect("a")) else { panic!("not inspected") };
    let held = seen.held.unwrap();
    assert_eq!((held.lease_id, held.holds), (Some(LeaseId::of_readers()), 20));
    let reported: Vec<String> = seen.readers.iter().map(|(reader, _)| reader.to_string()).collect();
    assert_eq!(reported, (4..20).rev().map(|reader| format!("r{reader:02}")).collect::<Vec<_>>());
    assert!(seen.readers.iter().all(|(_, remaining)| *remaining <= Duration::from_secs(46)));
}

#[test]
fn a_renewal_of_a_reader_extends_the_yield_mark() {
    let mut server = marked();
    let vote = server.add_reader("1", 20_000);
    let mark = names::yield_mark(&resource("a"));
    for (ttl, mark_ttl) in [(20_000, 50_000), (55_000, 55_000), (90_000, 60_000)] {
        let renewed = server.one(&parameters(), &renew("*a", "1", 1, ttl, vote));
        assert_eq!(renewed, Answer::Renewed { proves: true });
        assert!(is_about(server.ttl(&mark), mark_ttl), "{ttl}: {}", server.ttl(&mark));
    }
    server.run("DEL redquorum:yield_mark:{a}");
    server.one(&parameters(), &renew("*a", "1", 1, 90_000, vote));
    assert!(!server.keys().contains(&mark), "a renewal has created a yield mark without waiters");
}

#[test]
fn a_reader_for_which_no_client_waits_extends_no_yield_mark() {
    let mut server = marked();
    let vote = server.add_reader("1", 20_000);
    let mark = names::yield_mark(&resource("a"));
    let renewed = server.one(&parameters(), &renew_idle("*a", "1", 90_000, vote));
    assert_eq!(renewed, Answer::Renewed { proves: true });
    assert!(is_about(server.ttl(&mark), 50_000), "{}", server.ttl(&mark));
}

/// Returns operations of readers that take the fast and the general paths of the script.
fn operations_of_readers(vote: u64) -> Vec<Operation> {
    vec![
        lock("*a", "me", 5000, 0),
        lock("*held", "me", 90_000, 0),
        lock("*a *held b", "me", 6000, 0),
        renew("*held", "1", 1, 90_000, vote),
        write_back("*held", "1", vote + 5),
        unlock("*held", "1", true, false),
        unlock("*held", "2", true, true),
        unlock("*a *held", "me", true, true),
        enqueue("*a", "me", "w:shared", 0, 5000),
    ]
}

/// Returns a registered server on which the readers `1` and `2` share `held`, and the vote of the readers.
fn with_two_readers() -> (Server, u64) {
    let mut server = registered();
    server.one(&parameters(), &lock("held", "before", 5000, 0));
    server.one(&parameters(), &unlock("held", "before", true, false));
    let Answer::Granted { vote } = server.one(&parameters(), &lock("*held", "1", 50_000, 0)) else {
        panic!("not granted")
    };
    server.one(&parameters(), &lock("*held", "2", 50_000, 0));
    (server, vote)
}

#[test]
fn a_server_without_memory_refuses_readers_and_still_unlocks() {
    let (mut server, vote) = with_two_readers();
    let keys = server.keys();
    server.run("CONFIG SET maxmemory 1");
    for operation in &operations_of_readers(vote)[..5] {
        let answer = server.one(&parameters(), operation);
        assert_eq!(answer, Answer::Error(NodeError::OutOfMemory), "{operation:?}");
    }
    assert_eq!(server.keys(), keys);
    for reader in ["1", "2"] {
        let unlocked = server.one(&parameters(), &unlock("*held", reader, true, false));
        assert_eq!(unlocked, Answer::Unlocked { deleted: 1 });
    }
    assert!(!server.keys().contains(&b"held".to_vec()));
}

#[test]
fn a_replica_refuses_to_add_or_remove_readers() {
    let (mut server, vote) = with_two_readers();
    let keys = server.keys();
    server.run("REPLICAOF 127.0.0.1 1");
    for operation in &operations_of_readers(vote)[..7] {
        let answer = server.one(&parameters(), operation);
        assert_eq!(answer, Answer::Error(NodeError::ReadOnly), "{operation:?}");
    }
    let nothing_to_unlock = server.one(&parameters(), &unlock("*held", "other", true, false));
    assert_eq!(
        nothing_to_unlock,
        Answer::Unlocked { deleted: 0 },
        "an unlock without a key to delete succeeds on a replica"
    );
    assert_eq!(server.keys(), keys);
}

#[test]
fn a_missing_permission_of_readers_leaves_no_key_without_a_ttl() {
    for missing in [
        "set",
        "hset",
        "hdel",
        "publish",
        "hlen",
        "get",
        "pttl",
        "time",
        "exists",
        "hmget",
        "incr",
        "hgetall",
        "del",
        "zadd",
        "zrem",
        "zrange",
        "zscore",
        "zremrangebyscore",
        "pexpireat",
    ] {
        let (mut server, vote) = with_two_readers();
        server.run(&format!("ACL SETUSER u on >x ~* &* +@all -{missing}"));
        server.connect_as("u");
        let answers = server.call(&parameters(), &operations_of_readers(vote));
        let is_denied =
            answers.iter().any(|answer| matches!(answer, Answer::Error(NodeError::NoPermission(_))));
        // Without INCR, readers take the general path. Without DEL, the fast path cannot delete a new key.
        // A notice is no part of an answer.
        assert_eq!(is_denied, !matches!(missing, "incr" | "del" | "publish"), "{missing}: {answers:?}");
        server.connect();
        for key in server.keys().into_iter().filter(|key| *key != names::METADATA.as_bytes()) {
            assert!(server.ttl(&key) >= 0, "{missing}: {} has no ttl", key.escape_ascii());
        }
    }
}

#[test]
fn a_reader_without_permission_to_expire_leaves_no_key() {
    for missing in ["pexpireat", "hset"] {
        let mut server = registered();
        server.run(&format!("ACL SETUSER u on >x ~* &* +@all -{missing}"));
        server.connect_as("u");
        let answer = server.one(&parameters(), &lock("*a", "me", 5000, 0));
        assert!(matches!(answer, Answer::Error(NodeError::NoPermission(_))), "{missing}: {answer:?}");
        server.connect();
        assert_eq!(server.readers_of_a(), (None, vec![], [-2, -2]), "{missing}");
        // Deleting the whole key is forbidden, too.
        server.run(&format!("ACL SETUSER v on >x ~* &* +@all -{missing} -del"));
        server.connect_as("v");
        server.one(&parameters(), &lock("*a", "me", 5000, 0));
        server.connect();
        assert_eq!(server.readers_of_a(), (None, vec![], [-2, -2]), "{missing}");
    }
}
