//! What one quorum is asked for: some resources, all or none, with these settings, perhaps to be
//! entered again.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tracing::{Instrument, Span, field::Empty};

use crate::{
    algorithm::attempt::{Loss, Plan},
    clock::Instant,
    config::LockSettings,
    error::{ConfigError, LockError},
    lock::{
        call::Call,
        core::{Client, Core},
        guard::LockGuard,
        held::Won,
        locking::{Attempted, Target, attempt},
        overseer::oversee,
        owner::Owner,
        queue_entries::QueueEntries,
        waiting::lock_waiting,
    },
    resource::Resource,
};

/// What one quorum is asked for. [`RedLock`](super::RedLock) is one claim,
/// [`MultiLock`](super::MultiLock) some.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) client: Arc<Client>,
    /// Sorted and without repetition.
    pub(crate) resources: Result<Arc<[Resource]>, ConfigError>,
    pub(crate) settings: LockSettings,
    pub(crate) reentrancy: Reentrancy,
}

/// Whose lease a claim enters again.
#[derive(Clone, Debug, Default)]
pub(crate) enum Reentrancy {
    /// That of the owner in whose scope the task is.
    #[default]
    OfScope,
    /// That of this owner.
    Of(Owner),
    /// Nobody's.
    Never,
}

/// What a call to lock has come to.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) guard: LockGuard,
    /// Whether it is one more hold of a lease that was there.
    pub(super) is_reentered: bool,
}

impl Claim {
    pub(crate) fn new(client: Arc<Client>, resources: Result<Arc<[Resource]>, ConfigError>) -> Self {
        Self { client, resources, settings: LockSettings::default(), reentrancy: Reentrancy::default() }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.client.core
    }

    /// Locks, waiting at most so long.
    pub(crate) async fn lock(&self, wait: Option<Duration>) -> Result<LockGuard, LockError> {
        let target = self.target()?;
        let deadline = wait.map(|wait| self.core().now() + wait);
        let span = tracing::debug_span!("lock", resource = %target.resource, owner = Empty, token = Empty);
        let mut call = Call::begin(self.core());
        let work = |claim: Self, target: Target, owner| {
            async move { claim.lock_as(owner, &target, deadline).await }.boxed()
        };
        let locked = self.until_done(&target, &span, work).await;
        call.ended(locked.as_ref().map(Some));
        let locked = locked.map(|locked| locked.guard);
        name(&span, locked.as_ref().ok());
        locked
    }

    /// Makes one attempt: `None` if others hold one of the resources.
    pub(crate) async fn try_lock(&self) -> Result<Option<LockGuard>, LockError> {
        let target = self.target()?;
        let span =
            tracing::debug_span!("try_lock", resource = %target.resource, owner = Empty, token = Empty);
        let mut call = Call::begin(self.core());
        let work = |claim: Self, target: Target, owner| {
            async move { claim.try_lock_as(owner, &target).await }.boxed()
        };
        let locked = self.until_done(&target, &span, work).await;
        call.ended(locked.as_ref().map(Option::as_ref));
        let locked = locked.map(|locked| locked.map(|locked| locked.guard));
        name(&span, locked.as_ref().ok().and_then(Option::as_ref));
        locked
    }

    /// Does this, and begins anew if it was taken back because nobody polled it.
    async fn until_done<T: Send + 'static>(
        &self,
        target: &Target,
        span: &Span,
        work: impl Fn(Self, Target, Option<Owner>) -> BoxFuture<'static, Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let owner = self.owner();
        loop {
            let work = work(self.clone(), target.clone(), owner.clone()).instrument(span.clone());
            if let Some(done) = oversee(&self.client.core, &target.resources, work).await {
                return done;
            }
        }
    }

    async fn lock_as(
        &self,
        owner: Option<Owner>,
        target: &Target,
        deadline: Option<Instant>,
    ) -> Result<Locked, LockError> {
        let Some(owner) = owner else {
            return lock_waiting(self.core(), target, deadline).await.map(|won| self.locked(won));
        };
        let slot = owner.slot(self.core(), &target.resources);
        let start = self.core().now();
        let _turn = slot.turn(self.core(), target, deadline).await?;
        let reentered = tokio::select! {
            biased;
            reentered = slot.reenter(&self.client) => reentered?,
            () = self.core().until(deadline) => {
                let votes = self.core().no_votes();
                let waited = self.core().now().saturating_duration_since(start);
                return Err(LockError::TimedOut { resource: target.resource.clone(), waited, votes });
            }
        };
        if let Some(guard) = reentered {
            return Ok(Locked { guard, is_reentered: true });
        }
        let locked = self.locked(lock_waiting(self.core(), target, deadline).await?);
        slot.keep(&locked.guard);
        Ok(locked)
    }

    async fn try_lock_as(&self, owner: Option<Owner>, target: &Target) -> Result<Option<Locked>, LockError> {
        let Some(owner) = owner else { return self.attempt(target).await };
        let slot = owner.slot(self.core(), &target.resources);
        // While another task of the owner waits for the resource, others hold it.
        let patience = self.core().now() + target.settings.node_timeout;
        let _turn = match slot.turn(self.core(), target, Some(patience)).await {
            Err(LockError::TimedOut { .. }) => return Ok(None),
            turn => turn?,
        };
        if let Some(guard) = slot.reenter(&self.client).await? {
            return Ok(Some(Locked { guard, is_reentered: true }));
        }
        let locked = self.attempt(target).await?;
        if let Some(locked) = &locked {
            slot.keep(&locked.guard);
        }
        Ok(locked)
    }

    /// Everything checked, ready to be asked for.
    pub(crate) fn target(&self) -> Result<Target, LockError> {
        if self.core().settings.is_read_only() {
            return Err(ConfigError::ReadOnly.into());
        }
        self.target_to_see()
    }

    /// The same for a client that only asks about it.
    pub(crate) fn target_to_see(&self) -> Result<Target, LockError> {
        if self.core().is_closed() {
            return Err(LockError::Closed);
        }
        let resources = self.resources.clone()?;
        let resource = resources.first().cloned().ok_or(ConfigError::EmptyGroup)?;
        let settings = self.settings.check(&self.core().settings)?;
        Ok(Target { resource, resources, settings })
    }

    async fn attempt(&self, target: &Target) -> Result<Option<Locked>, LockError> {
        let attempted = tokio::select! {
            biased;
            () = self.core().closed() => return Err(LockError::Closed),
            attempted = self.attempt_once(target) => attempted,
        };
        match attempted {
            Attempted::Won(won) => Ok(Some(self.locked(won))),
            Attempted::Lost(lost) if lost.loss == Loss::Contended => Ok(None),
            Attempted::Lost(lost) => Err(lost.into_error(self.core(), target)),
        }
    }

    async fn attempt_once(&self, target: &Target) -> Attempted {
        let core = self.core();
        let Some(index) = core.line_of(&target.resources).await else {
            return attempt(core, target, core.first_contact(&target.resource), 0, None).await;
        };
        // It asks for a turn, and does not wait for one: it listens to nobody, so it enters no
        // queue.
        let resource = target.resources.get(index).unwrap_or(&target.resource);
        let mut entries = QueueEntries::new(core, resource, index, &target.settings, &Arc::default());
        attempt(core, target, Plan::Queued(core.queue_nodes(resource)), 0, Some(&mut entries)).await
    }

    fn owner(&self) -> Option<Owner> {
        match &self.reentrancy {
            Reentrancy::OfScope => Owner::current(),
            Reentrancy::Of(owner) => Some(owner.clone()),
            Reentrancy::Never => None,
        }
    }

    fn locked(&self, won: Won) -> Locked {
        let guard = LockGuard::new(Arc::clone(&self.client), self.core().adopt(won));
        Locked { guard, is_reentered: false }
    }
}

/// Says in the span of a call what came of it.
fn name(span: &Span, guard: Option<&LockGuard>) {
    if let Some(guard) = guard {
        span.record("owner", tracing::field::display(guard.owner()));
        span.record("token", tracing::field::display(guard.fencing_token()));
    }
}
