//! A lock request to one quorum: resources, settings and re-entry mode.
//!
//! All locks on one resource or one group make their calls by a request: `RedLock`, `RwLock`, `MultiLock`, each group
//! of a `MultiQuorumLock`, elections, and the multi-permit lock and the release watcher of `semaphore/`. The request
//! decides whether the call re-enters the lease of an owner, joins a shared read lease, or acquires a lease of its own.
//! The attempts and the wait are in `acquire/`. `Quorum::inspect`, `admin::force_unlock` and the queries of elections
//! use only the checks of the request.

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

/// A request to lock resources of one quorum, all or none: one resource, or the group of a
/// [`MultiLock`](super::MultiLock). A request can make several calls.
#[derive(Clone, Debug)]
pub(crate) struct LockRequest {
    pub(crate) client: Arc<Client>,
    /// Sorted and without repetition.
    pub(crate) resources: Result<Resources, ConfigError>,
    pub(crate) settings: LockOptions,
    pub(crate) reentry: ReentryMode,
    /// Whether this request is a part of a larger call that the stall watchdog watches for the same resources. The
    /// calls of the request then have no entries of their own at the stall watchdog.
    pub(super) is_part_of_call: bool,
}

/// The choice of the owner whose lease a lock request re-enters.
#[derive(Clone, Debug, Default)]
pub(crate) enum ReentryMode {
    /// The owner of the innermost scope of the task that makes the call, if any.
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
    /// Records the lease in the entry of the owner, for later calls to re-enter. Returns the same guard and outcome.
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

    /// Runs the work of a larger call, which holds leases during a further wait: a lock across quorums and
    /// `acquire_many` wait for further leases, and a campaign waits until a quorum has recorded the value. The stall
    /// watchdog of the client watches the larger call for the resources of this request. If the larger call was not
    /// polled, and the stall watchdog rolled the work back, the work starts again.
    pub(crate) async fn watch<T: Send + 'static>(
        &self,
        work: impl Fn() -> BoxFuture<'static, Result<T, Error>> + Send + Sync,
    ) -> Result<T, Error> {
        let watching = async {
            let resources = self.resources.clone()?;
            watch_call(&self.client.waiters, &resources, work).await
        };
        self.context().in_process(watching).await
    }

    pub(crate) fn context(&self) -> &ClientContext {
        &self.client.context
    }

    /// Locks, and waits without a limit while any of the resources is held. If no quorum answers for the quorum
    /// timeout, the call returns an error.
    pub(crate) async fn lock(&self) -> Result<LockGuard, Error> {
        // Without a deadline, a call ends with a guard or an error, so the loop ends in its first iteration.
        loop {
            if let Some(guard) = self.lock_until(None).await? {
                return Ok(guard);
            }
        }
    }

    /// Locks, and waits for at most `wait`. Returns `None` if any of the resources is held or has waiters ahead at the
    /// deadline. If no quorum answered the last attempt, the call returns an error instead of `None`.
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

    /// Acquires a lease as a part of a larger call: the lease of a release watcher. The call never re-enters or joins a
    /// lease. Only the larger call reports to the observer, and has an entry at the stall watchdog. Fallback polls have
    /// the longest poll interval from the start. The larger call has other waits as well.
    ///
    /// # Cancel safety
    ///
    /// As [`lock_waiting`].
    pub(crate) async fn acquire_unwatched(&self) -> Result<LockGuard, Error> {
        let mut checked = self.checked()?;
        checked.settings.pacing.first_poll = checked.settings.pacing.longest_poll;
        loop {
            if let Some(locked) = self.acquire_waiting(&checked, self.context().now(), None).await? {
                return Ok(locked.guard);
            }
        }
    }

    /// Locks with at most one attempt. Returns `None` if any of the resources is held or has waiters. A call that
    /// re-enters or joins a lease makes no attempt. If no quorum answers the attempt, the call returns an error.
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

    /// Runs the work of a call until the work returns a result. The work receives the owner of the call, if any. If the
    /// call was not polled, and the stall watchdog rolled the work back, the work starts again. For a part of a larger
    /// call, the stall watchdog watches only the larger call.
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

    /// Locks, and waits until the deadline, if any.
    ///
    /// With an owner, the call re-enters the lease of the owner, or acquires a lease for later calls of the owner to
    /// re-enter. Without an owner, the call joins or acquires a shared read lease, or acquires a lease of its own if
    /// the request may not share.
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
                None => self.acquire_waiting(checked, start, deadline).await,
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
        // The outage of earlier calls of the owner continues in the local queue that this call enters.
        let place = self.client.waiters.enter(&checked.resources);
        own.outage.follow(place.outage());
        let locked = self.acquire_waiting(checked, start, deadline).await?;
        Ok(locked.map(|locked| locked.of_owner(&own)))
    }

    /// Locks as [`lock_as`](Self::lock_as) does, but with at most one attempt, and without a wait for other clients.
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
        // Another task of the owner may have entered. A task that stays for longer than a node timeout mostly waits for
        // another client. This call then ends without a guard, or with an error if that task's attempts had no quorum.
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

    /// Re-enters the lease of an owner, and returns `None` if the owner has no lease on the resources. The re-entry of
    /// an exclusive lease is a renewal, which sends the new number of holds to the nodes. A node does not record the
    /// number of holds of a shared lease, so the re-entry of a shared lease sends no request.
    ///
    /// # Errors
    ///
    /// The errors of [`OwnLease::join`], and of a renewal. After an error, the new hold is given back.
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
        // The guard is made before the renewal, so that the drop of the guard gives the hold back after an error.
        let guard = LockGuard::new(Arc::clone(&self.client), Arc::clone(&lease)).of_owner(Arc::clone(own));
        if lease.counts_holds() {
            renew_now(&self.client.leases, &lease, RenewalReason::Holds).await?;
        }
        Ok(Some(CallGuard { guard, end: CallEnd::Reentered }))
    }

    /// Returns the entry of the read lease that tasks of this client share. `None` if the request may not share a
    /// lease.
    fn coalesced(&self, checked: &CheckedRequest) -> Option<Arc<CoalescedReadLease>> {
        self.client.read_leases.get(self.context().settings.ttl, checked)
    }

    /// Joins the shared read lease. If the call cannot join, acquires a new read lease, and records the lease for the
    /// tasks behind to join. Returns `None` at the deadline.
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
        // The place keeps the local queue, and with it the queue entry of the client. If the task ahead gives up, this
        // task continues with the same queue entry.
        let place = self.client.waiters.enter(&checked.resources);
        let entering = coalesced.entrance.enter_before(context, deadline);
        let wait = checked.settings.quorum_wait(start);
        let outlasts = place.outage().outlasts(context, &wait);
        let Some(_entered) = wait_behind_other_calls(context, checked, entering, outlasts).await?? else {
            let has_asked = false;
            return place.outage().at_deadline(context, &checked.resource, has_asked).map(|()| None);
        };
        if let Some(joined) = self.join(coalesced, start) {
            return Ok(Some(joined));
        }
        let locked = self.acquire_waiting(checked, start, deadline).await?;
        Ok(locked.inspect(|locked| coalesced.record(locked.guard.active_lease())))
    }

    /// Joins the shared read lease. If the call cannot join, makes one attempt, and records the lease of a won attempt
    /// for later tasks to join.
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

    /// Joins the shared read lease for a call that arrived at `arrived`. Returns `None` if the call cannot join.
    fn join(&self, coalesced: &CoalescedReadLease, arrived: Instant) -> Option<CallGuard> {
        let lease = coalesced.join(arrived, self.context().now())?;
        Some(CallGuard { guard: LockGuard::new(Arc::clone(&self.client), lease), end: CallEnd::Joined })
    }

    /// Returns the checked request of a call that changes locks on the nodes: a lock call, a campaign or a
    /// force-unlock.
    ///
    /// # Errors
    ///
    /// [`ConfigError::ReadOnly`] for a read-only client, and the errors of [`checked_to_read`](Self::checked_to_read).
    pub(crate) fn checked(&self) -> Result<CheckedRequest, Error> {
        if self.context().settings.is_read_only() {
            return Err(ConfigError::ReadOnly.into());
        }
        let checked = self.checked_to_read()?;
        if checked.settings.limits.at_least.is_some() && checked.resources.is_any_shared() {
            let reason = "a minimum hold of readers: a reader keeps out nobody who reads, so leave `hold_at_least` out";
            return Err(ConfigError::Unsupported { reason: reason.into() }.into());
        }
        Ok(checked)
    }

    /// Returns the checked request of a query. A read-only client may send queries, too.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the client is closed. [`Error::Config`] if the resources or the settings are invalid.
    pub(crate) fn checked_to_read(&self) -> Result<CheckedRequest, Error> {
        self.context().ensure_open()?;
        let resources = self.resources.clone()?;
        let settings = self.settings.check(&self.context().settings)?;
        Ok(CheckedRequest::new(resources, settings)?)
    }

    /// Makes the only attempt of a call that does not wait. Returns `None` if the attempt was refused.
    async fn attempt(&self, checked: &CheckedRequest) -> Result<Option<CallGuard>, Error> {
        let is_only = true;
        let outcome = tokio::select! {
            biased;
            () = self.context().closed() => return Err(self.context().closed_error()),
            outcome = attempt_once(self.context(), checked, is_only) => outcome,
        };
        let acquired = outcome.of_only_attempt(self.context(), checked)?;
        Ok(acquired.map(|acquired| self.adopt(acquired)))
    }

    /// Acquires a lease by [`lock_waiting`], and adds the lease to the leases of the client. Returns `None` if the
    /// resources are held at the deadline.
    async fn acquire_waiting(
        &self,
        checked: &CheckedRequest,
        start: Instant,
        deadline: Option<Instant>,
    ) -> Result<Option<CallGuard>, Error> {
        let last_attempt = LastAttempt::default();
        let acquired = lock_waiting(&self.client.waiters, checked, start, deadline, &last_attempt).await?;
        Ok(acquired.map(|acquired| self.adopt(acquired)))
    }

    /// Returns the owner of a call that the present task makes.
    fn owner(&self) -> Option<Owner> {
        match &self.reentry {
            ReentryMode::OfScope => Owner::current(),
            ReentryMode::Of(owner) => Some(owner.clone()),
            ReentryMode::Never => None,
        }
    }

    /// Adds a new lease to the leases of the client, and returns the guard of the lease.
    fn adopt(&self, acquired: Acquired) -> CallGuard {
        let guard = LockGuard::new(Arc::clone(&self.client), self.client.leases.adopt(acquired));
        CallGuard { guard, end: CallEnd::Acquired }
    }
}

/// Records the lease id and the token in the span of a call that returns a guard.
fn record_lease(span: &Span, guard: Option<&LockGuard>) {
    if let Some(guard) = guard {
        span.record("id", tracing::field::display(guard.id()));
        span.record("token", tracing::field::display(guard.fencing_token()));
    }
}
