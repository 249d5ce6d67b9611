//! What a failed attempt has seen.

use std::time::Duration;

use crate::{
    algorithm::attempt::FailureReason,
    values::{LeaseId, NodeReplies},
};

/// What a failed attempt has seen; everything was taken back.
#[derive(Clone, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) reason: FailureReason,
    pub(crate) replies: NodeReplies,
    /// The largest fencing counter seen, plus one; 0 if none was.
    pub(crate) hint: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// How a queue node has put this client off.
    pub(crate) deferral: Option<Deferral>,
    /// For which of the resources it was refused, if any.
    pub(crate) refused: Option<Refused>,
}

/// How a queue node put a client off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deferral {
    pub(crate) node: usize,
    /// Whether it has an entry there.
    pub(crate) is_queued: bool,
    /// How many are before it.
    pub(crate) rank: u32,
    /// When to come back if it is not woken.
    pub(crate) patience: Duration,
    /// Who holds the resource there, if it is known, and for how long.
    pub(crate) holder: Option<(Option<LeaseId>, Duration)>,
}

/// For which of some resources a lock was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) index: usize,
    /// Whether its queue node says so, or a quorum: single votes may be those of other clients that
    /// are about to give them back.
    pub(crate) is_sure: bool,
}
