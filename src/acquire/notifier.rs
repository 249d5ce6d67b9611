//! The notices of the nodes to a waiter.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::{
    algorithm::node_set::NodeSet,
    mutex::lock,
    node::{Listener, Notice},
};

/// Wakes the waiter's task when a notice arrives, and keeps the notices until the task takes them.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    notifications: Mutex<Notifications>,
    pub(super) notified: Notify,
}

/// The notices since the waiter's task last took them: the nodes of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notifications {
    /// Nodes with a new subscription. Earlier notices may have been missed.
    pub(super) subscribed: NodeSet,
    /// Nodes that wake this waiter.
    pub(super) wakes: NodeSet,
    /// Nodes at which the waiter has become one of the first two in the queue.
    pub(super) heads: NodeSet,
    /// Nodes at which the resource was unlocked.
    pub(super) releases: NodeSet,
    /// Nodes with a broken connection, so that no wake can arrive.
    pub(super) interrupted: NodeSet,
}

/// The listener of one subscription at one node.
#[derive(Debug)]
pub(super) struct NodeNotifier {
    pub(super) node: usize,
    pub(super) kind: NotificationKind,
    pub(super) notifier: Arc<Notifier>,
}

/// The event of which a subscription notifies the waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotificationKind {
    /// The resource was released.
    Release,
    /// The queue node wakes the waiter.
    Wake,
    /// The waiter has become one of the first two in the queue.
    Head,
}

impl Notifier {
    /// Returns the notices since the last call, and keeps none.
    pub(super) fn take(&self) -> Notifications {
        std::mem::take(&mut *lock(&self.notifications))
    }
}

impl Listener for NodeNotifier {
    fn notice(&self, notice: Notice) {
        tracing::trace!(node = self.node, kind = ?self.kind, ?notice, "notice");
        let mut notifications = lock(&self.notifier.notifications);
        match (notice, self.kind) {
            (Notice::Released, NotificationKind::Wake) => notifications.wakes.insert(self.node),
            (Notice::Released, NotificationKind::Head) => notifications.heads.insert(self.node),
            (Notice::Released, NotificationKind::Release) => notifications.releases.insert(self.node),
            (Notice::Subscribed, NotificationKind::Wake) => notifications.subscribed.insert(self.node),
            (Notice::Interrupted, NotificationKind::Wake) => notifications.interrupted.insert(self.node),
            // The state of the subscription to wakes stands for all three subscriptions, because
            // they are made together.
            (
                Notice::Subscribed | Notice::Interrupted,
                NotificationKind::Head | NotificationKind::Release,
            ) => return,
        }
        drop(notifications);
        self.notifier.notified.notify_one();
    }
}
