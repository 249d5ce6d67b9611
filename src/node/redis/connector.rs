//! Plain connections to a node.

use std::{fmt, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use tokio::runtime::Handle;

use super::{
    classify::classify,
    endpoint::Endpoint,
    read_budget::ReadBudget,
    route::{Destination, Route},
};
use crate::{
    clock::{BootClock, Clock},
    values::NodeError,
};

/// Makes plain connections to one node of a quorum, for programs that look at servers: the same
/// address, credentials, database and TLS as those of locks, and the same master of its Sentinels.
///
/// They are connections of the crate `redis`, and speak RESP3. Nothing is asked
/// before, so they lead to servers that a quorum refuses, too.
///
/// How much a server may send is bounded over the connections of locks. Over these it is not.
#[derive(Clone)]
pub struct NodeConnector {
    route: Arc<Route>,
    runtime: Handle,
}

impl NodeConnector {
    pub(crate) fn new(route: Route, runtime: Handle) -> Self {
        Self { route: Arc::new(route), runtime }
    }

    /// The node's address, as reports show it: without a password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.route.address()
    }

    /// The host, or the path of the socket, that leads to the node's server; `None` where Sentinels
    /// name it.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match &self.route.leads_to {
            Destination::Server(endpoint) => endpoint.host(),
            Destination::MasterSet(_) => None,
        }
    }

    /// The same node at one address of its host, to find out whether all of them are one server;
    /// `None` behind TLS or Sentinels.
    #[must_use]
    pub fn at(&self, address: IpAddr) -> Option<Self> {
        match &self.route.leads_to {
            Destination::Server(endpoint) => {
                let route = Route::to(Destination::Server(endpoint.at(address)?));
                Some(Self::new(route, self.runtime.clone()))
            }
            Destination::MasterSet(_) => None,
        }
    }

    /// Connects to the node. What the configuration says of pushes and answers holds; servers and
    /// Sentinels that do not answer are waited for up to `timeout`, all together.
    ///
    /// # Errors
    ///
    /// The [`NodeError`] that a lock would report of this node: it cannot be reached, does not
    /// answer, or does not let this user in.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connection.
    pub async fn connect(
        &self,
        config: AsyncConnectionConfig,
        timeout: Duration,
    ) -> Result<MultiplexedConnection, NodeError> {
        let clock = BootClock::start(&self.runtime);
        let opened = async {
            match &self.route.leads_to {
                Destination::Server(endpoint) => self.open(endpoint, config).await,
                Destination::MasterSet(set) => self.open(&set.master(&clock, timeout).await?, config).await,
            }
        };
        match select(pin!(opened), clock.sleep_until(clock.now() + timeout)).await {
            Either::Left((opened, _)) => opened,
            Either::Right(((), _)) => Err(self.route.late(timeout)),
        }
    }

    async fn open(
        &self,
        endpoint: &Endpoint,
        config: AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, NodeError> {
        let budget = Arc::new(ReadBudget::new());
        let (mut connection, driver) = endpoint.open(config, &budget).await?;
        budget.lift();
        if let Some(driver) = driver {
            // It ends with the last clone of the connection.
            drop(self.runtime.spawn(driver));
        }
        if endpoint.database() != 0 {
            let mut select = redis::cmd("SELECT");
            let selected = select.arg(endpoint.database()).query_async::<()>(&mut connection).await;
            selected.map_err(|error| classify(&error))?;
        }
        Ok(connection)
    }
}

impl fmt::Debug for NodeConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConnector").field("address", &self.address()).finish_non_exhaustive()
    }
}
