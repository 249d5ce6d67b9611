//! Tests with keys that only a real server can have: keys of other types, hashes of several fields, keys without a ttl,
//! and damaged metadata.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    node::{
        Abstention, Answer, Holder, HolderInfo, InspectAnswer, NewNodes, ObserveAnswer, Operation, Queued,
        QuorumParameters, Reconfigure, Register, Registration, RestartGuard, names,
        operation::samples::{
            enqueue, force_unlock, inspect, lease_id, lock, observe, parameters, proclaim, proclamation,
            renew, resource, resources, unlock, write_back,
        },
        redis::script::tests::server::Server,
    },
    values::{Fingerprint, NodeError},
};

/// A lease id in the form that Redisson uses, too.
const OTHER: &str = "3b1d6a2e-5f0c-4c57-9d38-0e2f7a91c4b6:7";

fn error(error: NodeError) -> Answer {
    Answer::Error(error)
}

#[test]
fn a_key_of_another_type_fails_only_the_operations_on_it() {
    let mut server = Server::start();
    server.run("SET b text");
    let operations: Vec<Operation> = vec![
        lock("a", "me", 5000, 0),
        lock("b", "me", 5000, 0),
        renew("b", "me", 1, 5000, 1),
        write_back("b", "me", 1),
        unlock("b", "me", false, false),
        force_unlock("b"),
        inspect("b"),
        proclaim("b", proclamation("me", 1, 1, "v"), 5000),
        observe("b"),
        lock("c", "me", 5000, 0),
    ];
    let answers = server.call(&parameters(), &operations);
    assert!(matches!(answers[0], Answer::Granted { .. }), "{answers:?}");
    assert!(answers[1..9].iter().all(|answer| *answer == error(NodeError::WrongType)), "{answers:?}");
    assert!(matches!(answers[9], Answer::Granted { .. }), "{answers:?}");
    let text: String = server.get(redis::cmd("GET").arg("b"));
    assert_eq!(text, "text");
    assert_eq!(server.counter(&resource("b")), None);
}

#[test]
fn an_unlock_releases_all_resources_except_one_of_another_type() {
    let mut server = Server::start();
    server.one(&parameters(), &lock("a c", "me", 5000, 0));
    server.run("LPUSH b 1");
    assert_eq!(server.one(&parameters(), &unlock("a b c", "me", true, false)), error(NodeError::WrongType));
    assert_eq!(server.one(&parameters(), &inspect("a")), server.one(&parameters(), &inspect("c")));
    assert_eq!(server.holds(&resource("a"), &lease_id("me")), None);
}

#[test]
fn a_counter_of_another_type_fails_the_operation_and_changes_nothing() {
    let mut server = Server::start();
    server.run("LPUSH redisson_lock_token:{a} 1");
    assert_eq!(server.one(&parameters(), &lock("a b", "me", 5000, 0)), error(NodeError::WrongType));
    assert_eq!(server.keys(), vec![b"redisson_lock_token:{a}".to_vec()]);
}

#[test]
fn an_invalid_counter_is_returned_and_not_changed() {
    let mut server = Server::start();
    for text in
        ["", "-1", "+1", "07", "7e0", "0x7", "1.0", "nan", "inf", "9007199254740992", "99999999999999999999"]
    {
        server.get::<redis::Value>(redis::cmd("SET").arg("redisson_lock_token:{a}").arg(text));
        let expected = error(NodeError::InvalidCounter(text.into()));
        assert_eq!(server.one(&parameters(), &lock("a", "me", 5000, 0)), expected);
        assert_eq!(server.one(&parameters(), &renew("a", "me", 1, 5000, 7)), expected);
        assert_eq!(server.one(&parameters(), &inspect("a")), expected);
        let unlocked = server.one(&parameters(), &unlock("a", "me", false, false));
        assert_eq!(unlocked, Answer::Unlocked { deleted: 0 }, "an unlock reads no counter");
        assert_eq!(server.keys(), vec![b"redisson_lock_token:{a}".to_vec()]);
        let stored: String = server.get(redis::cmd("GET").arg("redisson_lock_token:{a}"));
        assert_eq!(stored, text);
    }
}

#[test]
fn a_foreign_lock_without_a_ttl_gets_the_longest_ttl() {
    let mut server = Server::start();
    for operation in [lock("a", "me", 5000, 0), renew("a", "me", 1, 5000, 7)] {
        server.run("DEL a");
        server.run(&format!("HSET a {OTHER} 2"));
        let expected = Holder {
            resource: 0,
            lease_id: Some(lease_id(OTHER)),
            remaining: parameters().max_ttl,
            counter: 0,
        };
        assert_eq!(server.one(&parameters(), &operation), Answer::Held(expected));
        let ttl = Duration::from_millis(server.ttl(b"a").unsigned_abs());
        assert!(ttl <= parameters().max_ttl && ttl > parameters().max_ttl / 2);
    }
}

#[test]
fn a_hash_that_is_no_lock_never_gets_a_ttl() {
    let mut server = Server::start();
    for hash in [
        "name bob",
        "name bob mail b@x",
        "visits 17",
        "7 1",
        &format!("{OTHER} bob"),
        &format!("{OTHER} 0"),
        &format!("{OTHER} -1"),
        &format!("{OTHER}:more 1"),
        // Redisson's read/write lock, with and without a reader.
        &format!("mode read {OTHER} 1"),
        "mode read",
    ] {
        server.run("DEL a");
        server.run(&format!("HSET a {hash}"));
        let before: BTreeMap<String, String> = server.get(redis::cmd("HGETALL").arg("a"));
        for operation in [
            lock("a", "me", 5000, 0),
            lock("a b", "me", 5000, 0),
            renew("a", "me", 1, 5000, 7),
            enqueue("a", "me", "w", 0, 5000),
        ] {
            let answer = server.one(&parameters(), &operation);
            let (Answer::Held(holder) | Answer::Queued(Queued { holder: Some(holder), .. })) = answer else {
                panic!("{hash}: {answer:?}")
            };
            assert_eq!(holder.remaining, parameters().max_ttl, "{hash}");
            assert_eq!(server.ttl(b"a"), -1, "{hash}");
            let after: BTreeMap<String, String> = server.get(redis::cmd("HGETALL").arg("a"));
            assert_eq!(after, before);
        }
    }
}

/// Answers have a limited length, because a client ends a connection that sends too many bytes.
#[test]
fn long_foreign_data_is_not_part_of_an_answer() {
    let mut server = Server::start();
    for (field, value) in [("f".repeat(70_000), "1".to_owned()), ("data".to_owned(), "1".repeat(70_000))] {
        server.run("DEL a");
        server.run(&format!("HSET a {field} {value}"));
        let shown = (field.len() < 128).then(|| field.clone());
        for operation in [lock("a", "me", 5000, 0), renew("a", "me", 1, 5000, 7)] {
            let Answer::Held(holder) = server.one(&parameters(), &operation) else { panic!("{field:.9}") };
            assert_eq!(holder.lease_id.as_ref().map(|lease_id| lease_id.to_string()), shown);
        }
        let Answer::Inspected(seen) = server.one(&parameters(), &inspect("a")) else { panic!("{field:.9}") };
        assert_eq!(seen.held.unwrap().lease_id.as_ref().map(|lease_id| lease_id.to_string()), shown);
    }
}

#[test]
fn a_lock_of_9000_resources_fails_no_operation_of_its_call() {
    let mut server = registered();
    server.one(&parameters(), &lock("c", "me", 5000, 0));
    let names: Vec<String> = (0..9000).map(|number| format!("g{number}")).collect();
    let group = lock(&names.join(" "), "me", 5000, 0);
    let operations =
        [lock("a", "me", 5000, 0), group, lock("b", "me", 5000, 0), unlock("c", "me", true, false)];
    let answers = server.call(&parameters(), &operations);
    assert!(answers[..3].iter().all(|answer| matches!(answer, Answer::Granted { .. })), "{answers:?}");
    assert_eq!(answers[3], Answer::Unlocked { deleted: 1 });
}

#[test]
fn an_own_lock_without_a_ttl_gets_the_requested_ttl() {
    let mut server = Server::start();
    for operation in [lock("a", "me", 5000, 0), renew("a", "me", 1, 5000, 7)] {
        server.run("DEL a");
        server.run("HSET a me 1");
        assert!(!matches!(server.one(&parameters(), &operation), Answer::Error(_)));
        assert!((4000..=5000).contains(&server.ttl(b"a")));
    }
}

#[test]
fn a_hash_of_several_fields_has_an_unknown_holder() {
    let mut server = Server::start();
    server.run("HSET a mode read me 1");
    server.run("PEXPIRE a 50000");
    for operation in [lock("a", "me", 5000, 0), renew("a", "me", 1, 5000, 7)] {
        let Answer::Held(holder) = server.one(&parameters(), &operation) else { panic!("not held") };
        assert_eq!((holder.resource, holder.lease_id, holder.counter), (0, None, 0));
        assert!(holder.remaining > Duration::from_secs(40));
    }
    assert_eq!(server.one(&parameters(), &write_back("a", "me", 7)), Answer::NotWrittenBack { counter: 0 });
    let Answer::Inspected(InspectAnswer { held: Some(held), counter: 0, .. }) =
        server.one(&parameters(), &inspect("a"))
    else {
        panic!("not held");
    };
    assert!(matches!(held, HolderInfo { lease_id: None, holds: 0, remaining: Some(_) }));
    assert_eq!(server.one(&parameters(), &force_unlock("a")), Answer::Unlocked { deleted: 1 });
    // The force-unlock has also deleted the yield mark that the refusal had set.
    assert_eq!(server.keys(), [names::DIRTY.as_bytes()]);
}

#[test]
fn an_unlock_deletes_its_field_from_a_hash_of_several_fields() {
    let mut server = Server::start();
    server.one(&parameters(), &lock("a", "me", 50_000, 0));
    server.run("HSET a mode read other 1");
    assert_eq!(
        server.one(&parameters(), &unlock("a", "stranger", true, false)),
        Answer::Unlocked { deleted: 0 }
    );
    assert_eq!(server.holds(&resource("a"), &lease_id("me")), Some(1));
    assert_eq!(server.one(&parameters(), &unlock("a", "me", true, false)), Answer::Unlocked { deleted: 1 });
    assert_eq!(server.holds(&resource("a"), &lease_id("me")), None);
    assert_eq!(server.holds(&resource("a"), &lease_id("other")), Some(1));
    assert!(server.ttl(b"a") > 40_000);
}

#[test]
fn metadata_of_another_quorum_makes_a_node_refuse_locks_but_not_unlocks() {
    let mut server = Server::start();
    server.one(&parameters(), &lock("a", "me", 5000, 0));
    server.run("HSET redquorum:node incarnation r minimum_token 5 fingerprint other");
    let refused = [
        lock("a", "me", 5000, 0),
        renew("a", "me", 1, 5000, 7),
        write_back("a", "me", 7),
        proclaim("a", proclamation("me", 7, 1, "v"), 5000),
    ];
    for operation in refused {
        let answer = server.one(&parameters(), &operation);
        assert!(
            matches!(&answer, Answer::WrongQuorum { fingerprint } if fingerprint.as_str() == "other"),
            "{answer:?}"
        );
    }
    assert_eq!(server.one(&parameters(), &unlock("a", "me", true, false)), Answer::Unlocked { deleted: 1 });
    server.register_with(2_000_000_000_000_000);
    assert_eq!(
        server.one(&parameters(), &lock("a", "me", 5000, 0)),
        Answer::Granted { vote: 2_000_000_000_000_001 }
    );
    server.run("HDEL redquorum:node stamp");
    assert!(matches!(server.one(&parameters(), &lock("b", "me", 5000, 0)), Answer::WrongQuorum { .. }));
}

#[test]
fn a_node_without_its_stamp_votes_again_after_a_quarantine() {
    let mut server = Server::start();
    let time = Duration::from_secs(server.seconds());
    let register = |new_nodes| Operation::Register(Register { new_nodes, time });
    for guard in [RestartGuard::PerConnection, RestartGuard::PerVote] {
        server.run("FLUSHALL");
        let new = QuorumParameters { guard, incarnation: None, ..parameters() };
        let Answer::Registered(Registration { incarnation, quarantine: None }) =
            server.one(&new, &register(NewNodes::Admit))
        else {
            panic!("not registered")
        };
        let registered = QuorumParameters { incarnation, ..new };
        let digest = registered.fingerprint.digest();
        for damage in ["HDEL redquorum:node stamp", &format!("HSET redquorum:node stamp {digest}")] {
            server.run(damage);
            let answer = server.one(&registered, &lock("a", "me", 5000, 0));
            if guard == RestartGuard::PerConnection || damage.starts_with("HDEL") {
                assert_eq!(answer, Answer::Abstains(Abstention::NotRegistered), "{guard:?}, {damage}");
            }
            let answer = server.one(&registered, &register(NewNodes::Admit));
            let Answer::Registered(Registration { quarantine: Some(_), .. }) = answer else {
                panic!("{guard:?}, {damage}: {answer:?}")
            };
            server.run("DEL redquorum:quarantine");
            let answer = server.one(&registered, &lock("b", "me", 5000, 0));
            assert!(matches!(answer, Answer::Granted { .. }), "{guard:?}, {damage}: {answer:?}");
        }
        server.run("HDEL redquorum:node stamp");
        let other = QuorumParameters { fingerprint: Fingerprint::new("other"), ..registered.clone() };
        assert_eq!(
            server.one(&other, &register(NewNodes::Admit)),
            Answer::WrongQuorum { fingerprint: registered.fingerprint.clone() }
        );
    }
}

#[test]
fn a_reconfiguration_restores_the_stamp() {
    let mut server = Server::start();
    let time = Duration::from_secs(server.seconds());
    let new = QuorumParameters { guard: RestartGuard::PerConnection, incarnation: None, ..parameters() };
    let answer = server.one(&new, &Operation::Register(Register { new_nodes: NewNodes::Admit, time }));
    let Answer::Registered(Registration { incarnation, .. }) = answer else { panic!("{answer:?}") };
    server.run("HDEL redquorum:node stamp");
    let to = QuorumParameters { incarnation, fingerprint: Fingerprint::new("to"), ..new.clone() };
    let moved = Reconfigure { from: new.fingerprint, to: to.fingerprint.clone(), record: None };
    server.one(&to, &Operation::Reconfigure(moved));
    let answer = server.one(&to, &lock("a", "me", 5000, 0));
    assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
}

#[test]
fn an_unlock_publishes_only_if_it_notifies() {
    let mut server = Server::start();
    server.one(&parameters(), &lock("a b{c}", "me", 5000, 0));
    assert_eq!(resources("a b{c}").len(), 2);
    let command_stats =
        |server: &mut Server| -> String { server.get::<String>(redis::cmd("INFO").arg("commandstats")) };
    let calls = |stats: String| {
        stats.lines().find_map(|line| {
            line.strip_prefix("cmdstat_publish:calls=").map(|rest| rest.split(',').next().unwrap().to_owned())
        })
    };
    server.one(&parameters(), &unlock("a", "me", false, false));
    let stats = command_stats(&mut server);
    assert_eq!(calls(stats), None);
    server.one(&parameters(), &unlock("b{c}", "me", true, false));
    let stats = command_stats(&mut server);
    assert_eq!(calls(stats).as_deref(), Some("1"));
}

#[test]
fn a_leader_key_of_another_type_fails_only_the_operations_on_it() {
    let mut server = Server::start();
    server.run("SET redquorum:leader:{a} text");
    let operations = [
        lock("a", "me", 5000, 0),
        proclaim("a", proclamation("me", 1, 1, "v"), 5000),
        observe("a"),
        unlock("a", "me", true, false),
    ];
    let answers = server.call(&parameters(), &operations);
    assert_eq!(answers[1..3], [error(NodeError::WrongType), error(NodeError::WrongType)]);
    assert_eq!(answers[3], Answer::Unlocked { deleted: 1 });
    let text: String = server.get(redis::cmd("GET").arg("redquorum:leader:{a}"));
    assert_eq!(text, "text");
}

#[test]
fn a_proclamation_replaces_an_invalid_proclamation_or_that_of_another_leader() {
    let mut server = Server::start();
    server.one(&parameters(), &lock("a", "me", 5000, 0));
    for line in [
        "HSET redquorum:leader:{a} owner me number nan",
        "HSET redquorum:leader:{a} number 0",
        "HSET redquorum:leader:{a} owner other number 99",
    ] {
        server.run("DEL redquorum:leader:{a}");
        server.run(line);
        let proclamation = proclamation("me", 7, 1, "v");
        assert_eq!(server.one(&parameters(), &proclaim("a", proclamation.clone(), 5000)), Answer::Proclaimed);
        let Answer::Observed(seen) = server.one(&parameters(), &observe("a")) else { panic!("not observed") };
        assert_eq!((seen.lease_id, seen.proclamation), (Some(lease_id("me")), Some(proclamation)), "{line}");
        assert!((4000..=5000).contains(&server.ttl(b"redquorum:leader:{a}")));
    }
}

#[test]
fn the_holder_of_a_lock_of_another_library_is_no_leader() {
    let mut server = Server::start();
    server.run("HSET a mode read me 1");
    assert_eq!(
        server.one(&parameters(), &proclaim("a", proclamation("me", 1, 1, "v"), 5000)),
        Answer::NotLeader
    );
    let seen = ObserveAnswer { lease_id: None, remaining: None, proclamation: None };
    assert_eq!(server.one(&parameters(), &observe("a")), Answer::Observed(seen));
}

fn registered() -> Server {
    let mut server = Server::start();
    server.register();
    server
}

#[test]
fn a_tombstone_applies_to_the_next_operation_of_the_call() {
    let mut server = registered();
    let lock = lock("a", "me", 5000, 0);
    let answers = server.call(&parameters(), &[lock.clone(), unlock("a", "me", true, true), lock]);
    assert!(matches!(
        answers[..],
        [Answer::Granted { .. }, Answer::Unlocked { deleted: 1 }, Answer::Tombstone]
    ));
}

#[test]
fn a_release_removes_a_first_waiter_without_a_subscription() {
    let mut server = registered();
    server.one(&parameters(), &lock("a", "me", 5000, 0));
    server.run("SET redquorum:dirty 1 PX 120000");
    server.run("ZADD redquorum:queue:{a} 1 w");
    server.run("ZADD redquorum:entry_ttl:{a} 9999999999999 w");
    assert_eq!(server.one(&parameters(), &unlock("a", "me", true, false)), Answer::Unlocked { deleted: 1 });
    assert!(!server.keys().contains(&b"redquorum:queue:{a}".to_vec()));
}

#[test]
fn a_yield_mark_does_not_outlive_the_key_of_a_dirty_node() {
    let mut server = registered();
    let longest = i64::try_from(parameters().max_ttl.as_millis()).unwrap();
    server.run("HSET a other 1");
    server.run(&format!("PEXPIRE a {}", 10 * longest));
    server.run("SET redisson_lock_token:{a} 7 PX 7200000");
    // The first refusal also writes the key of a dirty node, and the next refusal finds it.
    for _ in 0..2 {
        assert!(matches!(server.one(&parameters(), &lock("a", "me", 5000, 0)), Answer::Held(_)));
        let [mark, dirty] =
            [names::yield_mark(&resource("a")), names::DIRTY.into()].map(|key| server.ttl(&key));
        assert!(mark > longest - 5000 && mark <= longest && mark <= dirty, "{mark} {dirty}");
    }
    server.run(&format!("PEXPIRE {} 1000", names::DIRTY));
    assert!(matches!(server.one(&parameters(), &lock("a", "me", 5000, 0)), Answer::Held(_)));
    assert!(server.ttl(names::DIRTY.as_bytes()) >= longest);
}

#[test]
fn a_new_queue_deletes_the_wake_record_of_an_expired_queue() {
    let mut server = registered();
    server.one(&parameters(), &lock("a", "me", 5000, 0));
    server.run("SET redquorum:dirty 1 PX 120000");
    let woken = names::last_woken(&resource("a"));
    server.get::<String>(redis::cmd("SET").arg(&woken).arg("1 w").arg("PX").arg(50_000));
    assert!(matches!(server.one(&parameters(), &enqueue("a", "other", "w", 0, 5000)), Answer::Queued(_)));
    assert!(!server.keys().contains(&woken));
}

#[test]
fn an_unlock_wakes_a_waiter_that_was_queued_in_the_same_call() {
    let mut server = registered();
    for name in ["a", "b"] {
        server.one(&parameters(), &lock(name, "me", 5000, 0));
    }
    let operations =
        [unlock("b", "me", true, false), enqueue("a", "other", "w", 0, 5000), unlock("a", "me", true, false)];
    let answers = server.call(&parameters(), &operations);
    assert!(matches!(answers[1], Answer::Queued(_)), "{answers:?}");
    assert_eq!(answers[2], Answer::Unlocked { deleted: 1 });
    // The unlock tried to wake the waiter, and removed the waiter, which has no subscription.
    assert!(!server.keys().contains(&b"redquorum:queue:{a}".to_vec()));
}

#[test]
fn the_fast_paths_leave_unusual_keys_and_counters_to_the_general_paths() {
    let mut server = registered();
    let Answer::Granted { vote } = server.one(&parameters(), &lock("a", "me", 5000, 0)) else {
        panic!("not granted")
    };
    let renewal = renew("a", "me", 1, 5000, vote);
    let counter = b"redisson_lock_token:{a}";
    server.run("PEXPIRE redisson_lock_token:{a} 60000");
    assert_eq!(server.one(&parameters(), &renewal), Answer::Renewed { proves: true });
    assert!(server.ttl(counter) > 3_600_000, "the renewal did not extend the ttl of the counter");
    server.run("HSET a mode read");
    assert!(matches!(server.one(&parameters(), &renewal), Answer::Held(Holder { lease_id: None, .. })));
    server.run("DEL a");
    server.run(&format!("HSET a {OTHER} 1"));
    assert!(matches!(server.one(&parameters(), &lock("a", "other", 5000, 0)), Answer::Held(_)));
    assert!(server.ttl(b"a") > 0, "the lock would never expire");
}
