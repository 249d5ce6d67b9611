//! Starting the client that a builder describes.

use std::{collections::BTreeSet, sync::Arc};

use tokio::runtime::Handle;

use super::{NodeSource, QuorumBuilder};
use crate::{
    client::dependencies::ClientDependencies,
    clock::BootClock,
    config::CheckedQuorum,
    error::{ConfigError, node_twice},
    lock::client::Client,
    node::{
        NewNodes, Node,
        redis::{RedisTransport, Route, Security},
        remote::{ConnectedServers, Setup},
    },
    observer::{NoObserver, Observer},
};

impl QuorumBuilder {
    /// The settings, checked against the number of nodes.
    pub(crate) fn checked(&self) -> Result<CheckedQuorum, ConfigError> {
        self.settings.check(self.nodes.len())
    }

    /// Begins to connect to the nodes for a change of the quorum, which no observer is told of: an administrator is
    /// no client of the quorum.
    pub(crate) fn start_to_change(&self) -> Result<Arc<Client>, ConfigError> {
        let settings = self.checked()?;
        if settings.is_read_only() {
            return Err(ConfigError::ReadOnly);
        }
        self.start(settings, None, |_| Arc::new(NoObserver))
    }

    /// Begins to connect to the nodes.
    pub(super) fn start(
        &self,
        settings: CheckedQuorum,
        registers: Option<NewNodes>,
        observer: impl FnOnce(Vec<Arc<str>>) -> Arc<dyn Observer>,
    ) -> Result<Arc<Client>, ConfigError> {
        let routes = self.routes()?;
        let runtime = runtime()?;
        let clock = Arc::new(BootClock::start(&runtime));
        let addresses = routes.iter().map(|route| Arc::clone(route.address()));
        let dependencies =
            ClientDependencies::new(clock, runtime, observer(addresses.collect()), settings.label.clone());
        let setup = setup(&settings, &dependencies, registers);
        let node = |route| Arc::new(RedisTransport::into_node(route, settings.parameters.clone(), &setup));
        let nodes = routes.into_iter().map(|route| node(route) as Arc<dyn Node>).collect();
        Ok(Client::start(nodes, settings, dependencies))
    }

    /// Who is told what a client of these nodes does.
    #[cfg(feature = "metrics")]
    pub(super) fn observer(&self, nodes: Vec<Arc<str>>) -> Arc<dyn Observer> {
        Arc::new(crate::metrics::Meter::new(&self.settings.name, nodes))
    }

    #[cfg(not(feature = "metrics"))]
    #[expect(clippy::unused_self, reason = "metrics name the quorum")]
    #[allow(clippy::needless_pass_by_value, reason = "metrics keep the addresses")]
    pub(super) fn observer(&self, _nodes: Vec<Arc<str>>) -> Arc<dyn Observer> {
        Arc::new(NoObserver)
    }

    pub(crate) fn routes(&self) -> Result<Vec<Route>, ConfigError> {
        #[cfg(feature = "tls")]
        let mut security = Security::new(self.tls.clone()?);
        #[cfg(not(feature = "tls"))]
        let mut security = Security::default();
        let mut addresses = BTreeSet::new();
        let mut routes = Vec::new();
        for node in &self.nodes {
            let route = match node {
                NodeSource::Url(url) => Route::from_url(url, &mut security)?,
                #[cfg(feature = "unstable-redis")]
                NodeSource::Client(client) => Route::from_client(client),
            };
            let address = Arc::clone(route.address());
            if !addresses.insert(Arc::clone(&address)) {
                return Err(node_twice(&address));
            }
            routes.push(route);
        }
        Ok(routes)
    }
}

pub(crate) fn setup(
    settings: &CheckedQuorum,
    dependencies: &ClientDependencies,
    registers: Option<NewNodes>,
) -> Setup {
    Setup {
        registers,
        connected_servers: ConnectedServers::default(),
        label: dependencies.label.clone(),
        node_timeout: settings.node_timeout_for(settings.ttl),
        quarantine: settings.parameters.quarantine.lasts,
        monitor: Arc::clone(&dependencies.observer) as _,
        clock: Arc::clone(&dependencies.clock),
        spawner: Arc::clone(&dependencies.spawner),
        seed: dependencies.client.as_u64_pair().0,
    }
}

pub(crate) fn runtime() -> Result<Handle, ConfigError> {
    let reason = "the client's tasks need a tokio runtime: connect inside of one, or use `connect_blocking`";
    Handle::try_current().map_err(|_| ConfigError::NoRuntime { reason: reason.into() })
}
