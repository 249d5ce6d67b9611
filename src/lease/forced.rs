//! Being told that others unlock by force what this client holds.

use std::sync::Arc;

use tokio::sync::{Notify, futures::Notified};

use crate::{
    client::environment::Environment,
    node::{Listener, Notice, Subscription, names},
};

/// Hears of leases of this client that were unlocked by force. What it hears is a hint: the nodes are
/// asked then, and they alone end a lease.
#[derive(Debug, Default)]
pub(super) struct Forced(Notify);

impl Forced {
    /// Ready when a node has told of one, since the last call or during it.
    pub(super) fn told(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Listener for Forced {
    /// What was told before a subscription began shows at the next renewal: to ask at once would cost
    /// every first lock a renewal.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Released {
            self.0.notify_one();
        }
    }
}

/// Listens at all nodes for as long as what is returned lives.
pub(super) fn listen(environment: &Environment, forced: &Arc<Forced>) -> Vec<Subscription> {
    let topic = names::forced(environment.owners.name());
    let nodes = environment.nodes.iter();
    nodes.map(|node| node.subscribe(&topic, Arc::clone(forced) as _)).collect()
}
