//! The replies to callers that wait for the registration of a connection.

use crate::{
    node::{
        Answer, Registration,
        reply::{Reply, Responder},
    },
    values::NodeError,
};

/// The result of the registration of the present connection, and the callers that wait for the next one.
#[derive(Debug, Default)]
pub(super) struct RegistrationReplies {
    /// `None` without a connection.
    present: Option<Registration>,
    waiting: Vec<Responder>,
}

impl RegistrationReplies {
    /// Returns the result for the present connection, or else for the next dial.
    pub(super) fn reply(&mut self) -> Reply {
        let (responder, reply) = Reply::channel(1);
        match &self.present {
            Some(registration) => responder.answer(vec![Answer::Registered(registration.clone())]),
            None => {
                self.waiting.retain(|responder| !responder.is_abandoned());
                self.waiting.push(responder);
            }
        }
        reply
    }

    /// Handles a registration.
    pub(super) fn registered(&mut self, registration: &Registration) {
        for responder in self.waiting.drain(..) {
            responder.answer(vec![Answer::Registered(registration.clone())]);
        }
        self.present = Some(registration.clone());
    }

    /// Handles a failed dial, or the end of the node.
    pub(super) fn failed(&mut self, error: &NodeError) {
        self.waiting.drain(..).for_each(|responder| responder.error(error));
    }

    /// Handles the end of the connection.
    pub(super) fn disconnected(&mut self) {
        self.present = None;
    }
}
