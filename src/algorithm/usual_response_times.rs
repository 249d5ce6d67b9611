//! The usual response times of nodes, from which attempts derive their hedges. No vote depends on them.

use std::{collections::BTreeMap, time::Duration};

use crate::clock::Instant;

/// The weight of an answer that is faster than usual.
const WEIGHT: f64 = 0.25;

/// The usual response times of the nodes of one client, and the times of their last answers.
///
/// A slow answer raises the usual response time of its node at once, because a node that has become busy also answers
/// the next request slowly. Faster answers lower the usual response time in steps, because one fast answer does not
/// show that the node is no longer busy.
#[derive(Debug, Default)]
pub(crate) struct UsualResponseTimes(BTreeMap<usize, NodeResponses>);

#[derive(Clone, Copy, Debug)]
struct NodeResponses {
    usual: Duration,
    last: Instant,
}

impl UsualResponseTimes {
    /// Handles an answer of a node to a request that was sent at `sent_at`.
    pub(crate) fn answered(&mut self, node: usize, sent_at: Instant, now: Instant) {
        let took = now.saturating_duration_since(sent_at);
        let responses = self.0.entry(node).or_insert(NodeResponses { usual: took, last: now });
        let average = responses.usual.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT);
        *responses = NodeResponses { usual: took.max(average), last: now };
    }

    /// Returns the usual response time of a node; `None` before its first answer.
    pub(crate) fn of(&self, node: usize) -> Option<Duration> {
        self.0.get(&node).map(|responses| responses.usual)
    }

    /// Returns the time of the last answer of a node; `None` before its first answer.
    pub(crate) fn last_answer(&self, node: usize) -> Option<Instant> {
        self.0.get(&node).map(|responses| responses.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn a_slow_answer_counts_at_once_and_faster_answers_count_in_steps() {
        let mut times = UsualResponseTimes::default();
        assert_eq!(times.of(1), None);
        let after = |took| {
            times.answered(1, at(0), at(took));
            times.of(1).unwrap().as_millis()
        };
        assert_eq!([4, 400, 0, 0, 200, 8].map(after), [4, 400, 300, 225, 218, 166]);
    }

    #[test]
    fn each_node_has_its_own_times() {
        let mut times = UsualResponseTimes::default();
        times.answered(2, at(10), at(17));
        assert_eq!([times.of(1), times.of(2)], [None, Some(Duration::from_millis(7))]);
        assert_eq!([times.last_answer(1), times.last_answer(2)], [None, Some(at(17))]);
    }
}
