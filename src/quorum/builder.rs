//! Building a client of a quorum.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(feature = "tls")]
use crate::node::redis::Tls;
use crate::{
    client::surroundings::Surroundings,
    config::QuorumSettings,
    error::{AdmissionError, ConfigError, ConnectError},
    lock::client::Client,
    node::{
        RestartGuard,
        memory::MemoryCluster,
        redis::{NODES_VARIABLE, NodeConnector, node_urls, without_password},
    },
    quorum::{Initialized, Quorum, admin, connecting},
    values::Fingerprint,
};

#[cfg(feature = "sim")]
pub(crate) use self::start::setup;
use self::start::{runtime, unobserved};

pub(crate) mod effective;
mod start;

/// The nodes of a quorum and the settings that all of its locks share.
///
/// All clients of a quorum must agree on name, nodes, votes needed, `max_ttl`, attempt timeout and
/// drift, and be of versions of this crate that speak the same protocol: nodes check these. They
/// must agree on the restart guard too, which nodes do not check.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct QuorumBuilder {
    nodes: Vec<NodeSource>,
    #[cfg(feature = "tls")]
    tls: Tls,
    pub(crate) settings: QuorumSettings,
}

/// Where a node was said to be.
#[derive(Clone)]
enum NodeSource {
    Url(String),
    Client(Box<redis::Client>),
}

impl QuorumBuilder {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            #[cfg(feature = "tls")]
            tls: Tls::new(),
            settings: QuorumSettings::default(),
        }
    }

    /// Adds nodes by url, such as `redis://10.0.0.1:6379`: independent masters, none a replica of
    /// another. An odd number is best; one gives a plain single-node lock.
    ///
    /// | url | leads to |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/database]` | a server, over TCP |
    /// | `rediss://...`, the same | a server, behind TLS: with the feature `tls` |
    /// | `unix:///path[?db=1&user=name&pass=word]` | a server on this machine, by its socket |
    /// | `redis+sentinel://[user:password@]host[:port],.../name[?db=1&sentinel_user=name&sentinel_pass=word]` | the present master of the set that these Sentinels know by this name; user, password and database are the master's |
    /// | `rediss+sentinel://...`, the same | that master, behind TLS, as are its Sentinels |
    ///
    /// The port is 6379, that of a Sentinel 26379, and the database 0 unless they say otherwise.
    /// What has a meaning in urls has to be escaped in names and passwords: `@` is `%40`. A
    /// failover among Sentinels costs a quarantine, and [REDIS.md] says what it needs.
    ///
    /// [REDIS.md]: https://github.com/redquorum/redquorum/blob/main/docs/REDIS.md#a-node-behind-sentinel
    pub fn nodes<S: Into<String>>(mut self, urls: impl IntoIterator<Item = S>) -> Self {
        self.nodes.extend(urls.into_iter().map(|url| NodeSource::Url(url.into())));
        self
    }

    /// Adds the nodes that the environment variable `REDQUORUM_NODES` names, by urls as
    /// [`node_urls`] reads them.
    ///
    /// # Errors
    ///
    /// [`ConfigError::NoNodesVariable`] if it is not set, or names none. The urls are looked at
    /// when it is connected.
    pub fn nodes_from_env(self) -> Result<Self, ConfigError> {
        let urls = node_urls(&std::env::var_os(NODES_VARIABLE).unwrap_or_default().to_string_lossy());
        if urls.is_empty() { Err(ConfigError::NoNodesVariable) } else { Ok(self.nodes(urls)) }
    }

    /// Adds nodes by clients of the `redis` crate: with their addresses, credentials, databases and
    /// TLS. Each node is given connections of its own; the settings of TCP sockets are not taken
    /// over.
    ///
    /// They are clients of redis 1, the version that [`redquorum::redis`](crate::redis) is. Behind
    /// TLS, what that crate asks for has to be there: one of its TLS features, and for rustls a
    /// crypto provider.
    pub fn clients(mut self, clients: impl IntoIterator<Item = redis::Client>) -> Self {
        self.nodes.extend(clients.into_iter().map(|client| NodeSource::Client(Box::new(client))));
        self
    }

    /// Whom to trust behind TLS, and which certificate to show there (default: the system's CAs,
    /// and none). For nodes with `rediss://` and `rediss+sentinel://`; [clients](Self::clients)
    /// have their own.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// The quorum's name (default: `redquorum`). It tells configurations apart in errors, and is
    /// the first thing by which a [`MultiLock`](crate::MultiLock) over several quorums orders them:
    /// give each a name of its own.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// What this client calls itself, for people who see what it holds: 1 to 48 bytes that print
    /// (default: `host:pid`). It stands in the name of every [owner](crate::OwnerId::label), so in
    /// errors, traces, inspections and on the nodes, and in the name of every connection
    /// (`CLIENT LIST`). Nothing depends on it.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// How many nodes have to grant (default and least: a majority of the configured nodes). More
    /// survives more forgetful nodes, and fewer dead ones.
    pub fn votes_needed(mut self, votes: usize) -> Self {
        self.settings.votes_needed = Some(votes);
        self
    }

    /// The ttl of locks that set none (default: 30 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// The longest ttl that any lock may have (default: 60 s, at most ten years). How long a node
    /// has to stay out of votes after it forgot them follows from this.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// The share of a ttl that clocks may disagree by (default: 0.01, half a percent for each
    /// side). All clients alike. A larger share makes leases end earlier.
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

    /// How long [`connect`](Self::connect) and [`init`](Self::init) wait for nodes that do not
    /// answer yet (default: 5 s).
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.settings.connect_timeout = connect_timeout;
        self
    }

    /// How long a node remembers a resource's fencing counter at least after its last vote,
    /// write-back or renewal (default: 1 h; no less than `max_ttl` and 1 s, at most ten years).
    pub fn counter_ttl(mut self, counter_ttl: Duration) -> Self {
        self.settings.counter_ttl = counter_ttl;
        self
    }

    /// When a node is asked whether it may have forgotten votes (default:
    /// [`RestartGuard::PerConnection`]). All clients of a quorum should have the same: one that
    /// trusts its nodes takes the votes of those in quarantine.
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> Self {
        self.settings.restart_guard = restart_guard;
        self
    }

    /// Takes a node without metadata for a new one, and lets it vote at once: for tests, examples
    /// and first steps.
    ///
    /// It is wrong wherever a node may lose its data: one that was flushed, or restarted empty,
    /// looks like a new one, and exclusion is broken unseen. A quorum that matters is made by
    /// [`init`](Self::init), once.
    pub fn admit_new_nodes(mut self) -> Self {
        self.settings.admits_new = true;
        self
    }

    /// Makes a client that only looks: it inspects locks and observes elections, writes no metadata
    /// to a node that has none, and so begins no quarantine there, either. To lock, to campaign, to
    /// unlock by force and to make a quorum is [`ConfigError::ReadOnly`] before anything is sent.
    pub fn read_only(mut self) -> Self {
        self.settings.is_read_only = true;
        self
    }

    /// This configuration as the nodes of its quorum keep it, and by which they refuse clients of
    /// another.
    ///
    /// # Errors
    ///
    /// The [`ConfigError`] of settings that cannot work, as [`connect`](Self::connect) has it.
    pub fn fingerprint(&self) -> Result<Fingerprint, ConfigError> {
        Ok(self.settings.check(self.nodes.len())?.parameters.fingerprint)
    }

    /// What makes plain connections to the nodes, in the order in which these were given: for
    /// programs that look at servers.
    ///
    /// # Errors
    ///
    /// The [`ConfigError`] of nodes that cannot be such, as [`connect`](Self::connect) has it.
    pub fn connectors(&self) -> Result<Vec<NodeConnector>, ConfigError> {
        let (routes, runtime) = (self.routes()?, runtime()?);
        Ok(routes.into_iter().map(|route| NodeConnector::new(route, runtime.clone())).collect())
    }

    /// Connects to the nodes and returns once a quorum of them has answered. The others are given
    /// as long again, at most an eighth of the node timeout, and are tried again in the background.
    /// While there is no quorum yet, nodes that cannot be reached are tried again until the connect
    /// timeout: so a program may start together with its servers.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the settings cannot work, before anything is sent;
    /// [`ConnectError::NoQuorum`] if fewer nodes than a quorum answered within the connect timeout,
    /// with what each said, or at once if so many refuse it for reasons that do not pass by
    /// themselves, such as a wrong password; [`ConnectError::SameServer`] if two addresses lead to
    /// one server that answers now and tells its `run_id`; [`ConnectError::OtherQuorum`],
    /// [`ConnectError::ClockOff`], [`ConnectError::RunIdForbidden`], [`ConnectError::ClusterMode`]
    /// or [`ConnectError::SentinelMode`] if a node is refused for that, and the others are no
    /// quorum.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connections; nothing is left on the nodes.
    pub async fn connect(self) -> Result<Quorum, ConnectError> {
        let settings = self.settings.check(self.nodes.len())?;
        let registers = settings.registration();
        let client = self.start(settings, registers, |nodes| self.observer(nodes))?;
        connecting::wait_for_quorum(&client.environment).await?;
        Ok(Quorum::new(client))
    }

    /// Makes a new quorum of these nodes: an administrator's act, once. Every node has to be there
    /// (those that are about to start are waited for, up to the connect timeout), and none may have
    /// been in a quorum before.
    ///
    /// It is what tells new nodes from nodes that have lost everything, which no client can. Nodes
    /// that no `init` has admitted vote only after a quarantine of `max_ttl` and a little more;
    /// those of this configuration that are still in the quarantine which began with their first
    /// client are admitted, too.
    ///
    /// # Errors
    ///
    /// With nothing changed: [`AdmissionError::NotNew`] if a node belongs to a quorum, or may have
    /// voted in this one; [`AdmissionError::ClockOff`] if a node's clock is off by more than an
    /// hour; [`AdmissionError::SameServer`] if two addresses lead to one server.
    /// [`AdmissionError::Incomplete`] if a node did not answer. Nodes are looked at first, so
    /// others have been admitted, as its votes say, only if it failed in between, or was made by
    /// another `init` meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Nodes that were admitted stay so.
    pub async fn init(self) -> Result<(), AdmissionError> {
        let settings = self.settings_to_change()?;
        admin::init(&*self.start(settings, None, unobserved)?).await
    }

    /// As [`init`](Self::init), but nothing is wrong with nodes that are this quorum already: for
    /// jobs that are repeated, such as a deployment.
    ///
    /// Where any node knows the quorum, those that know nothing may have forgotten it: they are
    /// registered, and wait out a quarantine. **It is not for the start of every service.** Where
    /// no node knows the quorum (there is one node, or all have lost their data at once), nothing
    /// tells forgotten nodes from new ones: they vote at once, beside the leases that they forgot.
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init); [`AdmissionError::NotNew`] only for nodes of another quorum, and
    /// [`AdmissionError::Incomplete`] only where no node knows this one.
    ///
    /// # Cancel safety
    ///
    /// Nodes that were admitted or registered stay so.
    pub async fn init_if_needed(self) -> Result<Initialized, AdmissionError> {
        let settings = self.settings_to_change()?;
        admin::init_if_needed(&*self.start(settings, None, unobserved)?).await
    }

    /// Moves a quorum to these nodes and settings, from those of `old`: other nodes, another number
    /// of votes, another `max_ttl`. It takes a longest ttl, during which no lock of the quorum can
    /// be had.
    ///
    /// # Errors
    ///
    /// [`AdmissionError::SameConfiguration`] if nodes could not tell the two apart: then the new
    /// one needs a [`name`](Self::name) of its own. [`AdmissionError::Incomplete`] if so many old
    /// nodes did not answer that they could still be a quorum, with the others closed; or if a new
    /// node did not. The same call again goes on from there.
    ///
    /// # Cancel safety
    ///
    /// Nodes that are closed stay closed; the same call again goes on from there.
    pub async fn reconfigure(self, old: Self) -> Result<(), AdmissionError> {
        let new = self.start(self.settings_to_change()?, None, unobserved)?;
        let old = old.start(old.settings_to_change()?, None, unobserved)?;
        admin::reconfigure(&old, &new).await
    }

    /// A client of in-memory nodes, which needs no connecting; urls are not looked at. Its time is
    /// tokio's, so that a test may pause it.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the settings cannot work, or there is no tokio runtime.
    pub fn in_memory(self, cluster: &MemoryCluster) -> Result<Quorum, ConnectError> {
        let settings = self.settings.check(cluster.nodes())?;
        let nodes = cluster.connect(&settings.parameters, settings.is_read_only());
        let observer = self.observer(nodes.iter().map(|node| Arc::clone(node.address())).collect());
        let surroundings = Surroundings::new(cluster.clock(), runtime()?, observer, settings.label.clone());
        Ok(Quorum::new(Client::start(nodes, settings, surroundings)))
    }
}

impl fmt::Debug for NodeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(&without_password(url)),
            Self::Client(client) => client.fmt(f),
        }
    }
}
