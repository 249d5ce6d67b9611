//! The response times of nodes, by which a client chooses wait queues. No vote depends on them.

use std::time::Duration;

/// The multiple of the response time of a quorum that a slow node exceeds by more than [`MIN_DIFFERENCE`].
const SLOW_FACTOR: u32 = 4;

/// The excess over [`SLOW_FACTOR`] response times of a quorum above which a node is slow.
const MIN_DIFFERENCE: Duration = Duration::from_millis(1);

/// The weight of the last response in the moving average.
const WEIGHT: f64 = 0.25;

/// The response times of the nodes of one client, as moving averages.
#[derive(Debug, Default)]
pub(crate) struct ResponseTimes(Vec<Option<Duration>>);

impl ResponseTimes {
    /// Handles an answer of a node, `took` after the request.
    pub(crate) fn answered(&mut self, node: usize, took: Duration) {
        if self.0.len() <= node {
            self.0.resize(node + 1, None);
        }
        if let Some(time) = self.0.get_mut(node) {
            *time = Some(time.map_or(took, |time| time.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT)));
        }
    }

    /// Whether a node is slow, compared with the slowest of the fastest `needed` nodes. Until `needed` nodes have
    /// answered, no node is slow.
    pub(crate) fn is_slow(&self, node: usize, needed: usize) -> bool {
        let Some(Some(time)) = self.0.get(node) else { return false };
        let mut times: Vec<Duration> = self.0.iter().copied().flatten().collect();
        times.sort_unstable();
        let quorum = needed.checked_sub(1).and_then(|last| times.get(last));
        quorum.is_some_and(|quorum| *time > quorum.saturating_mul(SLOW_FACTOR).saturating_add(MIN_DIFFERENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Returns the response times after answers of these nodes in these milliseconds.
    fn times(answers: &[(usize, u32)]) -> ResponseTimes {
        let mut times = ResponseTimes::default();
        answers.iter().for_each(|(node, millis)| times.answered(*node, MILLISECOND * *millis));
        times
    }

    #[test]
    fn a_node_that_takes_more_than_four_times_as_long_as_a_quorum_is_slow() {
        let times = times(&[(0, 1), (1, 2), (2, 3), (3, 13), (4, 14)]);
        let slow: Vec<usize> = (0..6).filter(|node| times.is_slow(*node, 3)).collect();
        assert_eq!(slow, [4]);
    }

    #[test]
    fn no_node_is_slow_before_a_quorum_has_answered_or_if_the_quorum_is_as_slow() {
        assert!(!times(&[(0, 1), (4, 13)]).is_slow(4, 3));
        assert!(!times(&[(0, 1), (1, 1), (2, 13), (3, 13), (4, 13)]).is_slow(4, 3));
    }

    #[test]
    fn one_late_answer_makes_no_node_slow_and_fast_answers_end_the_slowness() {
        let mut times = times(&[(0, 1), (1, 1), (2, 1), (2, 15)]);
        assert!(!times.is_slow(2, 2));
        (0..9).for_each(|_| times.answered(2, MILLISECOND * 9));
        assert!(times.is_slow(2, 2));
        (0..9).for_each(|_| times.answered(2, MILLISECOND));
        assert!(!times.is_slow(2, 2));
    }
}
