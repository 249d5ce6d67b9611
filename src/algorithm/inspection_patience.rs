//! The time for which an inspection of all nodes waits for answers, for `client/broadcast.rs`.

use std::time::Duration;

use crate::{algorithm::tally::Electorate, clock::Instant};

/// The time for which an inspection of all nodes waits for answers: until a hedge after a quorum has answered, and at
/// most a node timeout. Therefore an inspection gets the answers of a quorum even if a round trip exceeds a hedge, and
/// a silent minority costs only a hedge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InspectionPatience {
    electorate: Electorate,
    hedge: Duration,
    /// The end of the node timeout.
    latest: Instant,
    answers: usize,
    quorum_at: Option<Instant>,
}

impl InspectionPatience {
    pub(crate) fn new(
        electorate: Electorate,
        hedge: Duration,
        node_timeout: Duration,
        start: Instant,
    ) -> Self {
        Self { electorate, hedge, latest: start + node_timeout, answers: 0, quorum_at: None }
    }

    /// Handles the answer of one more node. The caller passes no errors.
    pub(crate) fn answered(&mut self, now: Instant) {
        self.answers += 1;
        if self.answers >= self.electorate.needed() {
            self.quorum_at.get_or_insert(now);
        }
    }

    /// Returns the end of the wait, according to the answers until now.
    pub(crate) fn deadline(&self) -> Instant {
        self.quorum_at.map_or(self.latest, |at| self.latest.min(at + self.hedge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEDGE: Duration = Duration::from_millis(125);
    const NODE_TIMEOUT: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    /// Returns the deadline of an inspection of five nodes that began at 0, after answers at these times.
    fn deadline(answers: &[u64]) -> Instant {
        let mut patience = InspectionPatience::new(Electorate::new(5, 3), HEDGE, NODE_TIMEOUT, at(0));
        answers.iter().for_each(|millis| patience.answered(at(*millis)));
        patience.deadline()
    }

    #[test]
    fn an_inspection_ends_a_hedge_after_a_quorum_or_at_the_node_timeout() {
        assert_eq!(deadline(&[]), at(1_000));
        assert_eq!(deadline(&[1, 2]), at(1_000));
        assert_eq!(deadline(&[1, 2, 300]), at(425));
        assert_eq!(deadline(&[1, 2, 300, 310]), at(425));
        assert_eq!(deadline(&[1, 2, 950]), at(1_000));
    }
}
