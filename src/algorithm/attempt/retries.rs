//! The repeated requests of an attempt to nodes that refuse.

use std::time::Duration;

use crate::clock::Instant;

/// The share of a hedge that is the shortest pause between two requests to a node that refuses.
const SHORTEST_PAUSE_SHARE: u32 = 64;

/// The repeated requests of an attempt that has its turn, to nodes that refuse.
///
/// # Invariants
///
/// 1. If the attempt cannot win without the refusing nodes, the first retry follows at once. Every other pause is half
///    of the time that the attempt has lasted, but at least the shortest pause. Therefore pauses grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retries {
    count: u32,
    /// The time of the next retry, while the attempt waits for that time.
    at: Option<Instant>,
    /// Whether a quorum names the same other lease.
    pub(super) is_held: bool,
}

impl Retries {
    /// Whether a quorum still names the same other lease after a retry.
    pub(super) fn are_futile(&self) -> bool {
        self.is_held && self.count > 0
    }

    /// Returns the time of the next retry. `elapsed` is the time that the attempt has lasted. `is_lost` is true if the
    /// attempt cannot win without the refusing nodes.
    pub(super) fn next_at(
        &mut self,
        now: Instant,
        elapsed: Duration,
        hedge: Duration,
        is_lost: bool,
    ) -> Instant {
        if self.count == 0 && is_lost {
            self.at = Some(now);
        }
        let pause = (elapsed / 2).max(hedge / SHORTEST_PAUSE_SHARE);
        *self.at.get_or_insert(now + pause)
    }

    /// Counts a retry.
    pub(super) fn begin(&mut self) {
        self.count += 1;
    }

    /// Forgets the time of the next retry, because nodes are asked again now.
    pub(super) fn forget_time(&mut self) {
        self.at = None;
    }
}
