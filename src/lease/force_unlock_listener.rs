//! The notices of nodes that leases of this client were unlocked by force.

use std::sync::Arc;

use tokio::sync::{Notify, futures::Notified};

use crate::{
    client::context::ClientContext,
    node::{Listener, Notice, Subscription, names},
};

/// Receives the notices of nodes that leases of this client were unlocked by force. A notice is a hint: the watchdog
/// then renews, and only the answers of the nodes end a lease.
#[derive(Debug, Default)]
pub(super) struct ForceUnlockListener(Notify);

impl ForceUnlockListener {
    /// Subscribes at all nodes, for as long as the returned value lives.
    pub(super) fn subscribe(self: &Arc<Self>, context: &ClientContext) -> Vec<Subscription> {
        let topic = names::force_unlocked(context.owners.name());
        let nodes = context.nodes.iter();
        nodes.map(|node| node.subscribe(&topic, Arc::clone(self) as _)).collect()
    }

    /// Ready when a notice has arrived since the last call, or during it.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Listener for ForceUnlockListener {
    /// Handles a notice. What happened before a subscription began shows at the next renewal: a renewal at once would
    /// be a cost of every first lock.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Released {
            self.0.notify_one();
        }
    }
}
