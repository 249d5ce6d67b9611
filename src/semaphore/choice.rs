//! A request to lock any one of some resources.

use std::{fmt, future::pending, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use tracing::{Instrument, field::Empty};

use crate::{
    acquire::{
        any_of::{AcquiredOne, AnyOf},
        last_attempt::LastAttempt,
        stall_watchdog::watch_call,
    },
    client::broadcast::{collect, send_to_all},
    config::LockOptions,
    error::{ConfigError, Error, Goal, NoQuorum},
    lock::{
        client::Client,
        guard::LockGuard,
        lock_call::LockCall,
        lock_request::{LockRequest, Locked, ReentryMode},
    },
    node::{Answer, Operation, Resources, Vacant, names},
    observer::{CallEnd, Mode},
    values::{NodeReply, Resource},
};

/// A request to lock any one of some resources of one quorum: those of an [`AnyOf`](super::AnyOf), or
/// the slots of a [`Semaphore`](super::Semaphore).
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) client: Arc<Client>,
    pub(super) offered: Result<Offered, ConfigError>,
    pub(super) settings: LockOptions,
    /// In so many queues one waits who finds none vacant.
    pub(super) queues: usize,
}

/// The resources to choose from; there is at least one.
#[derive(Clone)]
pub(super) struct Offered {
    /// To speak of all of them by.
    pub(super) name: Resource,
    /// The same in all clients that name the same resources.
    pub(super) all: Resource,
    pub(super) count: usize,
    pub(super) resource_at: Arc<dyn Fn(usize) -> Resource + Send + Sync>,
    /// Whether the candidates are the slots of a semaphore.
    pub(super) is_semaphore: bool,
}

/// One of them, by its index, and its lease.
type LockedOne = (usize, LockGuard);

impl Choice {
    /// Locks one of them, `first` if it is free, and waits without a limit while other clients have all of them.
    pub(super) async fn lock(&self, first: Option<usize>) -> Result<LockedOne, Error> {
        // Without a deadline, a call ends with a guard or an error, so the loop ends in its first round.
        loop {
            if let Some(locked) = self.lock_until(first, None).await? {
                return Ok(locked);
            }
        }
    }

    /// Locks one of them, `first` if it is free, and waits for at most `wait`: `None` if other clients had all of them for
    /// that time.
    pub(super) async fn lock_for(
        &self,
        first: Option<usize>,
        wait: Duration,
    ) -> Result<Option<LockedOne>, Error> {
        self.lock_until(first, Some(wait)).await
    }

    async fn lock_until(
        &self,
        first: Option<usize>,
        wait: Option<Duration>,
    ) -> Result<Option<LockedOne>, Error> {
        let start = self.client.context.now();
        let deadline = wait.map(|wait| start + wait);
        let work = |any: AnyOf| {
            let choice = self.clone();
            async move {
                let is_large = any.is_large();
                let look_out =
                    if is_large { choice.wait_to_look_out(&any).boxed() } else { pending().boxed() };
                any.lock(start, deadline, look_out).await
            }
            .boxed()
        };
        self.call("lock", CallEnd::TimedOut, first, work).await
    }

    /// Tries once: `None` if others have all of them.
    pub(super) async fn try_lock(&self, first: Option<usize>) -> Result<Option<LockedOne>, Error> {
        let work = |any: AnyOf| async move { any.try_lock().await }.boxed();
        self.call("try_lock", CallEnd::Held, first, work).await
    }

    /// Returns the number of candidates that are vacant according to a quorum.
    pub(super) async fn vacant(&self) -> Result<usize, Error> {
        let context = &*self.client.context;
        context.ensure_open()?;
        let Offered { name, count, resource_at, .. } = self.offered.clone()?;
        let settings = self.settings.check(&context.settings)?;
        let resources: Vec<Resource> = (0..count).map(|index| resource_at(index)).collect();
        let most = u32::try_from(count).unwrap_or(u32::MAX);
        let vacant = Operation::Vacant(Vacant { resources, most, even_marked: true });
        let deadline = context.now() + settings.rules.node_timeout;
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

    /// A lock of what one client does at a time, for as long as that takes.
    pub(super) fn lock_for_one(&self, name: Resource, settings: LockOptions) -> LockRequest {
        let mut request = LockRequest::new(Arc::clone(&self.client), Ok([name].into()));
        (request.settings, request.reentry) = (settings, ReentryMode::Never);
        (request.settings.without_renewal, request.settings.hold_at_most) = (false, None);
        request
    }

    /// Looks out once it is its turn, which it wants after a while: most are served before.
    async fn wait_to_look_out(&self, any: &AnyOf) -> AcquiredOne {
        let context = &*self.client.context;
        let pacing = any.settings.pacing;
        let mut rest = pacing.first_poll.mul_f64(0.5 + context.jitter());
        loop {
            context.clock.sleep_until(context.now() + rest).await;
            rest = pacing.longest_poll;
            let Ok(Offered { all, .. }) = &self.offered else { continue };
            let turn = self.lock_for_one(names::look_out(all), LockOptions::new());
            let Ok(turn) = turn.acquire_unwatched().await else { continue };
            tokio::select! {
                biased;
                acquired = any.look_out() => return acquired,
                _ = turn.lost() => {}
            }
        }
    }

    /// Runs this work, and again each time the stall watchdog has rolled it back.
    async fn call(
        &self,
        name: &'static str,
        without: CallEnd,
        first: Option<usize>,
        work: impl Fn(AnyOf) -> BoxFuture<'static, Result<Option<AcquiredOne>, Error>>,
    ) -> Result<Option<LockedOne>, Error> {
        let any = self.checked(first)?;
        let context = &*self.client.context;
        let resources: Resources = [any.name.clone()].into();
        let is_semaphore = self.offered.as_ref().is_ok_and(|offered| offered.is_semaphore);
        let mode = if is_semaphore { Mode::Permit } else { Mode::of(&resources) };
        let span = tracing::debug_span!(
            "any_of", call = name, resource = %any.name, ?mode, id = Empty, token = Empty
        );
        let mut call = LockCall::begin(context, mode);
        let done = loop {
            let work = work(any.clone()).instrument(span.clone());
            if let Some(done) = watch_call(&self.client.waiters, &resources, work).await {
                break done;
            }
        };
        let locked = done.map(|acquired| {
            acquired.map(|(index, acquired)| {
                let guard = LockGuard::new(Arc::clone(&self.client), self.client.leases.adopt(acquired));
                (index, Locked { guard, end: CallEnd::Acquired })
            })
        });
        call.ended(locked.as_ref().map(|locked| locked.as_ref().map(|(_, locked)| locked.end)), without);
        Ok(locked?.map(|(index, locked)| {
            span.record("id", tracing::field::display(locked.guard.id()));
            span.record("token", tracing::field::display(locked.guard.fencing_token()));
            (index, locked.guard)
        }))
    }

    fn checked(&self, first: Option<usize>) -> Result<AnyOf, Error> {
        let context = &*self.client.context;
        if context.settings.is_read_only() {
            return Err(ConfigError::ReadOnly.into());
        }
        context.ensure_open()?;
        let Offered { name, count, resource_at, .. } = self.offered.clone()?;
        let settings = self.settings.check(&context.settings)?;
        let waiters = Arc::clone(&self.client.waiters);
        Ok(AnyOf {
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

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offered")
            .field("name", &self.name)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
