//! The state of the wait queue, according to the answers to an attempt.

use crate::clock::Instant;

/// The state of the wait queue of the resource, according to the answers to one attempt.
///
/// # Invariants
///
/// 1. `is_passed` and `is_refused_elsewhere` never become false again.
/// 2. Only the attempt of a newcomer has `must_yield` set.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueState {
    /// Whether the attempt has passed the wait queue: the queue node has granted, or has deferred a newcomer although
    /// no client waits.
    pub(super) is_passed: bool,
    /// Whether the queue node has deferred this newcomer in favour of waiters.
    pub(super) must_yield: bool,
    /// Whether a node has refused the attempt for a resource for which the attempt does not have the turn.
    pub(super) is_refused_elsewhere: bool,
    /// The time at which the next queue node is asked, if the last queue node has not answered.
    pub(super) hedge_at: Instant,
}

impl QueueState {
    pub(super) fn new(start: Instant) -> Self {
        Self { is_passed: false, must_yield: false, is_refused_elsewhere: false, hedge_at: start }
    }
}
