//! A lock request to one quorum: resources, settings and re-entry mode.
//!
//! Every lock call on one resource or one group comes here. The request decides whether the call re-enters the lease of
//! an owner, joins a shared read lease, or acquires a lease of its own. The attempts and the wait are in `acquire/`.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tracing::{Instrument, Span, field::Empty};

use crate::{
    acquire::{
        attempt::attempt_once,
        checked_request::CheckedRequest,
        last_attempt::LastAttempt,
        stall_watchdog::watch_call,
        waiting::{lock_waiting, wait_behind_other_calls},
    },
    client::context::ClientContext,
    clock::Instant,
    config::LockOptions,
    error::{ConfigError, Error, Goal, NoQuorum},
    lease::{
        active_lease::Acquired,
        renewal::{RenewalReason, renew_now},
    },
    lock::{
        client::Client,
        coalesced_read_lease::CoalescedReadLease,
        guard::LockGuard,
        lock_call::LockCall,
        owner::{OwnLease, Owner},
    },
    node::Resources,
    observer::{CallEnd, Mode},
    values::NodeReply,
};

/// A request to one quorum for some resources, all or none: one resource of a [`RedLock`](super::RedLock), or the group
/// of a [`MultiLock`](super::MultiLock).
#[derive(Clone, Debug)]
pub(crate) struct LockRequest {
    pub(crate) client: Arc<Client>,
    /// Sorted and without repetition.
    pub(crate) resources: Result<Resources, ConfigError>,
    pub(crate) settings: LockOptions,
    pub(crate) reentry: ReentryMode,
    /// Whether this request is a part of a larger call that the stall watchdog watches for these resources. The request
    /// then has no entry of its own at the stall watchdog.
    pub(super) is_part_of_call: bool,
}

/// The choice of the owner whose lease a lock request re-enters.
#[derive(Clone, Debug, Default)]
pub(crate) enum ReentryMode {
    /// The owner of the innermost scope of the task, if any.
    #[default]
    OfScope,
    /// This owner.
    Of(Owner),
    /// No owner.
    Never,
}

impl ReentryMode {
    /// Whether both modes choose the same owner, or both choose no owner.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OfScope, Self::OfScope) | (Self::Never, Self::Never) => true,
            (Self::Of(one), Self::Of(other)) => one.is_same(other),
            _ => false,
        }
    }
}

/// The guard that a lock call returns, and the outcome of the call for the observer: acquired, re-entered or joined.
#[derive(Debug)]
pub(crate) struct CallGuard {
    pub(crate) guard: LockGuard,
    pub(crate) end: CallEnd,
}

impl CallGuard {
    /// Records the lease in the entry of its owner, for later calls to re-enter. Returns the same guard.
    fn of_owner(self, own: &Arc<OwnLease>) -> Self {
        Self { guard: self.guard.of_owner(Arc::clone(own)), ..self }
    }
}

impl LockRequest {
    pub(crate) fn new(client: Arc<Client>, resources: Result<Resources, ConfigError>) -> Self {
        let (settings, reentry) = (LockOptions::new(), ReentryMode::default());
        Self { client, resources, settings, reentry, is_part_of_call: false }
    }

    /// Returns the same request as a part of a call that the stall watchdog watches for these resources.
    pub(crate) fn part_of_call(self) -> Self {
        Self { is_part_of_call: true, ..self }
    }

    /// Runs a call that holds leases while it waits for further leases. The stall watchdog of the client watches the
    /// call for the resources of this request. If the stall watchdog rolled the call back, because its future was not
    /// polled, the work starts again.
    pub(crate) async fn watch<T: Send + 'static>(
        &self,
        work: impl Fn() -> BoxFuture<'static, Result<T, Error>>,
    ) -> Result<T, Error> {
        let resources = self.resources.clone()?;
        watch_call(&self.client.waiters, &resources, work).await
    }

    pub(crate) fn context(&self) -> &ClientContext {
        &self.client.context
    }

    /// Locks, and waits without a limit while any of the resources is held.
    pub(crate) async fn lock(&self) -> Result<LockGuard, Error> {
        // Without a deadline, a call ends with a guard or an error, so the loop ends in its first round.
        loop {
            if let Some(guard) = self.lock_until(None).await? {
                return Ok(guard);
            }
        }
    }

    /// Locks, and waits for at most `wait`. Returns `None` if the resources cannot be acquired in that time.
    pub(crate) async fn lock_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.lock_until(Some(wait)).await
    }

    async fn lock_until(&self, wait: Option<Duration>) -> Result<Option<LockGuard>, Error> {
        self.context().in_process(self.lock_until_in_process(wait)).await
    }

    async fn lock_until_in_process(&self, wait: Option<Duration>) -> Result<Option<LockGuard>, Error> {
        let checked = self.checked()?;
        let start = self.context().now();
        let deadline = wait.map(|wait| start + wait);
        let (resource, mode) = (&checked.resource, Mode::of(&checked.resources));
        let span = tracing::debug_span!("lock", %resource, ?mode, id = Empty, token = Empty);
        let mut call = LockCall::begin(self.context(), mode);
        let work = |request: Self, checked: CheckedRequest, owner| {
            async move { request.lock_as(owner, &checked, start, deadline).await }.boxed()
        };
        let locked = self.until_done(&checked, &span, work).await;
        call.ended(locked.as_ref().map(|locked| locked.as_ref().map(|locked| locked.end)), CallEnd::TimedOut);
        let locked = locked.map(|locked| locked.map(|locked| locked.guard));
        record_lease(&span, locked.as_ref().ok().and_then(Option::as_ref));
        locked
    }

    /// Locks as a part of a larger call, which has other waits as well. Only the larger call reports to the observer
    /// and has an entry at the stall watchdog. Fallback polls have the longest poll interval from the start.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_waiting`].
    pub(crate) async fn acquire_unwatched(&self) -> Result<LockGuard, Error> {
        let mut checked = self.checked()?;
        checked.settings.pacing.first_poll = checked.settings.pacing.longest_poll;
        loop {
            if let Some(locked) = self.lock_waiting(&checked, self.context().now(), None).await? {
                return Ok(locked.guard);
            }
        }
    }

    /// Makes one attempt, and returns `None` if any of the resources is held or has waiters.
    pub(crate) async fn try_lock(&self) -> Result<Option<LockGuard>, Error> {
        self.context().in_process(self.try_lock_in_process()).await
    }

    async fn try_lock_in_process(&self) -> Result<Option<LockGuard>, Error> {
        let checked = self.checked()?;
        let (resource, mode) = (&checked.resource, Mode::of(&checked.resources));
        let span = tracing::debug_span!("try_lock", %resource, ?mode, id = Empty, token = Empty);
        let mut call = LockCall::begin(self.context(), mode);
        let work = |request: Self, checked: CheckedRequest, owner| {
            async move { request.try_lock_as(owner, &checked).await }.boxed()
        };
        let locked = self.until_done(&checked, &span, work).await;
        call.ended(locked.as_ref().map(|locked| locked.as_ref().map(|locked| locked.end)), CallEnd::Held);
        let locked = locked.map(|locked| locked.map(|locked| locked.guard));
        record_lease(&span, locked.as_ref().ok().and_then(Option::as_ref));
        locked
    }

    /// Runs the work of a call to its end, as the owner of the call. If the stall watchdog rolled the work back,
    /// because the future was not polled, the work starts again.
    async fn until_done<T: Send + 'static>(
        &self,
        checked: &CheckedRequest,
        span: &Span,
        work: impl Fn(Self, CheckedRequest, Option<Owner>) -> BoxFuture<'static, Result<T, Error>>,
    ) -> Result<T, Error> {
        let owner = self.owner();
        let work = || work(self.clone(), checked.clone(), owner.clone()).instrument(span.clone()).boxed();
        if self.is_part_of_call {
            return work().await;
        }
        watch_call(&self.client.waiters, &checked.resources, work).await
    }

    /// Locks as a call of an owner, which re-enters its lease, if any. Without an owner, the call joins or acquires a
    /// shared read lease, if the request permits that.
    async fn lock_as(
        &self,
        owner: Option<Owner>,
        checked: &CheckedRequest,
        start: Instant,
        deadline: Option<Instant>,
    ) -> Result<Option<CallGuard>, Error> {
        let Some(owner) = owner else {
            return match self.coalesced(checked) {
                Some(coalesced) => self.lock_coalesced(&coalesced, checked, start, deadline).await,
                None => self.lock_waiting(checked, start, deadline).await,
            };
        };
        let own = owner.lease_on(self.context(), &checked.resources);
        let context = self.context();
        let entering = own.entrance.enter_before(context, deadline);
        let wait = checked.settings.quorum_wait(start);
        let outlasts = own.outage.outlasts(context, &wait);
        let Some(_entered) = wait_behind_other_calls(context, checked, entering, outlasts).await?? else {
            return own.outage.at_deadline(self.context(), &checked.resource).map(|()| None);
        };
        let reentered = tokio::select! {
            biased;
            reentered = self.reenter(&own, checked) => reentered?,
            () = self.context().sleep_until(deadline) => {
                let replies = self.context().same_replies(&NodeReply::Pending);
                return Err(NoQuorum::new(Goal::Renew(checked.resource.clone()), replies).into());
            }
        };
        if reentered.is_some() {
            return Ok(reentered);
        }
        let place = self.client.waiters.enter(&checked.resources);
        own.outage.follow(place.outage());
        let locked = self.lock_waiting(checked, start, deadline).await?;
        Ok(locked.map(|locked| locked.of_owner(&own)))
    }

    /// Does the same as [`lock_as`](Self::lock_as), but with at most one attempt.
    async fn try_lock_as(
        &self,
        owner: Option<Owner>,
        checked: &CheckedRequest,
    ) -> Result<Option<CallGuard>, Error> {
        let Some(owner) = owner else {
            return match self.coalesced(checked) {
                Some(coalesced) => self.try_lock_coalesced(&coalesced, checked).await,
                None => self.attempt(checked).await,
            };
        };
        let own = owner.lease_on(self.context(), &checked.resources);
        // If another task of the owner does not leave the entrance within a node timeout, that task waits for another
        // client. This call then counts as refused.
        let deadline = self.context().now() + checked.settings.attempt.node_timeout;
        let Some(_entered) = own.entrance.enter_before(self.context(), Some(deadline)).await? else {
            return own.outage.at_deadline(self.context(), &checked.resource).map(|()| None);
        };
        if let Some(reentered) = self.reenter(&own, checked).await? {
            return Ok(Some(reentered));
        }
        own.outage.attempt_begins();
        let locked = self.attempt(checked).await?;
        own.outage.attempt_ends();
        Ok(locked.map(|locked| locked.of_owner(&own)))
    }

    /// Re-enters the lease of an owner, if any, by a renewal that sends the new number of holds to a quorum. Nodes
    /// keep no number of holds of readers, so a re-entry of a reader sends no request.
    ///
    /// # Errors
    ///
    /// The errors of [`OwnLease::join`], and of a renewal.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the new hold back.
    async fn reenter(
        &self,
        own: &Arc<OwnLease>,
        checked: &CheckedRequest,
    ) -> Result<Option<CallGuard>, Error> {
        let Some(lease) = own.join(&checked.resources, self.context().now())? else { return Ok(None) };
        // From here on, the drop of the guard gives the hold back.
        let guard = LockGuard::new(Arc::clone(&self.client), Arc::clone(&lease)).of_owner(Arc::clone(own));
        if lease.counts_holds() {
            renew_now(&self.client.leases, &lease, RenewalReason::Holds).await?;
        }
        Ok(Some(CallGuard { guard, end: CallEnd::Reentered }))
    }

    /// Returns the read lease that tasks of this client share for this request, if any.
    fn coalesced(&self, checked: &CheckedRequest) -> Option<Arc<CoalescedReadLease>> {
        self.client.read_leases.get(self.context().settings.ttl, checked)
    }

    /// Joins the shared read lease. If that is not possible, acquires a new read lease, which the tasks behind join.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_waiting`].
    async fn lock_coalesced(
        &self,
        coalesced: &CoalescedReadLease,
        checked: &CheckedRequest,
        start: Instant,
        deadline: Option<Instant>,
    ) -> Result<Option<CallGuard>, Error> {
        let context = self.context();
        // The place keeps the local queue and its queue entry. If the task ahead gives up, this task continues with
        // that entry.
        let place = self.client.waiters.enter(&checked.resources);
        let entering = coalesced.entrance.enter_before(context, deadline);
        let wait = checked.settings.quorum_wait(start);
        let outlasts = place.outage().outlasts(context, &wait);
        let Some(_entered) = wait_behind_other_calls(context, checked, entering, outlasts).await?? else {
            return place.outage().at_deadline(context, &checked.resource, false).map(|()| None);
        };
        if let Some(joined) = self.join(coalesced, start) {
            return Ok(Some(joined));
        }
        let locked = self.lock_waiting(checked, start, deadline).await?;
        Ok(locked.inspect(|locked| coalesced.record(locked.guard.active_lease())))
    }

    /// Joins the shared read lease. If that is not possible, makes one attempt.
    ///
    /// # Cancel safety
    ///
    /// As [`attempt_once`].
    async fn try_lock_coalesced(
        &self,
        coalesced: &CoalescedReadLease,
        checked: &CheckedRequest,
    ) -> Result<Option<CallGuard>, Error> {
        if let Some(joined) = self.join(coalesced, self.context().now()) {
            return Ok(Some(joined));
        }
        let locked = self.attempt(checked).await?;
        Ok(locked.inspect(|locked| coalesced.record(locked.guard.active_lease())))
    }

    /// Joins the shared read lease for a call that arrived at `arrived`; `None` if that is not possible.
    fn join(&self, coalesced: &CoalescedReadLease, arrived: Instant) -> Option<CallGuard> {
        let lease = coalesced.join(arrived, self.context().now())?;
        Some(CallGuard { guard: LockGuard::new(Arc::clone(&self.client), lease), end: CallEnd::Joined })
    }

    /// Returns the checked request of a call that locks. A read-only client is an error.
    pub(crate) fn checked(&self) -> Result<CheckedRequest, Error> {
        if self.context().settings.is_read_only() {
            return Err(ConfigError::ReadOnly.into());
        }
        self.checked_to_read()
    }

    /// Returns the checked request of a query, which a read-only client may send, too.
    pub(crate) fn checked_to_read(&self) -> Result<CheckedRequest, Error> {
        self.context().ensure_open()?;
        let resources = self.resources.clone()?;
        let settings = self.settings.check(&self.context().settings)?;
        Ok(CheckedRequest::new(resources, settings)?)
    }

    /// Makes the only attempt of a call that does not wait.
    async fn attempt(&self, checked: &CheckedRequest) -> Result<Option<CallGuard>, Error> {
        let outcome = tokio::select! {
            biased;
            () = self.context().closed() => return Err(self.context().closed_error()),
            outcome = attempt_once(self.context(), checked, true) => outcome,
        };
        let acquired = outcome.of_only_attempt(self.context(), checked)?;
        Ok(acquired.map(|acquired| self.adopt(acquired)))
    }

    async fn lock_waiting(
        &self,
        checked: &CheckedRequest,
        start: Instant,
        deadline: Option<Instant>,
    ) -> Result<Option<CallGuard>, Error> {
        let last_attempt = LastAttempt::default();
        let acquired = lock_waiting(&self.client.waiters, checked, start, deadline, &last_attempt).await?;
        Ok(acquired.map(|acquired| self.adopt(acquired)))
    }

    /// Returns the owner of a call in the present task.
    fn owner(&self) -> Option<Owner> {
        match &self.reentry {
            ReentryMode::OfScope => Owner::current(),
            ReentryMode::Of(owner) => Some(owner.clone()),
            ReentryMode::Never => None,
        }
    }

    /// Adds a new lease to the leases of the client, and returns its guard.
    fn adopt(&self, acquired: Acquired) -> CallGuard {
        let guard = LockGuard::new(Arc::clone(&self.client), self.client.leases.adopt(acquired));
        CallGuard { guard, end: CallEnd::Acquired }
    }
}

/// Records the lease id and the token in the span of a call.
fn record_lease(span: &Span, guard: Option<&LockGuard>) {
    if let Some(guard) = guard {
        span.record("id", tracing::field::display(guard.id()));
        span.record("token", tracing::field::display(guard.fencing_token()));
    }
}
