//! A request to lock any one of several resources, by which `AnyOf` and `Semaphore` make their calls. The request adds
//! the release watcher, the report to the observer, and the stall watchdog to the calls of `acquire/any_of`.

use std::{fmt, future::pending, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use tracing::{Instrument, field::Empty};

use crate::{
    acquire::{
        any_of::{AcquiredCandidate, CheckedAnyOf},
        last_attempt::LastAttempt,
        stall_watchdog::watch_call,
    },
    client::broadcast::{collect, send_to_all},
    config::{CheckedLock, LockOptions},
    error::{ConfigError, Error, Goal, NoQuorum},
    lock::{
        client::Client,
        guard::LockGuard,
        lock_call::LockCall,
        lock_request::{CallGuard, LockRequest, ReentryMode},
    },
    node::{Answer, Operation, Resources, Vacant},
    observer::{CallEnd, Mode},
    semaphore::permit_count_check::check_permit_count,
    values::{NodeReply, Resource},
};

/// A request to lock any one of several resources of one quorum: the resources of an
/// [`AnyOf`](super::AnyOf), or the slots of a [`Semaphore`](super::Semaphore).
#[derive(Clone, Debug)]
pub(super) struct AnyOfRequest {
    pub(super) client: Arc<Client>,
    pub(super) candidates: Result<Candidates, ConfigError>,
    pub(super) settings: LockOptions,
    /// The number of wait queues that a call joins if no candidate is vacant.
    pub(super) queues: usize,
}

/// The resources of which a call locks one. There is at least one candidate.
#[derive(Clone)]
pub(super) struct Candidates {
    /// The name of the whole set, for logs and errors.
    pub(super) name: Resource,
    /// The resource of the release watcher's lock. Only calls with the same candidates use the same lock, because a
    /// release watcher listens only for the release of its own candidates.
    pub(super) release_watcher: Resource,
    pub(super) count: usize,
    pub(super) resource_at: Arc<dyn Fn(usize) -> Resource + Send + Sync>,
    /// Whether the candidates are the slots of a semaphore.
    pub(super) is_semaphore: bool,
}

/// The usual ttl of the release watcher's lock. If the process of a release watcher dies, the next release watcher
/// begins when this time is over. Until then, waiting calls acquire candidates by their queues and polls.
const RELEASE_WATCHER_TTL: Duration = Duration::from_secs(10);

/// The smallest ttl of the release watcher's lock, as a number of node timeouts.
const NODE_TIMEOUTS_PER_TTL: u32 = 4;

/// The index and the guard of a locked candidate.
type LockedCandidate = (usize, LockGuard);

impl AnyOfRequest {
    /// Locks one candidate, and waits without a limit while all candidates are held. The call attempts the candidate
    /// `first` before all other candidates.
    pub(super) async fn lock(&self, first: Option<usize>) -> Result<LockedCandidate, Error> {
        // Without a deadline, a call ends with a guard or an error, so the loop ends in its first iteration.
        loop {
            if let Some(locked) = self.lock_until(first, None).await? {
                return Ok(locked);
            }
        }
    }

    /// Locks one candidate as [`lock`](Self::lock) does, but waits for at most `wait`. Returns `None` if no candidate
    /// can be acquired in that time.
    pub(super) async fn lock_for(
        &self,
        first: Option<usize>,
        wait: Duration,
    ) -> Result<Option<LockedCandidate>, Error> {
        self.lock_until(first, Some(wait)).await
    }

    async fn lock_until(
        &self,
        first: Option<usize>,
        wait: Option<Duration>,
    ) -> Result<Option<LockedCandidate>, Error> {
        self.client.context.in_process(self.lock_until_in_process(first, wait)).await
    }

    async fn lock_until_in_process(
        &self,
        first: Option<usize>,
        wait: Option<Duration>,
    ) -> Result<Option<LockedCandidate>, Error> {
        let start = self.client.context.now();
        let deadline = wait.map(|wait| start + wait);
        let work = |any_of: CheckedAnyOf| {
            let request = self.clone();
            async move {
                // A call that joins the queues of all candidates needs no release watcher.
                let release_watcher = if any_of.is_large() {
                    request.watch_releases(&any_of).boxed()
                } else {
                    pending().boxed()
                };
                any_of.lock(start, deadline, release_watcher).await
            }
            .boxed()
        };
        self.call("lock", CallEnd::TimedOut, first, work).await
    }

    /// Attempts candidates without waiting, `first` before all other candidates. Returns `None` if no attempt succeeds,
    /// because the candidates are held or have waiters.
    pub(super) async fn try_lock(&self, first: Option<usize>) -> Result<Option<LockedCandidate>, Error> {
        let work = |any_of: CheckedAnyOf| async move { any_of.try_lock().await }.boxed();
        let locking = self.call("try_lock", CallEnd::Held, first, work);
        self.client.context.in_process(locking).await
    }

    /// Returns the number of candidates that a quorum reports as vacant. Marks are ignored: candidates with a yield
    /// mark or a writer mark count as vacant.
    pub(super) async fn vacant(&self) -> Result<usize, Error> {
        self.client.context.in_process(self.vacant_in_process()).await
    }

    async fn vacant_in_process(&self) -> Result<usize, Error> {
        let context = &*self.client.context;
        context.ensure_open()?;
        let Candidates { name, count, resource_at, .. } = self.candidates.clone()?;
        let settings = self.settings.check(&context.settings)?;
        let resources: Vec<Resource> = (0..count).map(|index| resource_at(index)).collect();
        let max_resources = u32::try_from(count).unwrap_or(u32::MAX);
        let vacant = Operation::Vacant(Vacant { resources, max_resources, ignores_marks: true });
        let deadline = context.now() + settings.attempt.node_timeout;
        let answers = collect(context, send_to_all(context, vacant, deadline), deadline).await;
        let needed = context.settings.electorate.needed();
        let mut votes = vec![0; count];
        let mut answered = 0;
        for answer in &answers {
            let Answer::Vacant(vacant) = answer else { continue };
            answered += 1;
            for index in vacant {
                votes.get_mut(*index).into_iter().for_each(|votes| *votes += 1);
            }
        }
        if answered < needed {
            let replies = context.replies(answers.iter().map(NodeReply::from));
            return Err(NoQuorum::new(Goal::Inspect(name), replies).into());
        }
        Ok(votes.into_iter().filter(|votes| *votes >= needed).count())
    }

    /// Returns the request for a lock that only one call at a time has: the lock of the release watcher, or the
    /// multi-permit lock. The lease of this lock is renewed until the guard is dropped, and has no owner.
    pub(super) fn singleton_lock(&self, name: Resource, settings: LockOptions) -> LockRequest {
        let mut request = LockRequest::new(Arc::clone(&self.client), Ok([name].into()));
        (request.settings, request.reentry) = (settings, ReentryMode::Never);
        let settings = &mut request.settings;
        (settings.without_renewal, settings.hold_at_least, settings.hold_at_most) = (false, None, None);
        request
    }

    /// Waits for the role of the release watcher, and then acquires a candidate in this role. If the role cannot be
    /// acquired or is lost, the call competes for the role again after the longest poll interval.
    ///
    /// The call first competes for the role after a delay, because most calls acquire a candidate earlier.
    async fn watch_releases(&self, any_of: &CheckedAnyOf) -> AcquiredCandidate {
        let context = &*self.client.context;
        let pacing = any_of.settings.pacing;
        let mut delay = pacing.first_poll.mul_f64(0.5 + context.jitter());
        loop {
            context.clock.sleep_until(context.now() + delay).await;
            delay = pacing.longest_poll;
            let Ok(Candidates { release_watcher, .. }) = &self.candidates else { continue };
            let role =
                self.singleton_lock(release_watcher.clone(), release_watcher_options(&any_of.settings));
            let Ok(role) = role.acquire_unwatched().await else { continue };
            tokio::select! {
                biased;
                acquired = any_of.acquire_released() => return acquired,
                _ = role.lost() => {}
            }
        }
    }

    /// Runs the work of a call, watched by the stall watchdog, and reports the call to the observer. Returns the guard
    /// of the acquired lease. If the work acquires no lease, and returns no error, the reported end is `without_guard`.
    async fn call(
        &self,
        name: &'static str,
        without_guard: CallEnd,
        first: Option<usize>,
        work: impl Fn(CheckedAnyOf) -> BoxFuture<'static, Result<Option<AcquiredCandidate>, Error>>,
    ) -> Result<Option<LockedCandidate>, Error> {
        let any_of = self.checked(first)?;
        let context = &*self.client.context;
        let resources: Resources = [any_of.name.clone()].into();
        let is_semaphore = self.candidates.as_ref().is_ok_and(|candidates| candidates.is_semaphore);
        if is_semaphore {
            let permits = u32::try_from(any_of.count).unwrap_or(u32::MAX);
            check_permit_count(&self.client.context, &any_of.name, permits);
        }
        let mode = if is_semaphore { Mode::Permit } else { Mode::of(&resources) };
        let span = tracing::debug_span!(
            "any_of", call = name, resource = %any_of.name, ?mode, id = Empty, token = Empty
        );
        let mut call = LockCall::begin(context, mode);
        let work = || work(any_of.clone()).instrument(span.clone()).boxed();
        let acquired = watch_call(&self.client.waiters, &resources, work).await;
        let locked = acquired.map(|acquired| {
            acquired.map(|(index, acquired)| {
                let guard = LockGuard::new(Arc::clone(&self.client), self.client.leases.adopt(acquired));
                (index, CallGuard { guard, end: CallEnd::Acquired })
            })
        });
        call.ended(
            locked.as_ref().map(|locked| locked.as_ref().map(|(_, locked)| locked.end)),
            without_guard,
        );
        Ok(locked?.map(|(index, locked)| {
            span.record("id", tracing::field::display(locked.guard.id()));
            span.record("token", tracing::field::display(locked.guard.fencing_token()));
            (index, locked.guard)
        }))
    }

    /// Returns the checked request of a call that locks. For a read-only client, returns an error.
    fn checked(&self, first: Option<usize>) -> Result<CheckedAnyOf, Error> {
        let context = &*self.client.context;
        if context.settings.is_read_only() {
            return Err(ConfigError::ReadOnly.into());
        }
        context.ensure_open()?;
        let Candidates { name, count, resource_at, .. } = self.candidates.clone()?;
        let settings = self.settings.check(&context.settings)?;
        let waiters = Arc::clone(&self.client.waiters);
        Ok(CheckedAnyOf {
            waiters,
            settings,
            name,
            count,
            resource_at,
            first,
            queues: self.queues,
            last_attempt: Arc::<LastAttempt>::default(),
        })
    }
}

/// Returns the options of the release watcher's lock: the node timeout and the poll interval of the candidates, and a
/// ttl that is at most the ttl of the candidates.
fn release_watcher_options(candidates: &CheckedLock) -> LockOptions {
    let CheckedLock { attempt, pacing, .. } = candidates;
    let ttl = RELEASE_WATCHER_TTL.max(attempt.node_timeout.saturating_mul(NODE_TIMEOUTS_PER_TTL));
    LockOptions::new()
        .ttl(ttl.min(attempt.ttl))
        .node_timeout(attempt.node_timeout)
        .poll_interval(pacing.longest_poll)
}

impl fmt::Debug for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidates")
            .field("name", &self.name)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
