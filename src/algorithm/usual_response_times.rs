//! The usual response times of nodes, from which attempts derive their hedges. No vote depends on them.

use std::{collections::BTreeMap, time::Duration};

use crate::clock::Instant;

/// The time after which the response times of a node count no longer. Otherwise a node that was busy once, and dies much
/// later, would be waited for as long as while the node was busy.
const MEMORY: Duration = Duration::from_secs(30);

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
        let earlier = self.of(node, now).unwrap_or(took);
        let average = earlier.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT);
        let last = self.last_answer(node).map_or(now, |last| last.max(now));
        self.0.insert(node, NodeResponses { usual: took.max(average), last });
    }

    /// Returns the usual response time of a node; `None` if the node has not answered within [`MEMORY`].
    pub(crate) fn of(&self, node: usize, now: Instant) -> Option<Duration> {
        let responses = self.0.get(&node).filter(|responses| now < responses.last + MEMORY)?;
        Some(responses.usual)
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
        assert_eq!(times.of(1, at(0)), None);
        let after = |took| {
            times.answered(1, at(0), at(took));
            times.of(1, at(1_000)).unwrap().as_millis()
        };
        assert_eq!([4, 400, 0, 0, 200, 8].map(after), [4, 400, 300, 225, 218, 166]);
    }

    #[test]
    fn each_node_has_its_own_times() {
        let mut times = UsualResponseTimes::default();
        times.answered(2, at(10), at(17));
        let of = |node| times.of(node, at(17));
        assert_eq!([of(1), of(2)], [None, Some(Duration::from_millis(7))]);
        assert_eq!([times.last_answer(1), times.last_answer(2)], [None, Some(at(17))]);
    }

    #[test]
    fn response_times_are_forgotten_after_half_a_minute() {
        let mut times = UsualResponseTimes::default();
        times.answered(1, at(0), at(900));
        assert_eq!(times.of(1, at(30_899)), Some(Duration::from_millis(900)));
        assert_eq!(times.of(1, at(30_900)), None);
        times.answered(1, at(40_000), at(40_002));
        assert_eq!(
            times.of(1, at(40_002)),
            Some(Duration::from_millis(2)),
            "the earlier time does not count"
        );
    }
}
