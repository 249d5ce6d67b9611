//! The silent nodes of one client.

use std::{collections::BTreeMap, time::Duration};

use crate::{algorithm::node_set::NodeSet, clock::Instant};

/// The time after which calls wait for a silent node again, although the node has not answered.
///
/// An answer after the decision of a round is not read, so a node may answer again without being noticed. As long as
/// this client avoids the node, its waiters may be in other queues than the waiters of clients that read the answers of
/// the node. A wait for a node that is still silent costs an eighth of a node timeout.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// The nodes that are not expected to answer soon.
#[derive(Debug, Default)]
pub(crate) struct SilentNodes {
    /// Nodes that have answered at least once. Other nodes may not be connected yet.
    known: NodeSet,
    /// Nodes that have timed out, and have not answered since.
    timed_out: NodeSet,
    /// The end of the silence of each silent node.
    silent_until: BTreeMap<usize, Instant>,
}

impl SilentNodes {
    /// Handles a timeout of a node, which is silent from now on. A node that has never answered becomes silent at its
    /// second timeout.
    pub(crate) fn timed_out(&mut self, node: usize, now: Instant) {
        if self.known.contains(node) || self.timed_out.contains(node) {
            self.silent_until.insert(node, now + MAX_SILENCE);
        }
        self.timed_out.insert(node);
    }

    /// Handles an answer of a node. The node is not silent any more.
    pub(crate) fn answered(&mut self, node: usize) {
        self.known.insert(node);
        self.timed_out.remove(node);
        self.silent_until.remove(&node);
    }

    pub(crate) fn is_silent(&self, node: usize, now: Instant) -> bool {
        self.silent_until.get(&node).is_some_and(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_silent_from_a_timeout_until_an_answer_or_the_longest_silence() {
        let (mut nodes, start) = (SilentNodes::default(), Instant::from_origin(Duration::ZERO));
        nodes.answered(4);
        nodes.timed_out(4, start);
        assert!(nodes.is_silent(4, start) && !nodes.is_silent(3, start));
        nodes.answered(4);
        assert!(!nodes.is_silent(4, start));
        nodes.timed_out(4, start);
        assert!(nodes.is_silent(4, start + MAX_SILENCE / 2));
        assert!(!nodes.is_silent(4, start + MAX_SILENCE));
        nodes.timed_out(4, start + MAX_SILENCE);
        assert!(nodes.is_silent(4, start + MAX_SILENCE));
    }

    #[test]
    fn a_node_that_never_answered_is_silent_after_its_second_timeout() {
        let (mut nodes, start) = (SilentNodes::default(), Instant::from_origin(Duration::ZERO));
        nodes.timed_out(4, start);
        assert!(!nodes.is_silent(4, start));
        nodes.timed_out(4, start);
        assert!(nodes.is_silent(4, start));
    }
}
