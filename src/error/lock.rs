//! Why there is no lock, or no longer.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{ConfigError, counted},
    values::{Resource, Votes},
};

/// Why a resource was not locked. That somebody else holds it is no error of `try_lock`.
///
/// Whatever the error, nothing is left behind on nodes that can be reached, and nothing for longer
/// than one ttl on the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The lock's settings cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Fewer nodes than a quorum gave an answer.
    #[error("no quorum for {resource}: {} needed; {votes}", counted(*needed, "vote"))]
    NoQuorum {
        /// What was to be locked.
        resource: Resource,
        /// How many votes would have won.
        needed: usize,
        /// What each node said last.
        votes: Votes,
    },
    /// So many nodes must not vote, having restarted or being new, that no quorum is left.
    ///
    /// A new quorum is admitted by [`QuorumBuilder::init`](crate::QuorumBuilder::init). Otherwise
    /// the nodes vote again when every lease is over that they may have forgotten.
    #[error(
        "no quorum for {resource}: {} needed, and nodes are in quarantine for {} more, as they \
         restarted, were flushed, or are new (if all nodes are new, `redquorum init` or \
         `QuorumBuilder::init` makes them vote at once); {votes}",
        counted(*needed, "vote"),
        .remaining.map_or("some time".to_owned(), |remaining| format!("{remaining:.1?}"))
    )]
    Quarantined {
        /// What was to be locked.
        resource: Resource,
        /// How many votes would have won.
        needed: usize,
        /// How much longer until enough nodes may vote, as far as they have told; `None` if they
        /// have not.
        remaining: Option<Duration>,
        /// What each node said last.
        votes: Votes,
    },
    /// The time to wait was over while others held the resource.
    #[error("{resource} was not free within {waited:.1?}; {votes}")]
    TimedOut {
        /// What was to be locked.
        resource: Resource,
        /// How long the call waited.
        waited: Duration,
        /// What each node said last.
        votes: Votes,
    },
    /// A quorum granted, but too late to leave any validity.
    #[error("the votes for {resource} came when the lease was over already; {votes}")]
    Expired {
        /// What was to be locked.
        resource: Resource,
        /// What each node said.
        votes: Votes,
    },
    /// The owner of the call reads the resource, and would wait for itself: it has to give up its
    /// read lease before it writes.
    #[error("{resource} is read by the same owner, which would wait for itself to write it")]
    WouldDeadlock {
        /// What was to be locked.
        resource: Resource,
    },
    /// A write lease was to be downgraded that its owner has entered more than once: the other guards
    /// would write on. It stays as it is, but for the hold of this guard.
    #[error("{resource} is held {holds} times by its owner, and only the last hold can be downgraded")]
    OtherHolds {
        /// What is locked.
        resource: Resource,
        /// How many holds there were.
        holds: u32,
    },
    /// A lease that the call builds on was lost: the one that its owner has on the resource (until
    /// all of its guards are gone, since re-entering it would hide the loss), or one of a group
    /// while the rest was waited for.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// The quorum was shut down.
    #[error("the quorum was shut down")]
    Closed,
}

/// A lease is over before its holder unlocked it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease on {resource} is lost: {reason}")]
#[non_exhaustive]
pub struct LeaseLost {
    /// What was locked.
    pub resource: Resource,
    /// How it ended.
    pub reason: LossReason,
}

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended: it was not renewed, or no quorum could be reached in time.
    #[error("its validity ended")]
    Expired,
    /// Its `max_hold` was reached.
    #[error("its max_hold was reached")]
    MaxHold,
    /// A quorum of nodes does not know it any more: it was unlocked by force, or the nodes forgot
    /// it.
    #[error("the nodes do not have it any more")]
    TakenAway,
    /// Its holder has unlocked it: the program holds a [`Lease`](crate::Lease) that was kept for
    /// longer.
    #[error("its holder has unlocked it")]
    Unlocked,
    /// The quorum was shut down under it.
    #[error("the quorum was shut down")]
    Shutdown,
}

/// Why a renewal or a verification on request did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// The lease is over.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// Fewer nodes than a quorum renewed it; it stays valid until its own end.
    #[error("no quorum renewed {resource}; {votes}")]
    NoQuorum {
        /// What is locked.
        resource: Resource,
        /// What each node said.
        votes: Votes,
    },
}

impl RenewError {
    /// What it is to a lock that was to be re-entered.
    pub(crate) fn into_lock_error(self, needed: usize) -> LockError {
        match self {
            Self::LeaseLost(lost) => LockError::LeaseLost(lost),
            Self::NoQuorum { resource, votes } => LockError::NoQuorum { resource, needed, votes },
        }
    }
}

/// Why an unlock is not confirmed. It goes on in the background until the last key of the lease is
/// over, except at nodes that will always refuse it: with the key of another type, with a
/// permission or an authentication that is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The lease was over before it was unlocked: somebody else may have held the resource
    /// meanwhile.
    #[error("{lost} before it was unlocked")]
    LeaseLost {
        /// Which lease, and how it was lost.
        lost: LeaseLost,
        /// What each node said.
        votes: Votes,
    },
    /// Fewer nodes than a quorum have confirmed so far.
    #[error("no quorum confirmed the unlock of {resource} yet; {votes}")]
    NoQuorum {
        /// What was locked.
        resource: Resource,
        /// The nodes that have not confirmed.
        open: Vec<Arc<str>>,
        /// What each node said.
        votes: Votes,
    },
}
