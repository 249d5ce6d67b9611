//! The decisions of an attempt, which its driver carries out.

use crate::{algorithm::node_set::NodeSet, clock::Instant, values::FencingToken};

/// The next decision of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptStep {
    /// A lock, to send to these nodes. If `ignores_queue` is true, neither waiters nor a yield mark refuse the lock.
    Lock { nodes: NodeSet, ignores_queue: bool },
    /// A request for the turn, to send to this node.
    Enqueue(usize),
    /// A write-back of the token, to send to these nodes.
    WriteBack { token: u64, nodes: NodeSet },
    /// A wait for the next answer, at most until this instant.
    Wait(Instant),
    /// The rollback, to send now. Further steps follow, until the reason of the failure is known.
    RollBack,
    /// The end of a won attempt: a quorum has granted, and a quorum has confirmed the token.
    Acquired { token: FencingToken },
    /// The end of an attempt that failed for this reason, after the rollback.
    Failed(FailureReason),
}

/// The reason of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// A refusal, with the answers of a quorum; or a refusal by the queue node that decides the attempt.
    Contended,
    /// Too few answers: fewer nodes than a quorum have granted or refused, or have confirmed the token.
    NoQuorum,
    /// The end of the validity before the attempt was won.
    Expired,
}
