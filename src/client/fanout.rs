//! Requests to several nodes, and the answers in order of arrival. The rounds of all operations use this file, except
//! for the renewals of the watchdog, which have one request to each node for many leases.
//!
//! The drop of a fan-out never withdraws a request.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, poll_fn};

use crate::{
    clock::{Clock, Instant},
    node::{Answer, Node, Reply, Request},
    values::NodeError,
};

/// The outstanding requests of a round, each to one node, with the answers in order of arrival. Answers that are ready
/// at the same time are returned in the order of their requests.
///
/// # Cancel safety
///
/// If a fan-out is dropped, the nodes may still execute the requests.
pub(crate) struct Fanout<Tag> {
    /// The node, the tag and the reply of each request without an answer, in the order of sending.
    pending: Vec<(usize, Tag, Reply)>,
    /// The timer of the last wait, kept because the next wait usually has the same deadline.
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
}

/// An event of a fan-out.
#[derive(Debug)]
pub(crate) enum FanoutEvent<Tag> {
    Answer {
        node: usize,
        tag: Tag,
        answer: Answer,
    },
    /// No answer until the deadline.
    DeadlineReached,
}

impl Fanout<()> {
    /// Returns a fan-out of requests that were sent before.
    pub(crate) fn from_replies(replies: Vec<(usize, Reply)>) -> Self {
        Self { pending: replies.into_iter().map(|(node, reply)| (node, (), reply)).collect(), timer: None }
    }
}

impl<Tag: Copy> Fanout<Tag> {
    pub(crate) fn new() -> Self {
        Self { pending: Vec::new(), timer: None }
    }

    /// Sends a request of one operation to a node.
    pub(crate) fn send(&mut self, nodes: &[Arc<dyn Node>], node: usize, tag: Tag, request: Request) {
        if let Some(to) = nodes.get(node) {
            self.add(node, tag, to.call(request));
        }
    }

    /// Adds the reply of a node.
    pub(crate) fn add(&mut self, node: usize, tag: Tag, reply: Reply) {
        self.pending.push((node, tag, reply));
    }

    /// Returns the number of outstanding answers.
    pub(crate) fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// Returns the next answer. At the deadline, returns [`FanoutEvent::DeadlineReached`] if no answer is ready.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no answer is lost.
    pub(crate) async fn next(&mut self, clock: &dyn Clock, deadline: Instant) -> FanoutEvent<Tag> {
        poll_fn(|context| self.poll_next(context, clock, deadline)).await
    }

    /// Returns the outstanding replies whose tags `is_wanted` accepts, each with its node. Drops the other replies.
    pub(crate) fn take_outstanding(&mut self, is_wanted: impl Fn(Tag) -> bool) -> Vec<(usize, Reply)> {
        let wanted = self.drain_outstanding().filter(|(_, tag, _)| is_wanted(*tag));
        wanted.map(|(node, _, reply)| (node, reply)).collect()
    }

    /// Removes the outstanding replies, each with its node and tag.
    pub(crate) fn drain_outstanding(&mut self) -> impl Iterator<Item = (usize, Tag, Reply)> {
        std::mem::take(&mut self.pending).into_iter()
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        clock: &dyn Clock,
        deadline: Instant,
    ) -> Poll<FanoutEvent<Tag>> {
        let mut answered = None;
        for (at, (node, tag, reply)) in self.pending.iter_mut().enumerate() {
            if let Poll::Ready(answers) = Pin::new(reply).poll(context) {
                let missing = || Answer::Error(NodeError::Protocol("no answer to an operation".into()));
                let answer = answers.into_iter().next().unwrap_or_else(missing);
                answered = Some((at, FanoutEvent::Answer { node: *node, tag: *tag, answer }));
                break;
            }
        }
        if let Some((at, event)) = answered {
            drop(self.pending.remove(at));
            return Poll::Ready(event);
        }
        let timer = match &mut self.timer {
            Some((until, timer)) if *until == deadline => timer,
            timer => &mut timer.insert((deadline, clock.sleep_until(deadline))).1,
        };
        timer.as_mut().poll(context).map(|()| {
            self.timer = None;
            FanoutEvent::DeadlineReached
        })
    }
}
