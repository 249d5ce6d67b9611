//! The wait queue, by the answers to an attempt.

use crate::clock::Instant;

/// The wait queue of the resource, by the answers to one attempt.
///
/// # Invariants
///
/// 1. `has_turn` and `is_refused_elsewhere` never become false again.
/// 2. Only the attempt of a newcomer becomes `is_deferred`.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueState {
    /// Whether the queue node has granted, or has no waiters.
    pub(super) has_turn: bool,
    /// Whether the queue node has waiters, which come before this newcomer.
    pub(super) is_deferred: bool,
    /// Whether the attempt was refused for another resource than the one whose turn it may have.
    pub(super) is_refused_elsewhere: bool,
    /// The time at which the next queue node is asked although the last one has not answered.
    pub(super) hedge_at: Instant,
}

impl QueueState {
    pub(super) fn new(start: Instant) -> Self {
        Self { has_turn: false, is_deferred: false, is_refused_elsewhere: false, hedge_at: start }
    }
}
