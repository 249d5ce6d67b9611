//! What nodes say of a latch, and what follows from it.
//!
//! Arrivals are a set that only grows, and no clock decides. So a node that knows of enough
//! arrivals knows that the latch is open, by however few nodes. That it *stays* open for all who
//! look takes a quorum that knows it: a client that asks another quorum meets a node of this one
//! (Attiya, Bar-Noy, Dolev: Sharing memory robustly in message-passing systems, 1995).

use crate::{
    algorithm::{node_set::NodeSet, tally::Electorate},
    mutation::{self, Mutation},
    values::Arrivals,
};

/// What one client knows of a latch.
#[derive(Debug)]
pub(crate) struct LatchView {
    electorate: Electorate,
    /// So many arrivals open it.
    count: usize,
    arrivals: Arrivals,
    is_open: bool,
    /// Whether a node that has answered in this round may not know of all arrivals.
    is_lacking: bool,
    /// In this round of questions: what nodes were told, and what they say.
    tells_open: bool,
    open: NodeSet,
    kept: NodeSet,
    refused: NodeSet,
    failed: NodeSet,
    other_count: Option<u32>,
}

/// What one node says.
#[derive(Debug)]
pub(crate) enum LatchAnswer {
    Open,
    Arrived(Arrivals),
    OtherCount(u32),
    /// It must not vote, or has not answered in time.
    Nothing,
}

impl LatchView {
    pub(crate) fn new(electorate: Electorate, count: usize, arrivals: Arrivals) -> Self {
        let nobody = NodeSet::EMPTY;
        Self {
            electorate,
            count,
            arrivals,
            is_open: false,
            tells_open: false,
            is_lacking: true,
            open: nobody,
            kept: nobody,
            refused: nobody,
            failed: nobody,
            other_count: None,
        }
    }

    /// All nodes are asked, and told what is known.
    pub(crate) fn asks(&mut self) {
        (self.tells_open, self.is_lacking) = (self.is_open, false);
        (self.open, self.kept) = (NodeSet::EMPTY, NodeSet::EMPTY);
        (self.refused, self.failed) = (NodeSet::EMPTY, NodeSet::EMPTY);
    }

    pub(crate) fn hears(&mut self, node: usize, answer: LatchAnswer) {
        match answer {
            LatchAnswer::Open => {
                self.is_open = true;
                self.open.insert(node);
                self.kept.insert(node);
            }
            LatchAnswer::Arrived(arrivals) => {
                let (told, known) = (arrivals.len(), self.arrivals.len());
                self.arrivals.extend(arrivals);
                self.is_lacking |=
                    told < self.arrivals.len() || (known < self.arrivals.len() && !self.kept.is_empty());
                self.is_open |= self.arrivals.len() >= self.count;
                self.kept.insert(node);
            }
            LatchAnswer::OtherCount(count) => {
                self.other_count = Some(count);
                self.refused.insert(node);
            }
            LatchAnswer::Nothing => self.failed.insert(node),
        }
    }

    /// What to tell nodes of arrivals: nothing that all who answered know, a quorum at least, or that
    /// matters no more.
    pub(crate) fn untold(&self) -> Arrivals {
        if (self.is_lacking || !self.is_kept()) && !self.is_open {
            self.arrivals.clone()
        } else {
            Arrivals::new()
        }
    }

    /// How many have arrived, as far as it is known.
    pub(crate) fn arrived(&self) -> usize {
        if self.is_open { self.count } else { self.arrivals.len() }
    }

    /// Whether enough have arrived, as far as it is known.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a quorum keeps what it was told in this round.
    pub(crate) fn is_kept(&self) -> bool {
        self.electorate.is_quorum(self.kept)
    }

    /// Whether a quorum knows that the latch is open.
    pub(crate) fn is_known_open(&self) -> bool {
        let is_known = self.electorate.is_quorum(self.open);
        mutation::altered(Mutation::PassWithoutRecord, is_known, |_| self.is_open)
    }

    /// Whether the latch is open, and nodes have yet to be told.
    pub(crate) fn has_news(&self) -> bool {
        self.is_open && !self.tells_open
    }

    /// Whether it is open, and a node has said otherwise in this round.
    pub(crate) fn is_unknown_to_some(&self) -> bool {
        let is_unknown = self.is_open && self.kept.len() > self.open.len();
        mutation::altered(Mutation::PassWithoutRecord, is_unknown, |_| false)
    }

    /// Whether no node may answer any more that has been asked.
    pub(crate) fn is_heard_out(&self) -> bool {
        self.kept.len() + self.refused.len() + self.failed.len() >= self.electorate.nodes()
    }

    /// A count that others gave, if a node has told one.
    pub(crate) fn some_other_count(&self) -> Option<u32> {
        self.other_count.filter(|_| !self.refused.is_empty())
    }

    /// The count that others gave, if so many nodes know another that no quorum can take this one.
    pub(crate) fn other_count(&self) -> Option<u32> {
        let spare = self.electorate.nodes() - self.electorate.needed();
        self.other_count.filter(|_| self.refused.len() > spare)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn arrivals(names: &[&str]) -> Arrivals {
        names.iter().map(|name| Arc::from(name.as_bytes())).collect()
    }

    fn view(nodes: usize, count: usize) -> LatchView {
        let electorate = Electorate::new(nodes, Electorate::majority(nodes));
        let mut view = LatchView::new(electorate, count, arrivals(&[]));
        view.asks();
        view
    }

    #[test]
    fn the_union_opens_it_and_then_a_quorum_has_to_know() {
        let mut view = view(3, 2);
        view.hears(0, LatchAnswer::Arrived(arrivals(&["a"])));
        assert!(!view.is_open() && !view.is_kept());
        view.hears(1, LatchAnswer::Arrived(arrivals(&["b"])));
        assert!(view.is_open() && view.is_kept() && view.has_news() && !view.is_known_open());
        view.asks();
        view.hears(0, LatchAnswer::Open);
        assert!(!view.is_known_open() && !view.has_news());
        view.hears(2, LatchAnswer::Open);
        assert!(view.is_known_open());
    }

    #[test]
    fn the_same_arrival_counts_once_wherever_it_is_told() {
        let mut view = view(5, 2);
        (0..5).for_each(|node| view.hears(node, LatchAnswer::Arrived(arrivals(&["a"]))));
        assert!(view.is_heard_out() && !view.is_open());
        assert_eq!(view.arrived(), 1);
    }

    #[test]
    fn another_count_is_told_once_no_quorum_can_take_this_one() {
        let mut view = view(3, 2);
        view.hears(0, LatchAnswer::OtherCount(7));
        assert_eq!(view.other_count(), None);
        view.hears(1, LatchAnswer::Nothing);
        assert_eq!(view.other_count(), None);
        view.hears(2, LatchAnswer::OtherCount(7));
        assert_eq!(view.other_count(), Some(7));
        assert!(view.is_heard_out());
    }
}
