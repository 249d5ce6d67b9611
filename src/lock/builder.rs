//! Building a client of a quorum.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::runtime::Handle;

use crate::{
    clock::BootClock,
    config::{CheckedQuorum, QuorumSettings},
    error::{ConfigError, ConnectError},
    lock::{
        connecting,
        core::{Client, Surroundings},
        quorum::Quorum,
    },
    node::{Node, memory::MemoryCluster, redis::RedisTransport, remote::Setup},
};

/// The nodes of a quorum and the settings that all of its locks share.
///
/// All clients of a quorum must agree on name, nodes, votes needed, `max_ttl` and attempt timeout.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct QuorumBuilder {
    nodes: Vec<String>,
    pub(crate) settings: QuorumSettings,
}

impl QuorumBuilder {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), settings: QuorumSettings::default() }
    }

    /// Adds nodes by url, such as `redis://10.0.0.1:6379`: independent masters, none a replica of another. An odd number is
    /// best; one gives a plain single-node lock.
    pub fn nodes<S: Into<String>>(mut self, urls: impl IntoIterator<Item = S>) -> Self {
        self.nodes.extend(urls.into_iter().map(Into::into));
        self
    }

    /// The quorum's name (default: `redquorum`). It tells configurations apart in errors, and is the first thing by which a
    /// [`MultiLock`](crate::MultiLock) over several quorums orders them: give each a name of its own.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// How many nodes have to grant (default and least: a majority of the configured nodes). More survives more forgetful
    /// nodes, and fewer dead ones.
    pub fn votes_needed(mut self, votes: usize) -> Self {
        self.settings.votes_needed = Some(votes);
        self
    }

    /// The ttl of locks that set none (default: 30 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// The longest ttl that any lock may have (default: 60 s). How long a node has to stay out of votes after it forgot
    /// them follows from this.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// The share of a ttl that clocks may disagree by (default: 0.01, half a percent for each side). A larger share makes
    /// leases end earlier.
    pub fn drift(mut self, drift: f64) -> Self {
        self.settings.drift = drift;
        self
    }

    /// How long one node's answer is waited for (default: a tenth of a lock's ttl, at most 1 s).
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.settings.node_timeout = Some(node_timeout);
        self
    }

    /// How long one attempt may take before it is lost (default: 2 s).
    pub fn attempt_timeout(mut self, attempt_timeout: Duration) -> Self {
        self.settings.attempt_timeout = attempt_timeout;
        self
    }

    /// How long [`connect`](Self::connect) waits for the nodes (default: 5 s).
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.settings.connect_timeout = connect_timeout;
        self
    }

    /// How long a node remembers a resource's fencing counter after its last use (default: 1 h, at least `max_ttl`).
    pub fn counter_ttl(mut self, counter_ttl: Duration) -> Self {
        self.settings.counter_ttl = counter_ttl;
        self
    }

    /// Connects to the nodes and returns once a quorum of them has answered and every other node has answered or failed; nodes
    /// that are not there yet are tried again in the background.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the settings cannot work, before anything is sent; [`ConnectError::NoQuorum`] if fewer nodes
    /// than a quorum answered within the connect timeout, with what each said; [`ConnectError::SameServer`] if two addresses
    /// lead to one server. The last is found out only among nodes that answer now and tell their `run_id`.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections; nothing is left on the nodes.
    pub async fn connect(self) -> Result<Quorum, ConnectError> {
        let settings = self.settings.check(self.nodes.len())?;
        let transports = self.transports(&settings)?;
        let runtime = runtime()?;
        let clock = Arc::new(BootClock::start(&runtime));
        let surroundings = Surroundings::new(clock, runtime);
        let setup = setup(&settings, &surroundings);
        let nodes =
            transports.into_iter().map(|transport| Arc::new(transport.into_node(&setup)) as Arc<dyn Node>);
        let client = Client::start(nodes.collect(), settings, surroundings);
        connecting::wait_for_quorum(&client.core).await?;
        Ok(Quorum::new(client))
    }

    /// A client of in-memory nodes, which needs no connecting; urls are not looked at. Its time is tokio's, so that a test may
    /// pause it.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the settings cannot work, or there is no tokio runtime.
    pub fn in_memory(self, cluster: &MemoryCluster) -> Result<Quorum, ConnectError> {
        let settings = self.settings.check(cluster.nodes())?;
        let surroundings = Surroundings::new(cluster.clock(), runtime()?);
        Ok(Quorum::new(Client::start(cluster.connect(&settings.terms), settings, surroundings)))
    }

    fn transports(&self, settings: &CheckedQuorum) -> Result<Vec<RedisTransport>, ConfigError> {
        let mut addresses = BTreeSet::new();
        let mut transports = Vec::new();
        for url in &self.nodes {
            let transport = RedisTransport::from_url(url, settings.terms.clone())?;
            let address = Arc::clone(transport.address());
            if !addresses.insert(Arc::clone(&address)) {
                return Err(ConfigError::DuplicateNode { address });
            }
            transports.push(transport);
        }
        Ok(transports)
    }
}

pub(crate) fn setup(settings: &CheckedQuorum, surroundings: &Surroundings) -> Setup {
    Setup {
        node_timeout: settings.node_timeout_for(settings.ttl),
        clock: Arc::clone(&surroundings.clock),
        spawner: Arc::clone(&surroundings.spawner),
        seed: surroundings.entropy.client.as_u64_pair().0,
    }
}

fn runtime() -> Result<Handle, ConfigError> {
    Handle::try_current().map_err(|_| ConfigError::NoRuntime)
}
