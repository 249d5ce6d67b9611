//! The nodes of an in-memory quorum.

use std::sync::Arc;

use crate::{
    clock::{Clock, TokioClock},
    node::{
        NewNodes, Node, QuorumParameters,
        memory::{MemoryNode, MemoryServer},
    },
};

/// Independent in-memory nodes, which several clients of one process can share. Each client connects by
/// [`QuorumBuilder::connect_in_memory`](crate::QuorumBuilder::connect_in_memory).
///
/// The time of the nodes is the time of tokio. A clone refers to the same nodes, and is cheap.
#[derive(Clone, Debug)]
pub struct MemoryCluster {
    servers: Vec<Arc<MemoryServer>>,
    clock: Arc<dyn Clock>,
}

impl MemoryCluster {
    /// Creates `nodes` empty nodes. A client that connects checks the number.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::new());
        let servers = (0_u64..)
            .take(nodes)
            .map(|incarnation| MemoryServer::new(Arc::clone(&clock), incarnation))
            .collect();
        Self { servers, clock }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.servers.len()
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Returns the nodes of one client. A read-only client writes no metadata.
    pub(crate) fn connect(&self, parameters: &QuorumParameters, is_read_only: bool) -> Vec<Arc<dyn Node>> {
        // A server without metadata is new, because no other process can flush the server.
        let new_nodes = if is_read_only { NewNodes::Ignore } else { NewNodes::Admit };
        let servers = self.servers.iter().enumerate();
        servers
            .map(|(index, server)| {
                let address = format!("memory:{index}").into();
                Arc::new(MemoryNode::new(Arc::clone(server), address, parameters.clone(), new_nodes))
                    as Arc<dyn Node>
            })
            .collect()
    }

    /// Returns the nodes with these indices, as the nodes of another quorum.
    #[cfg(test)]
    pub(crate) fn some(&self, nodes: std::ops::Range<usize>) -> Self {
        Self { servers: self.servers[nodes].to_vec(), clock: Arc::clone(&self.clock) }
    }

    /// Returns the nodes with these indices, in this order.
    #[cfg(test)]
    pub(crate) fn select(&self, nodes: &[usize]) -> Self {
        let servers = nodes.iter().map(|node| Arc::clone(&self.servers[*node])).collect();
        Self { servers, clock: Arc::clone(&self.clock) }
    }

    #[cfg(test)]
    pub(crate) fn servers(&self) -> &[Arc<MemoryServer>] {
        &self.servers
    }
}
