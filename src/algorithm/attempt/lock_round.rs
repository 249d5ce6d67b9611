//! The lock round of an attempt: the nodes that were asked to lock, and their votes.

use std::time::Duration;

use super::AttemptConfig;
use crate::{
    algorithm::{
        node_set::NodeSet,
        round::Round,
        tally::{Electorate, TallyResult},
    },
    clock::Instant,
    mutation::{self, Mutation},
};

/// A node's vote in the lock round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockVote {
    /// A grant, with this vote for the token.
    Granted(u64),
    /// A refusal. The node has no key of the attempt.
    Refused,
    /// A refusal in favour of waiters. The node has no key of the attempt.
    Deferred,
    /// An error or an abstention. No lock request of the attempt is on its way to the node.
    Error,
    /// No lock request of the attempt was sent to the node.
    NotSent,
    /// No reliable answer. The node may have granted, or may still grant.
    NoAnswer,
}

/// The lock round: the vote of each node, and their tally.
///
/// # Invariants
///
/// 1. The tally counts the first answer of each node, until the node is [asked again](Self::ask_again). `votes` has the
///    latest vote of each node.
/// 2. Only nodes that have refused are asked again.
#[derive(Clone, Debug)]
pub(super) struct LockRound {
    electorate: Electorate,
    node_timeout: Duration,
    vote_timeout: Duration,
    round: Round,
    votes: Vec<LockVote>,
    /// The time of the latest request to a node that had not been asked before.
    asked_at: Instant,
    /// The first time at which a quorum of nodes had answered.
    quorum_answered_at: Option<Instant>,
}

impl LockRound {
    pub(super) fn new(config: &AttemptConfig, start: Instant) -> Self {
        Self {
            electorate: config.electorate,
            node_timeout: config.node_timeout,
            vote_timeout: config.vote_timeout,
            round: Round::new(config.electorate),
            votes: vec![LockVote::NotSent; config.electorate.nodes()],
            asked_at: start,
            quorum_answered_at: None,
        }
    }

    /// Records the answer of a node, as its latest vote, and as its vote in the tally if the tally has none.
    pub(super) fn record(&mut self, node: usize, vote: LockVote) {
        if let Some(slot) = self.votes.get_mut(node) {
            *slot = vote;
        }
        match vote {
            LockVote::Granted(_) => self.round.vote(node, true),
            LockVote::Refused | LockVote::Deferred => self.round.vote(node, false),
            LockVote::Error | LockVote::NotSent | LockVote::NoAnswer => self.round.abstain(node),
        }
    }

    /// Records a request to nodes that have not been asked before.
    pub(super) fn ask(&mut self, nodes: NodeSet, now: Instant) {
        self.asked_at = now;
        self.await_answers(nodes);
        self.round.ask(nodes, now + self.vote_timeout);
    }

    /// Records a repeated request to nodes that have refused.
    pub(super) fn ask_again(&mut self, nodes: NodeSet, now: Instant) {
        self.await_answers(nodes);
        self.round.ask_again(nodes, now + self.vote_timeout);
    }

    /// Counts each node whose deadline has passed as denying, and records whether a quorum of nodes has answered.
    pub(super) fn expire(&mut self, now: Instant) {
        self.round.expire(now);
        if self.electorate.is_quorum(self.answered()) {
            self.quorum_answered_at.get_or_insert(now);
        }
    }

    pub(super) fn result(&self) -> TallyResult {
        self.round.result()
    }

    pub(super) fn votes(&self) -> &[LockVote] {
        &self.votes
    }

    pub(super) fn vote(&self, node: usize) -> Option<LockVote> {
        self.votes.get(node).copied()
    }

    /// Returns the nodes that have not been asked.
    pub(super) fn unasked(&self) -> NodeSet {
        self.electorate.all().without(self.round.asked())
    }

    /// Returns the nodes that were asked, have not answered, and have time left to answer.
    pub(super) fn pending(&self) -> NodeSet {
        self.round.pending()
    }

    /// Returns the nodes that may still grant, whether or not they were asked.
    pub(super) fn open(&self) -> NodeSet {
        self.round.open()
    }

    pub(super) fn granted(&self) -> NodeSet {
        self.round.granted()
    }

    /// Returns the nodes that have refused, in favour of waiters or of a holder.
    pub(super) fn refusing(&self) -> NodeSet {
        self.nodes_where(|vote| matches!(vote, LockVote::Refused | LockVote::Deferred))
    }

    /// Returns the nodes that have refused in favour of waiters.
    pub(super) fn deferring(&self) -> NodeSet {
        self.nodes_where(|vote| vote == LockVote::Deferred)
    }

    /// Returns the nodes that have granted or refused. An error is no answer about the resource.
    pub(super) fn answered(&self) -> NodeSet {
        self.nodes_where(|vote| matches!(vote, LockVote::Granted(_) | LockVote::Refused | LockVote::Deferred))
    }

    /// Returns the end of the wait for nodes without an answer, if the votes are split: a quorum has answered, and some
    /// nodes have refused. The wait lasts for `patience` after the latest request, or for twice the time in which a
    /// quorum of nodes has answered, if that is longer. If round trips exceed `patience`, the first answers would
    /// otherwise end the attempt while the answers of equally distant nodes are about to arrive.
    pub(super) fn split_until(&self, patience: Duration) -> Option<Instant> {
        let is_split = !self.refusing().is_empty() && self.electorate.is_quorum(self.answered());
        let answered_at = self.quorum_answered_at.filter(|_| is_split)?;
        let took = answered_at.saturating_duration_since(self.asked_at);
        // `took` may include a suspension of the process.
        let by_answers = took.saturating_mul(2).min(self.node_timeout);
        let by_answers = mutation::altered(Mutation::SplitEndsWithHedge, by_answers, |_| Duration::ZERO);
        Some(self.asked_at + patience.max(by_answers))
    }

    /// Returns the earliest deadline of a node that has not answered and has time left.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.round.next_deadline()
    }

    /// Returns the result of [`Attempt::to_roll_back`](super::Attempt::to_roll_back).
    pub(super) fn to_roll_back(&self) -> impl Iterator<Item = (usize, bool)> {
        let asked = mutation::altered(Mutation::RollbackSkipsSilent, self.round.asked(), |_| NodeSet::EMPTY);
        self.votes.iter().enumerate().filter_map(move |(node, vote)| match vote {
            LockVote::Granted(_) | LockVote::Error => Some((node, true)),
            LockVote::NoAnswer => asked.contains(node).then_some((node, false)),
            LockVote::Refused | LockVote::Deferred | LockVote::NotSent => None,
        })
    }

    fn await_answers(&mut self, nodes: NodeSet) {
        for node in nodes.iter() {
            if let Some(vote) = self.votes.get_mut(node) {
                *vote = LockVote::NoAnswer;
            }
        }
    }

    fn nodes_where(&self, is_wanted: impl Fn(LockVote) -> bool) -> NodeSet {
        let votes = self.votes.iter().enumerate();
        votes.filter_map(|(node, vote)| is_wanted(*vote).then_some(node)).collect()
    }
}
