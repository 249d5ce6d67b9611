//! The order in which an attempt asks the nodes. The waiter schedule, and callers without a schedule, choose the plan.

use crate::{
    clock::Instant,
    mutation::{self, Mutation},
};

/// The order in which an attempt asks the nodes.
///
/// A client that asks a node *for the turn* locks there if no waiter is ahead in the wait queue of that node. Otherwise
/// the node defers the client, which enters the wait queue if it has subscribed to its wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// All nodes at once, for a newcomer, if no answer has reported waiters. The attempt takes one round trip if the
    /// resource is free. The field is the queue node.
    AllAtOnce(usize),
    /// All nodes at once, as a newcomer, after an attempt without a quorum. The field is the queue node. A refusal by
    /// the queue node alone does not decide the attempt, because the call has to find out whether a quorum answers.
    AllAtOnceForQuorum(usize),
    /// These nodes one after the other until a node grants, then all other nodes at once. Until the first grant, each
    /// node is asked for the turn, because each of them may be the queue node.
    QueueNodeFirst(Vec<usize>),
    /// The order of [`QueueNodeFirst`](Self::QueueNodeFirst), for a client that redeems a ticket. A refusal decides the
    /// attempt only after the answers of all nodes that were asked, or when no quorum can grant any more, because the
    /// node that refuses may never have had the ticket. If another node has transferred the ticket, a rollback would
    /// spend the ticket.
    Redeem(Vec<usize>),
    /// All nodes at once, after a wake by this node, or for a client that takes a vacant candidate ahead of waiters.
    /// This node is asked for the turn, and the other nodes are asked to lock. A refusal of this node decides the
    /// attempt.
    Woken(usize),
    /// All nodes at once, for the holder of a write lease that becomes a read lease or a ticket, and needs no turn. From
    /// this instant on, other clients may hold the resource.
    Downgrade(Instant),
}

impl Plan {
    /// Returns the nodes that are asked one after the other.
    pub(super) fn queue_nodes(&self) -> Option<&[usize]> {
        match self {
            Self::QueueNodeFirst(order) | Self::Redeem(order) => Some(order),
            Self::AllAtOnce(_) | Self::AllAtOnceForQuorum(_) | Self::Woken(_) | Self::Downgrade(_) => None,
        }
    }

    /// Returns the first queue node that the attempt asks; `None` for a downgrade.
    pub(crate) fn queue_node(&self) -> Option<usize> {
        match self {
            Self::AllAtOnce(node) | Self::AllAtOnceForQuorum(node) | Self::Woken(node) => Some(*node),
            Self::QueueNodeFirst(order) | Self::Redeem(order) => order.first().copied(),
            Self::Downgrade(_) => None,
        }
    }

    /// Returns the end of the attempt that the plan sets, in addition to the ends by the settings.
    pub(super) fn too_late_from(&self) -> Option<Instant> {
        let until = if let Self::Downgrade(until) = self { Some(*until) } else { None };
        mutation::altered(Mutation::DowngradeTooLate, until, |_| None)
    }

    /// Returns the queue node of a newcomer.
    pub(super) fn queue_node_of_newcomer(&self) -> Option<usize> {
        match self {
            Self::AllAtOnce(queue_node) | Self::AllAtOnceForQuorum(queue_node) => Some(*queue_node),
            Self::QueueNodeFirst(_) | Self::Redeem(_) | Self::Woken(_) | Self::Downgrade(_) => None,
        }
    }

    /// Whether the client attempts without a queue entry.
    pub(super) fn is_newcomer(&self) -> bool {
        self.queue_node_of_newcomer().is_some()
    }

    /// Whether the refusal of a queue node decides the attempt while other nodes that were asked have not answered.
    pub(super) fn is_decided_by_first_refusal(&self) -> bool {
        let is_decided = !matches!(self, Self::Redeem(_));
        mutation::altered(Mutation::RedeemUntilFirstRefusal, is_decided, |_| true)
    }

    /// Whether the attempt counts as refused only if a quorum has answered.
    pub(super) fn needs_quorum_to_refuse(&self) -> bool {
        matches!(self, Self::AllAtOnceForQuorum(_))
    }

    /// Whether the client yields to waiters.
    pub(super) fn yields_to_waiters(&self) -> bool {
        mutation::altered(Mutation::IgnoreDeferral, self.is_newcomer(), |_| false)
    }
}
