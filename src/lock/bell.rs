//! What a waiter hears from the nodes.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::{
    algorithm::node_set::NodeSet,
    mutex::lock,
    node::{Listener, Notice},
};

/// Rings when a node gives notice, and keeps what was heard until somebody takes it.
#[derive(Debug, Default)]
pub(super) struct Bell {
    heard: Mutex<Heard>,
    pub(super) rung: Notify,
}

/// What was heard, by node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// The waiter may have been woken unheard, for the subscription is new.
    pub(super) news: NodeSet,
    /// It is our turn.
    pub(super) wakes: NodeSet,
    /// We are one of the first two in the queue.
    pub(super) nexts: NodeSet,
    /// Somebody has unlocked.
    pub(super) releases: NodeSet,
    /// The connection over which the waiter would be woken is broken.
    pub(super) interrupted: NodeSet,
}

/// One node's string to the bell.
#[derive(Debug)]
pub(super) struct NodeBell {
    pub(super) node: usize,
    pub(super) topic: Topic,
    pub(super) bell: Arc<Bell>,
}

/// What is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// Releases of a resource.
    Release,
    /// The waiter's turn.
    Turn,
    /// Whether the waiter is one of the first two.
    Next,
}

impl Bell {
    /// What was heard since the last time.
    pub(super) fn take(&self) -> Heard {
        std::mem::take(&mut *lock(&self.heard))
    }
}

impl Listener for NodeBell {
    fn notice(&self, notice: Notice) {
        tracing::trace!(node = self.node, topic = ?self.topic, ?notice, "notice");
        let mut heard = lock(&self.bell.heard);
        match (notice, self.topic) {
            (Notice::Released, Topic::Turn) => heard.wakes.insert(self.node),
            (Notice::Released, Topic::Next) => heard.nexts.insert(self.node),
            (Notice::Released, Topic::Release) => heard.releases.insert(self.node),
            (Notice::Subscribed, Topic::Turn) => heard.news.insert(self.node),
            (Notice::Interrupted, Topic::Turn) => heard.interrupted.insert(self.node),
            // The subscription to one's turn is made together with the others, and says the same.
            (Notice::Subscribed | Notice::Interrupted, Topic::Next | Topic::Release) => return,
        }
        drop(heard);
        self.bell.rung.notify_one();
    }
}
