//! Waiting for a resource that other clients hold, or that other calls of this client try first.

use crate::{
    acquire::{
        checked_request::CheckedRequest,
        last_attempt::LastAttempt,
        outcome::AttemptOutcome,
        waiters::{LocalQueue, Waiters},
    },
    algorithm::failed_attempt::FailedAttempt,
    client::context::ClientContext,
    clock::Instant,
    error::Error,
    lease::active_lease::Acquired,
};

/// Locks for a call that began at `start`. Waits until the resource is acquired, or the quorum timeout passes without a
/// quorum. Returns `None` if other clients hold the resource at the deadline.
///
/// # Cancel safety
///
/// If the future is dropped, the call leaves the local queue, and an attempt in flight is rolled back.
pub(crate) async fn lock_waiting(
    waiters: &Waiters,
    checked: &CheckedRequest,
    start: Instant,
    deadline: Option<Instant>,
    last_attempt: &LastAttempt,
) -> Result<Option<Acquired>, Error> {
    let context = &*waiters.context;
    let place = waiters.enter(&checked.resources);
    last_attempt.waits_in(place.outage());
    tokio::select! {
        biased;
        acquired = take_turns(context, &place.queue, checked, start, last_attempt) => acquired.map(Some),
        () = context.closed() => Err(context.closed_error()),
        () = context.sleep_until(deadline) => {
            last_attempt.at_deadline(context, &checked.resource).map(|()| None)
        }
    }
}

async fn take_turns(
    context: &ClientContext,
    queue: &LocalQueue,
    checked: &CheckedRequest,
    start: Instant,
    last_attempt: &LastAttempt,
) -> Result<Acquired, Error> {
    let wait = checked.settings.quorum_wait(start);
    let outlasts = queue.outage.outlasts(context, &wait);
    let mut waiter = wait_behind_other_calls(context, checked, queue.waiter.lock(), outlasts).await?;
    loop {
        let quorum_deadline = queue.outage.deadline(&wait);
        let plan = waiter.until_next_attempt(context, checked, queue, quorum_deadline).await;
        let begun = context.now();
        last_attempt.begins();
        queue.outage.attempt_begins();
        match waiter.attempt(context, checked, plan).await {
            AttemptOutcome::Acquired(acquired) => {
                waiter.acquired(context, queue);
                return Ok(acquired);
            }
            AttemptOutcome::Failed(failed) => {
                last_attempt.failed(&checked.resource, &failed);
                waiter.failed(context, checked, queue, &failed, begun);
                let quorum_deadline = queue.outage.deadline(&wait);
                if quorum_deadline.is_some_and(|end| end <= context.now()) {
                    return Err(failed.into_error(context, checked));
                }
                waiter.check_holder(context, checked, failed.refused).await;
            }
        }
    }
}

/// Waits for the `turn` of a call, while other calls of this client have their turns. The other calls may have longer
/// quorum timeouts. Therefore the call also ends when an outage lasts longer than its own quorum timeout (`outlasts`),
/// with the replies to the last attempt of the other calls.
///
/// # Cancel safety
///
/// As that of both futures.
pub(crate) async fn wait_behind_other_calls<T>(
    context: &ClientContext,
    checked: &CheckedRequest,
    turn: impl Future<Output = T>,
    outlasts: impl Future<Output = FailedAttempt>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        turn = turn => Ok(turn),
        failed = outlasts => Err(failed.into_error(context, checked)),
    }
}
