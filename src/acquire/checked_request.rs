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

/// A checked lock request: the resources, and the settings of the lock.
#[derive(Clone, Debug)]
pub(crate) struct CheckedRequest {
    /// The first resource, which names the lock in errors and logs.
    pub(crate) resource: Resource,
    pub(crate) resources: Resources,
    pub(crate) settings: CheckedLock,
    /// The queue node order of each resource, computed on first use.
    queue_nodes: Arc<[OnceLock<Vec<usize>>]>,
    /// Whether the resource is known to be held, so that a waiter enters the wait queue at once.
    pub(super) is_known_held: bool,
}

impl CheckedRequest {
    pub(crate) fn new(resources: Resources, settings: CheckedLock) -> Result<Self, ConfigError> {
        let resource = resources.first().cloned().ok_or_else(group_of_none)?;
        let queue_nodes = resources.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { resource, resources, settings, queue_nodes, is_known_held: false })
    }

    /// Returns the same request for resources that are known to be held.
    pub(super) fn known_held(self) -> Self {
        Self { is_known_held: true, ..self }
    }

    /// Returns the resource of this index.
    pub(super) fn resource_at(&self, index: usize) -> &Resource {
        self.resources.get(index).unwrap_or(&self.resource)
    }

    /// Returns the queue node order of a resource.
    pub(super) fn queue_nodes(&self, context: &ClientContext, index: usize) -> &[usize] {
        let order = self.queue_nodes.get(index).or_else(|| self.queue_nodes.first());
        order.map_or(&[], |order| order.get_or_init(|| context.queue_node_order(self.resource_at(index))))
    }

    /// Returns the queue node of a resource; `None` only without nodes.
    pub(super) fn queue_node(&self, context: &ClientContext, index: usize) -> Option<usize> {
        self.queue_nodes(context, index).first().copied()
    }

    /// Returns the plan of a client that knows of no waiters.
    pub(super) fn first_contact(&self, context: &ClientContext) -> Plan {
        Plan::AllAtOnce(self.queue_node(context, 0).unwrap_or_default())
    }
}
