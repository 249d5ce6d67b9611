//! One lease for the tasks of a client that read the same.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use crate::{
    acquire::{checked_request::CheckedRequest, waiting::wait_behind_others},
    clock::Instant,
    config::CheckedLock,
    error::Error,
    lease::active_lease::ActiveLease,
    lock::{
        guard::LockGuard,
        lock_request::{LockRequest, Locked},
        owner::enter_alone,
    },
    mutation::{Mutation, altered},
    mutex::lock,
    node::Resources,
    observer::CallEnd,
};

/// The leases that tasks of a client share, by what they read.
#[derive(Debug, Default)]
pub(super) struct JointLeases(Mutex<CoalescedEntry>);

#[derive(Debug, Default)]
struct CoalescedEntry {
    leases: HashMap<Resources, Arc<JointLease>>,
    /// With so many, it is time to forget those that nobody has or asks for any more.
    most: usize,
}

/// A lease that tasks share which come to read while it is acquired, or for as long again.
#[derive(Debug, Default)]
pub(super) struct JointLease {
    /// Held by the task that acquires it, or is about to join it.
    entrance: tokio::sync::Mutex<()>,
    lease: Mutex<Weak<ActiveLease>>,
}

impl JointLeases {
    /// Where tasks find the lease that they share, if they ask for the usual one: of readers alone,
    /// with the ttl of the quorum, that is renewed without an end.
    pub(super) fn of(&self, request: &LockRequest, checked: &CheckedRequest) -> Option<Arc<JointLease>> {
        let CheckedLock { rules, hold_at_most, is_renewed, .. } = checked.settings;
        let is_usual = rules.ttl == request.context().settings.ttl && is_renewed && hold_at_most.is_none();
        if !(checked.resources.are_all_shared() && is_usual) {
            return None;
        }
        let CoalescedEntry { leases, most } = &mut *lock(&self.0);
        if leases.len() >= *most && !leases.contains_key(&checked.resources) {
            leases.retain(|_, joint| Arc::strong_count(joint) > 1 || joint.is_held());
            *most = 2 * leases.len() + 1;
        }
        Some(Arc::clone(leases.entry(checked.resources.clone()).or_default()))
    }
}

impl JointLease {
    /// Joins the lease, for a task that came at `arrived`, or acquires a new one for all who wait.
    ///
    /// # Cancel safety
    ///
    /// As that of acquiring it alone.
    pub(super) async fn lock(
        &self,
        request: &LockRequest,
        checked: &CheckedRequest,
        arrived: Instant,
        deadline: Option<Instant>,
    ) -> Result<Option<Locked>, Error> {
        let context = request.context();
        // The next task goes on where this one stands in the queue.
        let place = request.client.waiters.enter(&checked.resources);
        let entering = enter_alone(&self.entrance, context, deadline);
        let wait = checked.settings.quorum_wait(arrived);
        let outlasts = place.outage().outlasts(context, &wait);
        let Some(_entered) = wait_behind_others(context, checked, entering, outlasts).await?? else {
            return place.outage().at_deadline(context, &checked.resource, false).map(|()| None);
        };
        if let Some(joined) = self.join(request, arrived) {
            return Ok(Some(joined));
        }
        Ok(request.lock_waiting(checked, arrived, deadline).await?.map(|locked| self.remembered(locked)))
    }

    /// Joins the lease, or makes one attempt.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub(super) async fn try_lock(
        &self,
        request: &LockRequest,
        checked: &CheckedRequest,
    ) -> Result<Option<Locked>, Error> {
        if let Some(joined) = self.join(request, request.context().now()) {
            return Ok(Some(joined));
        }
        Ok(request.attempt(checked).await?.map(|locked| self.remembered(locked)))
    }

    /// One more hold of the lease that is there, for a task that came at `arrived`: if it may be
    /// joined then, and more than half of a ttl is left of it.
    fn join(&self, request: &LockRequest, arrived: Instant) -> Option<Locked> {
        let lease = lock(&self.lease).upgrade()?;
        let is_long_enough = lease.remaining(request.context().now()) > lease.ttl() / 2;
        let is_in_time = altered(Mutation::JoinAtAnyTime, arrived <= lease.joinable_until, |_| true);
        if !(is_in_time && is_long_enough) {
            return None;
        }
        let guard = lease.enter().then(|| LockGuard::new(Arc::clone(&request.client), lease))?;
        Some(Locked { guard, end: CallEnd::Joined })
    }

    fn remembered(&self, locked: Locked) -> Locked {
        *lock(&self.lease) = Arc::downgrade(locked.guard.active_lease());
        locked
    }

    fn is_held(&self) -> bool {
        lock(&self.lease).strong_count() > 0
    }
}
