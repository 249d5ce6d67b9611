//! Short constructors of operations, for tests. Resources and lease ids are written as words.

use std::time::Duration;

use crate::{
    node::{
        DETAILS_SHOWN, Enqueue, ForceUnlock, Inspect, Latch, Lock, Observe, Operation, Proclaim,
        Proclamation, QuarantineParameters, QuorumParameters, READERS_SHOWN, Renew, Resources, RestartGuard,
        Tombstone, Transfer, Unlock, Withdraw, WriteBack,
    },
    values::{Fingerprint, LeaseId, Resource},
};

pub(crate) fn parameters() -> QuorumParameters {
    QuorumParameters {
        fingerprint: Fingerprint::new("test"),
        guard: RestartGuard::Off,
        max_ttl: Duration::from_secs(60),
        counter_ttl: Duration::from_secs(3600),
        quarantine: QuarantineParameters {
            lasts: Duration::from_secs(61),
            renewals_after: Duration::from_secs(3),
        },
        hand_over: Duration::from_millis(100),
        incarnation: Some("incarnation".into()),
    }
}

pub(crate) fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

/// Parses resources: `"*a b"` names the shared resource `a` and the exclusive resource `b`.
pub(crate) fn resources(names: &str) -> Resources {
    let each = names.split(' ').map(|name| match name.strip_prefix('*') {
        Some(name) => (resource(name), true),
        None => (resource(name), false),
    });
    each.collect()
}

pub(crate) fn lease_id(name: &str) -> LeaseId {
    LeaseId::from_wire(name.as_bytes())
}

/// Returns the lock of a newcomer. Ttls are milliseconds.
pub(crate) fn lock(names: &str, by: &str, ttl: u64, hint: u64) -> Operation {
    let (resources, lease_id, ttl) = (resources(names), lease_id(by), Duration::from_millis(ttl));
    Operation::Lock(Lock { resources, lease_id, ttl, hint, ignores_queue: false, will_not_wait: false })
}

/// Returns the lock of a woken waiter, without a hint.
pub(crate) fn take(names: &str, by: &str, ttl: u64) -> Operation {
    let (resources, lease_id, ttl) = (resources(names), lease_id(by), Duration::from_millis(ttl));
    Operation::Lock(Lock { resources, lease_id, ttl, hint: 0, ignores_queue: true, will_not_wait: false })
}

pub(crate) fn write_back(names: &str, by: &str, token: u64) -> Operation {
    Operation::WriteBack(WriteBack { resources: resources(names), lease_id: lease_id(by), token })
}

pub(crate) fn renew(names: &str, by: &str, holds: u32, ttl: u64, token: u64) -> Operation {
    let (resources, lease_id, ttl) = (resources(names), lease_id(by), Duration::from_millis(ttl));
    Operation::Renew(Renew { resources, lease_id, holds, ttl, extends: true, token, may_have_waiters: true })
}

/// Returns a renewal for whose resources no client waits.
pub(crate) fn renew_idle(names: &str, by: &str, ttl: u64, token: u64) -> Operation {
    match renew(names, by, 1, ttl, token) {
        Operation::Renew(renew) => Operation::Renew(Renew { may_have_waiters: false, ..renew }),
        other => other,
    }
}

/// Returns an unlock that leaves a tombstone always or never.
pub(crate) fn unlock(names: &str, by: &str, notify: bool, leaves_tombstone: bool) -> Operation {
    unlock_leaving(names, by, notify, if leaves_tombstone { Tombstone::Always } else { Tombstone::Never })
}

/// Returns an unlock that leaves a tombstone unless it deletes all keys, as after an unanswered lock.
pub(crate) fn unlock_late(names: &str, by: &str, notify: bool) -> Operation {
    unlock_leaving(names, by, notify, Tombstone::IfMissing)
}

/// Returns an unlock with a notice, whose keys stay for the rest of a minimum hold.
pub(crate) fn unlock_with_rest(names: &str, by: &str, rest: u64) -> Operation {
    match unlock(names, by, true, false) {
        Operation::Unlock(unlock) => {
            Operation::Unlock(Unlock { rest: Some(Duration::from_millis(rest)), ..unlock })
        }
        other => other,
    }
}

fn unlock_leaving(names: &str, by: &str, notify: bool, tombstone: Tombstone) -> Operation {
    let (resources, lease_id) = (resources(names), lease_id(by));
    Operation::Unlock(Unlock { resources, lease_id, notify, tombstone, has_waiters: false, rest: None })
}

/// Returns an enqueue that locks for ten seconds. With an entry ttl of 0, the waiter does not enter the queue.
pub(crate) fn enqueue(names: &str, by: &str, waiter: &str, arrival: u64, entry_ttl: u64) -> Operation {
    let (resources, ttl) = (resources(names), Duration::from_secs(10));
    let lock =
        Lock { resources, lease_id: lease_id(by), ttl, hint: 0, ignores_queue: true, will_not_wait: false };
    let entry_ttl = (entry_ttl > 0).then(|| Duration::from_millis(entry_ttl));
    let waiter = lease_id(waiter);
    Operation::Enqueue(Enqueue { lock, resource: 0, waiter, arrival, entry_ttl, enqueue_only: false })
}

/// Returns the same lock, of a client that will not wait after a refusal.
pub(crate) fn not_waiting(lock: Operation) -> Operation {
    let Operation::Lock(lock) = lock else { unreachable!("not a lock: {lock:?}") };
    Operation::Lock(Lock { will_not_wait: true, ..lock })
}

pub(crate) fn withdraw(name: &str, waiter: &str) -> Operation {
    Operation::Withdraw(Withdraw { resource: resource(name), waiter: lease_id(waiter) })
}

pub(crate) fn force_unlock(names: &str) -> Operation {
    Operation::ForceUnlock(ForceUnlock { resources: resources(names) })
}

pub(crate) fn inspect(name: &str) -> Operation {
    let (resource, max_readers, max_details) = (resource(name), READERS_SHOWN, DETAILS_SHOWN);
    Operation::Inspect(Inspect { resource, max_readers, max_details })
}

/// Returns a proclamation of a leader that was elected at the epoch's third second.
pub(crate) fn proclamation(by: &str, term: u64, number: u64, value: &str) -> Proclamation {
    let (lease_id, since) = (lease_id(by), Duration::from_secs(3));
    Proclamation { lease_id, term, number, value: value.as_bytes().into(), since }
}

pub(crate) fn proclaim(name: &str, proclamation: Proclamation, ttl: u64) -> Operation {
    let (resource, ttl) = (resource(name), Duration::from_millis(ttl));
    Operation::Proclaim(Proclaim { resource, proclamation, ttl })
}

pub(crate) fn observe(name: &str) -> Operation {
    Operation::Observe(Observe { resource: resource(name) })
}

/// Returns the downgrade of a writer to a reader of the same resources.
pub(crate) fn downgrade(names: &str, reader: &str, writer: &str, ttl: u64) -> Operation {
    let (resources, ttl) = (resources(names).shared(), Duration::from_millis(ttl));
    let lock = Lock {
        resources,
        lease_id: lease_id(reader),
        ttl,
        hint: 0,
        ignores_queue: true,
        will_not_wait: false,
    };
    Operation::Transfer(Transfer { lock, from: lease_id(writer), proof: None })
}

/// Returns a transfer to another exclusive lease; a proof of 0 is none.
pub(crate) fn transfer(names: &str, to: &str, from: &str, ttl: u64, hint: u64, proof: u64) -> Operation {
    let (resources, ttl) = (resources(names), Duration::from_millis(ttl));
    let lock =
        Lock { resources, lease_id: lease_id(to), ttl, hint, ignores_queue: true, will_not_wait: false };
    Operation::Transfer(Transfer { lock, from: lease_id(from), proof: (proof > 0).then_some(proof) })
}

/// Returns an arrival at a latch that opens after `count` arrivals.
pub(crate) fn arrive(name: &str, count: u32, arrival: &str) -> Operation {
    Operation::Latch(Latch {
        latch: resource(name),
        count,
        is_open: false,
        arrivals: std::iter::once(arrival.as_bytes().into()).collect(),
        ttl: Duration::from_secs(60),
    })
}

/// Returns steps that publish every kind of notice, by the fast and the general path, and whether each step publishes.
pub(crate) fn publishing_steps() -> Vec<(Operation, bool)> {
    let enter = |name, waiter| enqueue(name, waiter, waiter, 0, 50_000);
    vec![
        (lock("a b c", "holder:1", 50_000, 0), false),
        (proclaim("a", proclamation("holder:1", 1, 1, "value"), 50_000), true),
        (enter("a", "one:1"), false),
        (enter("a", "two:1"), false),
        (enter("a", "three:1"), false),
        // The third waiter becomes the second.
        (withdraw("a", "one:1"), true),
        (unlock("a b", "holder:1", true, false), true),
        // The first waiter is woken again.
        (enqueue("a", "new:1", "new:1", 0, 0), true),
        (enter("a", "two:1"), false),
        (unlock("a", "two:1", false, false), true),
        (lock("a", "newcomer:1", 50_000, 0), true),
        (force_unlock("c"), true),
        (arrive("a", 2, "first"), false),
        (arrive("a", 2, "second"), true),
        (lock("d", "holder:2", 50_000, 0), false),
        (unlock("d", "holder:2", true, false), true),
        (lock("*d", "reader:1", 50_000, 0), false),
        (unlock("*d", "reader:1", true, false), true),
        (lock("d", "writer:1", 50_000, 0), false),
        (downgrade("d", "reader:2", "writer:1", 50_000), true),
        (lock("e", "holder:3", 50_000, 0), false),
        (enter("e", "one:1"), false),
        (enter("e", "two:1"), false),
        (enter("e", "three:1"), false),
        (unlock("e", "holder:3", true, true), true),
        // The first waiter locks, and the third waiter becomes the second.
        (enter("e", "one:1"), true),
    ]
}
