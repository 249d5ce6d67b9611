//! Waiting for a resource that others hold, or that other calls of this client are to try first.

use crate::{
    acquire::{checked_request::CheckedRequest, outcome::AttemptOutcome, waiters::Waiters},
    algorithm::failed_attempt::FailedAttempt,
    client::environment::Environment,
    clock::Instant,
    error::LockError,
    lease::active_lease::Acquired,
    values::Votes,
};

/// Locks for a call that began at `start`, waiting as long as it takes: until the resource is free,
/// or no quorum could be asked for the lock's quorum timeout, or the deadline.
///
/// # Cancel safety
///
/// Dropping it gives up the place in the queue and rolls back the attempt under way, if there is
/// one.
pub(crate) async fn lock_waiting(
    waiters: &Waiters,
    checked: &CheckedRequest,
    start: Instant,
    deadline: Option<Instant>,
) -> Result<Acquired, LockError> {
    let environment = &*waiters.environment;
    let mut last_votes = None;
    tokio::select! {
        biased;
        acquired = take_turns(waiters, checked, start, &mut last_votes) => return acquired,
        () = environment.closed() => return Err(LockError::Closed),
        () = environment.until(deadline) => {}
    }
    Err(environment.timed_out(&checked.resource, start, last_votes))
}

async fn take_turns(
    waiters: &Waiters,
    checked: &CheckedRequest,
    start: Instant,
    last_votes: &mut Option<Votes>,
) -> Result<Acquired, LockError> {
    let environment = &*waiters.environment;
    let place = waiters.enter(&checked.resources);
    let queue = &*place.queue;
    let wait = checked.settings.quorum_wait(start);
    let outlasts = queue.outage.outlasts(environment, &wait);
    let mut turn = wait_behind_others(environment, checked, queue.turn.lock(), outlasts).await?;
    loop {
        let quorum_deadline = queue.outage.deadline(&wait);
        let plan = turn.until_next_attempt(environment, checked, queue, quorum_deadline).await;
        let begun = environment.now();
        match turn.attempt(environment, checked, plan).await {
            AttemptOutcome::Acquired(acquired) => {
                turn.acquired(environment, queue);
                return Ok(acquired);
            }
            AttemptOutcome::Failed(failed) => {
                turn.failed(environment, checked, queue, &failed, begun);
                let quorum_deadline = queue.outage.deadline(&wait);
                if quorum_deadline.is_some_and(|end| end <= environment.now()) {
                    return Err(failed.into_error(environment, checked));
                }
                turn.look(environment, checked, failed.refused).await;
                *last_votes = Some(failed.votes);
            }
        }
    }
}

/// Waits for the turn of a call, while other calls of this client have theirs. Those may wait for a
/// quorum for longer than this call does. So the call also ends when an outage `outlasts` its own
/// quorum timeout, with what the last attempt of the others has seen.
///
/// # Cancel safety
///
/// As that of both futures.
pub(crate) async fn wait_behind_others<T>(
    environment: &Environment,
    checked: &CheckedRequest,
    turn: impl Future<Output = T>,
    outlasts: impl Future<Output = FailedAttempt>,
) -> Result<T, LockError> {
    tokio::select! {
        biased;
        turn = turn => Ok(turn),
        failed = outlasts => Err(failed.into_error(environment, checked)),
    }
}
