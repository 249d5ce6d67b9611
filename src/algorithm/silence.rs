//! Which nodes do not answer.

use std::{collections::BTreeMap, time::Duration};

use crate::{algorithm::node_set::NodeSet, clock::Instant};

/// A node that was silent is waited for again after so long, though nothing was heard of it: what it
/// answers after others have decided is not heard. To wait for it costs an eighth of a node timeout,
/// and until then its clients may wait in other queues than those of clients that hear it.
const LASTS: Duration = Duration::from_secs(30);

/// Which nodes are not expected to answer soon.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Nodes that have ever answered. The others may not be connected yet.
    known: NodeSet,
    /// Nodes that were passed over because they did not answer, and have not since.
    passed_over: NodeSet,
    /// Those that are not waited for, and until when.
    silent: BTreeMap<usize, Instant>,
}

impl Silence {
    /// A node has not answered in time. It is silent from then on; one that has never answered only
    /// when that happens again.
    pub(crate) fn passed_over(&mut self, node: usize, now: Instant) {
        if self.known.contains(node) || self.passed_over.contains(node) {
            self.silent.insert(node, now + LASTS);
        }
        self.passed_over.insert(node);
    }

    pub(crate) fn heard(&mut self, node: usize) {
        self.known.insert(node);
        self.passed_over.remove(node);
        self.silent.remove(&node);
    }

    pub(crate) fn is_silent(&self, node: usize, now: Instant) -> bool {
        self.silent.get(&node).is_some_and(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_passed_over_is_silent_until_it_answers_or_for_a_time() {
        let (mut silence, start) = (Silence::default(), Instant::from_origin(Duration::ZERO));
        silence.heard(4);
        silence.passed_over(4, start);
        assert!(silence.is_silent(4, start) && !silence.is_silent(3, start));
        silence.heard(4);
        assert!(!silence.is_silent(4, start));
        silence.passed_over(4, start);
        assert!(silence.is_silent(4, start + LASTS / 2));
        assert!(!silence.is_silent(4, start + LASTS));
        silence.passed_over(4, start + LASTS);
        assert!(silence.is_silent(4, start + LASTS));
    }

    #[test]
    fn a_node_that_has_never_answered_may_still_be_connecting() {
        let (mut silence, start) = (Silence::default(), Instant::from_origin(Duration::ZERO));
        silence.passed_over(4, start);
        assert!(!silence.is_silent(4, start));
        silence.passed_over(4, start);
        assert!(silence.is_silent(4, start));
    }
}
