//! How long nodes take to answer.

use std::time::Duration;

/// A node is far from a client if it takes so many times as long as a quorum.
const FAR: u32 = 4;

/// And at least so much longer.
const LEAST: Duration = Duration::from_millis(1);

/// How much of the difference to the last answer is taken over.
const WEIGHT: f64 = 0.25;

/// How long the nodes of one client take to answer, as a moving average.
#[derive(Debug, Default)]
pub(crate) struct AnswerTimes(Vec<Option<Duration>>);

impl AnswerTimes {
    pub(crate) fn heard(&mut self, node: usize, took: Duration) {
        if self.0.len() <= node {
            self.0.resize(node + 1, None);
        }
        if let Some(time) = self.0.get_mut(node) {
            *time = Some(time.map_or(took, |time| time.mul_f64(1.0 - WEIGHT) + took.mul_f64(WEIGHT)));
        }
    }

    /// Whether a node takes much longer than so many of the nodes need, without which nothing is
    /// decided. Not while fewer have answered.
    pub(crate) fn is_far(&self, node: usize, needed: usize) -> bool {
        let Some(Some(time)) = self.0.get(node) else { return false };
        let mut times: Vec<Duration> = self.0.iter().copied().flatten().collect();
        times.sort_unstable();
        let quorum = needed.checked_sub(1).and_then(|last| times.get(last));
        quorum.is_some_and(|quorum| *time > quorum.saturating_mul(FAR).saturating_add(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::from_millis(1);

    fn times(of: &[(usize, u32)]) -> AnswerTimes {
        let mut times = AnswerTimes::default();
        of.iter().for_each(|(node, millis)| times.heard(*node, NEAR * *millis));
        times
    }

    #[test]
    fn a_node_is_far_that_takes_several_times_as_long_as_a_quorum() {
        let times = times(&[(0, 1), (1, 2), (2, 3), (3, 13), (4, 14)]);
        let far: Vec<usize> = (0..6).filter(|node| times.is_far(*node, 3)).collect();
        assert_eq!(far, [4]);
    }

    #[test]
    fn nobody_is_far_before_a_quorum_has_answered_or_where_a_quorum_is() {
        assert!(!times(&[(0, 1), (4, 13)]).is_far(4, 3));
        assert!(!times(&[(0, 1), (1, 1), (2, 13), (3, 13), (4, 13)]).is_far(4, 3));
    }

    #[test]
    fn one_slow_answer_does_not_make_a_node_far_and_quick_ones_make_it_near_again() {
        let mut times = times(&[(0, 1), (1, 1), (2, 1), (2, 15)]);
        assert!(!times.is_far(2, 2));
        (0..9).for_each(|_| times.heard(2, NEAR * 9));
        assert!(times.is_far(2, 2));
        (0..9).for_each(|_| times.heard(2, NEAR));
        assert!(!times.is_far(2, 2));
    }
}
