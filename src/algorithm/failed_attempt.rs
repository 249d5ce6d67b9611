//! The results of a failed attempt. The driver of the attempt passes the results to the waiter schedule, the outage and
//! the errors of calls.

use std::time::Duration;

use crate::{
    algorithm::attempt::FailureReason,
    mutation::{self, Mutation},
    values::{LeaseId, NodeError, NodeReplies, NodeReply},
};

/// The results of a failed attempt, which was rolled back.
#[derive(Clone, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) reason: FailureReason,
    pub(crate) replies: NodeReplies,
    /// The largest counter in a grant or in a refusal that names a holder, plus one; 0 without these answers.
    pub(crate) hint: u64,
    /// The time that the attempt took.
    pub(crate) took: Duration,
    /// Whether the client stood still during the attempt, so that the failure does not show the state of the nodes.
    pub(crate) has_stood_still: bool,
    /// Whether too few nodes answered in time because the nodes have more work than they can do.
    pub(crate) is_overloaded: bool,
    /// The deferral of this client by a queue node. If a newcomer was refused without a deferral, the driver makes a
    /// deferral that names the queue node.
    pub(crate) deferral: Option<Deferral>,
    /// The resource for which the attempt was refused, if the answers name it.
    pub(crate) refused: Option<RefusedResource>,
}

impl FailedAttempt {
    /// Returns the results of an attempt that takes longer than a call waits for it.
    pub(crate) fn pending(replies: NodeReplies, took: Duration) -> Self {
        Self {
            reason: FailureReason::NoQuorum,
            replies,
            hint: 0,
            took,
            has_stood_still: false,
            is_overloaded: false,
            deferral: None,
            refused: None,
        }
    }

    /// Whether a node let its time to answer pass: until its deadline, or for `node_timeout` until the end of the
    /// attempt. A node that refuses, or that the client cannot reach, is not late, and has no work with the attempt. Nor is a
    /// node late whose answer was still expected when connections broke and thereby ended the attempt.
    pub(crate) fn was_late(&self, node_timeout: Duration) -> bool {
        let replies = self.replies.all();
        let is_broken = replies.contains(&NodeReply::Failed(NodeError::Disconnected));
        let is_late = |reply: &NodeReply| match reply {
            NodeReply::Failed(NodeError::TimedOut) => true,
            NodeReply::Pending => self.took >= node_timeout && !is_broken,
            _ => false,
        };
        let was_late = replies.iter().any(is_late);
        mutation::altered(Mutation::NoDelayAfterLateAnswers, was_late, |_| false)
    }
}

/// The deferral of a client by a queue node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deferral {
    pub(crate) node: usize,
    /// Whether the client has a queue entry at the node.
    pub(crate) is_queued: bool,
    /// The number of waiters ahead.
    pub(crate) rank: u32,
    /// The time after which the client attempts again without a wake.
    pub(crate) patience: Duration,
    /// The holder that the node names, if any, and the rest of its ttl.
    pub(crate) holder: Option<(Option<LeaseId>, Duration)>,
}

/// The resource for which an attempt was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedResource {
    pub(crate) index: usize,
    /// Whether the queue node or a quorum has refused. A refusal by any other node alone proves little, because the key
    /// of that node may belong to an attempt that is rolling back.
    pub(crate) is_sure: bool,
}
