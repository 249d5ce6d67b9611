//! The reply to a request, as a future.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{node::Answer, values::NodeError};

/// A future of the answers to one request, one for each operation.
///
/// # Cancel safety
///
/// Dropping a reply cancels nothing, because the request was accepted at the call.
#[derive(Debug)]
pub(crate) struct Reply {
    receiver: oneshot::Receiver<Vec<Answer>>,
    operations: usize,
}

/// The sender of the answers to a [`Reply`].
#[derive(Debug)]
pub(crate) struct Responder {
    sender: oneshot::Sender<Vec<Answer>>,
    operations: usize,
}

impl Reply {
    /// Returns a reply to a request of `operations` operations, and its responder.
    pub(crate) fn channel(operations: usize) -> (Responder, Self) {
        let (sender, receiver) = oneshot::channel();
        (Responder { sender, operations }, Self { receiver, operations })
    }

    /// Returns a reply that is ready: the same error for each operation.
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
    /// Answers every operation. The caller may have dropped the reply.
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

    /// Whether the caller has dropped the reply.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }
}
