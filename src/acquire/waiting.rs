//! Waiting for a resource that others hold.

use crate::{
    acquire::{checked_request::CheckedRequest, outcome::AttemptOutcome, waiters::Waiters},
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
    let notifier = &place.queue.notifier;
    let mut turn = place.queue.turn.lock().await;
    loop {
        let quorum_deadline = turn.quorum_deadline(start, &checked.settings);
        let plan = turn.until_next_attempt(environment, checked, notifier, quorum_deadline).await;
        let begun = environment.now();
        match turn.attempt(environment, checked, plan).await {
            AttemptOutcome::Acquired(acquired) => {
                turn.acquired(environment, notifier);
                return Ok(acquired);
            }
            AttemptOutcome::Failed(failed) => {
                turn.failed(environment, checked, notifier, &failed, begun);
                let quorum_deadline = turn.quorum_deadline(start, &checked.settings);
                if quorum_deadline.is_some_and(|end| end <= environment.now()) {
                    return Err(failed.into_error(environment, checked));
                }
                turn.look(environment, checked, failed.refused).await;
                *last_votes = Some(failed.votes);
            }
        }
    }
}
