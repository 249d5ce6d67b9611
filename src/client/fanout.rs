//! One question sent to several nodes, and the answers as they come.

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

/// Requests under way, each to one node, and the answers as they come. Every round of every
/// operation goes through here.
///
/// # Cancel safety
///
/// Dropping a fan-out takes back nothing: what was sent will be executed.
pub(crate) struct Fanout<Tag> {
    pending: Vec<(usize, Tag, Reply)>,
    /// The timer of the last wait, kept because the next one mostly has the same deadline.
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
}

/// What a fan-out has heard.
#[derive(Debug)]
pub(crate) enum FanoutEvent<Tag> {
    Answer {
        node: usize,
        tag: Tag,
        answer: Answer,
    },
    /// Nothing until the deadline.
    DeadlineReached,
}

impl Fanout<()> {
    /// Requests that were sent already.
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
            self.pending.push((node, tag, to.call(request)));
        }
    }

    /// How many answers are still to come.
    pub(crate) fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// The next answer, or [`FanoutEvent::DeadlineReached`] once `deadline` has come.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses no answer.
    pub(crate) async fn next(&mut self, clock: &dyn Clock, deadline: Instant) -> FanoutEvent<Tag> {
        poll_fn(|context| self.poll_next(context, clock, deadline)).await
    }

    /// The replies of this kind that are still open; the others are let go.
    pub(crate) fn take_outstanding(&mut self, is_wanted: impl Fn(Tag) -> bool) -> Vec<(usize, Reply)> {
        let pending = std::mem::take(&mut self.pending);
        pending
            .into_iter()
            .filter(|(_, tag, _)| is_wanted(*tag))
            .map(|(node, _, reply)| (node, reply))
            .collect()
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
        if let Some((at, heard)) = answered {
            drop(self.pending.remove(at));
            return Poll::Ready(heard);
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
