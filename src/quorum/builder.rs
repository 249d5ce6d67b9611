//! Building a client of a quorum.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use tokio::runtime::Handle;

#[cfg(feature = "tls")]
use crate::node::redis::Tls;
use crate::{
    client::dependencies::ClientDependencies,
    clock::BootClock,
    config::{CheckedQuorum, QuorumSettings},
    error::{ConfigError, Error, node_twice},
    lock::client::Client,
    node::{
        NewNodes, Node, RestartGuard,
        memory::MemoryCluster,
        redis::{NODES_VARIABLE, RedisTransport, Route, Security, node_urls, without_password},
        remote::{ConnectedServers, ConnectionConfig},
    },
    observer::{NoObserver, Observer},
    quorum::{Quorum, connecting},
};

#[cfg(feature = "__command")]
pub(crate) mod effective;

/// The nodes of a quorum and the settings that all of its locks share.
///
/// All clients of a quorum must agree on name, nodes, votes needed, `max_ttl`, attempt timeout and drift, and be of
/// versions of this crate that speak the same protocol. Nodes check all of these but the addresses. Clients must agree
/// on the restart guard too, which nodes do not check. Ranges are checked by [`connect`](Self::connect).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct QuorumBuilder {
    nodes: Vec<NodeSource>,
    /// What is wrong with certificates is an error of `connect`.
    #[cfg(feature = "tls")]
    tls: Result<Tls, ConfigError>,
    pub(crate) settings: QuorumSettings,
}

/// The given way to a node.
#[derive(Clone)]
enum NodeSource {
    Url(String),
    #[cfg(feature = "unstable-redis")]
    Client(Box<redis::Client>),
}

impl QuorumBuilder {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            #[cfg(feature = "tls")]
            tls: Ok(Tls::new()),
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

    /// Adds the nodes that the environment variable `REDQUORUM_NODES` names: urls, separated by blanks or commas. A
    /// comma that is not followed by a new `scheme://` is part of a url, which may name several Sentinels.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the variable is not set, or names no node. The urls themselves are checked by
    /// [`connect`](Self::connect).
    pub fn nodes_from_env(self) -> Result<Self, Error> {
        let urls = node_urls(&std::env::var_os(NODES_VARIABLE).unwrap_or_default().to_string_lossy());
        if urls.is_empty() {
            let reason = "not set, or empty: name the nodes, such as \
                          redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3"
                .into();
            return Err(ConfigError::Variable { name: NODES_VARIABLE, given: "".into(), reason }.into());
        }
        Ok(self.nodes(urls))
    }

    /// Adds nodes by clients of the crate `redis`: with their addresses, credentials, databases and TLS. Each node has
    /// connections of its own; the settings of TCP sockets are not taken over.
    ///
    /// The clients are of the version that [`unstable_redis::redis`](crate::unstable_redis::redis) is, so this method
    /// may change in any version. Behind TLS, what that crate requires has to be there: one of its TLS features, and
    /// for rustls a crypto provider.
    #[cfg(feature = "unstable-redis")]
    pub fn clients(mut self, clients: impl IntoIterator<Item = redis::Client>) -> Self {
        self.nodes.extend(clients.into_iter().map(|client| NodeSource::Client(Box::new(client))));
        self
    }

    /// Certificates of CAs (PEM) to trust behind TLS, in place of those of the system (default). Called again, it adds
    /// more. For nodes with `rediss://` and `rediss+sentinel://`.
    ///
    /// TLS is made by rustls, with the crypto provider that the process has installed, or with *ring*. The certificate
    /// of a server has to be valid for the host as it stands in the url, or as a Sentinel names it; this check cannot
    /// be switched off. On Linux, `SSL_CERT_FILE` and `SSL_CERT_DIR` say where the certificates of the system are. PEM
    /// that holds no certificate is an error of [`connect`](Self::connect).
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redquorum::Quorum;
    ///
    /// let quorum = Quorum::builder()
    ///     .nodes(["rediss://redis-1.internal", "rediss://redis-2.internal", "rediss://redis-3.internal"])
    ///     .ca_certificates(std::fs::read("ca.pem")?)
    ///     .client_certificate(std::fs::read("client.pem")?, std::fs::read("client.key")?)
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn ca_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        let pem = pem.into();
        self.tls = self.tls.and_then(|tls| tls.ca(&pem));
        self
    }

    /// The certificate to show to servers that ask for one behind TLS, as PEM: its chain, with the certificate itself
    /// first, and its private key without a passphrase (default: none). PEM that cannot be used is an error of
    /// [`connect`](Self::connect).
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let (chain, key) = (chain.into(), key.into());
        self.tls = self.tls.and_then(|tls| tls.client_certificate(&chain, &key));
        self
    }

    /// TLS as a settings file describes it.
    #[cfg(all(feature = "tls", feature = "settings"))]
    pub(crate) fn tls(mut self, tls: Tls) -> Self {
        self.tls = Ok(tls);
        self
    }

    /// The name of the quorum (default: `redquorum`; 1 to 64 letters, digits, `-`, `_` or `.`). The name distinguishes
    /// quorums in errors, and a lock [across quorums](crate::MultiLock::across) orders the quorums by name first: give
    /// each quorum a name of its own.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// The label of this client, for people (default: `host:pid`; 1 to 48 bytes of characters that print). The label is
    /// part of every [lease id](crate::LeaseId::label), so of errors, traces, inspections and keys, and of the name of
    /// every connection (`CLIENT LIST`). Nothing depends on it.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// The number of nodes that have to grant (default and least: a majority of the configured nodes; at most all). A
    /// larger number survives more nodes that forget votes, and fewer nodes that are down.
    pub fn votes_needed(mut self, votes: usize) -> Self {
        self.settings.votes_needed = Some(votes);
        self
    }

    /// The ttl of locks that set none (default: 30 s; from 4 ms, with the default drift, to `max_ttl`).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// The longest ttl of any lock (default: 60 s; at most ten years). A node that may have forgotten votes gives none
    /// for this time and a little longer.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// The share of a ttl by which clocks may disagree (default: 0.01, half a percent for each side; 0 to below 0.5). A
    /// larger share makes leases end earlier.
    pub fn drift(mut self, drift: f64) -> Self {
        self.settings.drift = drift;
        self
    }

    /// The time to wait for the answer of one node (default: a tenth of a lock's ttl, at most 1 s; above zero, and
    /// below the ttl). A lock with a ttl that is not longer is refused, unless the lock sets a [node
    /// timeout](crate::LockOptions::node_timeout) of its own.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.settings.node_timeout = Some(node_timeout);
        self
    }

    /// The time after which an attempt without a quorum fails (default: 2 s; above zero, at most `max_ttl`).
    pub fn attempt_timeout(mut self, attempt_timeout: Duration) -> Self {
        self.settings.attempt_timeout = attempt_timeout;
        self
    }

    /// The time for which [`connect`](Self::connect) and [`admin::init`](crate::admin::init) wait for nodes that do not
    /// answer yet (default: 5 s).
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.settings.connect_timeout = connect_timeout;
        self
    }

    /// The least time for which a node remembers the fencing counter of a resource after the last vote, write-back or
    /// renewal (default: 1 h; no less than `max_ttl` and 1 s, at most ten years).
    pub fn counter_ttl(mut self, counter_ttl: Duration) -> Self {
        self.settings.counter_ttl = counter_ttl;
        self
    }

    /// The guard against nodes that may have forgotten votes (default: [`RestartGuard::PerConnection`]). All clients of
    /// a quorum should have the same guard: a client with [`RestartGuard::Off`] takes the votes of nodes in quarantine.
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> Self {
        self.settings.restart_guard = restart_guard;
        self
    }

    /// Lets every node without metadata vote at once, as a new node: for tests, examples and first steps.
    ///
    /// This setting is wrong wherever a node may lose its data: a node that was flushed, or restarted empty, looks like
    /// a new node, and exclusion is broken unseen. Make a quorum that matters by [`admin::init`](crate::admin::init),
    /// once.
    pub fn admit_new_nodes(mut self) -> Self {
        self.settings.admits_new = true;
        self
    }

    /// Makes a client that changes nothing: it writes no metadata to a node that has none, and so begins no quarantine
    /// there.
    ///
    /// Calls that read work: inspections, lists, health, the leader of an election and its observers, the arrivals of a
    /// latch, the free permits of a semaphore. A call that would change a node is [`Error::Config`] (`ReadOnly`),
    /// before anything is sent: locks of every kind, permits, campaigns, arriving at a latch and waiting for one, and
    /// [`force_unlock`](crate::admin::force_unlock). So is a call of [`admin`](crate::admin) that makes or moves a
    /// quorum, as [`AdminError::Config`](crate::error::AdminError::Config).
    pub fn read_only(mut self) -> Self {
        self.settings.is_read_only = true;
        self
    }

    /// Connects to the nodes, and returns when a quorum of nodes has answered. The other nodes get as much time again,
    /// at most an eighth of the node timeout, and are dialled on in the background. While there is no quorum yet, nodes
    /// that cannot be reached are dialled again until the connect timeout: so a program may start together with its
    /// servers.
    ///
    /// The client works on the tokio runtime of this call, which needs timers and IO, and has to run for as long as the
    /// client is used.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the settings cannot work, or there is no tokio runtime (`NoRuntime`), before anything is
    /// sent; or if a node can be none and the others are no quorum: a node of a quorum with other settings
    /// (`WrongQuorum`); a server whose clock is off by more than an hour, that does not permit `INFO`, or that is a
    /// Sentinel or part of a Redis Cluster (`Server`). Also, whatever the other nodes are, if two addresses lead to one
    /// server (`Server`). [`Error::NoQuorum`] if fewer nodes than a quorum answered within the connect timeout, or at
    /// once if enough nodes refuse it for reasons that do not pass by themselves, such as a wrong password. Between the
    /// two, `Config` comes first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections; nothing is left on the nodes.
    pub async fn connect(self) -> Result<Quorum, Error> {
        let settings = self.checked()?;
        let registers = settings.registration();
        let client = self.start(settings, registers, |nodes| self.observer(nodes))?;
        connecting::wait_for_quorum(&client.context).await?;
        Ok(Quorum::new(client))
    }

    /// Connects to in-memory nodes, with these settings; urls are not used. Its time is that of tokio, so a test may
    /// pause it.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the settings cannot work, or there is no tokio runtime (`NoRuntime`).
    pub fn connect_in_memory(self, cluster: &MemoryCluster) -> Result<Quorum, Error> {
        let settings = self.settings.check(cluster.nodes())?;
        let nodes = cluster.connect(&settings.parameters, settings.is_read_only());
        let observer = self.observer(nodes.iter().map(|node| Arc::clone(node.address())).collect());
        let dependencies =
            ClientDependencies::new(cluster.clock(), runtime()?, observer, settings.label.clone());
        Ok(Quorum::new(Client::start(nodes, settings, dependencies)))
    }

    /// Returns the settings, checked against the number of nodes.
    pub(crate) fn checked(&self) -> Result<CheckedQuorum, ConfigError> {
        self.settings.check(self.nodes.len())
    }

    /// Begins to connect to the nodes for a change of the quorum. No observer receives anything: an administrator is no
    /// client of the quorum.
    pub(crate) fn start_to_change(&self) -> Result<Arc<Client>, ConfigError> {
        let settings = self.checked()?;
        if settings.is_read_only() {
            return Err(ConfigError::ReadOnly);
        }
        self.start(settings, None, |_| Arc::new(NoObserver))
    }

    /// Begins to connect to the nodes.
    fn start(
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
        let connection_config = connection_config(&settings, &dependencies, registers);
        let node = |route| {
            Arc::new(RedisTransport::into_node(route, settings.parameters.clone(), &connection_config))
        };
        let nodes = routes.into_iter().map(|route| node(route) as Arc<dyn Node>).collect();
        Ok(Client::start(nodes, settings, dependencies))
    }

    /// The observer of a client of these nodes.
    #[cfg(feature = "metrics")]
    fn observer(&self, nodes: Vec<Arc<str>>) -> Arc<dyn Observer> {
        Arc::new(crate::metrics::Meter::new(&self.settings.name, nodes))
    }

    #[cfg(not(feature = "metrics"))]
    #[expect(clippy::unused_self, reason = "metrics name the quorum")]
    #[allow(clippy::needless_pass_by_value, reason = "metrics keep the addresses")]
    fn observer(&self, _nodes: Vec<Arc<str>>) -> Arc<dyn Observer> {
        Arc::new(NoObserver)
    }

    /// Returns the ways to the nodes, which have different addresses.
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

impl fmt::Debug for NodeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(&without_password(url)),
            #[cfg(feature = "unstable-redis")]
            Self::Client(client) => client.fmt(f),
        }
    }
}

/// Returns what the connections of a client need.
pub(crate) fn connection_config(
    settings: &CheckedQuorum,
    dependencies: &ClientDependencies,
    registers: Option<NewNodes>,
) -> ConnectionConfig {
    ConnectionConfig {
        registers,
        connected_servers: ConnectedServers::default(),
        label: dependencies.label.clone(),
        node_timeout: settings.node_timeout_for(settings.ttl),
        quarantine: settings.parameters.quarantine.lasts,
        monitor: Arc::clone(&dependencies.observer) as _,
        clock: Arc::clone(&dependencies.clock),
        spawner: Arc::clone(&dependencies.spawner),
        seed: dependencies.client_id.as_u64_pair().0,
    }
}

/// Returns the runtime of the caller.
pub(crate) fn runtime() -> Result<Handle, ConfigError> {
    let reason = "the client's tasks need a tokio runtime: connect inside of one, or use `connect_blocking`";
    Handle::try_current().map_err(|_| ConfigError::NoRuntime { reason: reason.into() })
}
