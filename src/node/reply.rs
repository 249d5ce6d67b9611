//! The answer to a call that is on its way.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{node::answer::Answer, values::NodeError};

/// The answers to one request, one for each of its entries, once they are there.
///
/// # Cancel safety
///
/// Dropping a reply cancels nothing: the request was accepted when it was made.
#[derive(Debug)]
pub(crate) struct Reply {
    receiver: oneshot::Receiver<Vec<Answer>>,
    entries: usize,
}

/// The other end of a [`Reply`].
#[derive(Debug)]
pub(crate) struct Responder {
    sender: oneshot::Sender<Vec<Answer>>,
    entries: usize,
}

impl Reply {
    /// A reply to a request of so many entries, and the end that answers it.
    pub(crate) fn channel(entries: usize) -> (Responder, Self) {
        let (sender, receiver) = oneshot::channel();
        (Responder { sender, entries }, Self { receiver, entries })
    }

    /// A reply that is there already: the same error for each entry.
    pub(crate) fn error(entries: usize, error: &NodeError) -> Self {
        let (responder, reply) = Self::channel(entries);
        responder.error(error);
        reply
    }
}

impl Future for Reply {
    type Output = Vec<Answer>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Answer>> {
        let this = self.get_mut();
        Pin::new(&mut this.receiver).poll(context).map(|answers| {
            answers.unwrap_or_else(|_| vec![Answer::Error(NodeError::Disconnected); this.entries])
        })
    }
}

impl Responder {
    /// Answers every entry. It is no error if nobody waits any more.
    pub(crate) fn answer(self, answers: Vec<Answer>) {
        let answers = if answers.len() == self.entries {
            answers
        } else {
            let problem = format!("{} answers to {} entries", answers.len(), self.entries);
            vec![Answer::Error(NodeError::Protocol(problem.into())); self.entries]
        };
        drop(self.sender.send(answers));
    }

    /// Answers every entry with the same error.
    pub(crate) fn error(self, error: &NodeError) {
        let answers = vec![Answer::Error(error.clone()); self.entries];
        self.answer(answers);
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }
}
