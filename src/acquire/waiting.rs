//! The wait of a call: behind the other calls of this client, and then for a resource that other clients hold.
//!
//! A lock of one resource and a lock of a group wait by one call of [`lock_waiting`]. A lock of any one of several
//! resources waits by one call for each queue that it joins.

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

/// Locks for a call that began at `start`. Waits until the resources are acquired, the quorum timeout passes without a
/// quorum, or the client is closed. Returns `None` if other clients or other calls have the resources at the deadline.
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
        acquired = acquire_in_turn(context, &place.queue, checked, start, last_attempt) => acquired.map(Some),
        () = context.closed() => Err(context.closed_error()),
        () = context.sleep_until(deadline) => {
            last_attempt.at_deadline(context, &checked.resource).map(|()| None)
        }
    }
}

/// Waits for the local turn, and then makes attempts until the lock is acquired, or until the quorum timeout of the
/// call has passed in an outage.
async fn acquire_in_turn(
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
        let quorum_timeout =
            quorum_deadline.map_or(wait.timeout, |deadline| deadline.saturating_duration_since(begun));
        let pending = queue.outage.attempt_pends(begun);
        let outcome = waiter.attempt(context, checked, plan, quorum_timeout).await;
        drop(pending);
        match outcome {
            AttemptOutcome::Acquired(acquired) => {
                waiter.acquired(context, queue);
                return Ok(acquired);
            }
            AttemptOutcome::Failed(failed) => {
                last_attempt.failed(&checked.resource, &failed);
                waiter.failed(context, checked, queue, &failed, begun);
                if queue.outage.ends(&wait) {
                    return Err(failed.into_error(context, checked));
                }
                waiter.check_holder(context, checked, failed.refused).await;
            }
        }
    }
}

/// Waits for the turn of a call (`turn`), while other calls of this client or of the same owner are ahead. The calls
/// ahead may have longer quorum timeouts. Therefore the wait also ends when an outage outlasts the quorum timeout of
/// this call (`outlasts`). In this case, the error has the replies to the last attempt of the calls ahead.
///
/// # Cancel safety
///
/// The cancel safety of both futures.
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
