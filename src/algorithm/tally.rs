//! The electorate, and the tally of votes in a round. Every decision by a quorum uses the electorate.

use crate::{
    algorithm::node_set::NodeSet,
    mutation::{self, Mutation},
};

/// The number of configured nodes, and the number of nodes in a quorum.
///
/// # Invariants
///
/// 1. `nodes < 2 * needed <= 2 * nodes`: any two winning sets share a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Electorate {
    nodes: usize,
    needed: usize,
}

/// The result of a tally, by the votes until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TallyResult {
    /// No decision yet: further votes decide.
    Pending,
    /// Grants of a quorum.
    Won,
    /// Too many denials for a quorum of grants.
    Lost,
}

/// The votes of one round. A quorum is a quorum of all *configured* nodes, not of the nodes that answer.
///
/// # Invariants
///
/// 1. A node has one vote, and its first vote counts, so a duplicated reply cannot make a quorum. Only a node that has
///    denied can be [asked again](Self::reopen).
/// 2. A tally that is won stays won.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    electorate: Electorate,
    granted: NodeSet,
    denied: NodeSet,
}

impl Electorate {
    /// Returns the smallest number of votes of which any two sets share a node: `nodes / 2 + 1`.
    pub(crate) fn majority(nodes: usize) -> usize {
        mutation::altered(Mutation::HalfIsQuorum, nodes / 2 + 1, |majority| (majority - 1).max(1))
    }

    /// Creates an electorate. `needed` is a majority and at most `nodes`, as the builder has checked.
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

    /// Returns the largest number of nodes that may be missing from a quorum.
    pub(crate) fn spare(self) -> usize {
        self.nodes - self.needed
    }

    pub(crate) fn all(self) -> NodeSet {
        NodeSet::first(self.nodes)
    }

    /// Whether these nodes are a quorum.
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

    /// Records a node without a vote, which counts as a denial.
    pub(crate) fn abstain(&mut self, node: usize) {
        if mutation::is_on(Mutation::QuorumOfAnswering) {
            self.electorate.needed = Electorate::majority(self.electorate.nodes - self.denied.len() - 1);
        }
        self.vote(node, false);
    }

    /// Removes the denial of a node that is asked again.
    pub(crate) fn reopen(&mut self, node: usize) {
        self.denied.remove(node);
    }

    /// Returns the result as soon as the votes decide. A tally that cannot be won any more is lost, without waiting for
    /// further votes.
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

    /// Returns the nodes without a vote.
    pub(crate) fn open(&self) -> NodeSet {
        self.electorate.all().without(self.granted).without(self.denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result after these votes of nodes 0, 1, 2 ..., in order of arrival: `+` is a grant, `-` a denial.
    fn result(nodes: usize, votes: &str) -> TallyResult {
        let mut tally = Tally::new(Electorate::new(nodes, Electorate::majority(nodes)));
        for (node, vote) in votes.chars().enumerate() {
            tally.vote(node, vote == '+');
        }
        tally.result()
    }

    #[test]
    fn the_earliest_decisive_vote_decides_a_round() {
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
    fn a_second_vote_of_a_node_does_not_count() {
        let mut tally = Tally::new(Electorate::new(3, 2));
        tally.vote(0, true);
        tally.vote(0, true);
        tally.vote(3, true);
        tally.vote(9, true);
        assert_eq!(tally.result(), TallyResult::Pending);
        tally.vote(1, false);
        tally.vote(1, true);
        assert_eq!(tally.result(), TallyResult::Pending);
        assert_eq!(tally.open(), NodeSet::only(2));
    }

    #[test]
    fn any_two_quorums_share_a_node() {
        for nodes in 1..=64 {
            for needed in Electorate::majority(nodes)..=nodes {
                assert!(2 * Electorate::new(nodes, needed).needed() > nodes);
            }
        }
    }
}
