//! A checked lock request: the argument of every attempt and every wait of a call.

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
    /// The result of an earlier attempt of the call.
    pub(super) earlier: EarlierResult,
}

/// The result of the attempts of a call before the call begins to wait. Only a lock of any one of several resources
/// makes attempts before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierResult {
    /// No earlier attempt.
    None,
    /// A held resource: the waiter enters the wait queue at once.
    Held,
    /// No quorum: the first attempt of the wait has to find out whether a quorum answers now.
    NoQuorum,
}

impl CheckedRequest {
    pub(crate) fn new(resources: Resources, settings: CheckedLock) -> Result<Self, ConfigError> {
        let resource = resources.first().cloned().ok_or_else(group_of_none)?;
        let queue_nodes = resources.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { resource, resources, settings, queue_nodes, earlier: EarlierResult::None })
    }

    /// Returns the same request, after an earlier attempt with this result.
    pub(super) fn with_earlier_result(self, earlier: EarlierResult) -> Self {
        Self { earlier, ..self }
    }

    /// Returns the resource at this index; the first resource if there is none.
    pub(super) fn resource_at(&self, index: usize) -> &Resource {
        self.resources.get(index).unwrap_or(&self.resource)
    }

    /// Returns the queue node order of a resource, as of its first use by this request.
    pub(super) fn queue_nodes(&self, context: &ClientContext, index: usize) -> &[usize] {
        let order = self.queue_nodes.get(index).or_else(|| self.queue_nodes.first());
        order.map_or(&[], |order| order.get_or_init(|| context.queue_node_order(self.resource_at(index))))
    }

    /// Returns the queue node of a resource; `None` only without nodes.
    pub(super) fn queue_node(&self, context: &ClientContext, index: usize) -> Option<usize> {
        self.queue_nodes(context, index).first().copied()
    }

    /// Returns the plan of a newcomer.
    pub(super) fn newcomer_plan(&self, context: &ClientContext) -> Plan {
        let queue_node = self.queue_node(context, 0).unwrap_or_default();
        match self.earlier {
            EarlierResult::NoQuorum => Plan::AllAtOnceForQuorum(queue_node),
            EarlierResult::None | EarlierResult::Held => Plan::AllAtOnce(queue_node),
        }
    }
}
