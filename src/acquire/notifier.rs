//! The notifications of the nodes to a waiter.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::{
    algorithm::node_set::NodeSet,
    mutex::lock,
    node::{Listener, Notice},
};

/// Wakes the waiter's task when a node gives notice, and keeps the notifications until the task
/// takes them.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    notifications: Mutex<Notifications>,
    pub(super) notified: Notify,
}

/// The notifications since the last time, by node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notifications {
    /// The waiter may have been woken unheard, for the subscription is new.
    pub(super) news: NodeSet,
    /// It is this waiter's turn.
    pub(super) wakes: NodeSet,
    /// The waiter is one of the first two in the queue.
    pub(super) nexts: NodeSet,
    /// Somebody has unlocked.
    pub(super) releases: NodeSet,
    /// The connection over which the waiter would be woken is broken.
    pub(super) interrupted: NodeSet,
}

/// The listener of one subscription at one node.
#[derive(Debug)]
pub(super) struct NodeNotifier {
    pub(super) node: usize,
    pub(super) kind: NotificationKind,
    pub(super) notifier: Arc<Notifier>,
}

/// What a subscription is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotificationKind {
    /// Releases of a resource.
    Release,
    /// The waiter's turn.
    Turn,
    /// Whether the waiter is one of the first two.
    Next,
}

impl Notifier {
    /// The notifications since the last time.
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
            // The subscription to one's turn is made together with the others, and says the same.
            (
                Notice::Subscribed | Notice::Interrupted,
                NotificationKind::Next | NotificationKind::Release,
            ) => return,
        }
        drop(notifications);
        self.notifier.notified.notify_one();
    }
}
