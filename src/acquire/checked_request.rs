//! A checked lock request.

use std::sync::{Arc, OnceLock};

use crate::{
    algorithm::attempt::Plan,
    client::context::ClientContext,
    config::CheckedLock,
    error::{ConfigError, group_of_none},
    node::Resources,
    values::Resource,
};

/// A checked lock request: what is to be locked, and how.
#[derive(Clone, Debug)]
pub(crate) struct CheckedRequest {
    /// The resource to speak of the lock by: the first.
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) settings: CheckedLock,
    /// The queue node order of each of the resources, once somebody has asked for it.
    queue_nodes: Arc<[OnceLock<Vec<usize>>]>,
    /// Whether it is known to be taken: then a waiter goes to the queue at once.
    pub(super) is_taken: bool,
}

impl CheckedRequest {
    pub(crate) fn new(resources: Resources, settings: CheckedLock) -> Result<Self, ConfigError> {
        let resource = resources.first().cloned().ok_or_else(group_of_none)?;
        let queue_nodes = resources.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { resource, resources, settings, queue_nodes, is_taken: false })
    }

    /// The same, of what is known to be taken.
    pub(super) fn taken(self) -> Self {
        Self { is_taken: true, ..self }
    }

    /// One of the resources, by its index.
    pub(super) fn resource_at(&self, index: usize) -> &Resource {
        self.resources.get(index).unwrap_or(&self.resource)
    }

    /// The nodes in the order in which they are the queue node of one of the resources.
    pub(super) fn queue_nodes(&self, context: &ClientContext, index: usize) -> &[usize] {
        let order = self.queue_nodes.get(index).or_else(|| self.queue_nodes.first());
        order.map_or(&[], |order| order.get_or_init(|| context.queue_node_order(self.resource_at(index))))
    }

    /// The queue node of one of the resources; `None` only if there are no nodes.
    pub(super) fn queue_node(&self, context: &ClientContext, index: usize) -> Option<usize> {
        self.queue_nodes(context, index).first().copied()
    }

    /// How to ask for a resource of which nobody else is known to want it.
    pub(super) fn first_contact(&self, context: &ClientContext) -> Plan {
        Plan::AllAtOnce(self.queue_node(context, 0).unwrap_or_default())
    }
}
