//! Locking any one of some resources.

use std::{pin::pin, sync::Arc};

use futures::{
    StreamExt,
    future::{BoxFuture, Either, select},
    stream::FuturesUnordered,
};

use crate::{
    acquire::{
        attempt::attempt_once, checked_request::CheckedRequest, last_attempt::LastAttempt,
        outcome::AttemptOutcome, waiters::Waiters, waiting::lock_waiting,
    },
    client::context::ClientContext,
    clock::Instant,
    config::CheckedLock,
    error::{ConfigError, Error},
    lease::active_lease::Acquired,
    values::Resource,
};

mod look;
mod look_out;

/// A client that waits is in the queues of so many of them.
pub(crate) const QUEUES: usize = 3;

/// It draws so many times as many, to leave out those whose queue nodes are far away.
const DRAWN: usize = 3;

/// So many are looked at before all are.
const SOME: usize = 64;

/// So many of those that are vacant are tried, by a client that waits if it does not get one, and by
/// one that does not.
const TRIED: usize = 3;
const TRIED_ONCE: usize = 8;

/// So many nodes are asked which are vacant, by a client that waits if it does not hear it.
const NODES_ASKED: usize = 2;

/// Some resources, any one of which is to be locked.
///
/// Each of them is a lock of its own, with its own votes and its own queue. A client that finds one
/// vacant takes it as a newcomer. Otherwise it waits in the queues of a few of them, drawn at random,
/// takes the first that it is woken for, and leaves the others. Of those who wait for long, one at a
/// time [looks out](AnyOf::look_out) for all of them.
#[derive(Clone)]
pub(crate) struct AnyOf {
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) settings: CheckedLock,
    /// To speak of all of them by.
    pub(crate) name: Resource,
    pub(crate) count: usize,
    pub(crate) resource_at: Arc<dyn Fn(usize) -> Resource + Send + Sync>,
    /// The one to begin with.
    pub(crate) first: Option<usize>,
    /// In so many queues it waits.
    pub(crate) queues: usize,
    /// The last attempt at any of them.
    pub(crate) last_attempt: Arc<LastAttempt>,
}

/// One of them, by its index, and its lease.
pub(crate) type AcquiredOne = (usize, Acquired);

impl AnyOf {
    /// Locks one of them, waiting as long as it takes: until one is free, or no quorum could be
    /// asked for the quorum timeout. It also takes what `look_out` comes to. `None` if other clients had all
    /// of them until the deadline.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the places in queues, rolls back attempts under way, and drops `look_out`.
    pub(crate) async fn lock(
        &self,
        start: Instant,
        deadline: Option<Instant>,
        look_out: BoxFuture<'_, AcquiredOne>,
    ) -> Result<Option<AcquiredOne>, Error> {
        let context = self.context();
        tokio::select! {
            biased;
            acquired = self.wait(start, look_out) => acquired.map(Some),
            () = context.closed() => Err(context.closed_error()),
            () = context.sleep_until(deadline) => {
                self.last_attempt.at_deadline(context, &self.name).map(|()| None)
            }
        }
    }

    /// Tries once: `None` if all of them are taken.
    ///
    /// # Cancel safety
    ///
    /// As [`attempt_once`].
    pub(crate) async fn try_lock(&self) -> Result<Option<AcquiredOne>, Error> {
        tokio::select! {
            biased;
            acquired = self.try_vacant(false) => acquired,
            () = self.context().closed() => Err(self.context().closed_error()),
        }
    }

    /// Whether it waits in the queues of some of them only.
    pub(crate) fn is_large(&self) -> bool {
        self.count > self.queues
    }

    async fn wait(&self, start: Instant, look_out: BoxFuture<'_, AcquiredOne>) -> Result<AcquiredOne, Error> {
        let context = self.context();
        let mut settings = self.settings;
        let mut waits_from = start;
        match self.try_vacant(true).await {
            Ok(Some(acquired)) => return Ok(acquired),
            Ok(None) => {}
            // Others of them may do better, in what is left of the time.
            Err(error) => {
                let took = context.now().saturating_duration_since(start);
                if took >= settings.quorum_timeout {
                    return Err(error);
                }
                settings.quorum_timeout -= took;
                waits_from = start + took;
            }
        }
        if self.is_large() {
            // There are other queues: a wake that is lost in one of them matters less.
            settings.pacing.first_poll = settings.pacing.longest_poll;
        }
        let waits: FuturesUnordered<_> = self
            .drawn_to_wait()
            .into_iter()
            .map(|index| async move {
                let taken = self.checked(index, settings)?.known_held();
                let acquired =
                    lock_waiting(&self.waiters, &taken, waits_from, None, &self.last_attempt).await?;
                Ok(acquired.map(|acquired| (index, acquired)))
            })
            .collect();
        match select(pin!(first_of(waits)), look_out).await {
            Either::Left((Some(acquired), _)) => acquired,
            Either::Left((None, look_out)) => Ok(look_out.await),
            Either::Right((acquired, _)) => Ok(acquired),
        }
    }

    /// In whose queues it waits: some at random, those of far queue nodes only where there are no others.
    fn drawn_to_wait(&self) -> Vec<usize> {
        let context = self.context();
        let mut drawn = context.sample_indices(self.count, DRAWN * self.queues);
        drawn.sort_by_cached_key(|index| context.is_queue_node_slow(&(self.resource_at)(*index)));
        drawn.truncate(self.queues);
        drawn
    }

    /// Tries the first, and looks at some of the others, mostly meanwhile; then tries those that are
    /// vacant, and if there are none, looks at the rest.
    async fn try_vacant(&self, waits: bool) -> Result<Option<AcquiredOne>, Error> {
        let context = self.context();
        let drawn = context.sample_indices(self.count, SOME);
        let Some(first) = self.first.or_else(|| drawn.first().copied()) else { return Ok(None) };
        // Those who wait for it go first, and it is one of many.
        let skips_first = waits && self.is_awaited(first).await?;
        let others = |indices: Vec<usize>| -> Vec<usize> {
            let others = indices.into_iter().filter(|index| *index != first);
            skips_first.then_some(first).into_iter().chain(others).collect()
        };
        // Where nobody waits for what is not found, one node of each share answers if a quorum does.
        let electorate = context.settings.electorate;
        let nodes = if waits { NODES_ASKED } else { electorate.nodes() + 1 - electorate.needed() };
        let looked_at = others(drawn);
        let look = || self.ask_vacant(looked_at.clone(), nodes, waits);
        // A client that does not wait asks more nodes; and the one that was free last mostly is.
        let meanwhile = (waits || self.first.is_none()).then(look);
        if !skips_first && let Some(acquired) = self.attempt(first, waits).await? {
            return Ok(Some(acquired));
        }
        let found = meanwhile.unwrap_or_else(look).found(self).await;
        if let Some(acquired) = self.try_some(&found, waits).await? {
            return Ok(Some(acquired));
        }
        // Where the only one that was vacant was somebody else's before it was tried, others most likely
        // would be, too, and each attempt is in the way of those who wait. One that stays vacant is found
        // by a later look.
        if self.count <= SOME || (waits && found.len() == 1) {
            return Ok(None);
        }
        let mut rest = others(context.sample_indices(self.count, self.count));
        let mut nodes_each = nodes;
        if waits {
            rest.retain(|index| !looked_at.contains(index));
            // What a node would have said that is silent all of a sudden, who looks out hears.
            nodes_each = 1;
        }
        self.try_some(&self.ask_vacant_by_shares(&rest, nodes_each, waits).found(self).await, waits).await
    }

    /// Tries some of those that were found vacant. Of many, most of those that one node calls vacant are
    /// on their way to somebody who waits, so a client that waits itself tries one.
    async fn try_some(&self, found: &[usize], waits: bool) -> Result<Option<AcquiredOne>, Error> {
        let tried = match waits {
            true if self.count > SOME => 1,
            true => TRIED,
            false => TRIED_ONCE,
        };
        for index in found.iter().take(tried) {
            if let Some(acquired) = self.attempt(*index, waits).await? {
                return Ok(Some(acquired));
            }
        }
        Ok(None)
    }

    /// Whether others are known to be in the queue of this one.
    async fn is_awaited(&self, index: usize) -> Result<bool, ConfigError> {
        let checked = self.checked(index, self.settings)?;
        Ok(self.context().resource_with_waiters(&checked.resources).await.is_some())
    }

    async fn attempt(&self, index: usize, waits: bool) -> Result<Option<AcquiredOne>, Error> {
        let checked = self.checked(index, self.settings)?;
        let context = self.context();
        self.last_attempt.begins();
        let outcome = attempt_once(context, &checked, !waits).await;
        if let AttemptOutcome::Failed(failed) = &outcome {
            self.last_attempt.failed(&self.name, failed);
        }
        Ok(outcome.of_only_attempt(context, &checked)?.map(|acquired| (index, acquired)))
    }

    fn checked(&self, index: usize, settings: CheckedLock) -> Result<CheckedRequest, ConfigError> {
        CheckedRequest::new([(self.resource_at)(index)].into(), settings)
    }

    /// Where the queue of this one is; `None` only if there are no nodes.
    fn queue_node(&self, index: usize) -> Option<usize> {
        self.context().queue_node_order(&(self.resource_at)(index)).first().copied()
    }

    fn context(&self) -> &ClientContext {
        &self.waiters.context
    }
}

/// The first that is acquired, or the last error if none is; `None` if there are none at all.
async fn first_of(
    mut waits: FuturesUnordered<impl Future<Output = Result<Option<AcquiredOne>, Error>>>,
) -> Option<Result<AcquiredOne, Error>> {
    let mut failed = None;
    while let Some(done) = waits.next().await {
        match done {
            Ok(Some(acquired)) => return Some(Ok(acquired)),
            // Without a deadline, a wait ends with a lease or an error.
            Ok(None) => {}
            Err(error) => failed = Some(Err(error)),
        }
    }
    failed
}
