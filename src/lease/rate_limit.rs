//! A limit for the rate of renewals after force-unlock notices.

use std::time::Duration;

use crate::clock::Instant;

/// The delay between the first two renewals of a burst.
const FIRST_DELAY: Duration = Duration::from_millis(1);

/// The factor between successive delays. With this factor, a flood of notices causes seven renewals in the first second
/// at the default ttl, and then two per second.
const GROWTH: u32 = 4;

/// The limit for the rate at which notices cause renewals. A notice causes a renewal of all leases at every node.
/// Without a limit, any program that may publish on a node could cause an endless series of renewals.
///
/// After a quiet time, a notice causes a renewal at once. For one force-unlock, each node sends a notice, and the first
/// notice may arrive before the other nodes have unlocked. Therefore the first delay is short, and delays grow while
/// notices arrive. The delay of a renewal is about the age of the burst, and at most the longest delay.
///
/// # Invariants
///
/// 1. No notice waits for longer than the longest delay.
/// 2. Two renewals in a burst are at least one delay apart, and delays grow up to the longest delay.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimit {
    not_before: Instant,
    delay: Duration,
    longest: Duration,
}

impl RateLimit {
    pub(super) fn new(now: Instant, longest: Duration) -> Self {
        Self { not_before: now, delay: Duration::ZERO, longest }
    }

    /// Returns the earliest time of the next renewal.
    pub(super) fn not_before(&self) -> Instant {
        self.not_before
    }

    /// Records a renewal after a notice.
    pub(super) fn record_renewal(&mut self, now: Instant) {
        let is_quiet = now.saturating_duration_since(self.not_before) > self.delay;
        let next = if is_quiet { FIRST_DELAY } else { self.delay.saturating_mul(GROWTH).max(FIRST_DELAY) };
        self.delay = next.min(self.longest);
        self.not_before = now + self.delay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn delays_grow_in_a_flood_to_the_longest_delay_and_reset_after_quiet() {
        let mut limit = RateLimit::new(at(0), Duration::from_millis(500));
        let mut flood = |from: u64, renewals: usize| -> Vec<u64> {
            let mut now = at(from);
            let times = (0..renewals).map(|_| {
                now = now.max(limit.not_before());
                limit.record_renewal(now);
                u64::try_from(now.since_origin().as_millis()).unwrap() - from
            });
            times.collect()
        };
        assert_eq!(flood(0, 8), [0, 1, 5, 21, 85, 341, 841, 1341]);
        assert_eq!(flood(2_342, 4), [0, 1, 5, 21]);
        assert_eq!(flood(2_342 + 21 + 64 + 64, 3), [0, 256, 756], "the quiet time was too short for a reset");
    }
}
