//! The node that keeps the line of a resource, and what it has said.

use crate::{
    lock::{core::Core, locking::Target},
    mutation::{self, Mutation},
    node::{Reply, Resources},
};

/// The node that keeps the line of one of the resources that are locked together, and its last word
/// on whether others are in that line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeper {
    /// `None` only if there are no nodes.
    pub(crate) node: Option<usize>,
    index: usize,
    is_awaited: Option<bool>,
}

impl Keeper {
    pub(crate) fn of(core: &Core, target: &Target, index: usize) -> Self {
        let resource = target.resources.get(index).unwrap_or(&target.resource);
        Self { node: core.arbiters(resource).first().copied(), index, is_awaited: None }
    }

    /// Of which of the resources.
    pub(crate) fn index(self) -> usize {
        self.index
    }

    /// A node has said whether others are in line.
    pub(crate) fn hear(&mut self, core: &Core, resources: &Resources, node: usize, is_awaited: bool) {
        if self.note(node, is_awaited) {
            core.queues.heard(node);
            core.queues.note(resources, self.index, node, is_awaited);
        }
    }

    /// The same for whoever tells nobody. Whether it was the node that keeps the line.
    pub(crate) fn note(&mut self, node: usize, is_awaited: bool) -> bool {
        let is_keeper = self.node == Some(node);
        if is_keeper {
            self.is_awaited = Some(is_awaited);
        }
        is_keeper
    }

    /// An attempt was won. Whoever wins without the word of this node does not know of those in
    /// line, and may have overtaken them: the next time, it asks.
    pub(crate) fn won(self, core: &Core, resources: &Resources) -> Self {
        if let (None, Some(node)) = (self.is_awaited, self.node) {
            core.queues.note(resources, self.index, node, true);
        }
        self
    }

    /// Another node is asked for a turn: this one has not answered in time.
    pub(crate) fn is_passed_over(self, core: &Core, by: usize) {
        if let Some(node) = self.node.filter(|node| *node != by) {
            core.queues.passed_over(node);
        }
    }

    /// Nobody waits for these answers; this node's says whether others are in line.
    pub(crate) fn hear_later(self, core: &Core, resources: &Resources, replies: Vec<(usize, Reply)>) {
        if let Some((node, reply)) = replies.into_iter().find(|(node, _)| self.node == Some(*node)) {
            core.queues.hear_later(resources, self.index, node, reply);
        }
    }

    /// Whether others are in line, by this node itself.
    pub(crate) fn says_awaited(&self) -> bool {
        self.is_awaited == Some(true) || (self.is_awaited.is_none() && mutation::is_on(Mutation::MarkUnheard))
    }
}
