//! The notices of the nodes to a waiter. The queue entries of the waiter subscribe to the notices, and the local waiter
//! takes the notices.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::{
    algorithm::node_set::NodeSet,
    mutex::lock,
    node::{Listener, Notice},
};

/// The notices that the waiter's task has not taken yet, and the signal that wakes the task.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    notices: Mutex<Notices>,
    pub(super) notified: Notify,
}

/// The nodes that have sent each kind of notice since the waiter's task last took the notices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notices {
    /// Nodes with a new subscription. Earlier notices may have been missed.
    pub(super) subscribed: NodeSet,
    /// Nodes that wake this waiter.
    pub(super) wakes: NodeSet,
    /// Nodes at which the waiter has become one of the first two in the queue.
    pub(super) heads: NodeSet,
    /// Nodes at which the resource was unlocked.
    pub(super) releases: NodeSet,
    /// Nodes to which the connection broke. A wake of these nodes may have been lost.
    pub(super) interrupted: NodeSet,
}

/// The listener of one subscription at one node.
#[derive(Debug)]
pub(super) struct NodeNotifier {
    pub(super) node: usize,
    pub(super) kind: SubscriptionKind,
    pub(super) notifier: Arc<Notifier>,
}

/// The kind of notice to which a waiter subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionKind {
    /// The release notice of the resource.
    Release,
    /// The wake of the waiter by the queue node.
    Wake,
    /// The head notice: the waiter is now one of the first two in the queue.
    Head,
}

impl Notifier {
    /// Returns the notices since the last call, and keeps none.
    pub(super) fn take(&self) -> Notices {
        std::mem::take(&mut *lock(&self.notices))
    }
}

impl Listener for NodeNotifier {
    fn notice(&self, notice: Notice) {
        tracing::trace!(node = self.node, kind = ?self.kind, ?notice, "notice");
        let mut notices = lock(&self.notifier.notices);
        match (notice, self.kind) {
            (Notice::Released, SubscriptionKind::Wake) => notices.wakes.insert(self.node),
            (Notice::Released, SubscriptionKind::Head) => notices.heads.insert(self.node),
            (Notice::Released, SubscriptionKind::Release) => notices.releases.insert(self.node),
            (Notice::Subscribed, SubscriptionKind::Wake) => notices.subscribed.insert(self.node),
            (Notice::Interrupted, SubscriptionKind::Wake) => notices.interrupted.insert(self.node),
            // The wake and head subscriptions of a node are made together, so the events of the wake subscription
            // suffice for both. A release that precedes the release subscription is found by a fallback poll.
            (
                Notice::Subscribed | Notice::Interrupted,
                SubscriptionKind::Head | SubscriptionKind::Release,
            ) => return,
        }
        drop(notices);
        self.notifier.notified.notify_one();
    }
}
