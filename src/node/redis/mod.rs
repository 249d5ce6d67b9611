//! Redis servers as nodes: connections on which one script runs.
//!
//! | module | part |
//! |---|---|
//! | `url`, `url_source`, `route`, `endpoint`, `address`, `node_urls` | the urls of nodes, and the servers to which they lead |
//! | `sentinel`, `hash_slot`, `named_master` | nodes whose server changes: the master of a set, and the master of a hash slot of a cluster |
//! | `login`, `lookup`, `own_threads` | credentials and addresses, which each dial fetches again |
//! | `tls`, `tls_config`, `opening_stream` | TLS, and the certificates |
//! | `hello_reply`, `handshake_error`, `raw_connection`, `push_receiver`, `read_budget`, `waker_filter` | a connection of the redis crate, with its limits |
//! | `connection`, `script`, `stamp`, `wire_values`, `classify` | operations and answers on the wire |
//! | `connector` | plain connections for programs that inspect servers |

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};

#[cfg(feature = "__command")]
pub use self::connector::NodeConnector;
pub use self::login::Credentials;
#[cfg(feature = "settings")]
pub(crate) use self::node_urls::node_urls;
#[cfg(feature = "__command")]
pub(crate) use self::script::commands as script_commands;
#[cfg(feature = "tls")]
pub(crate) use self::tls_config::{Pem, Tls};
#[cfg(feature = "settings")]
pub(crate) use self::url_source::UrlSource;
pub(crate) use self::{
    address::without_password,
    login::CredentialsProvider,
    node_urls::{NODES_VARIABLE, node_urls_of_variable},
    route::Route,
    tls::TlsSettings,
};
use self::{
    connection::RedisConnection, hash_slot::HashSlot, raw_connection::RawConnection, route::Destination,
    script::Script, sentinel::MasterSet,
};
use crate::{
    node::{
        dial::DialLimit,
        names,
        parameters::QuorumParameters,
        remote::{ConnectedServers, ConnectionConfig, RemoteNode},
        transport::{Connection, Transport},
    },
    values::{NodeError, Resource},
};

mod address;
mod classify;
mod connection;
#[cfg(feature = "__command")]
mod connector;
mod endpoint;
mod handshake_error;
mod hash_slot;
mod hello_reply;
mod login;
mod lookup;
mod named_master;
mod node_urls;
#[cfg(feature = "tls")]
mod opening_stream;
mod own_threads;
mod push_receiver;
mod raw_connection;
mod read_budget;
mod read_pause;
mod reply_scanner;
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
#[cfg(feature = "settings")]
mod url_source;
mod waker_filter;
mod wire_values;

/// The additional length of a quarantine in a cluster. After a forced failover, the former master of a slot may vote
/// until it learns of its successor, which takes the messages of the cluster much less than a second.
const FORCED_FAILOVER: Duration = Duration::from_secs(1);

/// The transport of one node. Each dial opens a connection to the server of the node.
#[derive(Debug)]
pub(crate) struct RedisTransport {
    route: Route,
    script: Arc<Script>,
    parameters: QuorumParameters,
    client_name: String,
    connected_servers: ConnectedServers,
}

impl RedisTransport {
    /// Returns the node to which a route leads.
    pub(crate) fn into_node(
        route: Route,
        parameters: QuorumParameters,
        config: &ConnectionConfig,
    ) -> RemoteNode {
        let address = Arc::clone(route.address());
        RemoteNode::new(address, Arc::new(Self::new(route, parameters, config)), config)
    }

    fn new(route: Route, mut parameters: QuorumParameters, config: &ConnectionConfig) -> Self {
        let script = match &route.destination {
            Destination::Server(_) | Destination::MasterSet(_) => Script::standalone(),
            Destination::HashSlot(slot) => {
                parameters.quarantine.lasts += FORCED_FAILOVER;
                Arc::clone(slot.script())
            }
        };
        if let Destination::MasterSet(_) | Destination::HashSlot(_) = route.destination {
            // A restarted server no longer votes in its former incarnation. A replaced master may still vote for
            // clients that reach it, beside the new master of the set or slot. Therefore renewals by the new master
            // count only after the whole quarantine.
            parameters.quarantine.renewals_after = parameters.quarantine.lasts;
        }
        let client_name = config.label.as_client_name();
        Self { route, script, parameters, client_name, connected_servers: config.connected_servers.clone() }
    }

    /// Returns a connection to the server of the node.
    fn connection(&self, raw: RawConnection) -> RedisConnection {
        RedisConnection::new(raw, Arc::clone(&self.script), self.parameters.clone())
    }

    /// Connects to the master of a hash slot. Refuses a cluster that is another node of the client.
    async fn open_slot(&self, slot: &HashSlot, limit: DialLimit<'_>) -> Result<RedisConnection, NodeError> {
        let master = slot.open_master(&self.client_name, limit).await?;
        let registration = self.connected_servers.register_cluster(self.route.address(), master.members)?;
        Ok(self.connection(master.raw).in_cluster(registration))
    }

    /// Connects to the server that the Sentinels name, and refuses a replica by its reply to `HELLO`. For a client that
    /// does not register, no other check refuses a replica.
    async fn open_master(&self, set: &MasterSet, limit: DialLimit<'_>) -> Result<RawConnection, NodeError> {
        let master = set.master(limit).await?;
        // A Sentinel that is cut off from the others may name a dead master. Therefore, after each failure, the next
        // dial begins with another Sentinel.
        let opened = RawConnection::open_node(&master.endpoint, &self.client_name, limit).await;
        let opened = opened.map_err(|error| master.explain(error));
        let (raw, hello_reply) = opened.inspect_err(|_| set.advance_first())?;
        if hello_reply.is_replica() {
            set.advance_first();
            return Err(NodeError::ReadOnly);
        }
        Ok(raw)
    }
}

impl Transport for RedisTransport {
    fn dial<'a>(&'a self, limit: DialLimit<'a>) -> BoxFuture<'a, Result<Box<dyn Connection>, NodeError>> {
        async move {
            let connection = match &self.route.destination {
                Destination::Server(endpoint) => {
                    self.connection(RawConnection::open_node(endpoint, &self.client_name, limit).await?.0)
                }
                Destination::MasterSet(set) => self.connection(self.open_master(set, limit).await?),
                Destination::HashSlot(slot) => self.open_slot(slot, limit).await?,
            };
            let connection: Box<dyn Connection> = Box::new(connection);
            Ok(connection)
        }
        .boxed()
    }

    fn follows_master(&self) -> bool {
        matches!(self.route.destination, Destination::MasterSet(_) | Destination::HashSlot(_))
    }

    fn shared_topic(&self, topic: &Resource) -> Resource {
        match self.route.destination {
            // The hash tag precedes the resource, so that different resources have different channels.
            Destination::HashSlot(_) => topic.clone(),
            Destination::Server(_) | Destination::MasterSet(_) => names::shared_key_alias(topic),
        }
    }
}
