//! The notices of the nodes to a waiter.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::{
    algorithm::node_set::NodeSet,
    mutex::lock,
    node::{Listener, Notice},
};

/// The notices of the nodes to a waiter, until its task takes them. Each notice wakes the task.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    notifications: Mutex<Notifications>,
    pub(super) notified: Notify,
}

/// The notices since the task took the last ones, by node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notifications {
    /// The subscription is new: an earlier wake has not reached the waiter.
    pub(super) news: NodeSet,
    /// The queue node wakes the waiter.
    pub(super) wakes: NodeSet,
    /// The waiter is one of the first two in the queue.
    pub(super) nexts: NodeSet,
    /// The resource was unlocked.
    pub(super) releases: NodeSet,
    /// The connection that would carry the wake is broken.
    pub(super) interrupted: NodeSet,
}

/// The listener of one subscription at one node.
#[derive(Debug)]
pub(super) struct NodeNotifier {
    pub(super) node: usize,
    pub(super) kind: NotificationKind,
    pub(super) notifier: Arc<Notifier>,
}

/// The notice that a subscription is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotificationKind {
    /// The release of a resource.
    Release,
    /// The wake of the waiter.
    Turn,
    /// The waiter is now one of the first two.
    Next,
}

impl Notifier {
    /// Returns the notices since the last call.
    pub(super) fn take(&self) -> Notifications {
        std::mem::take(&mut *lock(&self.notifications))
    }
}

impl Listener for NodeNotifier {
    fn notice(&self, notice: Notice) {
        tracing::trace!(node = self.node, kind = ?self.kind, ?notice, "notice");
        let mut notifications = lock(&self.notifier.notifications);
        match (notice, self.kind) {
            (Notice::Released, NotificationKind::Turn) => notifications.wakes.insert(self.node),
            (Notice::Released, NotificationKind::Next) => notifications.nexts.insert(self.node),
            (Notice::Released, NotificationKind::Release) => notifications.releases.insert(self.node),
            (Notice::Subscribed, NotificationKind::Turn) => notifications.news.insert(self.node),
            (Notice::Interrupted, NotificationKind::Turn) => notifications.interrupted.insert(self.node),
            // The subscription to the wake is made at the same time, and reports the same.
            (
                Notice::Subscribed | Notice::Interrupted,
                NotificationKind::Next | NotificationKind::Release,
            ) => return,
        }
        drop(notifications);
        self.notifier.notified.notify_one();
    }
}
