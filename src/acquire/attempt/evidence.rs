//! The evidence in the answers to the lock requests of one attempt. The driver of the attempt records the answers, and
//! reads the evidence when the attempt ends.

use crate::{
    algorithm::{failed_attempt::Deferral, holder::holder, node_set::NodeSet, tally::Electorate},
    node::Holder,
    values::{NodeError, NodeReply},
};

/// The evidence in the answers to one attempt: the last reply of each node, the largest counter, the deferral and the
/// refused resource. Answers to write-backs are not recorded here.
///
/// # Invariants
///
/// 1. After the deferral of an enqueue, a refusal that names a holder does not change the refused resource.
#[derive(Debug)]
pub(super) struct AttemptEvidence {
    replies: Vec<NodeReply>,
    /// The largest vote of a grant, or counter of a refusal that names a holder; 0 without these answers.
    largest_counter: u64,
    /// The deferral by the last node that has deferred an enqueue.
    deferral: Option<Deferral>,
    /// The index of the resource that the attempt is refused for.
    refused: Option<usize>,
}

impl AttemptEvidence {
    pub(super) fn new(nodes: usize) -> Self {
        Self { replies: vec![NodeReply::NotAsked; nodes], largest_counter: 0, deferral: None, refused: None }
    }

    /// Records the latest reply of a node, or [`NodeReply::Pending`] after a request.
    pub(super) fn record(&mut self, node: usize, reply: NodeReply) {
        if let Some(slot) = self.replies.get_mut(node) {
            *slot = reply;
        }
    }

    /// Records the vote of a grant.
    pub(super) fn granted(&mut self, vote: u64) {
        self.largest_counter = self.largest_counter.max(vote);
    }

    /// Records a refusal that names a holder.
    pub(super) fn refused(&mut self, holder: &Holder) {
        self.largest_counter = self.largest_counter.max(holder.counter);
        if self.deferral.is_none() {
            self.refused = Some(holder.resource);
        }
    }

    /// Records the deferral of a lock, because of waiters for this resource.
    pub(super) fn deferred(&mut self, resource: usize) {
        self.refused = Some(resource);
    }

    /// Records the deferral of an enqueue for this resource.
    pub(super) fn enqueue_deferred(&mut self, deferral: Deferral, resource: usize) {
        self.deferral = Some(deferral);
        self.refused = Some(resource);
    }

    /// Records a timeout for each node that was asked and has not replied, except for the nodes that still have time to
    /// answer (`in_time`). Returns the nodes that have timed out.
    pub(super) fn time_out(&mut self, in_time: NodeSet) -> NodeSet {
        let mut timed_out = NodeSet::EMPTY;
        for (node, reply) in self.replies.iter_mut().enumerate() {
            if *reply == NodeReply::Pending && !in_time.contains(node) {
                *reply = NodeReply::Failed(NodeError::TimedOut);
                timed_out.insert(node);
            }
        }
        timed_out
    }

    /// Whether a request was sent to the node.
    pub(super) fn was_asked(&self, node: usize) -> bool {
        self.replies.get(node).is_some_and(|reply| *reply != NodeReply::NotAsked)
    }

    /// Whether a quorum names the same other lease.
    pub(super) fn is_held(&self, electorate: Electorate) -> bool {
        holder(&self.replies, electorate).is_some()
    }

    pub(super) fn replies(&self) -> &[NodeReply] {
        &self.replies
    }

    pub(super) fn take_replies(&mut self) -> Vec<NodeReply> {
        std::mem::take(&mut self.replies)
    }

    pub(super) fn take_deferral(&mut self) -> Option<Deferral> {
        self.deferral.take()
    }

    /// Returns the index of the resource that the attempt is refused for.
    pub(super) fn refused_index(&self) -> Option<usize> {
        self.refused
    }

    /// Returns the hint for the next attempt: the largest recorded counter plus one; 0 if no counter was recorded.
    pub(super) fn hint(&self) -> u64 {
        if self.largest_counter == 0 { 0 } else { self.largest_counter + 1 }
    }
}
