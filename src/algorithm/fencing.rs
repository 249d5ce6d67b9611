//! The fencing token of a lease, as the votes of a quorum determine it.

use crate::{
    algorithm::node_set::NodeSet,
    mutation::{self, Mutation},
};

/// The votes for the token of a lease, and the nodes that have confirmed the token.
///
/// The vote of a node that grants is a number above the counter of the node. The token is the largest vote. A node
/// confirms the token by an equal vote, or by a write-back, which raises the counter of the node to the token. A lease
/// is granted once a quorum has confirmed the token.
///
/// Tokens increase because any two quorums of confirmations share a node. On that node, the later lease is confirmed
/// after the earlier lease, and every vote after a confirmation is larger than the confirmed token. This argument does
/// not use clocks.
///
/// # Invariants
///
/// 1. The token is fixed at the first quorum of grants and never changes. A larger vote that arrives later neither
///    confirms nor replaces the token.
#[derive(Clone, Debug)]
pub(crate) struct Fencing {
    votes: Vec<Option<u64>>,
    token: Option<u64>,
    written_back: NodeSet,
}

impl Fencing {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { votes: vec![None; nodes], token: None, written_back: NodeSet::EMPTY }
    }

    /// Records the vote of a node that granted. The first vote of a node counts.
    pub(crate) fn vote(&mut self, node: usize, vote: u64) {
        if let Some(slot) = self.votes.get_mut(node) {
            slot.get_or_insert(vote);
        }
    }

    /// Fixes the token to the largest vote, and returns the token; `None` without votes.
    pub(crate) fn fix(&mut self) -> Option<u64> {
        if self.token.is_none() {
            self.token = self.votes.iter().flatten().copied().max();
        }
        self.token
    }

    /// Records the confirmation of a write-back.
    pub(crate) fn written_back(&mut self, node: usize) {
        self.written_back.insert(node);
    }

    /// Returns the nodes that have confirmed the token.
    pub(crate) fn confirmed(&self) -> NodeSet {
        let voted = self.votes_where(|vote, token| vote == token);
        let confirmed = voted.union(self.written_back);
        mutation::altered(Mutation::NoWriteBack, confirmed, |_| self.votes_where(|_, _| true))
    }

    /// Returns the nodes that granted with a smaller vote and have not confirmed the token.
    pub(crate) fn below(&self) -> NodeSet {
        self.votes_where(|vote, token| vote < token).without(self.written_back)
    }

    fn votes_where(&self, holds: impl Fn(u64, u64) -> bool) -> NodeSet {
        let Some(token) = self.token else { return NodeSet::EMPTY };
        let votes = self.votes.iter().enumerate();
        votes.filter_map(|(node, vote)| vote.is_some_and(|vote| holds(vote, token)).then_some(node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(nodes: &[usize]) -> NodeSet {
        nodes.iter().copied().collect()
    }

    #[test]
    fn the_token_is_the_largest_vote_and_smaller_votes_need_a_write_back() {
        let mut fencing = Fencing::new(5);
        fencing.vote(0, 7);
        fencing.vote(1, 9);
        fencing.vote(3, 9);
        assert_eq!(fencing.confirmed(), NodeSet::EMPTY);
        assert_eq!(fencing.fix(), Some(9));
        assert_eq!((fencing.confirmed(), fencing.below()), (nodes(&[1, 3]), nodes(&[0])));
        fencing.written_back(0);
        assert_eq!((fencing.confirmed(), fencing.below()), (nodes(&[0, 1, 3]), NodeSet::EMPTY));
    }

    #[test]
    fn a_late_vote_confirms_an_equal_token_and_does_not_raise_it() {
        let mut fencing = Fencing::new(5);
        fencing.vote(0, 9);
        fencing.fix();
        fencing.vote(1, 12);
        fencing.vote(2, 9);
        assert_eq!(fencing.fix(), Some(9));
        assert_eq!((fencing.confirmed(), fencing.below()), (nodes(&[0, 2]), NodeSet::EMPTY));
    }

    #[test]
    fn only_the_first_vote_of_a_node_counts() {
        let mut fencing = Fencing::new(1);
        fencing.vote(0, 3);
        fencing.vote(0, 4);
        fencing.vote(7, 9);
        assert_eq!(fencing.fix(), Some(3));
    }
}
