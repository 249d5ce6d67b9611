//! Nodes that keep an orphaned key: one that no client is about to delete.

use crate::{
    algorithm::{
        holder::{is_unknown, named},
        node_set::NodeSet,
    },
    values::{LeaseId, NodeReply},
};

/// Nodes with an orphaned key: they name the same owner in two looks, neither of which found a
/// quorum for it.
///
/// A client that loses an attempt takes its votes back within a round trip, and never asks again as
/// the same owner. So an owner that is named again was killed, or is cut off: the node would wake
/// nobody until that key ends.
#[derive(Clone, Debug)]
pub(crate) struct OrphanedKeys {
    /// Whom each node named in the last look that found no quorum.
    named: Vec<Option<LeaseId>>,
    nodes: NodeSet,
}

impl OrphanedKeys {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { named: vec![None; nodes], nodes: NodeSet::EMPTY }
    }

    pub(crate) fn nodes(&self) -> NodeSet {
        self.nodes
    }

    /// The resource was released at this node.
    pub(crate) fn released(&mut self, node: usize) {
        self.nodes.remove(node);
        if let Some(named) = self.named.get_mut(node) {
            *named = None;
        }
    }

    /// A look has seen this, which found no quorum; and of each node which of its readers ends
    /// first, as what stands for all of them in a vote is no owner.
    pub(crate) fn note(&mut self, votes: &[NodeReply], readers: &[Option<LeaseId>]) {
        for (node, (before, vote)) in self.named.iter_mut().zip(votes).enumerate() {
            if is_unknown(vote) {
                continue;
            }
            let owner = match named(vote).and_then(|(owner, _)| owner) {
                Some(owner) if owner.is_of_readers() => readers.get(node).and_then(Option::as_ref),
                owner => owner,
            };
            if owner.is_some() && owner == before.as_ref() {
                self.nodes.insert(node);
            } else {
                self.nodes.remove(node);
                *before = owner.cloned();
            }
        }
    }
}
