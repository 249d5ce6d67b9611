//! The results of a failed attempt. The driver of the attempt passes the results to the waiter schedule, the outage and
//! the errors of calls.

use std::time::Duration;

use crate::{
    algorithm::attempt::FailureReason,
    values::{LeaseId, NodeReplies},
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
    /// The deferral of this client by a queue node. If a newcomer was refused without a deferral, the driver makes a
    /// deferral that names the queue node.
    pub(crate) deferral: Option<Deferral>,
    /// The resource for which the attempt was refused, if the answers name it.
    pub(crate) refused: Option<RefusedResource>,
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
