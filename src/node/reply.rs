//! The answer to a call that is on its way.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{node::Answer, values::NodeError};

/// The answers to one request, one for each of its operations, once they are there.
///
/// # Cancel safety
///
/// Dropping a reply cancels nothing: the request was accepted when it was made.
#[derive(Debug)]
pub(crate) struct Reply {
    receiver: oneshot::Receiver<Vec<Answer>>,
    operations: usize,
}

/// The other end of a [`Reply`].
#[derive(Debug)]
pub(crate) struct Responder {
    sender: oneshot::Sender<Vec<Answer>>,
    operations: usize,
}

impl Reply {
    /// A reply to a request of so many operations, and the end that answers it.
    pub(crate) fn channel(operations: usize) -> (Responder, Self) {
        let (sender, receiver) = oneshot::channel();
        (Responder { sender, operations }, Self { receiver, operations })
    }

    /// A reply that is there already: the same error for each operation.
    pub(crate) fn error(operations: usize, error: &NodeError) -> Self {
        let (responder, reply) = Self::channel(operations);
        responder.error(error);
        reply
    }
}

impl Future for Reply {
    type Output = Vec<Answer>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Answer>> {
        let this = self.get_mut();
        Pin::new(&mut this.receiver).poll(context).map(|answers| {
            answers.unwrap_or_else(|_| vec![Answer::Error(NodeError::Disconnected); this.operations])
        })
    }
}

impl Responder {
    /// Answers every operation. It is no error if nobody waits any more.
    pub(crate) fn answer(self, answers: Vec<Answer>) {
        let answers = if answers.len() == self.operations {
            answers
        } else {
            let problem = format!("{} answers to {} operations", answers.len(), self.operations);
            vec![Answer::Error(NodeError::Protocol(problem.into())); self.operations]
        };
        drop(self.sender.send(answers));
    }

    /// Answers every operation with the same error.
    pub(crate) fn error(self, error: &NodeError) {
        let answers = vec![Answer::Error(error.clone()); self.operations];
        self.answer(answers);
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }
}
