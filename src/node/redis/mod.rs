//! Redis servers as nodes: connections on which one script runs.
//!
//! | module | part |
//! |---|---|
//! | `url`, `url_source`, `route`, `endpoint`, `sentinel`, `address`, `node_urls` | the urls of nodes, and the servers to which they lead |
//! | `login`, `lookup`, `dial_limit`, `own_threads` | credentials and addresses, which each dial fetches again, and the time of a dial |
//! | `tls`, `tls_config`, `opening_stream` | TLS, and the certificates |
//! | `hello_reply`, `handshake_error`, `raw_connection`, `push_receiver`, `read_budget`, `waker_filter` | a connection of the redis crate, with its limits |
//! | `connection`, `script`, `stamp`, `wire_values`, `classify` | operations and answers on the wire |
//! | `connector` | plain connections for programs that inspect servers |

use std::{pin::pin, sync::Arc, time::Duration};

use futures::future::{BoxFuture, Either, FutureExt, select};

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
    connection::RedisConnection, dial_limit::DialLimit, raw_connection::RawConnection, route::Destination,
    sentinel::MasterSet,
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
mod dial_limit;
mod endpoint;
mod handshake_error;
mod hello_reply;
mod login;
mod lookup;
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

/// The transport of one node. Each dial opens a connection to the server of the node.
#[derive(Debug)]
pub(crate) struct RedisTransport {
    route: Route,
    parameters: QuorumParameters,
    client_name: String,
    clock: Arc<dyn Clock>,
    dial_timeout: Duration,
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
        if let Destination::MasterSet(_) = route.destination {
            // A restarted server no longer votes in its former incarnation. A replaced master may still vote for
            // clients that reach it, beside the new master of the set. Therefore renewals by the new master
            // count only after the whole quarantine.
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

    /// Connects to the server that the Sentinels name, and refuses a replica by its reply to `HELLO`. For a client that
    /// does not register, no other check refuses a replica.
    async fn open_master(&self, set: &MasterSet) -> Result<RawConnection, NodeError> {
        let master = set.master(&*self.clock, self.dial_timeout).await?;
        let share = set.share(self.dial_timeout);
        let limit = DialLimit::new(&*self.clock, share);
        // The master has only a share of the dial's time. If the whole dial timed out, `advance_first` would not be
        // called, and a Sentinel that is cut off from the others could name a dead master for ever.
        let opening = RawConnection::open_node(&master.endpoint, &self.client_name, limit);
        let opened = match select(pin!(opening), limit.sleep(share)).await {
            Either::Left((opened, _)) => opened,
            Either::Right(((), _)) => Err(master.endpoint.late(share)),
        };
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
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, NodeError>> {
        async {
            let raw = match &self.route.destination {
                Destination::Server(endpoint) => {
                    let limit = DialLimit::new(&*self.clock, self.dial_timeout);
                    RawConnection::open_node(endpoint, &self.client_name, limit).await?.0
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
        matches!(self.route.destination, Destination::MasterSet(_))
    }
}

/// Returns the command that loads the script.
fn script_load() -> redis::Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script::source());
    command
}
