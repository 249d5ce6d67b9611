//! What an attempt has come to.

use crate::{
    acquire::checked_request::CheckedRequest,
    algorithm::{attempt::FailureReason, failed_attempt::FailedAttempt},
    client::environment::Environment,
    error::LockError,
    lease::active_lease::Acquired,
    values::{Resource, Votes},
};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    Acquired(Acquired),
    Failed(FailedAttempt),
}

impl AttemptOutcome {
    /// What it means to a client that makes no other attempt: `None` if others hold the resource.
    pub(crate) fn of_only_attempt(
        self,
        environment: &Environment,
        checked: &CheckedRequest,
    ) -> Result<Option<Acquired>, LockError> {
        match self {
            Self::Acquired(acquired) => Ok(Some(acquired)),
            Self::Failed(failed) if failed.reason == FailureReason::Contended => Ok(None),
            Self::Failed(failed) => Err(failed.into_error(environment, checked)),
        }
    }
}

impl FailedAttempt {
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
    let needed = electorate.needed();
    if votes.quarantined() <= electorate.spare() {
        return LockError::NoQuorum { resource, needed, votes };
    }
    let remaining = votes.quarantined_for(needed);
    LockError::Quarantined { resource, needed, remaining, votes }
}
