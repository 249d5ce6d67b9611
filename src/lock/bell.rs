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
    /// Somebody has unlocked; or may have, unheard, for the subscription is new.
    pub(super) news: NodeSet,
    /// It is our turn.
    pub(super) calls: NodeSet,
    /// The connection over which we would be called is broken.
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
}

impl Bell {
    /// What was heard since the last time.
    pub(super) fn take(&self) -> Heard {
        std::mem::take(&mut *lock(&self.heard))
    }
}

impl Listener for NodeBell {
    /// A new subscription counts as a notice: releases before it may have gone unnoticed, so one attempt finds out.
    fn notice(&self, notice: Notice) {
        tracing::trace!(node = self.node, topic = ?self.topic, ?notice, "notice");
        let mut heard = lock(&self.bell.heard);
        match (notice, self.topic) {
            (Notice::Interrupted, Topic::Release) => return,
            (Notice::Interrupted, Topic::Turn) => heard.interrupted.insert(self.node),
            (Notice::Released, Topic::Turn) => heard.calls.insert(self.node),
            (Notice::Subscribed, _) | (Notice::Released, Topic::Release) => heard.news.insert(self.node),
        }
        drop(heard);
        self.bell.rung.notify_one();
    }
}
