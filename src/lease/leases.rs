//! The leases of one client.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    client::context::ClientContext,
    error::{ClosedReason, LeaseLost, LossReason},
    lease::{
        active_lease::{Acquired, ActiveLease, UnlockOutcome},
        forced::{self, Forced},
        schedule::{LeaseNumber, LeaseTimers},
    },
    mutex::lock,
    node::{Reply, Subscription},
    observer::{LeaseEnd, ObservedLease},
};

/// The active leases of one client, and what is due for them when.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) context: Arc<ClientContext>,
    pub(super) renewals: LeaseTimers,
    pub(super) expiries: LeaseTimers,
    /// In order: that in which a shutdown ends them.
    active: Mutex<BTreeMap<LeaseNumber, Arc<ActiveLease>>>,
    next: AtomicU64,
    pub(super) forced: Arc<Forced>,
    /// From the first lease on: who never holds anything costs no node a channel.
    hears_forced: OnceLock<Vec<Subscription>>,
}

impl Leases {
    pub(crate) fn new(context: Arc<ClientContext>) -> Self {
        Self {
            context,
            renewals: LeaseTimers::default(),
            expiries: LeaseTimers::default(),
            active: Mutex::default(),
            next: AtomicU64::new(1),
            forced: Arc::default(),
            hears_forced: OnceLock::new(),
        }
    }

    /// Takes what an attempt has acquired into care: from now on it is renewed, and ends in time.
    pub(crate) fn adopt(&self, mut acquired: Acquired) -> Arc<ActiveLease> {
        let context = &self.context;
        let in_flight = acquired.in_flight.take();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let observer = Arc::clone(&context.observer);
        let lease = Arc::new(ActiveLease::new(id, acquired, context.now(), observer));
        // First, since it may be anybody's code: if that panics, nobody has a guard, and nothing
        // may renew the lease.
        let observed: Arc<dyn ObservedLease> = Arc::clone(&lease) as _;
        context.observer.lease_granted(&observed);
        lock(&self.active).insert(id, Arc::clone(&lease));
        self.expiries.set(id, lease.valid_until());
        if lease.is_renewed {
            self.renewals.set(id, lease.renewal_due());
        }
        self.hears_forced.get_or_init(|| forced::listen(context, &self.forced));
        // Shut down between the attempt and now: nobody else would end it.
        if context.is_closed() {
            self.lose(&lease, LossReason::Closed(ClosedReason::ShutDown));
        }
        drop(in_flight);
        lease
    }

    /// Something of this client was unlocked by force: all that it holds is due to be asked for.
    pub(super) fn ask_for_all(&self) {
        let now = self.context.now();
        let leases: Vec<_> = lock(&self.active).keys().copied().collect();
        leases.into_iter().for_each(|lease| self.renewals.set(lease, now));
    }

    pub(super) fn get(&self, id: LeaseNumber) -> Option<Arc<ActiveLease>> {
        lock(&self.active).get(&id).cloned()
    }

    /// Ends a lease as lost and unlocks it everywhere, as an unlock does. Whether it was held until
    /// now.
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
            self.lose(&lease, reason);
        }
    }

    /// Gives one hold back; with the last one, ends the lease in this way, and waits for no answer to
    /// its unlock. The next lock hears that of the queue node.
    pub(crate) fn leave_unheard(&self, lease: &ActiveLease, end: LeaseEnd) -> UnlockOutcome {
        let left = lease.leave(self.context.now());
        let replies = match left {
            UnlockOutcome::Unlocked => self.end(lease, end),
            UnlockOutcome::Lost(reason) => self.end(lease, LeaseEnd::Lost(reason)),
            UnlockOutcome::Active | UnlockOutcome::Over(_) => Vec::new(),
        };
        lease.queue_node().hear_later(&self.context.queues, &lease.resources, replies);
        left
    }

    /// What follows when a lease has left its active phase: it is cared for no longer, unlocked
    /// everywhere, and told of. In this order, since the observer may be anybody's code: if that
    /// panics, nothing is left on a node.
    pub(super) fn end(&self, lease: &ActiveLease, end: LeaseEnd) -> Vec<(usize, Reply)> {
        self.deregister(lease);
        let replies = self.submit_unlock(lease);
        self.tell_end(lease, end);
        replies
    }

    /// Ends a lease whose one hold goes over to another lease. Its unlock is submitted when the returned value is
    /// dropped.
    pub(crate) fn transfer(&self, lease: &Arc<ActiveLease>) -> Result<Transferred<'_>, LeaseLost> {
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
        self.tell_end(lease, LeaseEnd::Unlocked);
        Ok(transferred)
    }

    fn deregister(&self, lease: &ActiveLease) {
        lock(&self.active).remove(&lease.id);
        self.renewals.remove(lease.id);
        self.expiries.remove(lease.id);
    }

    fn submit_unlock(&self, lease: &ActiveLease) -> Vec<(usize, Reply)> {
        lease.submit_unlock(&self.context.nodes, self.context.latest_expiry())
    }

    fn tell_end(&self, lease: &ActiveLease, end: LeaseEnd) {
        lease.end_span(end);
        let lasted = self.context.now().saturating_duration_since(lease.since);
        self.context.observer.lease_ended(lease, end, lasted);
    }
}

/// A lease whose holder goes on with another one.
#[derive(Debug)]
pub(crate) struct Transferred<'a> {
    leases: &'a Leases,
    lease: Arc<ActiveLease>,
}

impl Drop for Transferred<'_> {
    fn drop(&mut self) {
        drop(self.leases.submit_unlock(&self.lease));
    }
}
