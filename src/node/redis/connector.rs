//! Plain connections to a node.

use std::{fmt, io, net::IpAddr, sync::Arc, time::Duration};

use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use tokio::runtime::Handle;

use super::{
    classify::classify,
    endpoint::Endpoint,
    read_budget::ReadBudget,
    route::{Destination, Route},
};
use crate::{
    clock::BootClock,
    node::dial::{DialLimit, DialStep},
    values::NodeError,
};

/// The name of the connection that asks a cluster for the master of a hash slot.
const CLIENT_NAME: &str = "redquorum";

/// Opens plain connections to one node of a quorum, for programs that inspect servers. A plain connection has the same
/// address, credentials, database and TLS as the connections of locks, and leads to the same master of a set or of a hash slot.
///
/// A plain connection is a connection of the crate `redis`, and speaks RESP3. The server is not checked, so a plain
/// connection also leads to a server that a quorum refuses. The number of bytes that a server may send is limited on
/// connections of locks, but not on plain connections.
#[derive(Clone)]
pub struct NodeConnector {
    route: Arc<Route>,
    runtime: Handle,
}

impl NodeConnector {
    pub(crate) fn new(route: Route, runtime: Handle) -> Self {
        Self { route: Arc::new(route), runtime }
    }

    /// Returns the address of the node in the form of reports, which has no password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.route.address()
    }

    /// Returns the host or the socket path of the node's server; `None` if Sentinels or a cluster name the server.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match &self.route.destination {
            Destination::Server(endpoint) => endpoint.host(),
            Destination::MasterSet(_) | Destination::HashSlot(_) => None,
        }
    }

    /// Returns the hash tag of a node in a Redis Cluster, with its braces. The tag precedes the names of the node's keys.
    /// Returns `None` for any other node.
    #[must_use]
    pub fn hash_tag(&self) -> Option<&str> {
        match &self.route.destination {
            Destination::HashSlot(slot) => Some(slot.tag().as_str()),
            Destination::Server(_) | Destination::MasterSet(_) => None,
        }
    }

    /// Looks up the addresses of the node's host. Returns no address for a node with a socket path, behind Sentinels, or
    /// in a cluster.
    ///
    /// # Errors
    ///
    /// If the name cannot be looked up.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lookup continues, and the next lookup for the node shares its result.
    pub async fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        match &self.route.destination {
            Destination::Server(endpoint) => endpoint.addresses().await,
            Destination::MasterSet(_) | Destination::HashSlot(_) => Ok(Vec::new()),
        }
    }

    /// Returns a connector to the same node at one address of its host; `None` for a node with a socket path, with TLS,
    /// behind Sentinels, or in a cluster. By these connectors, a program can check whether all addresses of a host lead to one
    /// server.
    #[must_use]
    pub fn at(&self, address: IpAddr) -> Option<Self> {
        match &self.route.destination {
            Destination::Server(endpoint) => {
                let route = Route::to(Destination::Server(endpoint.at(address)?));
                Some(Self::new(route, self.runtime.clone()))
            }
            Destination::MasterSet(_) | Destination::HashSlot(_) => None,
        }
    }

    /// Returns a connector to one server of the Redis Cluster of this node, with the login and TLS of the node; `None` for
    /// any other node. By such a connector, a program can check whether the servers have announced addresses that clients
    /// can reach.
    #[must_use]
    pub fn server_of_cluster(&self, host: &str, port: u16) -> Option<Self> {
        match &self.route.destination {
            Destination::HashSlot(slot) => {
                let route = Route::to(Destination::Server(slot.endpoint(host, port)));
                Some(Self::new(route, self.runtime.clone()))
            }
            Destination::Server(_) | Destination::MasterSet(_) => None,
        }
    }

    /// Returns a connector to each server of the Redis Cluster that the url of this node names; none for any other node.
    /// A client takes the first of these servers that answers, so all of them should be in one cluster.
    #[must_use]
    pub fn seeds(&self) -> Vec<Self> {
        let seeds = match &self.route.destination {
            Destination::HashSlot(slot) => slot.seeds(),
            Destination::Server(_) | Destination::MasterSet(_) => &[],
        };
        let routes = seeds.iter().map(|seed| Route::to(Destination::Server(seed.clone())));
        routes.map(|route| Self::new(route, self.runtime.clone())).collect()
    }

    /// Connects to the node. `config` has the settings for pushes and answers. The call takes at most `timeout`,
    /// including the queries of Sentinels.
    ///
    /// # Errors
    ///
    /// The [`NodeError`] that a lock would report for this node: the node cannot be reached, does not answer, or does
    /// not admit this user.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection is closed.
    pub async fn connect(
        &self,
        config: AsyncConnectionConfig,
        timeout: Duration,
    ) -> Result<MultiplexedConnection, NodeError> {
        let clock = BootClock::start(&self.runtime);
        let limit = DialLimit::in_total(&clock, timeout);
        match &self.route.destination {
            Destination::Server(endpoint) => self.open(endpoint, config, limit).await,
            Destination::MasterSet(set) => {
                let master = set.master(limit).await?;
                let opened = self.open(&master.endpoint, config, limit).await;
                opened.map_err(|error| master.explain(error))
            }
            Destination::HashSlot(slot) => {
                let master = slot.open_master(CLIENT_NAME, limit).await?;
                self.open(&master.endpoint, config, limit).await
            }
        }
    }

    async fn open(
        &self,
        endpoint: &Endpoint,
        config: AsyncConnectionConfig,
        limit: DialLimit<'_>,
    ) -> Result<MultiplexedConnection, NodeError> {
        let budget = Arc::new(ReadBudget::new());
        let opened = endpoint.open(config, &budget, limit).await;
        let user = endpoint.user();
        let (mut connection, driver) = opened.map_err(|error| error.with_user(user.as_deref(), None))?;
        budget.lift();
        if let Some(driver) = driver {
            // The driver ends with the last clone of the connection.
            drop(self.runtime.spawn(driver));
        }
        if endpoint.database() != 0 {
            let mut select = redis::cmd("SELECT");
            let selecting = select.arg(endpoint.database()).query_async::<()>(&mut connection);
            let selected = limit.step(DialStep::Login, selecting).await?;
            selected.map_err(|error| {
                classify(&error).with_database(endpoint.database()).with_user(user.as_deref(), None)
            })?;
        }
        Ok(connection)
    }
}

impl fmt::Debug for NodeConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConnector").field("address", &self.address()).finish_non_exhaustive()
    }
}
