//! Servers that refuse commands: without free memory, as a replica, or for lack of a permission.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    node::{
        Answer, Operation, Unlock, names,
        operation::samples::{
            enqueue, force_unlock, lease_id, lock, parameters, proclaim, proclamation, publishing_steps,
            renew, resource, unlock,
        },
        redis::script::{Script, tests::server::Server},
    },
    values::NodeError,
};

#[test]
fn a_server_without_memory_refuses_locks_and_still_unlocks() {
    let mut server = Server::start();
    server.one(&parameters(), &lock("held", "me", 5000, 0));
    let keys = server.keys();
    server.run("CONFIG SET maxmemory 1");
    let out_of_memory = Answer::Error(NodeError::OutOfMemory);
    assert_eq!(server.one(&parameters(), &lock("a b", "me", 5000, 0)), out_of_memory);
    assert_eq!(server.one(&parameters(), &renew("a b", "me", 1, 5000, 7)), out_of_memory);
    assert_eq!(server.keys(), keys);
    assert_eq!(server.one(&parameters(), &unlock("held", "me", true, true)), Answer::Unlocked { deleted: 1 });
    assert_eq!(server.holds(&resource("held"), &lease_id("me")), None);
    // After a deletion, even of a missing key, the server lets the script write despite the lack of
    // memory.
    assert_eq!(server.one(&parameters(), &unlock("a", "me", true, true)), Answer::Unlocked { deleted: 0 });
    assert!(server.keys().contains(&names::tombstone(&resource("a"), &lease_id("me"))));
}

#[test]
fn a_replica_refuses_every_write() {
    let mut server = Server::start();
    server.one(&parameters(), &lock("held", "me", 50_000, 0));
    let keys = server.keys();
    server.run("REPLICAOF 127.0.0.1 1");
    for operation in [
        lock("a", "me", 5000, 0),
        renew("held", "me", 1, 5000, 7),
        unlock("held", "me", true, true),
        force_unlock("held"),
    ] {
        assert_eq!(
            server.one(&parameters(), &operation),
            Answer::Error(NodeError::ReadOnly),
            "{operation:?}"
        );
    }
    let nothing_to_unlock = server.one(&parameters(), &unlock("held", "other", true, false));
    assert_eq!(
        nothing_to_unlock,
        Answer::Unlocked { deleted: 0 },
        "an unlock without a key to delete succeeds on a replica"
    );
    assert_eq!(server.keys(), keys);
}

/// Returns a registered server with a counter of `a`, on which `me` holds `held` for 50 s, and the
/// vote of that lock.
fn registered() -> (Server, u64) {
    let mut server = Server::start();
    server.register();
    server.one(&parameters(), &lock("a", "before", 5000, 0));
    server.one(&parameters(), &unlock("a", "before", true, false));
    let Answer::Granted { vote } = server.one(&parameters(), &lock("held", "me", 50_000, 0)) else {
        panic!("not granted")
    };
    (server, vote)
}

#[test]
fn a_server_without_memory_refuses_the_fast_paths() {
    let (mut server, vote) = registered();
    let keys = server.keys();
    server.run("CONFIG SET maxmemory 1");
    assert_eq!(server.one(&parameters(), &lock("a", "me", 5000, 0)), Answer::Error(NodeError::OutOfMemory));
    assert!(matches!(server.one(&parameters(), &lock("held", "other", 5000, 0)), Answer::Held(_)));
    assert_eq!(server.keys(), keys);
    // Renewals and unlocks need no memory.
    let renewed = Answer::Renewed { proves: true };
    assert_eq!(server.one(&parameters(), &renew("held", "me", 1, 60_000, vote)), renewed);
    assert!(server.ttl(b"held") > 50_000);
    let unlocked = Answer::Unlocked { deleted: 1 };
    assert_eq!(server.one(&parameters(), &unlock("held", "me", true, false)), unlocked);
    assert_eq!(server.holds(&resource("held"), &lease_id("me")), None);
}

#[test]
fn a_replica_refuses_the_fast_paths() {
    let (mut server, vote) = registered();
    let keys = server.keys();
    server.run("REPLICAOF 127.0.0.1 1");
    for operation in
        [lock("a", "me", 5000, 0), renew("held", "me", 1, 60_000, vote), unlock("held", "me", true, false)]
    {
        assert_eq!(
            server.one(&parameters(), &operation),
            Answer::Error(NodeError::ReadOnly),
            "{operation:?}"
        );
    }
    assert!(matches!(server.one(&parameters(), &lock("held", "other", 5000, 0)), Answer::Held(_)));
    assert_eq!(server.keys(), keys);
}

/// After its first write, a fast path answers with the error. Before that, the general path follows, and fails as well.
#[test]
fn the_fast_paths_report_a_missing_permission() {
    let (mut server, vote) = registered();
    let refused = lock("held", "other", 5000, 0);
    let renew = renew("held", "me", 1, 60_000, vote);
    let unlock = unlock("held", "me", true, false);
    let granted = lock("a", "me", 5000, 0);
    for (missing, operations) in [
        ("exists", vec![&granted, &refused, &renew]),
        ("hlen", vec![&refused, &renew]),
        ("hmget", vec![&granted, &refused, &renew]),
        ("pttl", vec![&granted, &refused, &renew]),
        ("pexpire", vec![&granted, &renew]),
        ("hset", vec![&granted]),
        ("hgetall", vec![&refused]),
        ("get", vec![&refused, &renew]),
        ("hdel", vec![&unlock]),
    ] {
        server.connect();
        server.run(&format!("ACL SETUSER u{missing} on >x ~* &* +@all -{missing}"));
        server.connect_as(&format!("u{missing}"));
        for operation in operations {
            let answer = server.one(&parameters(), operation);
            let is_denied = matches!(answer, Answer::Error(NodeError::NoPermission(_)));
            assert!(is_denied, "{missing}: {operation:?}: {answer:?}");
        }
    }
    server.connect();
    assert_eq!(server.holds(&resource("a"), &lease_id("me")), None);
    // Without permission to delete a field, the whole key is deleted.
    server.run("ACL SETUSER neither on >x ~* &* +@all -pexpire -hdel");
    server.connect_as("neither");
    let answer = server.one(&parameters(), &granted);
    assert!(matches!(answer, Answer::Error(NodeError::NoPermission(_))), "{answer:?}");
    server.connect();
    assert_eq!(server.holds(&resource("a"), &lease_id("me")), None);
}

#[test]
fn a_refusal_needs_no_permission_to_set_a_mark() {
    let (mut server, _) = registered();
    server.run("ACL SETUSER unset on >x ~* &* +@all -set");
    for is_dirty in [false, true] {
        if is_dirty {
            server.run("SET redquorum:dirty 1 PX 120000");
        }
        let keys = server.keys();
        server.connect_as("unset");
        assert!(matches!(server.one(&parameters(), &lock("held", "other", 5000, 0)), Answer::Held(_)));
        server.connect();
        server.run("CONFIG SET maxmemory 1");
        assert!(matches!(server.one(&parameters(), &lock("held", "other", 5000, 0)), Answer::Held(_)));
        server.run("CONFIG SET maxmemory 0");
        assert_eq!(server.keys(), keys);
    }
}

#[test]
fn an_unlock_succeeds_without_the_permissions_to_mark_or_wake() {
    for missing in ["set", "exists", "pttl", "zrange", "zrank", "zrem", "zscore", "time", "del"] {
        let (mut server, _) = registered();
        server.run("SET redquorum:dirty 1 PX 120000");
        server.run("ZADD redquorum:queue:{held} 1 w 2 v 3 u");
        server.run("ZADD redquorum:entry_ttl:{held} 9999999999999 w 9999999999999 v");
        server.run("SET redquorum:yield_mark:{held} 1 PX 50000");
        server.run(&format!("ACL SETUSER u on >x ~* &* +@all -{missing}"));
        server.connect_as("u");
        let Operation::Unlock(unlock) = unlock("held", "me", true, false) else { unreachable!() };
        let answer = server.one(&parameters(), &Operation::Unlock(Unlock { has_waiters: true, ..unlock }));
        let (answer, _) = answer.into_parts();
        assert_eq!(answer, Answer::Unlocked { deleted: 1 }, "{missing}");
        server.connect();
        assert_eq!(server.holds(&resource("held"), &lease_id("me")), None, "{missing}");
    }
}

/// A lock of another library without a ttl gets the longest ttl, if the user may set it.
#[test]
fn a_lock_without_a_ttl_is_held_even_if_the_repair_fails() {
    let (mut server, vote) = registered();
    server.run("HSET endless a-b-c-d-e:2 1");
    server.run("ACL SETUSER u on >x ~* &* +@all -pexpire");
    server.connect_as("u");
    for operation in [
        lock("endless", "me", 5000, 0),
        lock("a endless", "me", 5000, 0),
        renew("endless", "me", 1, 5000, vote),
    ] {
        let answer = server.one(&parameters(), &operation);
        assert!(matches!(answer, Answer::Held(_)), "{operation:?}: {answer:?}");
    }
    assert_eq!(server.ttl(b"endless"), -1);
}

/// The queue entry of the waiter expires later.
#[test]
fn a_waiter_locks_without_the_permission_to_leave_the_queue() {
    for is_group in [false, true] {
        let (mut server, _) = registered();
        let resources = if is_group { "held a" } else { "held" };
        server.one(&parameters(), &enqueue(resources, "waiter", "waiter", 0, 50_000));
        let _listening = server.listen(std::iter::once(names::wake(&resource("held"), &lease_id("waiter"))));
        server.one(&parameters(), &unlock("held", "me", true, false));
        server.run("ACL SETUSER u on >x ~* &* +@all -zrem");
        server.connect_as("u");
        let answer = server.one(&parameters(), &enqueue(resources, "waiter", "waiter", 0, 50_000));
        assert!(matches!(answer.without_waiters(), Answer::Granted { .. }), "{resources}: {answer:?}");
        assert_eq!(server.holds(&resource("held"), &lease_id("waiter")), Some(1));
    }
}

/// Asserts that a waiter locks `free`, and that another waiter is refused for the holder of `held`. Returns the arrival
/// of the refused waiter.
fn assert_answers_without_a_queue(server: &mut Server, case: &str) -> u64 {
    let answer = server.one(&parameters(), &enqueue("free", "waiter", "waiter", 0, 50_000));
    assert!(matches!(answer.without_waiters(), Answer::Granted { .. }), "{case}: {answer:?}");
    let answer = server.one(&parameters(), &enqueue("held", "other", "other", 0, 50_000));
    let Answer::Queued(queued) = answer else { panic!("{case}: {answer:?}") };
    let holder = queued.holder.unwrap_or_else(|| panic!("{case}: no holder"));
    assert_eq!(holder.lease_id, Some(lease_id("me")), "{case}");
    assert!(queued.patience > Duration::from_secs(40), "{case}: {:?}", queued.patience);
    queued.arrival
}

#[test]
fn the_wait_queue_does_not_decide_whether_a_resource_is_free() {
    for missing in ["zadd", "zrem", "zrange", "zrank", "zscore"] {
        let (mut server, _) = registered();
        // The entry of `gone` has expired, so the node would remove the entry.
        server.run("SET redquorum:dirty 1 PX 120000");
        server.run("ZADD redquorum:queue:{free} 1 gone");
        server.run(&format!("ACL SETUSER u on >x ~* &* +@all -{missing}"));
        server.connect_as("u");
        let arrival = assert_answers_without_a_queue(&mut server, missing);
        assert_eq!(arrival == 0, matches!(missing, "zadd" | "zrange"), "{missing}: {arrival}");
    }
    let (mut server, _) = registered();
    server.run("SET redquorum:dirty 1 PX 120000");
    for name in ["free", "held"] {
        server.run(&format!("SET redquorum:queue:{{{name}}} x PX 120000"));
    }
    assert_eq!(assert_answers_without_a_queue(&mut server, "another type"), 0);
}

/// If another line published, an answer could depend on the permission to publish.
#[test]
fn only_the_shared_fragments_publish() {
    let publishes = |line: &&str| line.to_ascii_uppercase().contains("PUBLISH'");
    let script = Script::standalone();
    let lines: BTreeSet<&str> = script.text().lines().map(str::trim).filter(publishes).collect();
    let general = "local listeners = redis.pcall('PUBLISH', channel, '0')";
    let fast = "local listeners = channel and (call('PUBLISH', channel, '0'))";
    assert_eq!(lines, BTreeSet::from([general, fast]));
}

#[test]
fn no_answer_depends_on_permission_to_publish() {
    for is_registered in [false, true] {
        let expected = execute_publishing_steps(&mut Server::start(), is_registered, None);
        let rules = ["~* resetchannels +@all", "~* &* +@all -publish", "~* resetchannels +@all -publish"];
        for rules in rules {
            let mut server = Server::start();
            server.run(&format!("ACL SETUSER mute on >x {rules}"));
            server.connect_as("mute");
            let is_denied = |error: &NodeError| matches!(error, NodeError::NoPermission(_));
            assert_eq!(
                execute_publishing_steps(&mut server, is_registered, Some(&is_denied)),
                expected,
                "{rules}"
            );
        }
        let mut server = Server::start_with(["--rename-command", "PUBLISH", ""]);
        let is_unknown = |error: &NodeError| error.to_string().contains("nknown");
        assert_eq!(execute_publishing_steps(&mut server, is_registered, Some(&is_unknown)), expected);
    }
}

/// Executes every kind of operation that publishes. Returns the answer to each operation, without numbers, and the keys
/// after it.
///
/// If `is_refusal` is given, the server must publish nothing, and report only errors for which `is_refusal` is true.
fn execute_publishing_steps(
    server: &mut Server,
    is_registered: bool,
    is_refusal: Option<&dyn Fn(&NodeError) -> bool>,
) -> Vec<(String, Vec<Vec<u8>>)> {
    if is_registered {
        server.register();
    }
    let waiters = ["one:1", "two:1", "three:1"].map(lease_id);
    let topics = ["a", "e"].map(resource).into_iter().flat_map(|name| {
        let of_name =
            waiters.iter().flat_map(move |waiter| [names::wake(&name, waiter), names::head(&name, waiter)]);
        of_name.collect::<Vec<_>>()
    });
    let topics: Vec<_> = topics.collect();
    let _listening = server.listen(topics.into_iter());
    let mut seen = Vec::new();
    for (step, publishes) in publishing_steps() {
        let answer = server.one(&parameters(), &step);
        assert!(!matches!(answer.without_waiters(), Answer::Error(_)), "{step:?}: {answer:?}");
        let unpublished = server.take_unpublished();
        assert_eq!(unpublished.is_some(), is_refusal.is_some() && publishes, "{step:?}: {unpublished:?}");
        assert!(
            unpublished.iter().all(|error| is_refusal.is_some_and(|is_refusal| is_refusal(error))),
            "{unpublished:?}"
        );
        let is_of_number = |char: char| char.is_ascii_digit() || char == '.';
        seen.push((format!("{answer:?}").replace(is_of_number, ""), server.keys()));
    }
    assert_eq!(server.holds(&resource("a"), &lease_id("holder:1")), None);
    seen
}

/// The commands by which locks and unlocks write or publish on the general path.
const WRITES: [&str; 5] = ["set", "pexpire", "hset", "hdel", "publish"];

#[test]
fn a_missing_permission_leaves_no_key_without_a_ttl() {
    let mut server = Server::start();
    for missing in [
        "set", "pexpire", "hset", "hdel", "publish", "hlen", "get", "pttl", "time", "exists", "hmget",
        "incr", "decr", "hgetall", "del",
    ] {
        server.connect();
        server.run("FLUSHALL");
        server.run(&format!("ACL SETUSER u{missing} on >x ~* &* +@all -{missing}"));
        // With the metadata of this incarnation and a counter, a lock takes the fast path.
        server.register();
        server.one(&parameters(), &lock("d", "before", 5000, 0));
        server.one(&parameters(), &unlock("d", "before", true, false));
        server.connect_as(&format!("u{missing}"));
        let operations = [
            lock("a b", "me", 5000, 0),
            lock("a b", "me", 6000, 0),
            renew("a c", "me", 2, 7000, 7),
            unlock("a b c", "other", true, true),
            unlock("a b", "me", true, true),
            lock("d", "me", 5000, 0),
            proclaim("d", proclamation("me", 1, 1, "v"), 5000),
            // These operations write marks and wait queues, and wake a waiter.
            lock("d", "other", 5000, 0),
            lock("a b", "other", 5000, 0),
            enqueue("d", "other", "w", 0, 5000),
            enqueue("d", "another", "v", 0, 5000),
            unlock("d", "me", true, false),
        ];
        let _listener = server.listen(std::iter::once(names::wake(&resource("d"), &lease_id("w"))));
        let answers = server.call(&parameters(), &operations);
        let is_denied = |answer: &Answer| matches!(answer, Answer::Error(NodeError::NoPermission(_)));
        let [general, fast] = [&answers[0], &answers[5]].map(is_denied);
        match missing {
            "pexpire" | "hset" => assert!(general && fast, "{missing}: {answers:?}"),
            // The fast path increments the counter by INCR, and the general path sets the counter by
            // SET.
            "set" => assert!(general && !fast, "{missing}: {answers:?}"),
            "incr" | "decr" | "del" => assert!(!general && !fast, "{missing}: {answers:?}"),
            "publish" => assert!(!answers.iter().any(is_denied), "{missing}: {answers:?}"),
            _ => assert!(answers.iter().any(is_denied), "{missing}: {answers:?}"),
        }
        server.connect();
        for key in server.keys().into_iter().filter(|key| *key != names::METADATA.as_bytes()) {
            let ttl = server.ttl(&key);
            assert!(ttl >= 0, "{missing}: {} has no ttl", key.escape_ascii());
        }
    }
}

#[test]
fn a_lock_without_permission_for_a_write_leaves_no_lock() {
    let mut server = Server::start();
    for missing in WRITES {
        server.connect();
        server.run("FLUSHALL");
        server.run(&format!("ACL SETUSER u{missing} on >x ~* &* +@all -{missing}"));
        server.connect_as(&format!("u{missing}"));
        server.one(&parameters(), &lock("a", "me", 5000, 0));
        server.connect();
        let is_held = server.holds(&resource("a"), &lease_id("me")).is_some();
        assert_eq!(is_held, matches!(missing, "hdel" | "publish"), "{missing}");
    }
}
