//! The wait queues of candidates that a waiting call has missed. The release watcher and the polls join these queues.

use std::{future::poll_fn, task::Poll};

use futures::{FutureExt, future::BoxFuture};

use super::{AcquiredCandidate, CheckedAnyOf, QUEUES_JOINED};
use crate::{
    acquire::{checked_request::EarlierResult, last_attempt::LastAttempt},
    error::Error,
};

/// The wait queues of the candidates that a call has missed: candidates that were vacant or released, and
/// that the call did not acquire.
///
/// Without a queue entry, the call would miss such a candidate repeatedly, if a nearer client locks the
/// candidate after every release, or if the first waiter of the candidate stands still.
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

    /// Joins the queue of a candidate. Beyond [`QUEUES_JOINED`] candidates, leaves the queue that was joined
    /// first.
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
            // Attempts in this queue have no effect on the result at the deadline, because the call may leave this
            // queue before.
            let last_attempt = LastAttempt::default();
            let start = any_of.context().now();
            any_of.wait_in_queue(index, settings, start, EarlierResult::Held, &last_attempt).await
        };
        self.waits.push((index, wait.boxed()));
    }

    /// Waits until one of the candidates is acquired; for ever without candidates. A failed wait ends without effect on
    /// the call.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the entries stay in the queues. If this value is dropped, all entries are withdrawn.
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
