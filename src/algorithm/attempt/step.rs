//! The decisions of an attempt.

use crate::{algorithm::node_set::NodeSet, clock::Instant, values::FencingToken};

/// The next decision of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptStep {
    /// Sends the lock to these nodes. `ignores_queue`: the attempt has passed the wait queue, so no queue or yield mark
    /// refuses the lock.
    Lock { nodes: NodeSet, ignores_queue: bool },
    /// Asks this node for a turn to lock.
    Enqueue(usize),
    /// Sends the write-back to these nodes.
    WriteBack { token: u64, nodes: NodeSet },
    /// Waits for an answer, at most until this instant.
    Wait(Instant),
    /// Rolls the attempt back now. Further steps follow, until the reason of the failure is known.
    RollBack,
    /// A quorum holds the resource and has confirmed the token.
    Acquired { token: FencingToken },
    /// The attempt has no quorum, for this reason, and was rolled back.
    Failed(FailureReason),
}

/// The reason of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// A quorum answered, and another client has votes or its turn.
    Contended,
    /// Fewer nodes than a quorum answered.
    NoQuorum,
    /// The votes came after the end of the validity.
    Expired,
}
