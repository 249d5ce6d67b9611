//! Servers that refuse: without memory, as a replica, without a permission.

use crate::node::{
    Answer, Fault,
    entries::{force_unlock, lock, owner, proclaim, renew, resource, said, terms, unlock},
    redis::script::tests::server::Server,
};

#[test]
fn a_server_without_memory_refuses_locks_without_a_trace_and_still_unlocks() {
    let mut server = Server::start();
    server.one(&terms(), &lock("held", "me", 5000, 0));
    let keys = server.keys();
    server.run("CONFIG SET maxmemory 1");
    let out_of_memory = Answer::Fault(Fault::OutOfMemory);
    assert_eq!(server.one(&terms(), &lock("a b", "me", 5000, 0)), out_of_memory);
    assert_eq!(server.one(&terms(), &renew("a b", "me", 1, 5000, 7)), out_of_memory);
    assert_eq!(server.one(&terms(), &unlock("a", "me", 0, true, true)), out_of_memory);
    assert_eq!(server.keys(), keys);
    assert_eq!(server.one(&terms(), &unlock("held", "me", 7, true, true)), Answer::Unlocked { deleted: 1 });
    assert_eq!(server.holds(&resource("held"), &owner("me")), None);
}

#[test]
fn a_replica_refuses_every_write() {
    let mut server = Server::start();
    server.one(&terms(), &lock("held", "me", 50_000, 0));
    let keys = server.keys();
    server.run("REPLICAOF 127.0.0.1 1");
    for entry in [
        lock("a", "me", 5000, 0),
        renew("held", "me", 1, 5000, 7),
        unlock("held", "me", 0, true, true),
        force_unlock("held"),
    ] {
        assert_eq!(server.one(&terms(), &entry), Answer::Fault(Fault::ReadOnly), "{entry:?}");
    }
    let nothing_there = server.one(&terms(), &unlock("held", "other", 7, true, false));
    assert_eq!(
        nothing_there,
        Answer::Unlocked { deleted: 0 },
        "a token that cannot be carried is nothing that is owed"
    );
    assert_eq!(server.keys(), keys);
}

/// The commands of the script that write.
const WRITES: [&str; 5] = ["set", "pexpire", "hset", "hdel", "publish"];

#[test]
fn whatever_permission_is_missing_no_key_stays_without_a_ttl() {
    let mut server = Server::start();
    for missing in
        ["set", "pexpire", "hset", "hdel", "publish", "hlen", "get", "pttl", "time", "exists", "hmget"]
    {
        server.connect();
        server.run("FLUSHALL");
        server.run(&format!("ACL SETUSER u{missing} on >x ~* &* +@all -{missing}"));
        // With a counter that is remembered, a lock takes the short way.
        server.one(&terms(), &lock("d", "before", 5000, 0));
        server.one(&terms(), &unlock("d", "before", 0, true, false));
        server.connect_as(&format!("u{missing}"));
        let entries = [
            lock("a b", "me", 5000, 0),
            lock("a b", "me", 6000, 0),
            renew("a c", "me", 2, 7000, 7),
            unlock("a b c", "other", 7, true, true),
            unlock("a b", "me", 7, true, true),
            lock("d", "me", 5000, 0),
            proclaim("d", said("me", 1, 1, "v"), 5000),
        ];
        let answers = server.call(&terms(), &entries);
        let denied = |answer: &Answer| matches!(answer, Answer::Fault(Fault::NoPermission(_)));
        assert!(answers.iter().any(denied), "{missing}: {answers:?}");
        if matches!(missing, "set" | "pexpire" | "hset") {
            assert!(denied(&answers[0]) && denied(&answers[5]), "{missing}: {answers:?}");
        }
        server.connect();
        for key in server.keys() {
            let ttl = server.ttl(&key);
            assert!(ttl >= 0, "{missing}: {} has no ttl", key.escape_ascii());
        }
    }
}

#[test]
fn a_lock_that_may_not_be_given_a_ttl_owns_nothing() {
    let mut server = Server::start();
    for missing in WRITES {
        server.connect();
        server.run("FLUSHALL");
        server.run(&format!("ACL SETUSER u{missing} on >x ~* &* +@all -{missing}"));
        server.connect_as(&format!("u{missing}"));
        server.one(&terms(), &lock("a", "me", 5000, 0));
        server.connect();
        let is_owned = server.holds(&resource("a"), &owner("me")).is_some();
        assert_eq!(is_owned, matches!(missing, "hdel" | "publish"), "{missing}");
    }
}
