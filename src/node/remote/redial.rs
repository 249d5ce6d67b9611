//! How long to wait before the next dial.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::values::NodeError;

/// The first delay after a failed dial, doubled each time.
const SHORTEST: Duration = Duration::from_millis(20);

/// The longest delay, and how long a connection must have lasted for the delays to begin anew.
const LONGEST: Duration = Duration::from_secs(1);

/// The longest delay after the node has sent what it must not, which costs more to hear than to do
/// without the node.
const LONGEST_WARY: Duration = Duration::from_secs(30);

/// A call to a node that is down shortens the delay to this: soon enough for a caller who tries
/// again, seldom enough for one who tries all the time.
const PROMPT: Duration = Duration::from_millis(100);

/// The delays between dials: none before the first, then growing, with up to half taken off at
/// random so that many clients do not come back to a node in step.
#[derive(Debug)]
pub(super) struct Redial {
    random: StdRng,
    next: Duration,
    /// Whether the node sent what it must not the last time.
    is_wary: bool,
}

/// How long to wait before a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delay {
    /// If a call comes in.
    pub(super) least: Duration,
    /// If none does.
    pub(super) most: Duration,
}

impl Redial {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), next: Duration::ZERO, is_wary: false }
    }

    /// How long to wait now.
    pub(super) fn delay(&mut self) -> Delay {
        let longest = if self.is_wary { LONGEST_WARY } else { LONGEST };
        let delay = self.next.min(longest);
        self.next = (delay * 2).clamp(SHORTEST, longest);
        let most = delay.mul_f64(self.random.random_range(0.5..=1.0));
        Delay { least: if self.is_wary { most } else { most.min(PROMPT) }, most }
    }

    /// There was no connection, for this reason.
    pub(super) fn failed(&mut self, error: &NodeError) {
        self.is_wary = error.is_violation();
    }

    /// A connection stood for so long, and ended for this reason.
    pub(super) fn lasted(&mut self, duration: Duration, error: &NodeError) {
        self.failed(error);
        if duration >= LONGEST && !self.is_wary {
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
    fn delays_grow_to_a_second_and_begin_anew_after_a_connection_that_lasted() {
        let mut redial = Redial::new(1);
        assert_eq!(redial.delay().most, Duration::ZERO);
        let mut full = SHORTEST;
        for _ in 0..10 {
            let Delay { most, .. } = redial.delay();
            assert!(most <= full && most * 2 >= full, "{most:?} of {full:?}");
            full = (full * 2).min(LONGEST);
        }
        redial.lasted(Duration::from_millis(5), &reset());
        let delay = redial.delay();
        assert!(delay.most >= LONGEST / 2 && delay.least == PROMPT, "{delay:?}");
        redial.lasted(LONGEST, &reset());
        assert_eq!(redial.delay().most, Duration::ZERO);
    }

    #[test]
    fn delays_after_violations_grow_to_half_a_minute_and_neither_calls_nor_time_shortens_them() {
        let mut redial = Redial::new(1);
        assert_eq!(redial.delay().most, Duration::ZERO);
        for error in [NodeError::ReadLimit { most: 1 }, NodeError::Protocol("no RESP3".into())] {
            let mut full = SHORTEST;
            for _ in 0..15 {
                redial.lasted(LONGEST * 100, &error);
                let Delay { least, most } = redial.delay();
                assert!(
                    least == most && most <= full && most * 2 >= full,
                    "{least:?} to {most:?} of {full:?}"
                );
                full = (full * 2).min(LONGEST_WARY);
            }
            redial.failed(&reset());
            let delay = redial.delay();
            assert!(delay.most <= LONGEST && delay.least <= PROMPT, "{delay:?}");
            redial.lasted(LONGEST, &reset());
            assert_eq!(redial.delay().most, Duration::ZERO);
        }
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let delays = |seed| {
            let mut redial = Redial::new(seed);
            [(); 5].map(|()| redial.delay())
        };
        assert_eq!(delays(7), delays(7));
        assert_ne!(delays(7), delays(8));
    }
}
