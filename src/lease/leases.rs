//! The leases of one client.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    algorithm::lease::RenewalOffset,
    client::context::ClientContext,
    error::{ClosedReason, LeaseLost, LossReason},
    lease::{
        active_lease::{Acquired, ActiveLease, UnlockOutcome},
        force_unlock_listener::ForceUnlockListener,
        lease_timers::{LeaseNumber, LeaseTimers},
    },
    mutation::{self, Mutation},
    mutex::lock,
    node::{Reply, Subscription},
    observer::{LeaseEnd, ObservedLease},
    values::Resource,
};

/// The active leases of one client, and the times of their renewals and expiries.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) context: Arc<ClientContext>,
    pub(super) renewals: LeaseTimers,
    pub(super) expiries: LeaseTimers,
    /// The active leases, in the order in which a shutdown ends them.
    active: Mutex<BTreeMap<LeaseNumber, Arc<ActiveLease>>>,
    /// The resources of the leases that ended with the runtime, whose unlocks cannot be sent.
    ended_with_runtime: Mutex<BTreeSet<Resource>>,
    next_number: AtomicU64,
    pub(super) force_unlock_listener: Arc<ForceUnlockListener>,
    /// The subscriptions of the listener for force-unlocks. The first lease creates them, because a client without
    /// leases needs no channel at a node.
    force_unlock_subscriptions: OnceLock<Vec<Subscription>>,
}

impl Leases {
    pub(crate) fn new(context: Arc<ClientContext>) -> Self {
        Self {
            context,
            renewals: LeaseTimers::default(),
            expiries: LeaseTimers::default(),
            active: Mutex::default(),
            ended_with_runtime: Mutex::default(),
            next_number: AtomicU64::new(1),
            force_unlock_listener: Arc::default(),
            force_unlock_subscriptions: OnceLock::new(),
        }
    }

    /// Registers the lease of a won attempt with the watchdog and the expiry.
    pub(crate) fn adopt(&self, mut acquired: Acquired) -> Arc<ActiveLease> {
        let context = &self.context;
        let in_flight = acquired.in_flight.take();
        let id = self.next_number.fetch_add(1, Ordering::Relaxed);
        let observer = Arc::clone(&context.observer);
        let lease = Arc::new(ActiveLease::new(id, acquired, context.now(), observer));
        // The report precedes the registration, since the observer may be foreign code. If the observer panics, there
        // is no guard, and the watchdog must not renew the lease.
        let observed: Arc<dyn ObservedLease> = Arc::clone(&lease) as _;
        context.observer.lease_granted(&observed);
        lock(&self.active).insert(id, Arc::clone(&lease));
        self.expiries.set(id, lease.valid_until());
        if lease.terms.is_renewed {
            let offset =
                mutation::altered(Mutation::RenewTogether, context.renewal_offset, |_| RenewalOffset::WHOLE);
            self.renewals.set(id, lease.first_renewal_due(offset));
        }
        self.force_unlock_subscriptions.get_or_init(|| self.force_unlock_listener.subscribe(context));
        // If the client closed during the attempt, the close has not ended this lease, which was not registered yet.
        if let Some(reason) = context.closed_reason() {
            self.lose(&lease, LossReason::Closed(reason));
        }
        drop(in_flight);
        lease
    }

    /// Makes every lease due for a renewal now, because a notice reports that a lease was force-unlocked.
    pub(super) fn renew_all(&self) {
        let now = self.context.now();
        let leases: Vec<_> = lock(&self.active).keys().copied().collect();
        leases.into_iter().for_each(|lease| self.renewals.set(lease, now));
    }

    pub(super) fn get(&self, id: LeaseNumber) -> Option<Arc<ActiveLease>> {
        lock(&self.active).get(&id).cloned()
    }

    /// Ends an active lease as lost, and unlocks the lease at all nodes. Returns whether the lease was active.
    pub(crate) fn lose(&self, lease: &ActiveLease, reason: LossReason) -> bool {
        let is_lost = lease.lose(reason);
        if is_lost {
            drop(self.end(lease, LeaseEnd::Lost(reason)));
        }
        is_lost
    }

    /// Ends every lease as lost.
    pub(crate) fn lose_all(&self, reason: LossReason) {
        let leases: Vec<_> = lock(&self.active).values().cloned().collect();
        for lease in leases {
            if self.lose(&lease, reason) && reason == LossReason::Closed(ClosedReason::RuntimeEnded) {
                lock(&self.ended_with_runtime).extend(lease.terms.resources.iter().cloned());
            }
        }
    }

    /// Returns the resources of the leases that ended with the runtime.
    pub(crate) fn ended_with_runtime(&self) -> BTreeSet<Resource> {
        lock(&self.ended_with_runtime).clone()
    }

    /// Gives a hold back, without waiting for the answers to an unlock. With the last hold, the lease ends as `end`.
    /// The next lock call reads the answer of the queue node.
    pub(crate) fn leave_without_waiting(&self, lease: &ActiveLease, end: LeaseEnd) -> UnlockOutcome {
        let now = self.context.now();
        let outcome = lease.leave(now);
        let replies = match outcome {
            UnlockOutcome::Unlocked => self.end(lease, end),
            UnlockOutcome::Lost(reason) => self.end(lease, LeaseEnd::Lost(reason)),
            UnlockOutcome::Active | UnlockOutcome::Over(_) => Vec::new(),
        };
        lease.queue_node().defer(&self.context, &lease.terms.resources, replies, now);
        outcome
    }

    /// Handles the end of the active phase of a lease: deregisters the lease, unlocks it at all nodes, and reports the
    /// end. Returns the outstanding replies to the unlock. The report is last, since the observer may be foreign code,
    /// and its panic must leave no key on a node.
    pub(super) fn end(&self, lease: &ActiveLease, end: LeaseEnd) -> Vec<(usize, Reply)> {
        self.deregister(lease);
        let replies = self.submit_unlock(lease, lease.rest(end, self.context.now()));
        self.report_end(lease, end);
        replies
    }

    /// Ends a lease whose only hold is transferred to a read lease or a ticket. The unlock is submitted when the returned
    /// value is dropped, after the attempt for the transfer.
    pub(crate) fn transfer(&self, lease: &Arc<ActiveLease>) -> Result<Transferred<'_>, LeaseLost> {
        if mutation::is_on(Mutation::GiverContinues) {
            return Ok(Transferred { leases: self, lease: Arc::clone(lease) });
        }
        match lease.leave(self.context.now()) {
            UnlockOutcome::Lost(reason) => {
                drop(self.end(lease, LeaseEnd::Lost(reason)));
                return Err(lease.lost(reason));
            }
            UnlockOutcome::Over(reason) => return Err(lease.lost(reason)),
            UnlockOutcome::Unlocked | UnlockOutcome::Active => {}
        }
        let transferred = Transferred { leases: self, lease: Arc::clone(lease) };
        self.deregister(lease);
        self.report_end(lease, LeaseEnd::Unlocked);
        Ok(transferred)
    }

    fn deregister(&self, lease: &ActiveLease) {
        lock(&self.active).remove(&lease.id);
        self.renewals.remove(lease.id);
        self.expiries.remove(lease.id);
    }

    fn submit_unlock(&self, lease: &ActiveLease, rest: Option<Duration>) -> Vec<(usize, Reply)> {
        lease.submit_unlock(&self.context.nodes, self.context.latest_expiry(), rest)
    }

    fn report_end(&self, lease: &ActiveLease, end: LeaseEnd) {
        lease.end_span(&self.context, end);
        let lasted = self.context.now().saturating_duration_since(lease.registered_at);
        self.context.observer.lease_ended(lease, end, lasted);
    }
}

/// An ended lease whose hold is transferred to a read lease or a ticket. The unlock is submitted on drop.
#[derive(Debug)]
pub(crate) struct Transferred<'a> {
    leases: &'a Leases,
    lease: Arc<ActiveLease>,
}

impl Drop for Transferred<'_> {
    fn drop(&mut self) {
        drop(self.leases.submit_unlock(&self.lease, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryCluster, lock::tests::client};

    #[tokio::test(start_paused = true)]
    async fn an_ended_lease_is_kept_neither_in_the_leases_nor_in_their_timers() {
        let quorum = client(&MemoryCluster::new(3));
        let leases = &quorum.client().leases;
        let lock = quorum.rw_lock("r");
        for end in ["unlock", "drop", "loss", "downgrade"] {
            let guard = lock.write().await.unwrap();
            let lease = Arc::clone(guard.active_lease());
            assert!(leases.get(lease.id).is_some());
            match end {
                "unlock" => drop(guard.unlock().await.unwrap()),
                "drop" => drop(guard),
                "loss" => assert!(leases.lose(&lease, LossReason::Revoked)),
                _ => drop(guard.downgrade().await.unwrap()),
            }
            assert!(leases.get(lease.id).is_none(), "{end}");
            let latest = lease.valid_until();
            assert!(leases.renewals.take_due(latest).is_empty(), "{end}");
            assert!(leases.expiries.take_due(latest).is_empty(), "{end}");
        }
    }
}
