//! The queue node of a resource, and what it has said.

use crate::{
    client::queues::Queues,
    clock::Instant,
    mutation::{self, Mutation},
    node::{Reply, Resources},
};

/// The queue node of one of the resources that are locked together, and its last word on whether
/// others are in that queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueNodeView {
    /// `None` only if there are no nodes.
    pub(crate) node: Option<usize>,
    /// Of which of the resources.
    pub(crate) index: usize,
    is_awaited: Option<bool>,
}

impl QueueNodeView {
    pub(crate) fn new(node: Option<usize>, index: usize) -> Self {
        Self { node, index, is_awaited: None }
    }

    /// The nodes, this one first: it wakes the next waiter, who comes while the others are still being
    /// told.
    pub(crate) fn before_others(self, nodes: usize) -> impl Iterator<Item = usize> {
        self.node.into_iter().chain((0..nodes).filter(move |node| Some(*node) != self.node))
    }

    /// A node has said whether others are queued.
    pub(crate) fn hear(&mut self, queues: &Queues, resources: &Resources, node: usize, is_awaited: bool) {
        queues.heard(node);
        if self.note(node, is_awaited) {
            queues.note(resources, self.index, node, is_awaited);
        }
    }

    /// The same where the client's memory of queues is not told. Whether it was the queue node.
    pub(crate) fn note(&mut self, node: usize, is_awaited: bool) -> bool {
        let is_queue_node = self.node == Some(node);
        if is_queue_node {
            self.is_awaited = Some(is_awaited);
        }
        is_queue_node
    }

    /// An attempt was won. A client that wins without this node's answer does not know of queued
    /// waiters, and may have overtaken them: the next time, it asks.
    pub(crate) fn acquired(self, queues: &Queues, resources: &Resources) -> Self {
        if let (None, Some(node)) = (self.is_awaited, self.node) {
            queues.note(resources, self.index, node, true);
        }
        self
    }

    /// Whether this node has said nothing of its queue.
    pub(crate) fn is_unheard(self) -> bool {
        self.is_awaited.is_none()
    }

    /// Another node is asked for a turn: this one has not answered in time.
    pub(crate) fn pass_over(self, queues: &Queues, by: usize, now: Instant) {
        if let Some(node) = self.node.filter(|node| *node != by) {
            queues.passed_over(node, now);
        }
    }

    /// Nobody waits for these answers; this node's says whether others are queued.
    pub(crate) fn hear_later(self, queues: &Queues, resources: &Resources, replies: Vec<(usize, Reply)>) {
        if let Some((node, reply)) = replies.into_iter().find(|(node, _)| self.node == Some(*node)) {
            queues.hear_later(resources, self.index, node, reply);
        }
    }

    /// Whether others are queued, by this node itself.
    pub(crate) fn says_awaited(&self) -> bool {
        let is_awaited = self.is_awaited == Some(true);
        mutation::altered(Mutation::MarkUnheard, is_awaited, |_| self.is_awaited != Some(false))
    }
}
