//! How long to wait before the next dial.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The first delay after a failed dial, doubled each time.
const SHORTEST: Duration = Duration::from_millis(20);

/// The longest delay, and how long a connection must have lasted for the delays to begin anew.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// A call to a node that is down shortens the delay to this: soon enough for a caller who tries again, seldom enough
/// for one who tries all the time.
pub(super) const PROMPT: Duration = Duration::from_millis(100);

/// The delays between dials: none before the first, then growing, with up to half taken off at random so that many
/// clients do not come back to a node in step.
#[derive(Debug)]
pub(super) struct Redial {
    random: StdRng,
    next: Duration,
}

impl Redial {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), next: Duration::ZERO }
    }

    /// How long to wait now.
    pub(super) fn delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).clamp(SHORTEST, LONGEST);
        delay.mul_f64(self.random.random_range(0.5..=1.0))
    }

    /// A connection stood for so long.
    pub(super) fn lasted(&mut self, duration: Duration) {
        if duration >= LONGEST {
            self.next = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_second_and_begin_anew_after_a_connection_that_lasted() {
        let mut redial = Redial::new(1);
        assert_eq!(redial.delay(), Duration::ZERO);
        let mut full = SHORTEST;
        for _ in 0..10 {
            let delay = redial.delay();
            assert!(delay <= full && delay * 2 >= full, "{delay:?} of {full:?}");
            full = (full * 2).min(LONGEST);
        }
        redial.lasted(Duration::from_millis(5));
        assert!(redial.delay() >= LONGEST / 2);
        redial.lasted(LONGEST);
        assert_eq!(redial.delay(), Duration::ZERO);
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
