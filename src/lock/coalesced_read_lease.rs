//! Read leases that tasks of one client share. Lock requests without an owner find, join and record these leases.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use crate::{
    acquire::checked_request::CheckedRequest,
    clock::Instant,
    config::CheckedLock,
    lease::active_lease::ActiveLease,
    lock::entrance::Entrance,
    mutation::{Mutation, altered},
    mutex::lock,
    node::Resources,
};

/// The entries of the read leases that tasks of one client share, by resources.
#[derive(Debug, Default)]
pub(super) struct CoalescedReadLeases(Mutex<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    leases: HashMap<Resources, Arc<CoalescedReadLease>>,
    /// The number of entries at which a new entry causes the removal of unused entries.
    sweep_at: usize,
}

/// The entry for resources that tasks of one client read, with the shared lease, if any. A task can join the lease if
/// the task arrives before the grant, or after the grant within the time that the won attempt took.
#[derive(Debug, Default)]
pub(super) struct CoalescedReadLease {
    /// The entrance of the calls that wait: a call enters, and then joins the lease or acquires a new lease. A
    /// `try_lock` does not enter.
    pub(super) entrance: Entrance,
    lease: Mutex<Weak<ActiveLease>>,
}

impl CoalescedReadLeases {
    /// Returns the entry of a request; `None` if the request may not share a lease. A request may share a lease if the
    /// request only reads, has the ttl of the quorum, and sets neither `hold_at_most` nor `without_renewal`.
    pub(super) fn get(&self, ttl: Duration, checked: &CheckedRequest) -> Option<Arc<CoalescedReadLease>> {
        let CheckedLock { attempt, limits, is_renewed, .. } = checked.settings;
        let is_usual = attempt.ttl == ttl && is_renewed && limits.at_most.is_none();
        if !(checked.resources.are_all_shared() && is_usual) {
            return None;
        }
        let LeaseTable { leases, sweep_at } = &mut *lock(&self.0);
        if leases.len() >= *sweep_at && !leases.contains_key(&checked.resources) {
            leases.retain(|_, coalesced| Arc::strong_count(coalesced) > 1 || coalesced.has_lease());
            *sweep_at = 2 * leases.len() + 1;
        }
        Some(Arc::clone(leases.entry(checked.resources.clone()).or_default()))
    }
}

impl CoalescedReadLease {
    /// Adds a hold to the lease, for a task that arrived at `arrived`. The caller has to give the hold back. Returns
    /// `None` without a lease, if the task arrived too late, or if at most half of the ttl remains of the validity.
    pub(super) fn join(&self, arrived: Instant, now: Instant) -> Option<Arc<ActiveLease>> {
        let lease = lock(&self.lease).upgrade()?;
        let is_long_enough = lease.remaining(now) > lease.ttl() / 2;
        let is_in_time = altered(Mutation::UnboundedJoin, arrived <= lease.joinable_until, |_| true);
        (is_in_time && is_long_enough && lease.enter()).then_some(lease)
    }

    /// Records a new lease in place of the earlier lease, for later tasks to join.
    pub(super) fn record(&self, lease: &Arc<ActiveLease>) {
        *lock(&self.lease) = Arc::downgrade(lease);
    }

    fn has_lease(&self) -> bool {
        lock(&self.lease).strong_count() > 0
    }
}
