//! The listener for force-unlocks of leases of this client.

use std::sync::Arc;

use tokio::sync::{Notify, futures::Notified};

use crate::{
    client::context::ClientContext,
    node::{Listener, Notice, Subscription, names},
};

/// The listener for the nodes' notices that leases of this client were force-unlocked. After a notice, the watchdog renews
/// the leases, and only the answers to these renewals end a lease.
#[derive(Debug, Default)]
pub(super) struct ForceUnlockListener(Notify);

impl ForceUnlockListener {
    /// Subscribes at all nodes, for as long as the returned value lives.
    pub(super) fn subscribe(self: &Arc<Self>, context: &ClientContext) -> Vec<Subscription> {
        let topic = names::force_unlocked(context.lease_ids.name());
        let nodes = context.nodes.iter();
        nodes.map(|node| node.subscribe(&topic, Arc::clone(self) as _)).collect()
    }

    /// Waits for a notice since the last call.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Listener for ForceUnlockListener {
    /// Handles a notice. The next renewal finds force-unlocks before the subscription, because a renewal at once would be
    /// a cost of every first lock.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Released {
            self.0.notify_one();
        }
    }
}
