//! Short constructors of operations, for tests. Resources and owners are words.

use std::time::Duration;

use crate::{
    node::{
        Enqueue, ForceUnlock, Inspect, Lock, Observe, Operation, Proclaim, Proclamation,
        QuarantineParameters, QuorumParameters, READERS_SHOWN, Renew, Resources, RestartGuard, Tombstone,
        Unlock, Withdraw, WriteBack,
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

/// Parses resources: `"*a b"` is two of them, the first shared.
pub(crate) fn resources(names: &str) -> Resources {
    let each = names.split(' ').map(|name| match name.strip_prefix('*') {
        Some(name) => (resource(name), true),
        None => (resource(name), false),
    });
    each.collect()
}

pub(crate) fn owner(name: &str) -> LeaseId {
    LeaseId::from_wire(name.as_bytes())
}

/// Returns the lock of a newcomer. Ttls are milliseconds.
pub(crate) fn lock(names: &str, by: &str, ttl: u64, hint: u64) -> Operation {
    let (resources, owner, ttl) = (resources(names), owner(by), Duration::from_millis(ttl));
    Operation::Lock(Lock { resources, owner, ttl, hint, has_turn: false, gives_up: false })
}

/// Returns the lock of a woken waiter, without a hint.
pub(crate) fn take(names: &str, by: &str, ttl: u64) -> Operation {
    let (resources, owner, ttl) = (resources(names), owner(by), Duration::from_millis(ttl));
    Operation::Lock(Lock { resources, owner, ttl, hint: 0, has_turn: true, gives_up: false })
}

pub(crate) fn write_back(names: &str, by: &str, token: u64) -> Operation {
    Operation::WriteBack(WriteBack { resources: resources(names), owner: owner(by), token })
}

pub(crate) fn renew(names: &str, by: &str, holds: u32, ttl: u64, token: u64) -> Operation {
    let (resources, owner, ttl) = (resources(names), owner(by), Duration::from_millis(ttl));
    Operation::Renew(Renew { resources, owner, holds, ttl, token, may_have_waiters: true })
}

/// The renewal of a reader for which no client waits.
pub(crate) fn renew_idle(names: &str, by: &str, ttl: u64, token: u64) -> Operation {
    match renew(names, by, 1, ttl, token) {
        Operation::Renew(renew) => Operation::Renew(Renew { may_have_waiters: false, ..renew }),
        other => other,
    }
}

pub(crate) fn unlock(names: &str, by: &str, notify: bool, leaves: bool) -> Operation {
    unlock_leaving(names, by, notify, if leaves { Tombstone::Always } else { Tombstone::Never })
}

/// Returns an unlock that leaves a tombstone unless it deletes all keys, as after an unanswered lock.
pub(crate) fn unlock_late(names: &str, by: &str, notify: bool) -> Operation {
    unlock_leaving(names, by, notify, Tombstone::IfMissing)
}

fn unlock_leaving(names: &str, by: &str, notify: bool, tombstone: Tombstone) -> Operation {
    let (resources, owner) = (resources(names), owner(by));
    Operation::Unlock(Unlock { resources, owner, notify, tombstone, has_waiters: false })
}

/// Returns an enqueue that locks for ten seconds; an entry ttl of 0 milliseconds means none.
pub(crate) fn enqueue(names: &str, by: &str, waiter: &str, arrival: u64, entry_ttl: u64) -> Operation {
    let (resources, ttl) = (resources(names), Duration::from_secs(10));
    let lock = Lock { resources, owner: owner(by), ttl, hint: 0, has_turn: true, gives_up: false };
    let entry_ttl = (entry_ttl > 0).then(|| Duration::from_millis(entry_ttl));
    let waiter = owner(waiter);
    Operation::Enqueue(Enqueue { lock, resource: 0, waiter, arrival, entry_ttl, enqueue_only: false })
}

/// Returns the same lock, of a client that does not wait.
pub(crate) fn giving_up(lock: Operation) -> Operation {
    let Operation::Lock(lock) = lock else { unreachable!("not a lock: {lock:?}") };
    Operation::Lock(Lock { gives_up: true, ..lock })
}

pub(crate) fn withdraw(name: &str, waiter: &str) -> Operation {
    Operation::Withdraw(Withdraw { resource: resource(name), waiter: owner(waiter) })
}

pub(crate) fn force_unlock(names: &str) -> Operation {
    Operation::ForceUnlock(ForceUnlock { resources: resources(names) })
}

pub(crate) fn inspect(name: &str) -> Operation {
    Operation::Inspect(Inspect { resource: resource(name), max_readers: READERS_SHOWN })
}

/// Returns a proclamation of a leader that was elected at the epoch's third second.
pub(crate) fn said(by: &str, term: u64, number: u64, value: &str) -> Proclamation {
    let (owner, since) = (owner(by), Duration::from_secs(3));
    Proclamation { owner, term, number, value: value.as_bytes().into(), since }
}

pub(crate) fn proclaim(name: &str, said: Proclamation, ttl: u64) -> Operation {
    let (resource, ttl) = (resource(name), Duration::from_millis(ttl));
    Operation::Proclaim(Proclaim { resource, said, ttl })
}

pub(crate) fn observe(name: &str) -> Operation {
    Operation::Observe(Observe { resource: resource(name) })
}
