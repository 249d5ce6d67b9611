//! What an attempt wants done next, and how it ends.

use crate::{algorithm::node_set::NodeSet, clock::Instant, values::FencingToken};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptStep {
    /// Send the lock to these nodes. `has_turn`: the queue node has granted it.
    Lock { nodes: NodeSet, has_turn: bool },
    /// Ask this node for a turn to lock.
    Enqueue(usize),
    /// Send the write-back to these nodes.
    WriteBack { token: u64, nodes: NodeSet },
    /// Wait for a vote, at most until then.
    Wait(Instant),
    /// Take everything back now; more steps follow, until it is known why it failed.
    Abandon,
    /// A quorum holds the resource and has confirmed the token.
    Acquired { token: FencingToken },
    /// No quorum, for this reason; everything was taken back.
    Failed(FailureReason),
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// A quorum answered, and somebody else has votes.
    Contended,
    /// Fewer nodes than a quorum answered.
    NoQuorum,
    /// The votes came when the validity was over already.
    Expired,
}
