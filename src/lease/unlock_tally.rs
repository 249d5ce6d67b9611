//! What the nodes say to an unlock.

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

/// The count of one unlock.
pub(crate) struct UnlockTally {
    electorate: Electorate,
    /// Deleted there.
    deleted: NodeSet,
    /// It was not there (any more).
    absent: NodeSet,
    /// Whether others are queued, as each node said that said anything of it.
    pub(super) awaited: Vec<(usize, bool)>,
    votes: Vec<NodeReply>,
    pub(crate) open: NodeSet,
}

impl UnlockTally {
    /// Hears answers until `is_enough` of what was heard, or the deadline; and the replies that are
    /// still open.
    pub(crate) async fn heard(
        context: &ClientContext,
        replies: Vec<(usize, Reply)>,
        deadline: Instant,
        is_enough: impl Fn(&Self) -> bool,
    ) -> (Self, Vec<(usize, Reply)>) {
        let mut tally = Self::new(context, replies.iter().map(|(node, _)| *node).collect());
        let mut fanout = Fanout::from_replies(replies);
        while !is_enough(&tally) {
            match fanout.next(&*context.clock, deadline).await {
                FanoutEvent::Answer { node, answer, .. } => tally.hear(node, answer),
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
            // Nothing of the lease ever went where nothing needs to be unlocked.
            absent: context.settings.electorate.all().without(asked),
            awaited: Vec::new(),
            votes: (0..nodes).map(vote).collect(),
            open: asked,
        }
    }

    fn hear(&mut self, node: usize, answer: Answer) {
        let (answer, is_awaited) = answer.into_parts();
        self.awaited.extend(is_awaited.map(|is_awaited| (node, is_awaited)));
        self.open.remove(node);
        if let Some(vote) = self.votes.get_mut(node) {
            *vote = NodeReply::from(&answer);
        }
        match answer {
            Answer::Unlocked { deleted: 0 } => self.absent.insert(node),
            // Who deleted nothing now may have done so when the unlock was sent before: no evidence
            // of a loss.
            Answer::Unlocked { .. } | Answer::UnlockedBefore => self.deleted.insert(node),
            _ => {}
        }
    }

    /// A node that has not answered by now is not waited for any longer.
    fn time_out(&mut self) {
        for vote in self.votes.iter_mut().filter(|vote| **vote == NodeReply::Pending) {
            *vote = NodeReply::Failed(NodeError::TimedOut);
        }
    }

    /// The reply of each node. A node to which nothing of the lease was sent has nothing to unlock.
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

    /// A quorum says that it is not there, one of them that it was; or nobody is left to say
    /// anything.
    pub(super) fn is_decided(&self) -> bool {
        self.open.is_empty()
            || (self.is_confirmed() && !self.deleted.is_empty())
            || !self.electorate.is_quorum(self.confirmed().union(self.open))
    }

    /// Whether a quorum has answered and nobody had the lease.
    pub(super) fn found_nothing(&self) -> bool {
        self.deleted.is_empty() && self.electorate.is_quorum(self.absent)
    }
}
