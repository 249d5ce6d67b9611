//! The confirmations of an attempt's token.

use crate::{
    algorithm::{
        fencing::Fencing,
        node_set::NodeSet,
        round::Round,
        tally::{Electorate, TallyResult},
    },
    clock::Instant,
};

/// The token of an attempt, and the tally of the confirmations. A node confirms the token by a grant with a vote equal
/// to the token, or by a write-back.
///
/// # Invariants
///
/// 1. No node is asked twice for a write-back.
/// 2. The tally changes only after the token is [fixed](Self::fix_token).
#[derive(Clone, Debug)]
pub(super) struct Confirmation {
    electorate: Electorate,
    fencing: Fencing,
    round: Round,
}

impl Confirmation {
    pub(super) fn new(electorate: Electorate) -> Self {
        Self { electorate, fencing: Fencing::new(electorate.nodes()), round: Round::new(electorate) }
    }

    /// Records a grant.
    pub(super) fn granted(&mut self, node: usize, vote: u64) {
        self.fencing.vote(node, vote);
    }

    /// Fixes the token to the largest vote. Returns the token; `None` if no node has granted.
    pub(super) fn fix_token(&mut self) -> Option<u64> {
        self.fencing.fix()
    }

    /// Records an answer to the write-back.
    pub(super) fn on_write_back(&mut self, node: usize, is_confirmed: bool) {
        if is_confirmed {
            self.fencing.written_back(node);
        }
        self.round.vote(node, is_confirmed);
    }

    /// Counts the confirmations by grants. A node without such a confirmation can still confirm by a write-back, or by
    /// a late grant if the node is in `open`.
    pub(super) fn count(&mut self, open: NodeSet) {
        for node in self.fencing.confirmed().iter() {
            self.round.vote(node, true);
        }
        for node in self.electorate.all().without(open).without(self.fencing.below()).iter() {
            self.round.abstain(node);
        }
    }

    /// Returns the nodes that need a write-back and have not been sent one, and records the requests.
    pub(super) fn ask(&mut self, deadline: Instant) -> NodeSet {
        let nodes = self.fencing.below().without(self.round.asked());
        self.round.ask(nodes, deadline);
        nodes
    }

    /// Counts each node whose deadline has passed as denying.
    pub(super) fn expire(&mut self, now: Instant) {
        self.round.expire(now);
    }

    pub(super) fn result(&self) -> TallyResult {
        self.round.result()
    }

    /// Returns the earliest deadline of a node.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.round.next_deadline()
    }
}
