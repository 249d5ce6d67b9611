//! The limit for the rate of a waiter's attempts, whatever the nodes answer.

use std::time::Duration;

use crate::{
    clock::Instant,
    mutation::{self, Mutation},
};

/// The number of failed attempts that may follow one another without a delay.
const MAX_BURST: u32 = 16;

/// The limit for the rate at which the waiter for some resources makes attempts that fail.
///
/// Most attempts follow an event: a wake, a release notice, or a refusal for another resource of a group. The rollbacks
/// of several waiters can cause these events for one another, and a faulty node can cause them without end. The delays
/// of the waiter schedule depend on the kind of failure, and are reset by other kinds of failures. Therefore this limit
/// counts every failed attempt.
///
/// Each failure is forgotten a floor after the failure before it. While more than [`MAX_BURST`] failures are not
/// forgotten, the next attempt is delayed.
///
/// # Invariants
///
/// 1. In a time of `n` floors without an acquired lock, at most `MAX_BURST + n + 1` attempts begin, if each attempt is
///    delayed by [`delay`](Self::delay).
/// 2. No delay exceeds a floor, if each attempt is delayed by [`delay`](Self::delay).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttemptLimit {
    /// The time at which all failures are forgotten; `None` if no attempt has failed.
    forgotten_at: Option<Instant>,
}

impl AttemptLimit {
    /// Handles a failed attempt.
    pub(crate) fn failed(&mut self, floor: Duration, now: Instant) {
        let last = self.forgotten_at.map_or(now, |at| at.max(now));
        self.forgotten_at = Some(last + floor);
    }

    /// Handles an acquired lock.
    pub(crate) fn acquired(&mut self) {
        *self = Self::default();
    }

    /// Returns the delay before the next attempt.
    pub(crate) fn delay(&self, floor: Duration, now: Instant) -> Duration {
        let remaining = self.forgotten_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let delay = remaining.saturating_sub(floor.saturating_mul(MAX_BURST));
        mutation::altered(Mutation::NoAttemptLimit, delay, |_| Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Duration = Duration::from_millis(5);

    /// Returns the times, in milliseconds from `from`, of attempts that fail at once.
    fn failing_attempts(limit: &mut AttemptLimit, from: u64, attempts: usize) -> Vec<u64> {
        let start = Instant::from_origin(Duration::from_millis(from));
        let mut now = start;
        let times = (0..attempts).map(|_| {
            now = now + limit.delay(FLOOR, now);
            limit.failed(FLOOR, now);
            u64::try_from(now.saturating_duration_since(start).as_millis()).unwrap()
        });
        times.collect()
    }

    #[test]
    fn attempts_are_a_floor_apart_after_a_burst_of_failures() {
        let mut limit = AttemptLimit::default();
        let times = failing_attempts(&mut limit, 0, 21);
        let (burst, later) = times.split_at(17);
        assert!(burst.iter().all(|at| *at == 0), "{burst:?}");
        assert_eq!(later, [5, 10, 15, 20]);
        let after_a_rest = failing_attempts(&mut limit, 40, 6);
        assert_eq!(after_a_rest, [0, 0, 0, 0, 5, 10], "four failures were forgotten");
    }

    #[test]
    fn an_acquired_lock_ends_the_limit() {
        let mut limit = AttemptLimit::default();
        failing_attempts(&mut limit, 0, 100);
        limit.acquired();
        assert_eq!(failing_attempts(&mut limit, 100, 2), [0, 0]);
    }

    #[test]
    fn attempts_a_floor_apart_are_never_delayed() {
        let mut limit = AttemptLimit::default();
        for attempt in 0..100 {
            assert_eq!(failing_attempts(&mut limit, attempt * 5, 1), [0]);
        }
    }
}
