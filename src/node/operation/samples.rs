//! Short constructors of operations, for tests. Words name resources and lease ids.

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
    Operation::Renew(Renew { resources, lease_id, holds, ttl, token })
}

pub(crate) fn unlock(names: &str, by: &str, notify: bool, leaves: bool) -> Operation {
    unlock_leaving(names, by, notify, if leaves { Tombstone::Always } else { Tombstone::Never })
}

/// Returns an unlock that leaves a tombstone unless it deletes all keys, as after an unanswered lock.
pub(crate) fn unlock_late(names: &str, by: &str, notify: bool) -> Operation {
    unlock_leaving(names, by, notify, Tombstone::IfMissing)
}

fn unlock_leaving(names: &str, by: &str, notify: bool, tombstone: Tombstone) -> Operation {
    let (resources, lease_id) = (resources(names), lease_id(by));
    Operation::Unlock(Unlock { resources, lease_id, notify, tombstone, has_waiters: false })
}

/// Returns an enqueue that locks for ten seconds; an entry ttl of 0 milliseconds means none.
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
    Operation::Inspect(Inspect { resource: resource(name), max_readers: READERS_SHOWN })
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
