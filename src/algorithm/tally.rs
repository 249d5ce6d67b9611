//! Counting votes.

use crate::{
    algorithm::node_set::NodeSet,
    mutation::{self, Mutation},
};

/// How many nodes there are, and how many votes win.
///
/// # Invariants
///
/// 1. `nodes < 2 * needed <= 2 * nodes`: any two winning sets share a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Electorate {
    nodes: usize,
    needed: usize,
}

/// Where a count stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TallyResult {
    /// More votes may decide it.
    Pending,
    /// Enough nodes granted.
    Won,
    /// Not enough nodes can grant any more.
    Lost,
}

/// The votes counted so far in one round, over all *configured* nodes, not over those that answer.
///
/// # Invariants
///
/// 1. A node has one vote: its first stands, whatever comes after it, so a duplicated reply cannot
///    make a quorum. Only one that denied can be [asked again](Self::reopen).
/// 2. A tally that is won stays won.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    electorate: Electorate,
    granted: NodeSet,
    denied: NodeSet,
}

impl Electorate {
    /// The least number of votes of which no two sets are disjoint: `nodes / 2 + 1`.
    pub(crate) fn majority(nodes: usize) -> usize {
        mutation::altered(Mutation::HalfIsQuorum, nodes / 2 + 1, |majority| (majority - 1).max(1))
    }

    /// `needed` must be a majority and at most `nodes`; the builder has checked it.
    pub(crate) fn new(nodes: usize, needed: usize) -> Self {
        debug_assert!(nodes > 0 && needed >= Self::majority(nodes) && needed <= nodes, "{needed} of {nodes}");
        Self { nodes, needed }
    }

    pub(crate) fn nodes(self) -> usize {
        self.nodes
    }

    pub(crate) fn needed(self) -> usize {
        self.needed
    }

    /// How many nodes may be missing: without one more, there is no quorum.
    pub(crate) fn spare(self) -> usize {
        self.nodes - self.needed
    }

    pub(crate) fn all(self) -> NodeSet {
        NodeSet::first(self.nodes)
    }

    /// Whether so many nodes decide.
    pub(crate) fn is_quorum(self, nodes: NodeSet) -> bool {
        nodes.len() >= self.needed
    }
}

impl Tally {
    pub(crate) fn new(electorate: Electorate) -> Self {
        Self { electorate, granted: NodeSet::EMPTY, denied: NodeSet::EMPTY }
    }

    pub(crate) fn vote(&mut self, node: usize, granted: bool) {
        if node < self.electorate.nodes && !self.granted.union(self.denied).contains(node) {
            if granted { self.granted.insert(node) } else { self.denied.insert(node) }
        }
    }

    /// A node gave no vote, which counts as one against.
    pub(crate) fn abstain(&mut self, node: usize) {
        if mutation::is_on(Mutation::QuorumOfAnswering) {
            self.electorate.needed = Electorate::majority(self.electorate.nodes - self.denied.len() - 1);
        }
        self.vote(node, false);
    }

    /// A node that denied is asked once more, and may vote anew.
    pub(crate) fn reopen(&mut self, node: usize) {
        self.denied.remove(node);
    }

    /// Decided as soon as it can be: an even split does not wait for anybody.
    pub(crate) fn result(&self) -> TallyResult {
        if self.electorate.is_quorum(self.granted) {
            TallyResult::Won
        } else if self.electorate.nodes - self.denied.len() < self.electorate.needed {
            TallyResult::Lost
        } else {
            TallyResult::Pending
        }
    }

    pub(crate) fn granted(&self) -> NodeSet {
        self.granted
    }

    /// Nodes whose vote is still open.
    pub(crate) fn open(&self) -> NodeSet {
        self.electorate.all().without(self.granted).without(self.denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `votes`: one letter for each vote in order of arrival, `+` granted, `-` denied, by nodes 0,
    /// 1, 2, ...
    fn result(nodes: usize, votes: &str) -> TallyResult {
        let mut tally = Tally::new(Electorate::new(nodes, Electorate::majority(nodes)));
        for (node, vote) in votes.chars().enumerate() {
            tally.vote(node, vote == '+');
        }
        tally.result()
    }

    #[test]
    fn a_round_is_decided_by_the_earliest_vote_that_can_decide_it() {
        let table = "
            1 .     Pending   nothing is decided without votes
            1 +     Won       a single node is its own majority
            1 -     Lost
            2 +     Pending   two nodes need both
            2 ++    Won
            2 -     Lost      so one denial decides
            3 +-    Pending
            3 ++    Won       the third vote is not waited for
            3 --    Lost
            4 ++-   Pending   half is no majority
            4 ++--  Lost      an even split is decided at once
            4 +++   Won
            5 ++--  Pending
            5 ++--+ Won
            5 ---   Lost
            7 ++++  Won
            7 +++-- Pending
            7 ----  Lost";
        for case in table.trim().lines() {
            let mut words = case.split_whitespace();
            let (nodes, votes, expected) =
                (words.next().unwrap(), words.next().unwrap().replace('.', ""), words.next().unwrap());
            assert_eq!(format!("{:?}", result(nodes.parse().unwrap(), &votes)), expected, "{case}");
        }
    }

    #[test]
    fn a_duplicated_or_contradicting_vote_of_a_node_does_not_count() {
        let mut tally = Tally::new(Electorate::new(3, 2));
        tally.vote(0, true);
        tally.vote(0, true);
        tally.vote(9, true);
        assert_eq!(tally.result(), TallyResult::Pending);
        tally.vote(1, false);
        tally.vote(1, true);
        assert_eq!(tally.result(), TallyResult::Pending);
        assert_eq!(tally.open(), NodeSet::only(2));
    }

    #[test]
    fn any_two_quorums_of_any_electorate_share_a_node() {
        for nodes in 1..=64 {
            for needed in Electorate::majority(nodes)..=nodes {
                assert!(2 * Electorate::new(nodes, needed).needed() > nodes);
            }
        }
    }
}
