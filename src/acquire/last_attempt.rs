//! The outcome of the last attempt of a waiting call. At the deadline, the outcome decides the result of the call.

use std::sync::{Arc, Mutex};

use crate::{
    acquire::shared_outage::SharedOutage,
    algorithm::{attempt::FailureReason, failed_attempt::FailedAttempt},
    client::context::ClientContext,
    error::{Error, Goal, NoQuorum},
    mutex::lock,
    values::{NodeReply, Resource},
};

/// The outcome of the last attempt of a waiting call, and the local queues in which the call waits behind other calls
/// of the client. At the deadline of the call, these two decide whether the resource was held or no quorum answered.
#[derive(Debug, Default)]
pub(crate) struct LastAttempt {
    outcome: Mutex<LastOutcome>,
    queues: Mutex<Vec<Arc<SharedOutage>>>,
}

#[derive(Clone, Debug, Default)]
enum LastOutcome {
    /// No attempt so far, usually because other calls of this client are ahead.
    #[default]
    None,
    /// A first attempt without an outcome so far.
    Begun,
    /// A refusal by a quorum or a deferral by the queue node: another client holds the resource, or waiters are ahead.
    Contended,
    NoQuorum(NoQuorum),
}

impl LastAttempt {
    /// Adds a local queue in which the call waits. The attempts of that queue count for the call.
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

    /// Decides the outcome of a call at its deadline: `Ok` if other clients or other calls had the resource.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if the last attempt of the call, or of one of its queues, had no quorum. The error is the
    /// same if the first attempt of the call has not ended.
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
