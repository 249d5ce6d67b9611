//! The pacing of dials: the delay before a dial, and the patience with each of its steps.
//!
//! ```text
//!  first dial                             ──► no delay
//!  a connection that lasted has broken    ──► a random part of MAX_FIRST_DELAY
//!  a dial was refused, or a connection
//!  broke soon                             ──► MIN_DELAY, doubled each time up to MAX_DELAY
//!      and a call is submitted meanwhile  ──► at most MAX_DELAY_ON_DEMAND
//!  a dial had no answer in time, or two
//!  connections in a row were silent       ──► MIN_DELAY_AFTER_SILENCE, doubled each time up to MAX_DELAY_AFTER_SILENCE
//!  the node violated the protocol         ──► MIN_DELAY_AFTER_VIOLATION, doubled up to MAX_DELAY_AFTER_VIOLATION,
//!                                             however long the connection lasted
//! ```
//!
//! Thousands of clients may lose their connections to a node in the same instant. The random delays spread the dials of
//! these clients. A dial that ends without an answer costs the node as much as a successful dial, so a client that gets
//! no answer dials less often, and has more patience with the next dial.

use std::time::Duration;

use crate::values::NodeError;

/// The longest delay before the first dial after a connection that lasted.
const MAX_FIRST_DELAY: Duration = Duration::from_millis(100);

/// The delay after the first refused dial, which each further failure doubles.
const MIN_DELAY: Duration = Duration::from_millis(100);

/// The longest delay after refused dials.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// The longest delay after refused dials once a call is submitted. After a fault of a quorum, calls work again soon
/// after this delay. Thousands of clients with calls are a load that a node withstands.
const MAX_DELAY_ON_DEMAND: Duration = Duration::from_millis(800);

/// The delay after the first dial without an answer, which each further dial without an answer doubles.
const MIN_DELAY_AFTER_SILENCE: Duration = Duration::from_millis(500);

/// The longest delay after dials without an answer. With a patience of the same length, a client whose dial is lost just
/// before a node answers again still delivers its unlocks within ten seconds of that time.
const MAX_DELAY_AFTER_SILENCE: Duration = Duration::from_secs(4);

/// The delay after the first violation, which each further failure doubles.
const MIN_DELAY_AFTER_VIOLATION: Duration = Duration::from_millis(20);

/// The longest delay after a violation. No call shortens this delay.
const MAX_DELAY_AFTER_VIOLATION: Duration = Duration::from_secs(1);

/// The least duration of a connection after which the pacing begins anew.
const LASTING: Duration = Duration::from_secs(1);

/// The longest time for one step of a dial, unless the first patience is longer. A server that needs more time has no
/// time for calls either.
const MAX_PATIENCE: Duration = Duration::from_secs(4);

/// The pacing of the dials to one node: a pure value, with randomness as an argument.
#[derive(Debug)]
pub(super) struct Redial {
    /// The time for each step of a dial, unless an earlier dial had no answer.
    first_patience: Duration,
    /// The reason for the next dial.
    reason: DialReason,
    /// The number of dials and short connections that failed since the last connection that lasted.
    failures: u32,
    /// The number of dials in a row that had no answer in time, and of silent connections before, except for the first.
    silences: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialReason {
    First,
    /// The end of a connection that lasted.
    Broken,
    Refused,
    Silent,
    Violation,
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
    pub(super) fn new(first_patience: Duration) -> Self {
        Self { first_patience, reason: DialReason::First, failures: 0, silences: 0 }
    }

    /// Returns the delay before the next dial. `random` is at least 0 and below 1.
    pub(super) fn delay(&self, random: f64) -> Delay {
        let at_least_half = |delay: Duration| delay.mul_f64((1.0 + random) / 2.0);
        let equal = |delay| Delay { least: delay, most: delay };
        match self.reason {
            DialReason::First => equal(Duration::ZERO),
            DialReason::Broken => equal(MAX_FIRST_DELAY.mul_f64(random)),
            DialReason::Refused => {
                let delay = doubled(MIN_DELAY, self.failures, MAX_DELAY);
                Delay { least: at_least_half(delay.min(MAX_DELAY_ON_DEMAND)), most: at_least_half(delay) }
            }
            DialReason::Silent => {
                let delay = doubled(MIN_DELAY_AFTER_SILENCE, self.silences, MAX_DELAY_AFTER_SILENCE);
                equal(at_least_half(delay))
            }
            DialReason::Violation => {
                let delay = doubled(MIN_DELAY_AFTER_VIOLATION, self.failures, MAX_DELAY_AFTER_VIOLATION);
                equal(at_least_half(delay))
            }
        }
    }

    /// Returns the time for each step of the next dial.
    pub(super) fn patience(&self) -> Duration {
        doubled(self.first_patience, self.silences.saturating_add(1), MAX_PATIENCE.max(self.first_patience))
    }

    /// Handles a failed dial.
    pub(super) fn failed(&mut self, error: &NodeError) {
        self.failures = self.failures.saturating_add(1);
        let is_silent = matches!(error, NodeError::DialTimedOut(_));
        self.silences = if is_silent { self.silences.saturating_add(1) } else { 0 };
        self.reason = match error {
            error if error.is_violation() => DialReason::Violation,
            _ if is_silent => DialReason::Silent,
            _ => DialReason::Refused,
        };
    }

    /// Handles the end of a connection that lasted this long. `silences` is the number of silent connections in a row, up
    /// to this one; 0 if this connection was not silent.
    pub(super) fn lasted(&mut self, duration: Duration, error: &NodeError, silences: u32) {
        self.failed(error);
        if duration >= LASTING && self.reason != DialReason::Violation {
            // After one silence, only the connection may be lost. After more, the node has no time for the dials.
            let silences = silences.saturating_sub(1);
            let reason = if silences > 0 { DialReason::Silent } else { DialReason::Broken };
            *self = Self { reason, silences, ..Self::new(self.first_patience) };
        }
    }
}

/// Returns `first`, doubled with each of `times` after the first, and at most `most`.
fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1))).min(most)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    fn reset() -> NodeError {
        NodeError::Unreachable("reset".into())
    }

    fn silence() -> NodeError {
        NodeError::DialTimedOut("no connection within 1s".into())
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns the shortest and the longest delay.
    fn range(redial: &Redial) -> [Delay; 2] {
        [0.0, 1.0].map(|random| redial.delay(random))
    }

    /// Returns delays in milliseconds, with and without demand.
    fn delays(least: [u64; 2], most: [u64; 2]) -> [Delay; 2] {
        [0, 1].map(|end| Delay { least: millis(least[end]), most: millis(most[end]) })
    }

    #[test]
    fn delays_after_refused_dials_grow_and_demand_shortens_them() {
        let mut redial = Redial::new(PATIENCE);
        assert_eq!(range(&redial), delays([0, 0], [0, 0]), "the first dial");
        for (least, most) in [
            ([50, 100], [50, 100]),
            ([100, 200], [100, 200]),
            ([200, 400], [200, 400]),
            ([400, 800], [400, 800]),
            ([400, 800], [800, 1600]),
            ([400, 800], [1000, 2000]),
            ([400, 800], [1000, 2000]),
        ] {
            redial.failed(&reset());
            assert_eq!((range(&redial), redial.patience()), (delays(least, most), PATIENCE));
        }
    }

    #[test]
    fn delays_and_patience_grow_after_dials_without_an_answer() {
        let mut redial = Redial::new(PATIENCE);
        for (most, patience) in [(500, 2), (1000, 4), (2000, 4), (4000, 4), (4000, 4)] {
            redial.failed(&silence());
            assert_eq!(range(&redial), delays([most / 2, most], [most / 2, most]));
            assert_eq!(redial.patience(), Duration::from_secs(patience));
        }
        redial.failed(&reset());
        assert_eq!(redial.patience(), PATIENCE, "a refusal is an answer");
        let patient = Duration::from_secs(20);
        assert_eq!(Redial::new(patient).patience(), patient);
    }

    #[test]
    fn the_first_delay_after_a_lasting_connection_is_random_and_short() {
        let mut redial = Redial::new(PATIENCE);
        redial.failed(&silence());
        redial.lasted(millis(5), &reset(), 0);
        assert_eq!(range(&redial), delays([100, 200], [100, 200]), "the connection broke soon");
        redial.lasted(LASTING, &reset(), 0);
        assert_eq!(range(&redial), delays([0, 100], [0, 100]));
        redial.failed(&reset());
        assert_eq!(range(&redial), delays([50, 100], [50, 100]));
    }

    #[test]
    fn delays_and_patience_grow_with_silent_connections_in_a_row() {
        let mut redial = Redial::new(PATIENCE);
        redial.lasted(LASTING * 3, &reset(), 1);
        assert_eq!((range(&redial), redial.patience()), (delays([0, 100], [0, 100]), PATIENCE));
        for (silences, most, patience) in [(2, 500, 2), (3, 1000, 4), (9, 4000, 4)] {
            redial.lasted(LASTING * 3, &reset(), silences);
            assert_eq!(range(&redial), delays([most / 2, most], [most / 2, most]));
            assert_eq!(redial.patience(), Duration::from_secs(patience));
        }
        redial.lasted(LASTING * 3, &reset(), 0);
        assert_eq!((range(&redial), redial.patience()), (delays([0, 100], [0, 100]), PATIENCE));
    }

    #[test]
    fn violations_raise_delays_to_a_second_even_on_demand() {
        for error in
            [NodeError::ReadLimit { most: 1, most_values: 1 }, NodeError::Protocol("no RESP3".into())]
        {
            let mut redial = Redial::new(PATIENCE);
            for full in [20, 40, 80, 160, 320, 640, 1000, 1000] {
                redial.lasted(LASTING * 100, &error, 0);
                assert_eq!(range(&redial), delays([full / 2, full], [full / 2, full]));
            }
            redial.lasted(LASTING, &reset(), 0);
            assert_eq!(range(&redial), delays([0, 100], [0, 100]));
        }
    }

    /// The dials of all clients of a server that restarts: each client finds the server again soon, and no instant has
    /// many dials.
    #[test]
    fn clients_of_a_restarted_server_connect_soon_and_not_in_one_instant() {
        const CLIENTS: usize = 2_000;
        let restart = millis(100);
        let mut random = StdRng::seed_from_u64(1);
        let (mut connected_at, mut dials) = (Vec::new(), Vec::new());
        for _ in 0..CLIENTS {
            let mut redial = Redial::new(PATIENCE);
            redial.lasted(LASTING, &reset(), 0);
            let mut now = redial.delay(random.random()).most;
            dials.push(now);
            while now < restart {
                redial.failed(&reset());
                now += redial.delay(random.random()).most;
                dials.push(now);
            }
            connected_at.push(now);
        }
        assert!(connected_at.iter().max() < Some(&millis(300)), "{:?}", connected_at.iter().max());
        dials.sort();
        let most_within_10_ms = (0..dials.len())
            .map(|first| dials[first..].iter().take_while(|dial| **dial < dials[first] + millis(10)).count());
        assert!(most_within_10_ms.max() < Some(CLIENTS / 5));
    }
}
