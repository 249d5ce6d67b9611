//! The delays between dials.
//!
//! ```text
//!  first dial, or a connection lasted MAX_DELAY  ──► no delay
//!  a dial failed, or a connection broke soon     ──► MIN_DELAY, doubled each time up to MAX_DELAY
//!  the node violated the protocol                ──► the same, however long the connection lasted
//!  a call is submitted meanwhile                 ──► at most DELAY_ON_DEMAND, unless after a violation
//! ```

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::values::NodeError;

/// The delay after the first failed dial, which each further failure doubles.
const MIN_DELAY: Duration = Duration::from_millis(20);

/// The longest delay, and the least duration of a connection after which delays begin anew. After a fault of a quorum,
/// calls work again soon after this delay.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// The longest delay once a call is submitted. The delay is so short that a retry of the caller may find a connection,
/// and so long that a caller that retries without a pause causes few dials.
const DELAY_ON_DEMAND: Duration = Duration::from_millis(100);

/// The delays between dials: zero before the first dial, then growing. Each delay is shortened by a random part, at
/// most half, so that clients do not dial a node at the same time.
#[derive(Debug)]
pub(super) struct Redial {
    random: StdRng,
    next: Duration,
    /// Whether the last connection or dial ended by a protocol violation.
    is_after_violation: bool,
}

/// The delay before a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delay {
    /// The delay if a call is submitted.
    pub(super) least: Duration,
    /// The delay if no call is submitted.
    pub(super) most: Duration,
}

impl Redial {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), next: Duration::ZERO, is_after_violation: false }
    }

    /// Returns the delay before the next dial.
    pub(super) fn delay(&mut self) -> Delay {
        let delay = self.next;
        self.next = (delay * 2).clamp(MIN_DELAY, MAX_DELAY);
        let most = delay.mul_f64(self.random.random_range(0.5..=1.0));
        Delay { least: if self.is_after_violation { most } else { most.min(DELAY_ON_DEMAND) }, most }
    }

    /// Handles a failed dial.
    pub(super) fn failed(&mut self, error: &NodeError) {
        self.is_after_violation = error.is_violation();
    }

    /// Handles the end of a connection that lasted this long.
    pub(super) fn lasted(&mut self, duration: Duration, error: &NodeError) {
        self.failed(error);
        if duration >= MAX_DELAY && !self.is_after_violation {
            self.next = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reset() -> NodeError {
        NodeError::Unreachable("reset".into())
    }

    #[test]
    fn delays_grow_to_a_second_and_reset_after_a_lasting_connection() {
        let mut redial = Redial::new(1);
        assert_eq!(redial.delay().most, Duration::ZERO);
        let mut full = MIN_DELAY;
        for _ in 0..10 {
            let Delay { most, .. } = redial.delay();
            assert!(most <= full && most * 2 >= full, "{most:?} of {full:?}");
            full = (full * 2).min(MAX_DELAY);
        }
        redial.lasted(Duration::from_millis(5), &reset());
        let delay = redial.delay();
        assert!(delay.most >= MAX_DELAY / 2 && delay.least == DELAY_ON_DEMAND, "{delay:?}");
        redial.lasted(MAX_DELAY, &reset());
        assert_eq!(redial.delay().most, Duration::ZERO);
    }

    #[test]
    fn violations_raise_delays_to_a_second_even_on_demand() {
        let mut redial = Redial::new(1);
        assert_eq!(redial.delay().most, Duration::ZERO);
        for error in
            [NodeError::ReadLimit { most: 1, most_values: 1 }, NodeError::Protocol("no RESP3".into())]
        {
            let mut full = MIN_DELAY;
            for _ in 0..15 {
                redial.lasted(MAX_DELAY * 100, &error);
                let Delay { least, most } = redial.delay();
                assert!(
                    least == most && most <= full && most * 2 >= full,
                    "{least:?} to {most:?} of {full:?}"
                );
                full = (full * 2).min(MAX_DELAY);
            }
            redial.failed(&reset());
            let delay = redial.delay();
            assert!(delay.most <= MAX_DELAY && delay.least <= DELAY_ON_DEMAND, "{delay:?}");
            redial.lasted(MAX_DELAY, &reset());
            assert_eq!(redial.delay().most, Duration::ZERO);
        }
    }

    #[test]
    fn a_seed_determines_the_delays() {
        let delays = |seed| {
            let mut redial = Redial::new(seed);
            [(); 5].map(|()| redial.delay())
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
    }
}
