//! The dialler of a node: from an address to a registered connection.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};

use super::{
    ConnectionConfig,
    duplicate_servers::ConnectedServers,
    registration::{self, Registered},
};
use crate::{
    clock::Clock,
    node::{NewNodes, dial::DialLimit, transport::Transport},
    values::NodeError,
};

/// Connects to one node, and registers there if the client registers.
#[derive(Debug)]
pub(super) struct Dialler {
    /// The address of the node, for traces and for the check for duplicate servers.
    address: Arc<str>,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    registers: Option<NewNodes>,
    connected_servers: ConnectedServers,
}

impl Dialler {
    pub(super) fn new(address: Arc<str>, transport: Arc<dyn Transport>, config: &ConnectionConfig) -> Self {
        Self {
            address,
            transport,
            clock: Arc::clone(&config.clock),
            registers: config.registers,
            connected_servers: config.connected_servers.clone(),
        }
    }

    /// Connects, and registers if the client registers. `patience` is the limit of each step, and `script_pause` the
    /// pause before the delivery of the script. The future has an allocation of its own, so that the task of a node does
    /// not keep its memory while there is a connection.
    pub(super) fn dial(
        &self,
        patience: Duration,
        script_pause: Duration,
    ) -> BoxFuture<'static, Result<Registered, NodeError>> {
        let (transport, clock, registers) =
            (Arc::clone(&self.transport), Arc::clone(&self.clock), self.registers);
        let (address, connected_servers) = (Arc::clone(&self.address), self.connected_servers.clone());
        async move {
            let limit = DialLimit::per_step(&*clock, patience);
            let connection = transport.dial(limit).await?;
            let servers = &connected_servers;
            registration::register(connection, address, registers, servers, &*clock, limit, script_pause)
                .await
        }
        .boxed()
    }
}
