//! Nodes that are Redis servers: connections over which one script runs.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::future::{BoxFuture, Either, FutureExt, select};

#[cfg(feature = "__command")]
pub use self::connector::NodeConnector;
pub(crate) use self::node_urls::NODES_VARIABLE;
#[cfg(feature = "tls")]
pub(crate) use self::tls_config::Tls;
pub(crate) use self::{address::without_password, node_urls::node_urls, route::Route, tls::Security};
use self::{
    connection::RedisConnection, raw_connection::RawConnection, route::Destination, sentinel::MasterSet,
};
use crate::{
    clock::Clock,
    node::{
        parameters::QuorumParameters,
        remote::{ConnectionConfig, RemoteNode},
        transport::{Connection, Transport},
    },
    values::NodeError,
};

mod address;
mod classify;
mod connection;
#[cfg(feature = "__command")]
mod connector;
mod endpoint;
mod hello_reply;
mod node_urls;
mod push_receiver;
mod raw_connection;
mod read_budget;
mod route;
pub(crate) mod script;
mod sentinel;
mod stamp;
#[cfg(all(test, unix))]
mod tests;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
#[cfg(feature = "tls")]
mod tls_config;
mod url;
mod waker_filter;
mod wire_values;

/// Makes connections to one node.
#[derive(Debug)]
pub(crate) struct RedisTransport {
    route: Route,
    parameters: QuorumParameters,
    client_name: String,
    clock: Arc<dyn Clock>,
    dial_timeout: Duration,
}

impl RedisTransport {
    /// The node at the end of this route.
    pub(crate) fn into_node(
        route: Route,
        parameters: QuorumParameters,
        config: &ConnectionConfig,
    ) -> RemoteNode {
        let address = Arc::clone(route.address());
        RemoteNode::new(address, Arc::new(Self::new(route, parameters, config)), config)
    }

    fn new(route: Route, mut parameters: QuorumParameters, config: &ConnectionConfig) -> Self {
        if let Destination::MasterSet(_) = route.leads_to {
            // A server that restarts gives no votes any more in its old incarnation. A master that
            // was replaced may, to clients that still reach it: what its successor may not vote
            // beside, it may not renew beside either.
            parameters.quarantine.renewals_after = parameters.quarantine.lasts;
        }
        Self {
            route,
            parameters,
            client_name: config.label.as_client_name(),
            clock: Arc::clone(&config.clock),
            dial_timeout: config.dial_timeout(),
        }
    }

    /// Connects to the server that Sentinels name, if it says itself that it is a master: where
    /// nobody registers, nothing else would refuse a replica.
    async fn open_master(&self, set: &MasterSet) -> Result<RawConnection, NodeError> {
        let master = set.master(&*self.clock, self.dial_timeout).await?;
        let share = set.share(self.dial_timeout);
        let patience = self.clock.sleep_until(self.clock.now() + share);
        // Counted here, for a dial that is given up as a whole would blame nobody: a Sentinel that
        // was cut off may name a dead master for ever.
        let opened = match select(pin!(RawConnection::open_node(&master, &self.client_name)), patience).await
        {
            Either::Left((opened, _)) => opened,
            Either::Right(((), _)) => {
                let why = format!("the master {} does not answer within {share:?}", master.address());
                Err(NodeError::Unreachable(why.into()))
            }
        };
        let (raw, hello_reply) = opened.inspect_err(|_| set.doubt())?;
        if hello_reply.is_replica() {
            set.doubt();
            return Err(NodeError::ReadOnly);
        }
        Ok(raw)
    }
}

impl Transport for RedisTransport {
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, NodeError>> {
        async {
            let raw = match &self.route.leads_to {
                Destination::Server(endpoint) => {
                    RawConnection::open_node(endpoint, &self.client_name).await?.0
                }
                Destination::MasterSet(set) => self.open_master(set).await?,
            };
            let connection: Box<dyn Connection> =
                Box::new(RedisConnection::new(raw, self.parameters.clone()));
            Ok(connection)
        }
        .boxed()
    }

    fn late(&self, patience: Duration) -> NodeError {
        self.route.late(patience)
    }

    fn follows_master(&self) -> bool {
        matches!(self.route.leads_to, Destination::MasterSet(_))
    }
}

/// The command that makes a server know the script.
fn script_load() -> redis::Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script::source());
    command
}
