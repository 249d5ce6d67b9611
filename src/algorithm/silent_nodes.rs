//! The silent nodes of one client. `client/responsiveness.rs` records timeouts and answers here.

use std::{collections::BTreeMap, time::Duration};

use crate::{algorithm::node_set::NodeSet, clock::Instant};

/// The time for which calls do not wait for a node after its first timeout.
///
/// The time is short, because during this time the waiters of this client may be in other wait queues than the waiters
/// of clients for which the node is not silent. After this time, a wait for a node that still does not answer costs a
/// hedge.
const FIRST_SILENCE: Duration = Duration::from_secs(1);

/// The longest time for which calls do not wait for a node.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// The silent nodes, with the timeouts and answers that make a node silent or end its silence.
///
/// # Invariants
///
/// 1. A silence ends with an answer in time, or after its duration. If a node times out again before an answer in time,
///    the next silence of the node is twice as long, up to [`MAX_SILENCE`].
#[derive(Debug, Default)]
pub(crate) struct SilentNodes {
    /// Nodes that have answered in time at least once. Other nodes may not be connected yet.
    known: NodeSet,
    /// Nodes that have timed out, and have not answered in time since.
    timed_out: NodeSet,
    silences: BTreeMap<usize, Silence>,
}

/// The last silence of a node that has not answered in time since.
#[derive(Clone, Copy, Debug)]
struct Silence {
    until: Instant,
    lasts: Duration,
}

impl SilentNodes {
    /// Handles a timeout of a node, which makes the node silent. A node that has never answered becomes silent at its
    /// second timeout. A timeout of a silent node changes nothing, because calls do not wait for that node. Returns
    /// whether a silence begins.
    pub(crate) fn timed_out(&mut self, node: usize, now: Instant) -> bool {
        let is_expected = self.known.contains(node) || self.timed_out.contains(node);
        self.timed_out.insert(node);
        if !is_expected || self.is_silent(node, now) {
            return false;
        }
        let last = self.silences.get(&node).map(|silence| silence.lasts);
        let lasts = last.map_or(FIRST_SILENCE, |lasts| (lasts * 2).min(MAX_SILENCE));
        self.silences.insert(node, Silence { until: now + lasts, lasts });
        true
    }

    /// Handles an answer of a node in time. The node is not silent any more.
    pub(crate) fn answered(&mut self, node: usize) {
        self.known.insert(node);
        self.timed_out.remove(node);
        self.silences.remove(&node);
    }

    /// Handles an answer that no call waited for. An answer within `hedge` ends the silence of the node. A later answer
    /// does not end the silence, because the next calls would wait for the node in vain.
    pub(crate) fn answered_unawaited(&mut self, node: usize, took: Duration, hedge: Duration) {
        if took <= hedge {
            self.answered(node);
        }
    }

    pub(crate) fn is_silent(&self, node: usize, now: Instant) -> bool {
        self.silences.get(&node).is_some_and(|silence| now < silence.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEDGE: Duration = Duration::from_millis(125);

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn known(node: usize) -> SilentNodes {
        let mut nodes = SilentNodes::default();
        nodes.answered(node);
        nodes
    }

    #[test]
    fn a_node_is_silent_from_a_timeout_until_an_answer_or_for_a_time() {
        let mut nodes = known(4);
        nodes.timed_out(4, at(0));
        assert!(nodes.is_silent(4, at(0)) && !nodes.is_silent(3, at(0)));
        nodes.answered(4);
        assert!(!nodes.is_silent(4, at(0)));
        assert!(nodes.timed_out(4, at(0)));
        assert!(!nodes.timed_out(4, at(1)), "the silence has begun before");
        assert!(nodes.is_silent(4, at(999)));
        assert!(!nodes.is_silent(4, at(1_000)));
    }

    #[test]
    fn each_silence_is_twice_as_long_until_an_answer() {
        let mut nodes = known(4);
        let mut silence = |now: Instant| {
            nodes.timed_out(4, now);
            let is_silent = |seconds: &u64| nodes.is_silent(4, now + Duration::from_secs(*seconds));
            let lasts = (0..).find(|seconds| !is_silent(seconds)).unwrap();
            if lasts == 16 {
                nodes.timed_out(4, now + Duration::from_secs(1));
                assert!(!nodes.is_silent(4, now + Duration::from_secs(16)), "the silence had begun before");
            }
            lasts
        };
        let lasts: Vec<u64> = (1..8).map(|number| silence(at(number * 100_000))).collect();
        assert_eq!(lasts, [1, 2, 4, 8, 16, 30, 30]);
        nodes.answered(4);
        nodes.timed_out(4, at(900_000));
        assert!(!nodes.is_silent(4, at(901_000)));
    }

    #[test]
    fn an_answer_that_no_call_waited_for_ends_a_silence_if_it_came_within_a_hedge() {
        let mut nodes = known(4);
        nodes.timed_out(4, at(0));
        nodes.answered_unawaited(4, HEDGE * 2, HEDGE);
        assert!(nodes.is_silent(4, at(500)), "the calls would wait for the node in vain");
        nodes.answered_unawaited(4, HEDGE, HEDGE);
        assert!(!nodes.is_silent(4, at(500)));
    }

    #[test]
    fn a_node_that_never_answered_is_silent_after_its_second_timeout() {
        let mut nodes = SilentNodes::default();
        nodes.timed_out(4, at(0));
        assert!(!nodes.is_silent(4, at(0)));
        nodes.timed_out(4, at(0));
        assert!(nodes.is_silent(4, at(0)));
    }
}
