//! The validity of a lease: the time for which its keys certainly exist on the nodes, in spite of clocks that differ.

use std::time::Duration;

use crate::clock::Instant;

/// The margin for the granularity of clocks: Redis counts the ttl of a key in whole milliseconds, and the clock of
/// Redis stands still while a script runs.
pub(crate) const MARGIN: Duration = Duration::from_millis(2);

/// The rule that turns a ttl into a validity: `valid_until = start + ttl * (1 - drift) - 2 ms`.
///
/// `start` is read before the first byte of the attempt is sent. Let the rate of every clock be off by at most ε. A key
/// that a node keeps for `ttl` of the node's time exists for at least `ttl / (1 + ε)` of real time. While a client
/// counts `v`, at most `v / (1 - ε)` of real time passes. Therefore the lease ends before its keys if
/// `v <= ttl * (1 - ε) / (1 + ε)`. Since `(1 - ε) / (1 + ε) >= 1 - 2ε`, a drift of 2ε suffices. The customary drift of
/// one percent, from the page on distributed locks of the Redis documentation, allows half a percent on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    drift_ppm: u32,
}

impl Validity {
    const PPM: u32 = 1_000_000;
    /// A power of two. All smaller powers of two together exceed the largest drift.
    const LARGEST_STEP: u32 = 1 << 19;

    /// Returns the rule for a drift, which is rounded up to whole parts per million; `None` unless `0 <= drift < 0.5`.
    pub(crate) fn with_drift(drift: f64) -> Option<Self> {
        if !(0.0..0.5).contains(&drift) {
            return None;
        }
        // A binary search finds the largest number of millionths below the drift. A cast might round down.
        let (mut below, mut step) = (0, Self::LARGEST_STEP);
        while step > 0 {
            if f64::from(below + step) / f64::from(Self::PPM) < drift {
                below += step;
            }
            step /= 2;
        }
        let drift_ppm = if drift > 0.0 { below + 1 } else { 0 };
        Some(Self { drift_ppm })
    }

    /// Returns the drift, in parts per million.
    #[cfg(feature = "sim")]
    pub(crate) fn drift_ppm(self) -> u32 {
        self.drift_ppm
    }

    /// Returns the validity of a lease of this ttl, counted from its start; zero if drift and margin exceed the ttl.
    pub(crate) fn window(self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.drift_of(ttl)).saturating_sub(MARGIN)
    }

    /// Returns the drift over a duration, rounded up to be safe. 128 bits hold any `Duration` times a million.
    fn drift_of(self, duration: Duration) -> Duration {
        from_nanos((duration.as_nanos() * u128::from(self.drift_ppm)).div_ceil(u128::from(Self::PPM)))
    }

    /// Returns the time that the fastest clock counts until the slowest clock has counted `duration`. Each clock may be
    /// off by half of the drift, so the result is `duration * (2 + drift) / (2 - drift)` plus the margin.
    pub(crate) fn seen_by_any(self, duration: Duration) -> Duration {
        let (fast, slow) = (2 * Self::PPM + self.drift_ppm, 2 * Self::PPM - self.drift_ppm);
        let nanos = (duration.as_nanos() * u128::from(fast)).div_ceil(u128::from(slow));
        from_nanos(nanos).saturating_add(MARGIN)
    }

    /// Returns the time that the clock of a node counts until every lease whose ttl is `duration` has ended, on the
    /// node and for its holder.
    pub(crate) fn outlasting(self, duration: Duration) -> Duration {
        duration.saturating_add(self.drift_of(duration)).saturating_add(MARGIN)
    }

    pub(crate) fn valid_until(self, start: Instant, ttl: Duration) -> Instant {
        start + self.window(ttl)
    }

    /// Returns the smallest ttl in whole milliseconds whose validity is at least `least`.
    pub(crate) fn least_ttl(self, least: Duration) -> Duration {
        let nanos = least.saturating_add(MARGIN).as_nanos() * u128::from(Self::PPM);
        let millis = nanos.div_ceil(u128::from(Self::PPM - self.drift_ppm)).div_ceil(1_000_000);
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}

fn from_nanos(nanos: u128) -> Duration {
    Duration::new(
        u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX),
        u32::try_from(nanos % 1_000_000_000).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_validity_is_the_ttl_less_drift_and_margin() {
        let validity = Validity::with_drift(0.01).unwrap();
        let window = validity.window(Duration::from_secs(30));
        assert!(window <= Duration::from_millis(29_698), "{window:?}");
        assert!(window > Duration::from_millis(29_697), "{window:?}");
    }

    #[test]
    fn the_validity_of_a_tiny_ttl_is_zero() {
        let validity = Validity::with_drift(0.49).unwrap();
        for ttl in
            [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(2), Duration::from_millis(3)]
        {
            assert_eq!(validity.window(ttl), Duration::ZERO, "{ttl:?}");
        }
        assert!(validity.window(Duration::MAX) < Duration::MAX);
    }

    #[test]
    fn a_drift_outside_0_to_one_half_is_refused() {
        for drift in [-0.01, 0.5, 1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Validity::with_drift(drift), None, "{drift}");
        }
        assert_eq!(Validity::with_drift(0.01), Some(Validity { drift_ppm: 10_000 }));
        assert_eq!(Validity::with_drift(0.000_000_1), Some(Validity { drift_ppm: 1 }));
        assert_eq!(Validity::with_drift(0.0), Some(Validity { drift_ppm: 0 }));
    }

    proptest! {
        /// The client's clock is slow and the node's clock is fast, each by half of the drift.
        #[test]
        fn a_lease_ends_before_its_key_with_the_slowest_client_and_the_fastest_node(
            millis in 3_u32..86_400_000, ppm in 0_u32..400_000,
        ) {
            let epsilon = f64::from(ppm) / 2e6;
            let validity = Validity { drift_ppm: ppm };
            let ttl = Duration::from_millis(millis.into());
            let lease_lasts = validity.window(ttl).as_secs_f64() / (1.0 - epsilon);
            let key_lasts = ttl.as_secs_f64() / (1.0 + epsilon);
            prop_assert!(lease_lasts <= key_lasts);
        }

        #[test]
        fn a_lease_outlives_its_key_at_twice_the_tolerated_drift(millis in 10_000_u32..86_400_000) {
            let validity = Validity { drift_ppm: 10_000 };
            let ttl = Duration::from_millis(millis.into());
            let lease_lasts = validity.window(ttl).as_secs_f64() / (1.0 - 0.01);
            prop_assert!(lease_lasts > ttl.as_secs_f64() / (1.0 + 0.01));
        }

        #[test]
        fn the_least_ttl_is_the_smallest_whose_validity_is_at_least_the_requested_validity(
            micros in 1_u64..10_000_000, ppm in 0_u32..499_999,
        ) {
            let validity = Validity { drift_ppm: ppm };
            let least = Duration::from_micros(micros);
            let ttl = validity.least_ttl(least);
            prop_assert!(validity.window(ttl) >= least);
            prop_assert!(validity.window(ttl - Duration::from_millis(1)) < least);
        }
    }

    #[test]
    fn the_slowest_clock_counts_at_least_the_duration_while_the_fastest_clock_waits() {
        for (drift, millis) in [(0.0, 2_002.0), (0.01, 2_022.1), (0.2, 2_446.45)] {
            let waits = Validity::with_drift(drift).unwrap().seen_by_any(Duration::from_secs(2));
            let error = (waits.as_secs_f64() * 1000.0 - millis).abs();
            assert!(error < 0.05, "{drift}: {waits:?}");
            let slowest =
                (waits - Duration::from_millis(2)).as_secs_f64() * (1.0 - drift / 2.0) / (1.0 + drift / 2.0);
            assert!(slowest >= 2.0 - 1e-9, "{drift}: {slowest}");
        }
    }

    #[test]
    fn a_drift_of_whole_millionths_is_exact_and_any_other_drift_is_rounded_up() {
        for ppm in (0..500_000).step_by(997).chain([1, 499_999]) {
            let drift = f64::from(ppm) / 1e6;
            assert_eq!(Validity::with_drift(drift), Some(Validity { drift_ppm: ppm }), "{drift}");
            let above = Some(Validity { drift_ppm: ppm + 1 });
            assert_eq!(Validity::with_drift(drift + 1e-7), above, "{drift}");
        }
    }

    #[test]
    fn a_ttl_without_drift_exceeds_its_validity_by_the_margin() {
        let validity = Validity { drift_ppm: 0 };
        assert_eq!(validity.least_ttl(Duration::from_millis(1)), Duration::from_millis(3));
        assert_eq!(validity.window(Duration::from_millis(3)), Duration::from_millis(1));
    }

    #[test]
    fn every_lease_has_ended_after_its_ttl_with_drift_and_margin() {
        let validity = Validity::with_drift(0.01).unwrap();
        assert_eq!(validity.outlasting(Duration::from_secs(10)), Duration::from_millis(10_102));
    }
}
