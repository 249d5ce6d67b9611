//! The dialler of a node: from an address to a registered connection.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};

use super::{
    ConnectionConfig,
    duplicate_servers::ConnectedServers,
    registration::{self, Registered},
};
use crate::{
    clock::Clock,
    node::{NewNodes, transport::Transport},
    values::NodeError,
};

/// Connects to one node, and registers there if the client registers.
#[derive(Debug)]
pub(super) struct Dialler {
    /// The address of the node, for traces and for the check for duplicate servers.
    address: Arc<str>,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    registers: Option<NewNodes>,
    connected_servers: ConnectedServers,
}

impl Dialler {
    pub(super) fn new(address: Arc<str>, transport: Arc<dyn Transport>, config: &ConnectionConfig) -> Self {
        Self {
            address,
            transport,
            clock: Arc::clone(&config.clock),
            timeout: config.dial_timeout(),
            registers: config.registers,
            connected_servers: config.connected_servers.clone(),
        }
    }

    /// Connects, and registers if the client registers. The timeout begins at the call, not at the first poll.
    /// `script_pause` is the pause before the delivery of the script.
    pub(super) fn dial(
        &self,
        script_pause: Duration,
    ) -> impl Future<Output = Result<Registered, NodeError>> + use<> {
        let (transport, timeout) = (Arc::clone(&self.transport), self.timeout);
        let (clock, registers) = (Arc::clone(&self.clock), self.registers);
        let (address, connected_servers) = (Arc::clone(&self.address), self.connected_servers.clone());
        let patience = clock.sleep_until(clock.now() + timeout);
        async move {
            let dialled = async {
                let connection = transport.dial().await?;
                let servers = &connected_servers;
                registration::register(connection, address, registers, servers, &*clock, script_pause).await
            };
            match select(pin!(dialled), patience).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), _)) => Err(transport.late(timeout)),
            }
        }
    }
}
