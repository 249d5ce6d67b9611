//! The outcome of the last attempt of a waiting call.

use std::sync::{Arc, Mutex};

use crate::{
    acquire::shared_outage::SharedOutage,
    algorithm::{attempt::FailureReason, failed_attempt::FailedAttempt},
    client::context::ClientContext,
    error::{Error, Goal, NoQuorum},
    mutex::lock,
    values::{NodeReply, Resource},
};

/// The outcome of the last attempt of a waiting call, and the queues in which the call waits behind other calls of its
/// client. At the deadline of the call, they distinguish a resource that another client holds from a quorum that did not
/// answer.
#[derive(Debug, Default)]
pub(crate) struct LastAttempt {
    outcome: Mutex<LastOutcome>,
    queues: Mutex<Vec<Arc<SharedOutage>>>,
}

#[derive(Clone, Debug, Default)]
enum LastOutcome {
    /// The call has not made an attempt: other calls of this client come first.
    #[default]
    None,
    /// The first attempt has begun, and has no outcome yet.
    Begun,
    /// Another lease holds the resource, or other waiters come first: a quorum answered, or the queue node alone put the
    /// attempt off.
    Contended,
    NoQuorum(NoQuorum),
}

impl LastAttempt {
    /// The attempts of this queue count for the call.
    pub(super) fn waits_in(&self, queue: &Arc<SharedOutage>) {
        lock(&self.queues).push(Arc::clone(queue));
    }

    pub(crate) fn begins(&self) {
        let mut outcome = lock(&self.outcome);
        if let LastOutcome::None = *outcome {
            *outcome = LastOutcome::Begun;
        }
    }

    pub(crate) fn failed(&self, resource: &Resource, failed: &FailedAttempt) {
        *lock(&self.outcome) = match failed.reason {
            FailureReason::Contended => LastOutcome::Contended,
            FailureReason::NoQuorum | FailureReason::Expired => {
                LastOutcome::NoQuorum(failed.to_no_quorum(resource))
            }
        };
    }

    /// Decides the outcome of a call whose time is over: `Ok` if other clients had the resource.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if no quorum answered to the last attempt of the call, or to that of a call before it.
    pub(crate) fn at_deadline(&self, context: &ClientContext, resource: &Resource) -> Result<(), Error> {
        let has_asked = match lock(&self.outcome).clone() {
            LastOutcome::None => false,
            LastOutcome::Contended => true,
            LastOutcome::Begun => {
                let replies = context.same_replies(&NodeReply::Pending);
                return Err(NoQuorum::new(Goal::Lock(resource.clone()), replies).into());
            }
            LastOutcome::NoQuorum(error) => return Err(error.into()),
        };
        let queues = lock(&self.queues);
        queues.iter().try_for_each(|queue| queue.at_deadline(context, resource, has_asked))
    }
}
