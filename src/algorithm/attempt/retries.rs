//! The repeated requests of an attempt to nodes that have refused.

use std::time::Duration;

use crate::clock::Instant;

/// The divisor of the hedge in the shortest pause between two requests to a node that has refused.
const SHORTEST_PAUSE_SHARE: u32 = 64;

/// The repeated requests of an attempt that has passed the wait queue, to nodes that have refused.
///
/// # Invariants
///
/// 1. If the attempt cannot win without the refusing nodes, the first retry follows at once. Every other pause is half
///    of the present duration of the attempt, but at least the shortest pause. Therefore the pauses grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retries {
    count: u32,
    /// The time of the next retry, while the attempt waits for that time.
    at: Option<Instant>,
    /// Whether a quorum names the same other lease, by the latest answers.
    pub(super) is_held: bool,
}

impl Retries {
    /// Whether a quorum still names the same other lease after a retry.
    pub(super) fn are_futile(&self) -> bool {
        self.is_held && self.count > 0
    }

    /// Returns the time of the next retry. `elapsed` is the present duration of the attempt. `is_lost` is true if the
    /// attempt cannot win without the nodes that have refused.
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
    pub(super) fn count_one(&mut self) {
        self.count += 1;
    }

    /// Clears the time of the next retry, when nodes are asked again.
    pub(super) fn clear_time(&mut self) {
        self.at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_pause_before_a_retry_is_a_64th_of_the_hedge() {
        let start = Instant::from_origin(Duration::ZERO);
        let hedge = Duration::from_millis(128);
        let first = |elapsed| Retries::default().next_at(start, Duration::from_millis(elapsed), hedge, false);
        assert_eq!(first(0), start + Duration::from_millis(2));
        assert_eq!(first(10), start + Duration::from_millis(5));
    }
}
