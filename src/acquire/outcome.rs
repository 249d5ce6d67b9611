//! The outcome of an attempt, and its conversion to the result or the error of a call.

use crate::{
    acquire::checked_request::CheckedRequest,
    algorithm::{attempt::FailureReason, failed_attempt::FailedAttempt},
    client::context::ClientContext,
    error::{Error, Goal, NoQuorum},
    lease::active_lease::Acquired,
    values::{NodeReply, Refusal, Resource},
};

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    Acquired(Acquired),
    Failed(FailedAttempt),
}

impl AttemptOutcome {
    /// Returns the result of an attempt that is not repeated: `None` if another client holds the resource, or waiters
    /// are ahead.
    pub(crate) fn of_only_attempt(
        self,
        context: &ClientContext,
        checked: &CheckedRequest,
    ) -> Result<Option<Acquired>, Error> {
        match self {
            Self::Acquired(acquired) => Ok(Some(acquired)),
            Self::Failed(failed) if failed.reason == FailureReason::Contended => Ok(None),
            Self::Failed(failed) => Err(failed.into_error(context, checked)),
        }
    }
}

impl FailedAttempt {
    /// Whether so many nodes have refused that the remaining nodes are no quorum. An abstention is no
    /// refusal.
    pub(crate) fn is_refused_for_good(&self, context: &ClientContext) -> bool {
        let is_refusal = |reply: &&NodeReply| {
            let NodeReply::Refused(refusal) = reply else { return false };
            matches!(refusal, Refusal::Held { .. } | Refusal::RolledBack | Refusal::Superseded)
        };
        let refused = self.replies.all().iter().filter(is_refusal).count();
        refused > context.settings.electorate.spare()
    }

    /// Returns the error of a failed attempt that is not repeated. Callers for which contention is no error, such as
    /// `try_lock`, check the reason first.
    pub(crate) fn into_error(self, context: &ClientContext, checked: &CheckedRequest) -> Error {
        context.no_quorum(self.to_no_quorum(&checked.resource))
    }

    /// Returns the error for the lack of a quorum; for an expired attempt, the error for votes that came too late.
    /// `resource` names the goal of the call.
    pub(crate) fn to_no_quorum(&self, resource: &Resource) -> NoQuorum {
        let (goal, replies) = (Goal::Lock(resource.clone()), self.replies.clone());
        let error = match self.reason {
            FailureReason::Expired => NoQuorum::late(goal, replies),
            FailureReason::Contended | FailureReason::NoQuorum => NoQuorum::new(goal, replies),
        };
        if self.is_overloaded { error.of_overloaded_nodes() } else { error }
    }
}
