//! The order in which an attempt asks the nodes.

use crate::{
    clock::Instant,
    mutation::{self, Mutation},
};

/// The order in which an attempt asks the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// All nodes at once, for a newcomer that knows of no waiters. This takes one round trip if the resource is free.
    /// The field is the queue node.
    AllAtOnce(usize),
    /// These nodes one after the other until a node grants, then all other nodes at once. Until the first grant, each
    /// node is asked for the turn, because it may be the queue node.
    QueueNodeFirst(Vec<usize>),
    /// All nodes at once, after a wake by this node. This node is asked for the turn, and the other nodes are asked to
    /// lock. A refusal of this node decides the attempt.
    Woken(usize),
    /// All nodes at once, for the holder of a write lease, which needs no turn. From this instant on, other clients may
    /// hold the resource.
    Downgrade(Instant),
}

impl Plan {
    /// Returns the nodes that are asked one after the other.
    pub(super) fn queue_nodes(&self) -> Option<&[usize]> {
        match self {
            Self::QueueNodeFirst(order) => Some(order),
            Self::AllAtOnce(_) | Self::Woken(_) | Self::Downgrade(_) => None,
        }
    }

    /// Returns the end of the attempt that the plan sets. The settings also limit the attempt.
    pub(super) fn too_late_from(&self) -> Option<Instant> {
        let until = if let Self::Downgrade(until) = self { Some(*until) } else { None };
        mutation::altered(Mutation::DowngradeTooLate, until, |_| None)
    }

    /// Whether the client attempts without a queue entry, because the client knows of no waiters.
    pub(super) fn is_newcomer(&self) -> bool {
        matches!(self, Self::AllAtOnce(_))
    }

    /// Whether the client yields to waiters.
    pub(super) fn yields_to_waiters(&self) -> bool {
        mutation::altered(Mutation::IgnoreDeferral, self.is_newcomer(), |_| false)
    }
}
