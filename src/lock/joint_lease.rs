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
    state: Mutex<JoinState>,
}

#[derive(Debug, Default)]
struct JoinState {
    lease: Weak<ActiveLease>,
    /// How many tasks wait to enter.
    waiting: usize,
    /// A hold that keeps the lease for them: those who came first may have unlocked by then.
    kept: Option<LockGuard>,
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
        let waiting = JoinWaiter::begin(self);
        // The next task goes on where this one stands in the queue.
        let place = request.client.waiters.enter(&checked.resources);
        let entering = enter_alone(&self.entrance, context, deadline);
        let wait = checked.settings.quorum_wait(arrived);
        let outlasts = place.outage().outlasts(context, &wait);
        let Some(_entered) = wait_behind_others(context, checked, entering, outlasts).await?? else {
            return place.outage().at_deadline(context, &checked.resource, false).map(|()| None);
        };
        let joined = self.join(request, arrived, true);
        drop(waiting);
        let locked = match joined {
            Some(joined) => joined,
            None => match request.lock_waiting(checked, arrived, deadline).await? {
                Some(locked) => self.remembered(locked),
                None => return Ok(None),
            },
        };
        self.keep_for_others(request, &locked.guard);
        Ok(Some(locked))
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
        if let Some(joined) = self.join(request, request.context().now(), false) {
            return Ok(Some(joined));
        }
        Ok(request.attempt(checked).await?.map(|locked| self.remembered(locked)))
    }

    /// One more hold of the lease that is there, for a task that came at `arrived`: if it may be
    /// joined then, and more than half of a ttl is left of it.
    fn join(&self, request: &LockRequest, arrived: Instant, has_entered: bool) -> Option<Locked> {
        let mut state = lock(&self.state);
        let kept = if has_entered { state.kept.take() } else { None };
        let lease = state.lease.upgrade();
        drop(state);
        let lease = lease?;
        let is_long_enough = lease.remaining(request.context().now()) > lease.ttl() / 2;
        let is_in_time = altered(Mutation::JoinAtAnyTime, arrived <= lease.joinable_until, |_| true);
        if !(is_in_time && is_long_enough) {
            return None;
        }
        // Somebody who did not wait may have acquired another one since.
        let kept = kept.filter(|kept| Arc::ptr_eq(kept.active_lease(), &lease));
        let guard = kept.or_else(|| entered(request, lease))?;
        Some(Locked { guard, end: CallEnd::Joined })
    }

    fn remembered(&self, locked: Locked) -> Locked {
        lock(&self.state).lease = Arc::downgrade(locked.guard.active_lease());
        locked
    }

    fn keep_for_others(&self, request: &LockRequest, guard: &LockGuard) {
        let mut state = lock(&self.state);
        if state.waiting > 0 {
            state.kept = entered(request, Arc::clone(guard.active_lease()));
        }
    }

    fn is_held(&self) -> bool {
        lock(&self.state).lease.strong_count() > 0
    }
}

/// One more hold of a lease, unless its last one was given back.
fn entered(request: &LockRequest, lease: Arc<ActiveLease>) -> Option<LockGuard> {
    lease.enter().then(|| LockGuard::new(Arc::clone(&request.client), lease))
}

/// A task that waits to enter.
struct JoinWaiter<'a>(&'a JointLease);

impl<'a> JoinWaiter<'a> {
    fn begin(joint: &'a JointLease) -> Self {
        lock(&joint.state).waiting += 1;
        Self(joint)
    }
}

impl Drop for JoinWaiter<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.waiting -= 1;
        let kept = if state.waiting == 0 { state.kept.take() } else { None };
        drop(state);
        // Outside of the mutex: it may be the last hold of the lease.
        drop(kept);
    }
}
