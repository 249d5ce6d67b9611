//! The state of a latch, merged from the answers of nodes. `latch/call.rs` makes the rounds.
//!
//! ```text
//!   shut ──────────────────────────► open ─────────────────────────────► open for every later call
//!          the arrivals of any nodes        a quorum has recorded that
//!          add up to the count              the latch is open
//! ```
//!
//! Arrivals are a set that only grows, and no clock decides. Therefore the latch is open once the arrivals of any nodes
//! together reach the count. The latch *stays* open for every client once a quorum has recorded that the latch is open,
//! because every other quorum shares a node with this quorum (Attiya, Bar-Noy, Dolev: Sharing memory robustly in
//! message-passing systems, 1995).

use std::sync::Arc;

use crate::{
    algorithm::{node_set::NodeSet, tally::Electorate},
    mutation::{self, Mutation},
    values::Arrivals,
};

/// The state of a latch, according to the answers that one call has received.
#[derive(Debug)]
pub(crate) struct LatchView {
    electorate: Electorate,
    /// The number of arrivals that open the latch.
    count: usize,
    arrivals: Arrivals,
    is_open: bool,
    /// Whether a node that has answered in this round may lack an arrival. Before the first round, the nodes may lack
    /// all arrivals.
    lacks_arrivals: bool,
    /// Whether the requests of this round report that the latch is open. The fields below are the answers to this
    /// round.
    has_sent_open: bool,
    open: NodeSet,
    recorded: NodeSet,
    refused: NodeSet,
    failed: NodeSet,
    count_mismatch: Option<u32>,
}

/// The answer of one node to the request of a round.
#[derive(Debug)]
pub(crate) enum LatchAnswer {
    /// An open latch.
    Open,
    /// A shut latch, with all arrivals that the node has recorded.
    Arrived(Arrivals),
    /// A different count that the node has recorded.
    CountMismatch(u32),
    /// An abstention, an error, or no answer in time.
    NoVote,
}

impl LatchView {
    pub(crate) fn new(electorate: Electorate, count: usize, arrivals: Arrivals) -> Self {
        let none = NodeSet::EMPTY;
        Self {
            electorate,
            count,
            arrivals,
            is_open: false,
            has_sent_open: false,
            lacks_arrivals: true,
            open: none,
            recorded: none,
            refused: none,
            failed: none,
            count_mismatch: None,
        }
    }

    /// Begins a round. The caller builds the request before this call, because
    /// [`arrivals_to_send`](Self::arrivals_to_send) depends on the answers to the last round, which this call removes.
    pub(crate) fn begin_round(&mut self) {
        (self.has_sent_open, self.lacks_arrivals) = (self.is_open, false);
        (self.open, self.recorded) = (NodeSet::EMPTY, NodeSet::EMPTY);
        (self.refused, self.failed) = (NodeSet::EMPTY, NodeSet::EMPTY);
    }

    /// Adds arrivals under these ids until the arrivals in the view open the latch.
    pub(crate) fn add_missing(&mut self, ids: impl Iterator<Item = Arc<[u8]>>) {
        for id in ids {
            if self.is_open || self.arrivals.len() >= self.count {
                break;
            }
            self.arrivals.insert(id);
        }
        self.lacks_arrivals = true;
    }

    pub(crate) fn on_answer(&mut self, node: usize, answer: LatchAnswer) {
        match answer {
            LatchAnswer::Open => {
                self.is_open = true;
                self.open.insert(node);
                self.recorded.insert(node);
            }
            LatchAnswer::Arrived(arrivals) => {
                let (reported, recorded_before) = (arrivals.len(), self.arrivals.len());
                self.arrivals.extend(arrivals);
                self.lacks_arrivals |= reported < self.arrivals.len()
                    || (recorded_before < self.arrivals.len() && !self.recorded.is_empty());
                self.is_open |= self.arrivals.len() >= self.count;
                self.recorded.insert(node);
            }
            LatchAnswer::CountMismatch(count) => {
                self.count_mismatch = Some(count);
                self.refused.insert(node);
            }
            LatchAnswer::NoVote => self.failed.insert(node),
        }
    }

    /// Returns the arrivals to send in the next round. The result is empty if the latch is open, or if a quorum has
    /// answered and every node that answered has all arrivals.
    pub(crate) fn arrivals_to_send(&self) -> Arrivals {
        if (self.lacks_arrivals || !self.is_recorded()) && !self.is_open {
            self.arrivals.clone()
        } else {
            Arrivals::new()
        }
    }

    /// Returns the number of arrivals in the view; the count that opens the latch if the latch is open.
    pub(crate) fn arrived(&self) -> usize {
        if self.is_open { self.count } else { self.arrivals.len() }
    }

    /// Returns the arrivals in the view. Nodes at which the latch is open answer without arrivals.
    #[cfg(feature = "__command")]
    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Whether the latch is open, by the arrivals in the view or by the answer of a node.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a quorum has recorded the request of this round.
    pub(crate) fn is_recorded(&self) -> bool {
        self.electorate.is_quorum(self.recorded)
    }

    /// Whether a quorum has recorded that the latch is open.
    pub(crate) fn is_known_open(&self) -> bool {
        let is_known = self.electorate.is_quorum(self.open);
        mutation::altered(Mutation::PassWithoutRecord, is_known, |_| self.is_open)
    }

    /// Whether the latch is open, and the requests of this round did not report the opening.
    pub(crate) fn has_unsent_opening(&self) -> bool {
        self.is_open && !self.has_sent_open
    }

    /// Whether the latch is open, and a node that answered in this round has not recorded the opening.
    pub(crate) fn must_spread_opening(&self) -> bool {
        let is_unknown = self.is_open && self.recorded.len() > self.open.len();
        mutation::altered(Mutation::PassWithoutRecord, is_unknown, |_| false)
    }

    /// Whether every node has answered, or failed.
    pub(crate) fn has_all_answers(&self) -> bool {
        self.recorded.len() + self.refused.len() + self.failed.len() >= self.electorate.nodes()
    }

    /// Returns a different count that nodes have recorded, once too many nodes have refused for a quorum that accepts
    /// the count of this call.
    pub(crate) fn count_mismatch(&self) -> Option<u32> {
        self.count_mismatch.filter(|_| self.refused.len() > self.electorate.spare())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(names: &[&str]) -> Arrivals {
        names.iter().map(|name| Arc::from(name.as_bytes())).collect()
    }

    fn view(nodes: usize, count: usize) -> LatchView {
        let electorate = Electorate::new(nodes, Electorate::majority(nodes));
        let mut view = LatchView::new(electorate, count, arrivals(&[]));
        view.begin_round();
        view
    }

    #[test]
    fn a_latch_opens_by_the_union_of_arrivals_and_is_known_open_by_a_quorum() {
        let mut view = view(3, 2);
        view.on_answer(0, LatchAnswer::Arrived(arrivals(&["a"])));
        assert!(!view.is_open() && !view.is_recorded());
        view.on_answer(1, LatchAnswer::Arrived(arrivals(&["b"])));
        assert!(view.is_open() && view.is_recorded() && view.has_unsent_opening() && !view.is_known_open());
        view.begin_round();
        view.on_answer(0, LatchAnswer::Open);
        assert!(!view.is_known_open() && !view.has_unsent_opening());
        view.on_answer(2, LatchAnswer::Open);
        assert!(view.is_known_open());
    }

    /// A call that was interrupted after a round has left arrivals under its ids.
    #[test]
    fn missing_arrivals_are_added_up_to_the_count() {
        let ids = || ["+0", "+1", "+2", "+3"].iter().map(|id| Arc::from(id.as_bytes()));
        for (recorded, added) in [
            (&[][..], &["+0", "+1", "+2", "+3"][..]),
            (&["a", "b"], &["+0", "+1", "a", "b"]),
            (&["+0", "a"], &["+0", "+1", "+2", "a"]),
        ] {
            let mut view = view(3, 4);
            (0..2).for_each(|node| view.on_answer(node, LatchAnswer::Arrived(arrivals(recorded))));
            view.add_missing(ids());
            assert_eq!(view.arrivals_to_send(), arrivals(added));
        }
        let mut open = view(3, 4);
        open.on_answer(0, LatchAnswer::Open);
        open.add_missing(ids());
        assert!(open.arrivals.is_empty());
    }

    #[test]
    fn an_arrival_at_several_nodes_counts_once() {
        let mut view = view(5, 2);
        (0..5).for_each(|node| view.on_answer(node, LatchAnswer::Arrived(arrivals(&["a"]))));
        assert!(view.has_all_answers() && !view.is_open());
        assert_eq!(view.arrived(), 1);
    }

    #[test]
    fn a_count_mismatch_is_reported_when_no_quorum_can_accept_the_count() {
        let mut view = view(3, 2);
        view.on_answer(0, LatchAnswer::CountMismatch(7));
        assert_eq!(view.count_mismatch(), None);
        view.on_answer(1, LatchAnswer::NoVote);
        assert_eq!(view.count_mismatch(), None);
        view.on_answer(2, LatchAnswer::CountMismatch(7));
        assert_eq!(view.count_mismatch(), Some(7));
        assert!(view.has_all_answers());
    }

    /// Returns the view of a call with the arrival `a`, whose round has begun.
    fn view_of_an_arrival() -> LatchView {
        let mut view = LatchView::new(Electorate::new(3, 2), 9, arrivals(&["a"]));
        assert_eq!(
            view.arrivals_to_send(),
            arrivals(&["a"]),
            "before the first round, the nodes may lack all"
        );
        view.begin_round();
        view
    }

    /// Returns the arrivals to send after two nodes have reported these arrivals, one after the other.
    fn to_send_after(first: &[&str], second: &[&str]) -> Arrivals {
        let mut view = view_of_an_arrival();
        view.on_answer(0, LatchAnswer::Arrived(arrivals(first)));
        view.on_answer(1, LatchAnswer::Arrived(arrivals(second)));
        view.arrivals_to_send()
    }

    #[test]
    fn arrivals_are_sent_again_until_every_node_that_answered_has_all_of_them() {
        assert_eq!(to_send_after(&["a"], &["a"]), arrivals(&[]));
        assert_eq!(to_send_after(&["a", "b"], &["a", "b"]), arrivals(&[]), "both nodes have the new arrival");
        assert_eq!(to_send_after(&[], &["a"]), arrivals(&["a"]), "the first node lacks `a`");
        assert_eq!(to_send_after(&["a"], &["a", "b"]), arrivals(&["a", "b"]), "the first node lacks `b`");
    }

    #[test]
    fn arrivals_are_sent_again_until_a_quorum_has_recorded_them() {
        let mut view = view_of_an_arrival();
        view.on_answer(0, LatchAnswer::Arrived(arrivals(&["a"])));
        assert_eq!(view.arrivals_to_send(), arrivals(&["a"]));
    }

    #[test]
    fn no_arrival_is_sent_to_an_open_latch_whose_count_has_arrived() {
        let mut view = view_of_an_arrival();
        view.on_answer(0, LatchAnswer::Open);
        assert_eq!(view.arrivals_to_send(), arrivals(&[]));
        assert_eq!(view.arrived(), 9);
    }

    #[test]
    fn an_opening_is_spread_to_nodes_that_answered_without_it() {
        let mut view = view(3, 2);
        view.on_answer(0, LatchAnswer::Arrived(arrivals(&["a"])));
        assert!(!view.must_spread_opening(), "the latch is shut");
        assert!(!view.has_all_answers());
        view.on_answer(1, LatchAnswer::Open);
        assert!(view.must_spread_opening(), "node 0 has not recorded the opening");
        view.begin_round();
        view.on_answer(0, LatchAnswer::Open);
        view.on_answer(1, LatchAnswer::Open);
        assert!(!view.must_spread_opening());
    }

    #[test]
    fn a_count_mismatch_of_as_many_nodes_as_a_quorum_may_miss_is_not_reported() {
        let mut view = view(5, 2);
        for node in [0, 1] {
            view.on_answer(node, LatchAnswer::CountMismatch(7));
            assert_eq!(view.count_mismatch(), None);
        }
        view.on_answer(2, LatchAnswer::CountMismatch(7));
        assert_eq!(view.count_mismatch(), Some(7));
    }
}
