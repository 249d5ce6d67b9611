//! The clocks of simulated processes and nodes, with wrong rates, steps and freezes.

use std::time::Duration;

/// A clock with its own rate: local time as a function of global time, both in whole microseconds.
///
/// ```text
/// local(global) = base_local + (global - base_global) * (1 + rate)
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkewedClock {
    /// The error of the rate, in millionths.
    rate: i64,
    base_local: u64,
    base_global: u64,
    is_frozen: bool,
}

/// The number of millionths in a whole.
const PPM: i64 = 1_000_000;

impl SkewedClock {
    /// Creates a clock that shows `local` at global time zero. The error of the rate is limited to one
    /// half, so that the clock always advances.
    pub(crate) fn new(local: Duration, rate: i32) -> Self {
        let rate = i64::from(rate).clamp(-PPM / 2, PPM / 2);
        Self { rate, base_local: micros(local), base_global: 0, is_frozen: false }
    }

    /// Returns the local time at a global time.
    pub(crate) fn local(&self, global: u64) -> u64 {
        if self.is_frozen {
            return self.base_local;
        }
        let elapsed = u128::from(global.saturating_sub(self.base_global));
        let counted = elapsed * u128::from(self.speed()) / u128::from(PPM.unsigned_abs());
        self.base_local.saturating_add(u64::try_from(counted).unwrap_or(u64::MAX))
    }

    /// Returns the first global time at which the clock shows `local` or more. If the clock showed `local`
    /// at its last change already, returns the time of that change. Returns `None` if the clock is
    /// frozen earlier than `local`.
    pub(crate) fn global(&self, local: u64) -> Option<u64> {
        let ahead = u128::from(local.saturating_sub(self.base_local));
        if ahead == 0 {
            return Some(self.base_global);
        }
        if self.is_frozen {
            return None;
        }
        let wait = (ahead * u128::from(PPM.unsigned_abs())).div_ceil(u128::from(self.speed()));
        Some(self.base_global.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Stops or continues the clock at this global time.
    pub(crate) fn set_frozen(&mut self, is_frozen: bool, global: u64) {
        self.rebase(global);
        self.is_frozen = is_frozen;
    }

    /// Steps the clock by this number of milliseconds.
    pub(crate) fn step(&mut self, by: i64, global: u64) {
        self.rebase(global);
        let by_micros = by.saturating_mul(1000);
        self.base_local = self.base_local.saturating_add_signed(by_micros);
    }

    /// Moves the base to this global time, before a change of the clock.
    fn rebase(&mut self, global: u64) {
        self.base_local = self.local(global);
        self.base_global = global;
    }

    fn speed(&self) -> u64 {
        (PPM + self.rate).unsigned_abs()
    }
}

/// Returns whole microseconds, rounded up.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clock_advances_at_its_rate_from_its_start() {
        let clock = SkewedClock::new(Duration::from_secs(7), 5_000);
        assert_eq!(clock.local(0), 7_000_000);
        assert_eq!(clock.local(1_000_000), 8_005_000);
    }

    #[test]
    fn a_frozen_clock_stops_and_continues_from_the_same_time() {
        let mut clock = SkewedClock::new(Duration::ZERO, 0);
        clock.set_frozen(true, 10);
        assert_eq!((clock.local(500), clock.global(11)), (10, None));
        clock.set_frozen(false, 500);
        assert_eq!((clock.local(501), clock.global(11)), (11, Some(501)));
    }

    #[test]
    fn a_step_moves_a_clock_forwards_or_backwards() {
        let mut clock = SkewedClock::new(Duration::from_secs(1), 0);
        clock.step(-300, 0);
        assert_eq!(clock.local(0), 700_000);
        clock.step(500, 100);
        assert_eq!(clock.local(100), 1_200_100);
    }

    proptest! {
        #[test]
        fn a_sleep_ends_at_the_first_global_instant_of_its_local_deadline(
            rate in -20_000_i32..20_000,
            local in 0_u64..10_000_000_000,
        ) {
            let clock = SkewedClock::new(Duration::ZERO, rate);
            let global = clock.global(local).unwrap();
            prop_assert!(clock.local(global) >= local);
            prop_assert!(global == 0 || clock.local(global - 1) < local);
        }
    }
}
