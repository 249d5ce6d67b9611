//! The listener for force-unlocks of leases of this client.

use std::sync::Arc;

use tokio::sync::{Notify, futures::Notified};

use crate::{
    client::context::ClientContext,
    node::{Listener, Notice, Subscription, names},
};

/// The listener for the nodes' notices that leases of this client were force-unlocked.
///
/// After a notice, the watchdog renews all leases. A notice ends no lease. Only the answers to these renewals can.
#[derive(Debug, Default)]
pub(super) struct ForceUnlockListener(Notify);

impl ForceUnlockListener {
    /// Subscribes at all nodes, until the returned value is dropped.
    pub(super) fn subscribe(self: &Arc<Self>, context: &ClientContext) -> Vec<Subscription> {
        let topic = names::force_unlocked(context.lease_ids.name());
        let nodes = context.nodes.iter();
        nodes.map(|node| node.subscribe(&topic, Arc::clone(self) as _)).collect()
    }

    /// Waits for a notice. The future is ready at once if a notice has arrived since the last wait.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Listener for ForceUnlockListener {
    /// Handles a notice. A notice of a new subscription causes no renewal, because every first lock would pay for that
    /// renewal. The next regular renewal finds force-unlocks from before the subscription.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Released {
            self.0.notify_one();
        }
    }
}
