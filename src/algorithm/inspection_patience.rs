//! The time that an inspection of all nodes waits for answers.

use std::time::Duration;

use crate::{algorithm::tally::Electorate, clock::Instant};

/// The time that an inspection of all nodes waits for answers: until a hedge after a quorum has answered, and at most a
/// node timeout. A client whose round trip exceeds a hedge receives these answers, and a silent minority costs a hedge.
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

    /// Handles an answer of one more node. An error is no answer.
    pub(crate) fn answered(&mut self, now: Instant) {
        self.answers += 1;
        if self.answers >= self.electorate.needed() {
            self.quorum_at.get_or_insert(now);
        }
    }

    /// Returns the end of the wait by the answers so far.
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

    /// The deadline after answers at these times, of an inspection of five nodes that began at 0.
    fn deadline(answers: &[u64]) -> Instant {
        let mut patience = InspectionPatience::new(Electorate::new(5, 3), HEDGE, NODE_TIMEOUT, at(0));
        answers.iter().for_each(|millis| patience.answered(at(*millis)));
        patience.deadline()
    }

    #[test]
    fn an_inspection_waits_a_hedge_for_the_nodes_beyond_a_quorum_and_a_node_timeout_for_the_quorum() {
        assert_eq!(deadline(&[]), at(1_000));
        assert_eq!(deadline(&[1, 2]), at(1_000));
        assert_eq!(deadline(&[1, 2, 300]), at(425));
        assert_eq!(deadline(&[1, 2, 300, 310]), at(425));
        assert_eq!(deadline(&[1, 2, 950]), at(1_000));
    }
}
