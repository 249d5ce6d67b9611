//! The tally of an unlock.

use crate::{
    algorithm::{node_set::NodeSet, tally::Electorate},
    client::{
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
    },
    clock::Instant,
    node::{Answer, Reply},
    values::{NodeError, NodeReplies, NodeReply},
};

/// The answers of the nodes to one unlock.
pub(crate) struct UnlockTally {
    electorate: Electorate,
    /// The nodes that deleted a key of the lease, or may have done so by an earlier delivery of the unlock.
    deleted: NodeSet,
    /// The nodes that had no key of the lease, and the nodes that were sent no unlock.
    absent: NodeSet,
    /// The nodes that report whether the resource has waiters, with their reports.
    pub(super) has_waiters: Vec<(usize, bool)>,
    votes: Vec<NodeReply>,
    pub(crate) open: NodeSet,
}

impl UnlockTally {
    /// Counts answers until `is_enough` returns true, or until the deadline. Also returns the outstanding replies.
    pub(crate) async fn count(
        context: &ClientContext,
        replies: Vec<(usize, Reply)>,
        deadline: Instant,
        is_enough: impl Fn(&Self) -> bool,
    ) -> (Self, Vec<(usize, Reply)>) {
        let mut tally = Self::new(context, replies.iter().map(|(node, _)| *node).collect());
        let mut fanout = Fanout::from_replies(replies);
        while !is_enough(&tally) {
            match fanout.next(&*context.clock, deadline).await {
                FanoutEvent::Answer { node, answer, .. } => tally.record(node, answer),
                FanoutEvent::DeadlineReached => {
                    tally.time_out();
                    break;
                }
            }
        }
        (tally, fanout.take_outstanding(|()| true))
    }

    fn new(context: &ClientContext, asked: NodeSet) -> Self {
        let nodes = context.nodes.len();
        let vote = |node| if asked.contains(node) { NodeReply::Pending } else { NodeReply::NotAsked };
        Self {
            electorate: context.settings.electorate,
            deleted: NodeSet::EMPTY,
            // A node that was sent no unlock has received no request of the lease.
            absent: context.settings.electorate.all().without(asked),
            has_waiters: Vec::new(),
            votes: (0..nodes).map(vote).collect(),
            open: asked,
        }
    }

    fn record(&mut self, node: usize, answer: Answer) {
        let (answer, has_waiters) = answer.into_parts();
        self.has_waiters.extend(has_waiters.map(|has_waiters| (node, has_waiters)));
        self.open.remove(node);
        if let Some(vote) = self.votes.get_mut(node) {
            *vote = NodeReply::from(&answer);
        }
        match answer {
            Answer::Unlocked { deleted: 0 } => self.absent.insert(node),
            // `UnlockedBefore`: the node found no key for an unlock that was sent again. The first delivery may have
            // deleted the key, so the answer is no evidence of a loss.
            Answer::Unlocked { .. } | Answer::UnlockedBefore => self.deleted.insert(node),
            _ => {}
        }
    }

    /// Handles the deadline. Records the nodes without an answer as timed out.
    fn time_out(&mut self) {
        for vote in self.votes.iter_mut().filter(|vote| **vote == NodeReply::Pending) {
            *vote = NodeReply::Failed(NodeError::TimedOut);
        }
    }

    /// Returns the reply of each node. A node that was sent no request of the lease counts as unlocked, because it has
    /// no key.
    pub(crate) fn node_replies(&self, context: &ClientContext) -> NodeReplies {
        context.replies(self.votes.iter().map(|reply| match reply {
            NodeReply::NotAsked => NodeReply::Done,
            reply => reply.clone(),
        }))
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.electorate.is_quorum(self.confirmed())
    }

    fn confirmed(&self) -> NodeSet {
        self.deleted.union(self.absent)
    }

    /// Whether a quorum has confirmed and one of its nodes had the lease, or no further answer can change the result.
    pub(crate) fn is_decided(&self) -> bool {
        self.open.is_empty()
            || (self.is_confirmed() && !self.deleted.is_empty())
            || !self.electorate.is_quorum(self.confirmed().union(self.open))
    }

    /// Whether a quorum had no key of the lease, and no answer reports a deleted key.
    pub(super) fn found_nothing(&self) -> bool {
        self.deleted.is_empty() && self.electorate.is_quorum(self.absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETED: Answer = Answer::Unlocked { deleted: 1 };
    const ABSENT: Answer = Answer::Unlocked { deleted: 0 };
    const FAILED: Answer = Answer::Error(NodeError::OutOfMemory);

    /// Returns the tally of an unlock that was sent to five nodes, with a quorum of three, after these answers of nodes
    /// 0, 1, ...
    fn tally(answers: &[Answer]) -> UnlockTally {
        let electorate = Electorate::new(5, 3);
        let mut tally = UnlockTally {
            electorate,
            deleted: NodeSet::EMPTY,
            absent: NodeSet::EMPTY,
            has_waiters: Vec::new(),
            votes: vec![NodeReply::Pending; 5],
            open: electorate.all(),
        };
        answers.iter().enumerate().for_each(|(node, answer)| tally.record(node, answer.clone()));
        tally
    }

    #[test]
    fn an_unlock_is_decided_once_no_later_answer_can_change_its_result() {
        for (answers, is_decided) in [
            (vec![DELETED, ABSENT], false),
            (vec![DELETED, ABSENT, ABSENT], true),
            // A later answer may report a deleted key, and then the lease is not revoked.
            (vec![ABSENT, ABSENT, ABSENT], false),
            (vec![ABSENT, ABSENT, ABSENT, Answer::UnlockedBefore], true),
            (vec![FAILED, FAILED], false),
            (vec![FAILED, FAILED, FAILED], true),
            (vec![ABSENT; 5], true),
        ] {
            assert_eq!(tally(&answers).is_decided(), is_decided, "{answers:?}");
        }
    }

    #[test]
    fn an_unlock_found_nothing_if_a_quorum_had_no_key_and_no_node_deleted_one() {
        for (answers, found_nothing) in [
            (vec![ABSENT, ABSENT, FAILED, FAILED, FAILED], false),
            (vec![ABSENT, ABSENT, ABSENT, FAILED, FAILED], true),
            (vec![ABSENT, ABSENT, ABSENT, ABSENT, DELETED], false),
            (vec![ABSENT, ABSENT, ABSENT, ABSENT, Answer::UnlockedBefore], false),
        ] {
            assert_eq!(tally(&answers).found_nothing(), found_nothing, "{answers:?}");
        }
    }
}
