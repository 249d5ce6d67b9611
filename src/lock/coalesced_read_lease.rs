//! Read leases that tasks of one client share. Lock requests without an owner look up, join and record these leases.

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

/// The read leases that tasks of one client share, by resources.
#[derive(Debug, Default)]
pub(super) struct CoalescedReadLeases(Mutex<LeaseTable>);

#[derive(Debug, Default)]
struct LeaseTable {
    leases: HashMap<Resources, Arc<CoalescedReadLease>>,
    /// The number of entries at which unused entries are removed.
    sweep_at: usize,
}

/// A read lease that tasks of one client share. Tasks that arrive before the grant can join the lease. After the grant,
/// tasks that arrive within a further time can join, too: within the time that the won attempt took.
#[derive(Debug, Default)]
pub(super) struct CoalescedReadLease {
    /// The entrance of the tasks that acquire or join the lease.
    pub(super) entrance: Entrance,
    lease: Mutex<Weak<ActiveLease>>,
}

impl CoalescedReadLeases {
    /// Returns the lease that tasks share for a request; `None` if the request does not share. Only requests that read
    /// all of their resources, with the ttl of the quorum and renewals without an end, share a lease.
    pub(super) fn get(&self, ttl: Duration, checked: &CheckedRequest) -> Option<Arc<CoalescedReadLease>> {
        let CheckedLock { attempt, hold_at_most, is_renewed, .. } = checked.settings;
        let is_usual = attempt.ttl == ttl && is_renewed && hold_at_most.is_none();
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
    /// `None` if the lease could not be joined at that time, or if the rest of its validity is at most half of the
    /// ttl.
    pub(super) fn join(&self, arrived: Instant, now: Instant) -> Option<Arc<ActiveLease>> {
        let lease = lock(&self.lease).upgrade()?;
        let is_long_enough = lease.remaining(now) > lease.ttl() / 2;
        let is_in_time = altered(Mutation::UnboundedJoin, arrived <= lease.joinable_until, |_| true);
        (is_in_time && is_long_enough && lease.enter()).then_some(lease)
    }

    /// Records a new lease, for later tasks to join.
    pub(super) fn record(&self, lease: &Arc<ActiveLease>) {
        *lock(&self.lease) = Arc::downgrade(lease);
    }

    fn has_lease(&self) -> bool {
        lock(&self.lease).strong_count() > 0
    }
}
