//! The wait queues of candidates that a waiting call has missed. The release watcher and the polls join these queues.

use std::{future::poll_fn, task::Poll};

use futures::{FutureExt, future::BoxFuture};

use super::{AcquiredCandidate, CheckedAnyOf, QUEUES_JOINED};
use crate::{
    acquire::{checked_request::EarlierResult, last_attempt::LastAttempt},
    error::Error,
};

/// The wait queues of the candidates that a call has missed. A candidate is missed if the candidate was vacant or
/// released, and the call did not acquire it.
///
/// Suppose that a nearer client locks a missed candidate after every release, or that the first waiter of the candidate
/// stands still. Without a queue entry, the call would miss the candidate again and again.
pub(super) struct MissedCandidates<'a> {
    any_of: &'a CheckedAnyOf,
    /// The waits in the queues, the oldest first, with the candidates.
    waits: Vec<(usize, QueueWait<'a>)>,
}

type QueueWait<'a> = BoxFuture<'a, Result<Option<AcquiredCandidate>, Error>>;

impl<'a> MissedCandidates<'a> {
    pub(super) fn new(any_of: &'a CheckedAnyOf) -> Self {
        Self { any_of, waits: Vec::new() }
    }

    /// Joins the queue of a candidate, unless the call is in that queue. Beyond [`QUEUES_JOINED`] candidates, leaves
    /// the queue that was joined first.
    pub(super) fn join(&mut self, index: usize) {
        if self.waits.iter().any(|(joined, _)| *joined == index) {
            return;
        }
        if self.waits.len() >= QUEUES_JOINED {
            drop(self.waits.remove(0));
        }
        let any_of = self.any_of;
        let wait = async move {
            let mut settings = any_of.settings;
            settings.pacing.first_poll = settings.pacing.longest_poll;
            // The attempts in this queue have no effect on the result at the deadline, because the call may leave the
            // queue before the deadline.
            let last_attempt = LastAttempt::default();
            let start = any_of.context().now();
            any_of.wait_in_queue(index, settings, start, EarlierResult::Held, &last_attempt).await
        };
        self.waits.push((index, wait.boxed()));
    }

    /// Waits until one of the candidates is acquired. Without candidates, never ends. If the wait in a queue fails, the
    /// call leaves that queue, and continues.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the entries stay in the queues. If the [`MissedCandidates`] are dropped, all entries
    /// are withdrawn.
    pub(super) async fn acquired(&mut self) -> AcquiredCandidate {
        poll_fn(|context| {
            let mut acquired = None;
            self.waits.retain_mut(|(_, wait)| {
                if acquired.is_some() {
                    return true;
                }
                match wait.poll_unpin(context) {
                    Poll::Ready(done) => {
                        acquired = done.ok().flatten();
                        false
                    }
                    Poll::Pending => true,
                }
            });
            acquired.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
