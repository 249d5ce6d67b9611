//! Building a client of a quorum, for threads.

use std::time::Duration;

use crate::{
    MemoryCluster, RestartGuard,
    blocking::{Quorum, runtime::Runtime},
    error::{AdmissionError, ConfigError, ConnectError},
    lock::Initialized,
};

/// The nodes of a quorum and the settings that all of its locks share; see
/// [`crate::QuorumBuilder`].
///
/// All clients of a quorum, blocking or not, must agree on name, nodes, votes needed, `max_ttl`,
/// attempt timeout, drift and restart guard.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct QuorumBuilder {
    builder: crate::QuorumBuilder,
}

impl QuorumBuilder {
    pub(super) fn new() -> Self {
        Self { builder: crate::Quorum::builder() }
    }

    fn map(self, set: impl FnOnce(crate::QuorumBuilder) -> crate::QuorumBuilder) -> Self {
        Self { builder: set(self.builder) }
    }

    /// Adds nodes by url; see [`crate::QuorumBuilder::nodes`].
    pub fn nodes<S: Into<String>>(self, urls: impl IntoIterator<Item = S>) -> Self {
        self.map(|builder| builder.nodes(urls))
    }

    /// Adds the nodes that the environment variable `REDQUORUM_NODES` names; see
    /// [`crate::QuorumBuilder::nodes_from_env`].
    ///
    /// # Errors
    ///
    /// As [`crate::QuorumBuilder::nodes_from_env`].
    pub fn nodes_from_env(self) -> Result<Self, ConfigError> {
        Ok(Self { builder: self.builder.nodes_from_env()? })
    }

    /// The quorum's name (default: `redquorum`); see [`crate::QuorumBuilder::name`].
    pub fn name(self, name: impl Into<String>) -> Self {
        self.map(|builder| builder.name(name))
    }

    /// How many nodes have to grant (default and least: a majority of the configured nodes); see
    /// [`crate::QuorumBuilder::votes_needed`].
    pub fn votes_needed(self, votes: usize) -> Self {
        self.map(|builder| builder.votes_needed(votes))
    }

    /// The ttl of locks that set none (default: 30 s).
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|builder| builder.ttl(ttl))
    }

    /// The longest ttl that any lock may have (default: 60 s); see
    /// [`crate::QuorumBuilder::max_ttl`].
    pub fn max_ttl(self, max_ttl: Duration) -> Self {
        self.map(|builder| builder.max_ttl(max_ttl))
    }

    /// The share of a ttl that clocks may disagree by (default: 0.01); see
    /// [`crate::QuorumBuilder::drift`].
    pub fn drift(self, drift: f64) -> Self {
        self.map(|builder| builder.drift(drift))
    }

    /// How long one node's answer is waited for (default: a tenth of a lock's ttl, at most 1 s).
    pub fn node_timeout(self, node_timeout: Duration) -> Self {
        self.map(|builder| builder.node_timeout(node_timeout))
    }

    /// How long one attempt may take before it is lost (default: 2 s).
    pub fn attempt_timeout(self, attempt_timeout: Duration) -> Self {
        self.map(|builder| builder.attempt_timeout(attempt_timeout))
    }

    /// How long [`connect`](Self::connect) and [`init`](Self::init) wait for nodes that do not
    /// answer yet (default: 5 s).
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        self.map(|builder| builder.connect_timeout(connect_timeout))
    }

    /// How long a node remembers a resource's fencing counter at least (default: 1 h); see
    /// [`crate::QuorumBuilder::counter_ttl`].
    pub fn counter_ttl(self, counter_ttl: Duration) -> Self {
        self.map(|builder| builder.counter_ttl(counter_ttl))
    }

    /// When a node is asked whether it may have forgotten votes (default:
    /// [`RestartGuard::PerConnection`]).
    pub fn restart_guard(self, restart_guard: RestartGuard) -> Self {
        self.map(|builder| builder.restart_guard(restart_guard))
    }

    /// Takes a node without metadata for a new one: for tests, examples and first steps alone; see
    /// [`crate::QuorumBuilder::admit_new_nodes`].
    pub fn admit_new_nodes(self) -> Self {
        self.map(crate::QuorumBuilder::admit_new_nodes)
    }

    /// Makes a client that only looks; see [`crate::QuorumBuilder::read_only`].
    pub fn read_only(self) -> Self {
        self.map(crate::QuorumBuilder::read_only)
    }

    /// Starts the quorum's thread, connects to the nodes, and returns once a quorum of them has
    /// answered; see [`crate::QuorumBuilder::connect`].
    ///
    /// # Errors
    ///
    /// As [`crate::QuorumBuilder::connect`];
    /// [`ConfigError::NoThread`](crate::error::ConfigError::NoThread) beside.
    pub fn connect(self) -> Result<Quorum, ConnectError> {
        let runtime = Runtime::start()?;
        let quorum = runtime.wait(self.builder.connect())?;
        Ok(Quorum::on(runtime, quorum))
    }

    /// Makes a new quorum of these nodes: an administrator's act, once; see
    /// [`crate::QuorumBuilder::init`].
    ///
    /// # Errors
    ///
    /// As [`crate::QuorumBuilder::init`];
    /// [`ConfigError::NoThread`](crate::error::ConfigError::NoThread) beside.
    pub fn init(self) -> Result<(), AdmissionError> {
        Runtime::start()?.wait(self.builder.init())
    }

    /// As [`init`](Self::init), but nothing is wrong with nodes that are this quorum already; not
    /// for the start of every service, see [`crate::QuorumBuilder::init_if_needed`].
    ///
    /// # Errors
    ///
    /// As [`crate::QuorumBuilder::init_if_needed`];
    /// [`ConfigError::NoThread`](crate::error::ConfigError::NoThread) beside.
    pub fn init_if_needed(self) -> Result<Initialized, AdmissionError> {
        Runtime::start()?.wait(self.builder.init_if_needed())
    }

    /// Moves a quorum to these nodes and settings, from those of `old`; see
    /// [`crate::QuorumBuilder::reconfigure`]. It takes a longest ttl.
    ///
    /// # Errors
    ///
    /// As [`crate::QuorumBuilder::reconfigure`];
    /// [`ConfigError::NoThread`](crate::error::ConfigError::NoThread) beside.
    pub fn reconfigure(self, old: Self) -> Result<(), AdmissionError> {
        Runtime::start()?.wait(self.builder.reconfigure(old.builder))
    }

    /// A client of in-memory nodes, which needs no connecting; urls are not looked at.
    ///
    /// The nodes may be shared with clients of the async API. Time is real time: in a tokio runtime
    /// whose time is paused, use the async API.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the settings cannot work, or no thread can be started.
    pub fn in_memory(self, cluster: &MemoryCluster) -> Result<Quorum, ConnectError> {
        let runtime = Runtime::start()?;
        let quorum = runtime.look(|| self.builder.in_memory(cluster))?;
        Ok(Quorum::on(runtime, quorum))
    }
}
