//! The lock of any one of several resources (the *candidates*), for `semaphore/any_of_request.rs`.

use std::{future::pending, sync::Arc};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use crate::{
    acquire::{
        attempt::attempt_once,
        checked_request::{CheckedRequest, EarlierResult},
        last_attempt::LastAttempt,
        outcome::AttemptOutcome,
        waiters::Waiters,
        waiting::lock_waiting,
    },
    client::context::ClientContext,
    clock::Instant,
    config::CheckedLock,
    error::{ConfigError, Error},
    lease::active_lease::Acquired,
    mutation::{self, Mutation},
    values::Resource,
};

mod missed_candidates;
mod release_watcher;
mod vacancy_poll;
mod vacancy_query;

/// The number of wait queues that a waiting call joins.
///
/// With two queues, a call does not depend on one queue node. Each further queue causes attempts and polls that are
/// mostly in vain, and that a busy node has to execute, too. The release watcher finds the candidates without a waiter.
pub(crate) const QUEUES_JOINED: usize = 2;

/// The largest number of candidates of which a waiting call joins all queues.
pub(crate) const MAX_CANDIDATES_JOINED: usize = 3;

/// The number of random candidates that a call draws for each wait queue to join. Candidates with slow queue nodes are
/// dropped first.
const DRAWN_PER_QUEUE: usize = 3;

/// The size of the random sample that the first vacancy query covers. If there are more candidates, a second query
/// covers the rest. The second query of a `try_lock` also repeats the sample.
const SAMPLE_SIZE: usize = 64;

/// The most vacant candidates that a waiting call attempts after its query or in one poll.
const MAX_ATTEMPTS_WAITING: usize = 3;

/// The most vacant candidates that a call of `try_lock` attempts after one query, and the most that an answer names.
const MAX_ATTEMPTS_TRY_LOCK: usize = 8;

/// The number of nodes to which a waiting call sends its first vacancy query.
const NODES_QUERIED_WAITING: usize = 2;

/// A checked request to lock any one of several candidates.
///
/// Each candidate is a separate lock, with votes and a wait queue of its own. A call first attempts one candidate,
/// unless other clients wait for that candidate. The call then attempts candidates that nodes report as vacant. None of
/// these attempts enters a queue. If no attempt succeeds, the call waits in the queues of a few random candidates. The
/// call ends with the first candidate that it acquires, and leaves all queues. If there are more candidates than queues
/// to join, the call can acquire the remaining candidates in two ways:
///
/// * One waiting client at a time is the [release watcher](Self::acquire_released) of all candidates.
/// * Every waiting call [polls](Self::acquire_by_polls) all candidates, once in each longest poll interval. The polls
///   bound the wait for a free candidate, even if the release watcher or the waiters ahead stand still, or if notices
///   are lost.
#[derive(Clone)]
pub(crate) struct CheckedAnyOf {
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) settings: CheckedLock,
    /// The name of the whole set, for logs and errors.
    pub(crate) name: Resource,
    pub(crate) count: usize,
    pub(crate) resource_at: Arc<dyn Fn(usize) -> Resource + Send + Sync>,
    /// The candidate to attempt first; a random candidate if `None`.
    pub(crate) first: Option<usize>,
    /// The number of wait queues to join.
    pub(crate) queues: usize,
    /// The outcome of the last attempt at any candidate.
    pub(crate) last_attempt: Arc<LastAttempt>,
}

/// The index and the new lease of a candidate.
pub(crate) type AcquiredCandidate = (usize, Acquired);

impl CheckedAnyOf {
    /// Locks one candidate. Waits until this call or `release_watcher` acquires a candidate, until the quorum timeout
    /// passes without a quorum, or until the client is closed. Returns `None` if other clients have all candidates at
    /// the deadline.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call leaves all wait queues, rolls back attempts in flight, and drops
    /// `release_watcher`.
    pub(crate) async fn lock(
        &self,
        start: Instant,
        deadline: Option<Instant>,
        release_watcher: BoxFuture<'_, AcquiredCandidate>,
    ) -> Result<Option<AcquiredCandidate>, Error> {
        let context = self.context();
        tokio::select! {
            biased;
            acquired = self.wait(start, release_watcher) => acquired.map(Some),
            () = context.closed() => Err(context.closed_error()),
            () = context.sleep_until(deadline) => {
                self.last_attempt.at_deadline(context, &self.name).map(|()| None)
            }
        }
    }

    /// Attempts candidates without a wait. Returns `None` if no candidate is acquired, because other clients hold the
    /// candidates or wait for them.
    ///
    /// # Cancel safety
    ///
    /// As [`attempt_once`].
    pub(crate) async fn try_lock(&self) -> Result<Option<AcquiredCandidate>, Error> {
        let will_wait = false;
        tokio::select! {
            biased;
            acquired = self.try_vacant(will_wait) => acquired,
            () = self.context().closed() => Err(self.context().closed_error()),
        }
    }

    /// Whether there are more candidates than wait queues to join.
    pub(crate) fn is_large(&self) -> bool {
        self.count > self.queues.max(MAX_CANDIDATES_JOINED)
    }

    async fn wait(
        &self,
        start: Instant,
        release_watcher: BoxFuture<'_, AcquiredCandidate>,
    ) -> Result<AcquiredCandidate, Error> {
        let context = self.context();
        let mut settings = self.settings;
        let mut waits_from = start;
        let mut earlier = EarlierResult::Held;
        let will_wait = true;
        match self.try_vacant(will_wait).await {
            Ok(Some(acquired)) => return Ok(acquired),
            Ok(None) => {}
            // The error is not final, because a later attempt may find a quorum within the remaining quorum timeout.
            Err(error) => {
                earlier = EarlierResult::NoQuorum;
                let took = context.now().saturating_duration_since(start);
                if took >= settings.quorum_timeout {
                    return Err(error);
                }
                settings.quorum_timeout -= took;
                waits_from = start + took;
            }
        }
        if self.is_large() {
            // The fallback polls of the queues are rare from the start, because this call waits in several queues, and
            // depends less on each single wake.
            settings.pacing.first_poll = settings.pacing.longest_poll;
        }
        let waits: FuturesUnordered<_> = self
            .choose_queues()
            .into_iter()
            .map(|index| self.wait_in_queue(index, settings, waits_from, earlier, &self.last_attempt))
            .collect();
        let polls = if self.is_large() { self.acquire_by_polls().boxed() } else { pending().boxed() };
        tokio::select! {
            biased;
            Some(acquired) = first_acquired(waits) => acquired,
            acquired = release_watcher => Ok(acquired),
            acquired = polls => Ok(acquired),
        }
    }

    /// Waits in the queue of a candidate, for a call that began at `start`.
    async fn wait_in_queue(
        &self,
        index: usize,
        settings: CheckedLock,
        start: Instant,
        earlier: EarlierResult,
        last_attempt: &LastAttempt,
    ) -> Result<Option<AcquiredCandidate>, Error> {
        let checked = self.checked(index, settings)?.with_earlier_result(earlier);
        let acquired = lock_waiting(&self.waiters, &checked, start, None, last_attempt).await?;
        Ok(acquired.map(|acquired| (index, acquired)))
    }

    /// Returns the candidates for whose queues the call waits: a random choice that avoids slow queue nodes.
    fn choose_queues(&self) -> Vec<usize> {
        let context = self.context();
        let queues = if self.is_large() { self.queues } else { self.count };
        let queues = mutation::altered(Mutation::ThreeQueues, queues, |queues| queues.max(3));
        let mut drawn = context.sample_indices(self.count, DRAWN_PER_QUEUE * queues);
        drawn.sort_by_cached_key(|index| context.is_queue_node_slow(&(self.resource_at)(*index)));
        drawn.truncate(queues);
        drawn
    }

    /// Attempts the first candidate and queries a sample for vacant candidates, usually in parallel. Then attempts the
    /// vacant candidates. If no candidate is acquired, usually queries the candidates outside of the sample, and
    /// attempts the vacant candidates in the same way.
    async fn try_vacant(&self, will_wait: bool) -> Result<Option<AcquiredCandidate>, Error> {
        let context = self.context();
        let sample = context.sample_indices(self.count, SAMPLE_SIZE);
        let Some(first) = self.first.or_else(|| sample.first().copied()) else { return Ok(None) };
        // A waiting call leaves the first candidate to its waiters, because the call may acquire another candidate.
        let skips_first = will_wait && self.has_waiters(first).await?;
        // Every candidate except the first, or all candidates if the first was not attempted.
        let remaining = |indices: Vec<usize>| -> Vec<usize> {
            let others = indices.into_iter().filter(|index| *index != first);
            skips_first.then_some(first).into_iter().chain(others).collect()
        };
        // A `try_lock` must not miss a vacant candidate. Of this number of nodes, at least one answers if a quorum
        // answers.
        let electorate = context.settings.electorate;
        let nodes =
            if will_wait { NODES_QUERIED_WAITING } else { electorate.nodes() + 1 - electorate.needed() };
        let queried = remaining(sample);
        let query = || self.query_vacant(queried.clone(), nodes, will_wait);
        // A `try_lock` with a preferred candidate, which this client released last, sends no query in parallel. That
        // candidate is usually vacant, and the query of a `try_lock` costs requests to many nodes.
        let parallel = (will_wait || self.first.is_none()).then(query);
        if !skips_first && let Some(acquired) = self.attempt(first, will_wait).await? {
            return Ok(Some(acquired));
        }
        let vacant = parallel.unwrap_or_else(query).next_vacant(self).await;
        if let Some(acquired) = self.attempt_vacant(&vacant, will_wait).await? {
            return Ok(Some(acquired));
        }
        // If another client took the only vacant candidate, all other candidates are probably held, and each further
        // attempt delays their waiters. A later poll finds a candidate that stays vacant.
        if self.count <= SAMPLE_SIZE || (will_wait && vacant.len() == 1) {
            return Ok(None);
        }
        let mut rest = remaining(context.sample_indices(self.count, self.count));
        let mut nodes_per_chunk = nodes;
        if will_wait {
            rest.retain(|index| !queried.contains(index));
            // One node for each chunk is enough, because the polls find the vacant candidates that a failed node does
            // not name.
            nodes_per_chunk = 1;
        }
        let vacant = self.query_vacant_in_chunks(&rest, nodes_per_chunk, will_wait).next_vacant(self).await;
        self.attempt_vacant(&vacant, will_wait).await
    }

    /// Attempts vacant candidates until a candidate is acquired.
    ///
    /// A waiting call attempts only one candidate of a large set, because most candidates that a single node reports as
    /// vacant are about to be taken by a waiter.
    async fn attempt_vacant(
        &self,
        vacant: &[usize],
        will_wait: bool,
    ) -> Result<Option<AcquiredCandidate>, Error> {
        let max_attempts = match will_wait {
            true if self.count > SAMPLE_SIZE => 1,
            true => MAX_ATTEMPTS_WAITING,
            false => MAX_ATTEMPTS_TRY_LOCK,
        };
        for index in vacant.iter().take(max_attempts) {
            if let Some(acquired) = self.attempt(*index, will_wait).await? {
                return Ok(Some(acquired));
            }
        }
        Ok(None)
    }

    /// Whether other clients wait for a candidate, according to the cache.
    async fn has_waiters(&self, index: usize) -> Result<bool, ConfigError> {
        let checked = self.checked(index, self.settings)?;
        Ok(self.context().resource_with_waiters(&checked.resources).await.is_some())
    }

    async fn attempt(&self, index: usize, will_wait: bool) -> Result<Option<AcquiredCandidate>, Error> {
        let checked = self.checked(index, self.settings)?;
        let context = self.context();
        self.last_attempt.begins();
        let outcome = attempt_once(context, &checked, !will_wait).await;
        if let AttemptOutcome::Failed(failed) = &outcome {
            self.last_attempt.failed(&self.name, failed);
            if will_wait && failed.has_stood_still {
                // The failure of a client that stood still does not show the state of the nodes.
                return Ok(None);
            }
        }
        Ok(outcome.of_only_attempt(context, &checked)?.map(|acquired| (index, acquired)))
    }

    fn checked(&self, index: usize, settings: CheckedLock) -> Result<CheckedRequest, ConfigError> {
        CheckedRequest::new([(self.resource_at)(index)].into(), settings)
    }

    /// Returns the queue node of a candidate; `None` only without nodes.
    fn queue_node(&self, index: usize) -> Option<usize> {
        self.context().queue_node_order(&(self.resource_at)(index)).first().copied()
    }

    fn context(&self) -> &ClientContext {
        &self.waiters.context
    }
}

/// Returns the first acquired candidate. If all futures fail, returns the last error. Without futures, returns `None`.
async fn first_acquired(
    mut waits: FuturesUnordered<impl Future<Output = Result<Option<AcquiredCandidate>, Error>>>,
) -> Option<Result<AcquiredCandidate, Error>> {
    let mut last_error = None;
    while let Some(done) = waits.next().await {
        match done {
            Ok(Some(acquired)) => return Some(Ok(acquired)),
            // A wait without a deadline never returns `None`.
            Ok(None) => {}
            Err(error) => last_error = Some(Err(error)),
        }
    }
    last_error
}
