//! What an attempt has come to.

use std::time::Duration;

use crate::{
    acquire::checked_request::CheckedRequest,
    algorithm::{attempt::FailureReason, queueing::Deferral},
    client::environment::Environment,
    error::LockError,
    lease::active_lease::Acquired,
    values::{Resource, Votes},
};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    Acquired(Acquired),
    Failed(Failed),
}

/// What a failed attempt has seen; everything was taken back.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) reason: FailureReason,
    pub(crate) votes: Votes,
    /// The largest fencing counter seen, plus one; 0 if none was.
    pub(crate) hint: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// How a queue node has put this client off.
    pub(crate) deferral: Option<Deferral>,
    /// For which of the resources we were refused, if any.
    pub(crate) refused: Option<Refused>,
}

/// For which of some resources a lock was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) index: usize,
    /// Whether its queue node says so, or a quorum: single votes may be those of other clients that
    /// are about to give them back.
    pub(crate) is_sure: bool,
}

impl Failed {
    /// The error that a failed attempt amounts to when it is not tried again. Contention is none
    /// for `try_lock`, which looks at the reason first.
    pub(crate) fn into_error(self, environment: &Environment, checked: &CheckedRequest) -> LockError {
        if environment.is_closed() {
            return LockError::Closed;
        }
        let (resource, votes) = (checked.resource.clone(), self.votes);
        match self.reason {
            FailureReason::Expired => LockError::Expired { resource, votes },
            FailureReason::Contended | FailureReason::NoQuorum => no_quorum(environment, resource, votes),
        }
    }
}

/// Why there is no quorum: too many nodes in quarantine, or too many that cannot be asked.
fn no_quorum(environment: &Environment, resource: Resource, votes: Votes) -> LockError {
    let electorate = environment.settings.electorate;
    let (needed, spare) = (electorate.needed(), electorate.nodes() - electorate.needed());
    if votes.quarantined() <= spare {
        return LockError::NoQuorum { resource, needed, votes };
    }
    let remaining = votes.quarantined_for(needed);
    LockError::Quarantined { resource, needed, remaining, votes }
}
