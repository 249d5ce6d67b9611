//! The builder of a client.

use std::{collections::BTreeSet, error::Error as StdError, fmt, sync::Arc, time::Duration};

use tokio::runtime::Handle;

#[cfg(feature = "settings")]
use crate::node::redis::UrlSource;
#[cfg(feature = "tls")]
use crate::node::redis::{Pem, Tls};
use crate::{
    algorithm::lease::RenewalOffset,
    client::dependencies::ClientDependencies,
    clock::{self, BootClock},
    config::{CheckedQuorum, QuorumSettings},
    error::{ConfigError, Error, node_twice, out_of_range},
    lock::client::Client,
    node::{
        NewNodes, Node, RestartGuard,
        memory::MemoryCluster,
        redis::{
            Credentials, CredentialsProvider, NODES_VARIABLE, RedisTransport, Route, TlsSettings,
            node_urls_of_variable, without_password,
        },
        remote::{ConnectedServers, ConnectionConfig},
    },
    observer::{NoObserver, Observer},
    quorum::{
        Quorum, connecting,
        replacing::{NodeLists, Replacement},
    },
    spawner,
};

#[cfg(feature = "__command")]
pub(crate) mod effective;

/// The nodes of a quorum, and the settings that all of its locks share.
///
/// All clients of a quorum must agree on name, nodes, votes needed, `max_ttl`, attempt timeout, drift and restart
/// guard, and must have versions of this crate with the same protocol. Nodes refuse clients that differ in any of these
/// except the addresses and the restart guard. [`connect`](Self::connect) checks the ranges of the settings.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is connected"]
pub struct QuorumBuilder {
    nodes: Vec<NodeSource>,
    /// The TLS settings. An error in a certificate is an error of `connect`.
    #[cfg(feature = "tls")]
    tls: Tls,
    credentials: Option<CredentialsProvider>,
    sentinel_credentials: Option<CredentialsProvider>,
    pub(crate) settings: QuorumSettings,
}

/// The source of a node's address and credentials.
#[derive(Clone)]
enum NodeSource {
    Url {
        url: String,
        /// The source that reads the urls again, if the url is from a settings file.
        #[cfg(feature = "settings")]
        file: Option<UrlSource>,
    },
    #[cfg(feature = "unstable-redis")]
    Client(Box<redis::Client>),
}

impl QuorumBuilder {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            #[cfg(feature = "tls")]
            tls: Tls::new(),
            credentials: None,
            sentinel_credentials: None,
            settings: QuorumSettings::default(),
        }
    }

    /// Adds nodes by url, such as `redis://10.0.0.1:6379`. The nodes must be independent masters, so no node may be a
    /// replica of another node. An odd number is best. A single node gives a plain single-node lock.
    ///
    /// | url | leads to |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/database]` | a server, over TCP |
    /// | `rediss://...`, the same | a server, behind TLS: with the feature `tls` |
    /// | `unix:///path[?db=1&user=name&pass=word]` | a server on this machine, by a socket |
    /// | `redis+sentinel://[user:password@]host[:port],.../name[?db=1&sentinel_user=name&sentinel_pass=word]` | the present master of the set of this name at these Sentinels; user, password and database are those of the master |
    /// | `redis+cluster://[user:password@]host[:port],...[/name]` | a whole Redis Cluster: the master of the hash slot of `{name}` (by default `{redquorum}`). [CLUSTER.md] states what this node promises, and what three small servers beside the cluster promise |
    /// | `rediss+cluster://...`, the same | the same, behind TLS |
    /// | `rediss+sentinel://...`, the same | the same, with master and Sentinels behind TLS; `?sentinel_tls=no` is for Sentinels without TLS, and `redis+sentinel://...?sentinel_tls=yes` for the reverse |
    ///
    /// By default, the port is 6379, the port of a Sentinel 26379, and the database 0. In users and passwords, write
    /// `/` as `%2F`, `?` as `%3F`, `#` as `%23`, `%` as `%25`, `@` as `%40` and a blank as `%20`. After a failover of a
    /// node behind Sentinels, the node is in quarantine. [REDIS.md] lists the requirements of Sentinels.
    ///
    /// [CLUSTER.md]: https://github.com/redquorum/redquorum/blob/main/docs/CLUSTER.md
    /// [REDIS.md]: https://github.com/redquorum/redquorum/blob/main/docs/REDIS.md#a-node-behind-sentinel
    pub fn nodes<S: Into<String>>(mut self, urls: impl IntoIterator<Item = S>) -> Self {
        self.nodes.extend(urls.into_iter().map(NodeSource::url));
        self
    }

    /// Adds nodes by urls. If the urls are from a settings file, every dial reads the credentials from `file` again.
    #[cfg(feature = "settings")]
    pub(crate) fn nodes_of(mut self, urls: Vec<String>, file: Option<UrlSource>) -> Self {
        self.nodes.extend(urls.into_iter().map(|url| NodeSource::Url { url, file: file.clone() }));
        self
    }

    /// Adds the nodes of the environment variable `REDQUORUM_NODES`: urls, separated by blanks or commas. A comma
    /// without a following `scheme://` is part of a url, because a url may name several Sentinels.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the variable is not set, is not UTF-8, or names no node. [`connect`](Self::connect) checks
    /// the urls.
    pub fn nodes_from_env(self) -> Result<Self, Error> {
        let urls = node_urls_of_variable(&std::env::var_os(NODES_VARIABLE).unwrap_or_default())?;
        if urls.is_empty() {
            let reason = "not set, or empty: name the nodes, such as \
                          redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3"
                .into();
            return Err(ConfigError::Variable { name: NODES_VARIABLE, given: "".into(), reason }.into());
        }
        Ok(self.nodes(urls))
    }

    /// Sets a provider of the credentials of all nodes, in place of the credentials of the urls. Every dial calls the
    /// provider, with the address of the node as errors and inspections show it. Therefore passwords and tokens may
    /// change while the client is connected. No lease is lost if the servers accept the former credentials until every
    /// connection has been opened again.
    ///
    /// The provider has half of the time of a dial. A dial lasts for at most the node timeout, or a second if the node
    /// timeout is shorter. For a node behind Sentinels, each Sentinel and the master have equal shares of the time of a
    /// dial, and the provider has half of the master's share. If the provider fails, panics or takes longer, the dial
    /// uses the last credentials, and a warning is logged. If there are no last credentials, the dial fails with
    /// [`NodeError::NoCredentials`](crate::error::NodeError::NoCredentials), and is repeated. The future runs on the
    /// runtime of the client and must not block its thread. A slow provider should return credentials from a cache.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redquorum::{Credentials, Quorum};
    ///
    /// # async fn fresh_token(_node: &str) -> std::io::Result<String> { Ok(String::new()) }
    /// let quorum = Quorum::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .credentials(|node| {
    ///         let node = node.to_owned();
    ///         async move { Ok(Credentials::new(fresh_token(&node).await?).user("app")) }
    ///     })
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials<F>(mut self, provider: impl Fn(&str) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        self.credentials = Some(CredentialsProvider::new(provider));
        self
    }

    /// Sets a provider of the credentials of all Sentinels, in place of `sentinel_user` and `sentinel_pass` of the
    /// urls. The provider works like that of [`credentials`](Self::credentials), which is for the masters alone. The
    /// time of the provider is half of the share that each Sentinel has of a dial.
    pub fn sentinel_credentials<F>(mut self, provider: impl Fn(&str) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        self.sentinel_credentials = Some(CredentialsProvider::new(provider));
        self
    }

    /// Adds nodes by clients of the crate `redis`, with their addresses, credentials, databases and TLS. Each node gets
    /// its own connections, which ignore the settings of these clients for TCP sockets.
    ///
    /// A client of that crate has fixed credentials and certificates. If the credentials change, give a provider to
    /// [`credentials`](Self::credentials), which applies to these nodes as well.
    ///
    /// The clients must have the version of [`unstable_redis::redis`](crate::unstable_redis::redis), so this method may
    /// change in any version. For TLS, enable a TLS feature of that crate, and for rustls install a crypto provider.
    #[cfg(feature = "unstable-redis")]
    pub fn clients(mut self, clients: impl IntoIterator<Item = redis::Client>) -> Self {
        self.nodes.extend(clients.into_iter().map(|client| NodeSource::Client(Box::new(client))));
        self
    }

    /// Adds certificates of CAs (PEM) to trust for nodes with `rediss://` and `rediss+sentinel://`, instead of the
    /// certificates of the system (default).
    ///
    /// The TLS library is rustls, with the crypto provider that the process has installed, or with *ring*. The
    /// certificate of a server has to be valid for the host in the url, or for the host that a Sentinel names. This
    /// check cannot be switched off. On Linux, the variables `SSL_CERT_FILE` and `SSL_CERT_DIR` override the places of
    /// the system's certificates. If the PEM has no certificate, [`connect`](Self::connect) returns an error.
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
        self.tls = self.tls.ca(Pem::Text(pem.into().into()));
        self
    }

    /// Adds certificates of CAs in a PEM file, as [`ca_certificates`](Self::ca_certificates), and reads the file again
    /// at every dial.
    ///
    /// If the file cannot be read or used, [`connect`](Self::connect) returns an error. If a later dial cannot use the
    /// file, for example because it is half written at that moment, the last good certificates stay, and a warning is
    /// logged.
    #[cfg(feature = "tls")]
    pub fn ca_certificates_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.tls = self.tls.ca(Pem::file(path.into()));
        self
    }

    /// Sets the certificate for servers that request a client certificate, as PEM: the chain, beginning with the
    /// certificate, and the private key without a passphrase (default: none). If the PEM is invalid,
    /// [`connect`](Self::connect) returns an error.
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let (chain, key) = (Pem::Text(chain.into().into()), Pem::Text(key.into().into()));
        self.tls = self.tls.client_certificate(chain, key);
        self
    }

    /// Sets the certificate for servers that request a client certificate by two PEM files, as
    /// [`client_certificate`](Self::client_certificate), and reads both files again at every dial.
    ///
    /// If a file cannot be read or used, or the two files do not fit together, [`connect`](Self::connect) returns an
    /// error. If a later dial cannot use the files, the last good pair stays, and a warning is logged. Therefore the
    /// two files may be replaced one after the other.
    #[cfg(feature = "tls")]
    pub fn client_certificate_files(
        mut self,
        chain: impl Into<std::path::PathBuf>,
        key: impl Into<std::path::PathBuf>,
    ) -> Self {
        self.tls = self.tls.client_certificate(Pem::file(chain.into()), Pem::file(key.into()));
        self
    }

    /// Sets TLS by the values of a settings file.
    #[cfg(all(feature = "tls", feature = "settings"))]
    pub(crate) fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Sets the name of the quorum (default: `redquorum`; 1 to 64 letters, digits, `-`, `_` or `.`). Give each quorum
    /// its own name, because errors distinguish quorums by name, and a lock [across quorums](crate::MultiLock::across)
    /// orders the quorums by name first.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Sets the label by which people identify this client (default: `host:pid`, without the beginning of a long host
    /// name; 1 to 48 bytes of printable characters, and no url). The label is part of every [lease
    /// id](crate::LeaseId::label) in errors, traces, inspections and keys, and of the name of every connection (`CLIENT
    /// LIST`). No behaviour depends on the label.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// Sets the number of nodes that have to grant (default and least: a majority of the configured nodes; at most
    /// all). A larger number lets more nodes forget votes without harm, but fewer nodes may be down.
    pub fn votes_needed(mut self, votes: usize) -> Self {
        self.settings.votes_needed = Some(votes);
        self
    }

    /// Sets the ttl of locks without a ttl of their own (default: 30 s; from 4 ms, with the default drift, to
    /// `max_ttl`).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// Sets the longest ttl of any lock (default: 60 s; at most ten years). A node that may have forgotten votes gives
    /// no votes for slightly longer than this time.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// Sets the bound on the difference between the rates of two clocks, as a share of time (default: 0.01, that is,
    /// half a percent for each clock; 0 to below 0.5). With a larger bound, leases end earlier.
    pub fn drift(mut self, drift: f64) -> Self {
        self.settings.drift = drift;
        self
    }

    /// Sets the time to wait for the answer of one node (default: a tenth of a lock's ttl, at most 1 s; above zero, and
    /// below the ttl). A lock with a shorter or equal ttl is refused, unless the lock sets a [node
    /// timeout](crate::LockOptions::node_timeout) of its own.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.settings.node_timeout = Some(node_timeout);
        self
    }

    /// Sets the time after which an attempt without a quorum fails (default: 5 s, or `max_ttl` if that is shorter;
    /// above zero, at most `max_ttl`). A call that waits also waits for this time for a vote that decides its attempt. If a
    /// program starts more work at once than its nodes can do in this time, calls fail.
    pub fn attempt_timeout(mut self, attempt_timeout: Duration) -> Self {
        self.settings.attempt_timeout = Some(attempt_timeout);
        self
    }

    /// Sets the time for which [`connect`](Self::connect) and [`admin::init`](crate::admin::init) wait for nodes that
    /// do not answer yet (default: 30 s). If an answer decides, such as that of a server that refuses the password,
    /// `connect` waits for the other nodes for at most an eighth of the node timeout, and `init` for a node timeout, at
    /// least a second.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.settings.connect_timeout = connect_timeout;
        self
    }

    /// Sets the least time for which a node remembers the fencing counter of a resource after the last vote, write-back
    /// or renewal (default: 1 h; no less than `max_ttl` and 1 s, at most ten years).
    pub fn counter_ttl(mut self, counter_ttl: Duration) -> Self {
        self.settings.counter_ttl = counter_ttl;
        self
    }

    /// Sets the guard against nodes that may have forgotten votes (default: [`RestartGuard::PerConnection`]). All
    /// clients of a quorum should have the same guard: a client with [`RestartGuard::Off`] counts the votes of nodes in
    /// quarantine.
    pub fn restart_guard(mut self, restart_guard: RestartGuard) -> Self {
        self.settings.restart_guard = restart_guard;
        self
    }

    /// Lets every node without metadata vote at once, like a new node. The setting is for tests, examples and first
    /// steps.
    ///
    /// Do not use this setting if a node may lose its data. Clients cannot distinguish a node that was flushed or
    /// restarted empty from a new node, so two clients could hold one resource without any error. Make a production
    /// quorum once, by [`admin::init`](crate::admin::init).
    pub fn admit_new_nodes(mut self) -> Self {
        self.settings.admits_new = true;
        self
    }

    /// Makes the client read-only, so that it changes no node. The client writes no metadata to a node without
    /// metadata, and therefore begins no quarantine there.
    ///
    /// * **Available calls:** inspections, lists, health, the leader of an election and its observers, the arrivals of
    ///   a latch, and the free permits of a semaphore.
    /// * **Refused with [`Error::Config`] (`ReadOnly`), before any request:** locks of every kind, permits, campaigns,
    ///   arrivals at a latch, waits for a latch, and [`force_unlock`](crate::admin::force_unlock).
    /// * **Refused with [`AdminError::Config`](crate::error::AdminError::Config):** the calls of
    ///   [`admin`](crate::admin) that make or move a quorum.
    pub fn read_only(mut self) -> Self {
        self.settings.is_read_only = true;
        self
    }

    /// Connects to the nodes, and returns when a quorum of nodes has answered.
    ///
    /// Until a quorum has answered, the call dials unreachable nodes again until the connect timeout, so a program may
    /// start together with its servers. After that, the call waits for the remaining nodes for as long as the quorum
    /// took and at least 50 ms, but for at most an eighth of the node timeout. Later, the client dials these nodes in
    /// the background. With [`RestartGuard::Off`], the call waits until each remaining node has answered or failed, at
    /// most until the connect timeout.
    ///
    /// The call logs a warning after a second without a quorum. The call also logs a warning if a quorum has answered
    /// but no quorum votes, because nodes are in quarantine or new. Then locks wait until a quorum votes.
    ///
    /// # The runtime
    ///
    /// The connections and the renewals of the client are tasks on the tokio runtime of this call. The runtime
    ///
    /// * **needs timers and IO**, by `enable_all` of tokio's builder. Without IO, this call returns an error
    ///   (`NoRuntime`), and tokio prints the message of a panic that does not leave this call. In a program with
    ///   `panic = "abort"`, or with a panic hook that ends the process, this panic ends the process.
    /// * **has to run for as long as the client is used.** With the runtime, the client ends: the leases are lost, and
    ///   all calls return [`ClosedReason::RuntimeEnded`](crate::error::ClosedReason::RuntimeEnded) at once. A
    ///   `#[tokio::test]` makes a separate runtime for each test, so a client in a `static` works in one test only.
    /// * **has to be driven all the time.** A multi-thread runtime drives itself. A current-thread runtime runs no task
    ///   outside of its `block_on`: then no lease is renewed, and calls of other threads return neither a result nor an
    ///   error at their deadline. Work that blocks a thread of the runtime has the same effect while it runs.
    /// * **must not be used across a fork.** In a forked copy of the process, every call of the client returns
    ///   [`ClosedReason::Forked`](crate::error::ClosedReason::Forked) at once, and no lease is valid. The child
    ///   connects a new client on a new runtime, because the copy of a runtime shares its event sources with the
    ///   original.
    ///
    /// # Errors
    ///
    /// * [`Error::Config`] before any request, if the settings are invalid, or if there is no tokio runtime with IO
    ///   (`NoRuntime`).
    /// * [`Error::Config`] if a node is unfit, and the remaining nodes are no quorum. A node is unfit if it belongs to
    ///   a quorum with other settings (`WrongQuorum`). A server is unfit if its clock is off by more than an hour, if
    ///   it does not permit `INFO`, or if it does not fit its url: a Sentinel, a server of a Redis Cluster behind
    ///   `redis://`, or a standalone server behind `redis+cluster://` (`Server`).
    /// * [`Error::Config`] if two addresses lead to one server or to one Redis Cluster (`Server`), even if the remaining
    ///   nodes are a quorum.
    /// * [`Error::NoQuorum`] if fewer nodes than a quorum answered within the connect timeout, or at once if enough
    ///   nodes refuse the client for a lasting reason, such as a wrong password. `Config` takes precedence.
    /// * [`Error::Closed`] if the runtime ends during the call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections, and leaves no key on the nodes.
    pub async fn connect(self) -> Result<Quorum, Error> {
        let settings = self.checked()?;
        let registers = settings.registration();
        let client = self.start(settings, registers, |nodes| self.observer(nodes))?;
        let context = &*client.context;
        let connecting = async {
            tokio::select! {
                biased;
                connected = connecting::wait_for_quorum(context) => connected,
                () = context.closed() => Err(context.closed_error()),
            }
        };
        context.in_process(connecting).await?;
        Ok(Quorum::new(client))
    }

    /// Connects to in-memory nodes with these settings, and ignores urls. The client uses the time of tokio, so a test
    /// may pause it.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the settings are invalid, or if there is no tokio runtime with timers (`NoRuntime`).
    /// [`Error::Closed`] if the runtime has ended.
    pub fn connect_in_memory(self, cluster: &MemoryCluster) -> Result<Quorum, Error> {
        let settings = self.settings.check(cluster.nodes())?;
        let nodes = cluster.connect(&settings.parameters, settings.is_read_only());
        let observer = self.observer(nodes.iter().map(|node| Arc::clone(node.address())).collect());
        let runtime = runtime()?;
        if !clock::has_timers() {
            return Err(missing_driver("timers", "enable_time").into());
        }
        let label = settings.label.clone();
        let dependencies = ClientDependencies {
            // Nodes in memory serve one process, whose tests may count on the times of renewals.
            renewal_offset: RenewalOffset::WHOLE,
            ..ClientDependencies::new(cluster.clock(), runtime, observer, label)
        };
        let client = Client::start(nodes, settings, dependencies);
        client.end_with_runtime();
        client.context.ensure_open()?;
        Ok(Quorum::new(client))
    }

    /// Returns the settings, checked against the number of nodes.
    pub(crate) fn checked(&self) -> Result<CheckedQuorum, ConfigError> {
        self.settings.check(self.nodes.len())
    }

    /// Starts the client of an administrator, which changes the quorum. The client registers with no node and has no
    /// observer, because it takes no locks.
    pub(crate) fn start_to_change(&self) -> Result<Arc<Client>, ConfigError> {
        let settings = self.checked()?;
        if settings.is_read_only() {
            return Err(ConfigError::ReadOnly);
        }
        self.start(settings, None, |_| Arc::new(NoObserver))
    }

    /// Starts a client, which dials the nodes in the background. Without `registers`, the client registers with no
    /// node.
    fn start(
        &self,
        settings: CheckedQuorum,
        registers: Option<NewNodes>,
        observer: impl FnOnce(Vec<Arc<str>>) -> Arc<dyn Observer>,
    ) -> Result<Arc<Client>, ConfigError> {
        let routes = self.routes()?;
        let runtime = runtime()?;
        if !spawner::has_io() {
            return Err(missing_driver("IO", "enable_io"));
        }
        let clock = Arc::new(BootClock::start(&runtime));
        let addresses = routes.iter().map(|route| Arc::clone(route.address()));
        let dependencies =
            ClientDependencies::new(clock, runtime, observer(addresses.collect()), settings.label.clone());
        let connection_config = connection_config(&settings, &dependencies, registers);
        let node = |route| {
            Arc::new(RedisTransport::into_node(route, settings.parameters.clone(), &connection_config))
        };
        let nodes = routes.into_iter().map(|route| node(route) as Arc<dyn Node>).collect();
        let client = Client::start(nodes, settings, dependencies);
        client.end_with_runtime();
        Ok(client)
    }

    /// Returns the observer of a client of these nodes.
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

    /// Returns the lists of nodes before and after a replacement.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the urls are invalid, if neither or both of the servers are nodes, or if Sentinels name one of
    /// the servers.
    pub(in crate::quorum) fn replacing(&self, replacement: &Replacement) -> Result<NodeLists, ConfigError> {
        let addresses: Vec<Arc<str>> =
            self.routes()?.iter().map(|route| Arc::clone(route.address())).collect();
        let named = |argument: &'static str, url: &String| {
            let routes = self.with_nodes(vec![NodeSource::url(url)]).routes();
            let route = routes.map_err(|error| error.of_argument(argument))?.pop();
            route.ok_or(ConfigError::NoNodes)
        };
        let (old, new) = (&named("old", &replacement.old)?, &named("new", &replacement.new)?);
        if old.address() == new.address() {
            return Err(node_twice(old.address()).of_argument("new"));
        }
        for (setting, route) in [("old", old), ("new", new)] {
            if route.is_behind_sentinels() || route.is_in_cluster() {
                let expected = "a server that neither Sentinels nor a Redis Cluster name, because a failover may lose \
                                the mark of a replaced node: let the failover promote another server, at the same \
                                address";
                return Err(out_of_range(setting, route.address(), expected));
            }
        }
        let position = |route: &Route| addresses.iter().position(|address| address == route.address());
        let with = |node: usize, url: &String| {
            let mut nodes = self.nodes.clone();
            if let Some(source) = nodes.get_mut(node) {
                *source = NodeSource::url(url);
            }
            self.with_nodes(nodes)
        };
        match (position(old), position(new)) {
            (Some(node), None) => {
                let after = with(node, &replacement.new);
                Ok(NodeLists { before: self.clone(), after, node, is_old_listed: true })
            }
            (None, Some(node)) => {
                let before = with(node, &replacement.old);
                Ok(NodeLists { before, after: self.clone(), node, is_old_listed: false })
            }
            (Some(_), Some(_)) => {
                let expected = "an empty server beside the nodes of the settings";
                Err(out_of_range("new", new.address(), expected))
            }
            (None, None) => {
                let expected = format!("one of the nodes of the settings: {}", addresses.join(", "));
                Err(out_of_range("old", old.address(), expected))
            }
        }
    }

    fn with_nodes(&self, nodes: Vec<NodeSource>) -> Self {
        Self { nodes, ..self.clone() }
    }

    /// Returns the nodes as urls, with `***@` in place of user and password.
    pub(in crate::quorum) fn shown_nodes(&self) -> Result<Vec<String>, ConfigError> {
        let routes = self.routes()?;
        Ok(self.nodes.iter().zip(&routes).map(|(node, route)| node.shown(route)).collect())
    }

    /// Returns the routes to the nodes. Returns an error if two nodes have the same address.
    pub(crate) fn routes(&self) -> Result<Vec<Route>, ConfigError> {
        #[cfg(feature = "tls")]
        let mut tls_settings = TlsSettings::new(self.tls.clone());
        #[cfg(not(feature = "tls"))]
        let mut tls_settings = TlsSettings::default();
        let mut addresses = BTreeSet::new();
        let mut routes = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let route = match node {
                #[cfg(feature = "settings")]
                NodeSource::Url { url, file: Some(file) } => {
                    let [server, sentinels] = file.providers();
                    Route::from_url(url, &mut tls_settings)
                        .map_err(|error| error.of_node(index + 1, self.nodes.len()))?
                        .with_providers(Some(&server), Some(&sentinels))
                }
                NodeSource::Url { url, .. } => Route::from_url(url, &mut tls_settings)
                    .map_err(|error| error.of_node(index + 1, self.nodes.len()))?,
                #[cfg(feature = "unstable-redis")]
                NodeSource::Client(client) => Route::from_client(client),
            };
            let route = route.with_providers(self.credentials.as_ref(), self.sentinel_credentials.as_ref());
            let address = Arc::clone(route.address());
            if route.is_in_cluster() && self.settings.restart_guard == RestartGuard::Off {
                return Err(unguarded_cluster(&address));
            }
            if !addresses.insert(Arc::clone(&address)) {
                return Err(node_twice(&address));
            }
            routes.push(route);
        }
        tls_settings.load()?;
        Ok(routes)
    }
}

impl NodeSource {
    fn url(url: impl Into<String>) -> Self {
        Self::Url {
            url: url.into(),
            #[cfg(feature = "settings")]
            file: None,
        }
    }

    /// Returns the url without users and passwords. A client of the redis crate is shown by its address.
    fn shown(&self, route: &Route) -> String {
        /// The parameters that a url may show.
        const SHOWN: [&str; 3] = ["db", "protocol", "sentinel_tls"];

        let address = route.address();
        let url = match self {
            Self::Url { url, .. } => url,
            #[cfg(feature = "unstable-redis")]
            Self::Client(_) => return address.to_string(),
        };
        let Some((scheme, rest)) = url.split_once("://") else { return address.to_string() };
        let scheme = scheme.to_ascii_lowercase();
        // The url is valid, so credentials have no slash and no question mark, and precede the hosts.
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (credentials, hosts) =
            authority.rsplit_once('@').map_or(("", authority), |(_, hosts)| ("***@", hosts));
        let is_server = matches!(&*scheme, "redis" | "rediss" | "valkey" | "valkeys");
        let hosts = if is_server { &**address } else { hosts };
        let parameter = |parameter: &str| match parameter.split_once('=') {
            Some((name, value)) if SHOWN.contains(&name) => format!("{name}={value}"),
            _ => "***".to_owned(),
        };
        let parameters: Vec<String> =
            parameters.split('&').filter(|text| !text.is_empty()).map(parameter).collect();
        let question = if parameters.is_empty() { "" } else { "?" };
        let path = path.trim_end_matches('/');
        format!("{scheme}://{credentials}{hosts}{path}{question}{}", parameters.join("&"))
    }
}

impl fmt::Debug for NodeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, .. } => f.write_str(&without_password(url)),
            #[cfg(feature = "unstable-redis")]
            Self::Client(client) => f.write_str(Route::from_client(client).address()),
        }
    }
}

/// Returns the configuration of the connections of a client.
pub(crate) fn connection_config(
    settings: &CheckedQuorum,
    dependencies: &ClientDependencies,
    registers: Option<NewNodes>,
) -> ConnectionConfig {
    ConnectionConfig {
        fingerprint: settings.parameters.fingerprint.clone(),
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

/// Returns the error of a node in a cluster without a restart guard.
fn unguarded_cluster(address: &str) -> ConfigError {
    let expected = format!(
        "per-connection or per-vote, because {address} is a Redis Cluster, which promotes replicas without their last \
         votes"
    );
    ConfigError::OutOfRange { setting: "restart_guard", given: "off".into(), expected: expected.into() }
}

/// Returns the runtime of the caller.
pub(crate) fn runtime() -> Result<Handle, ConfigError> {
    let reason = "the client's tasks need a tokio runtime: connect inside of one, or use `connect_blocking`";
    Handle::try_current().map_err(|_| ConfigError::NoRuntime { reason: reason.into() })
}

/// Returns the error of a runtime that lacks a driver.
fn missing_driver(driver: &str, setting: &str) -> ConfigError {
    let reason = format!(
        "the tokio runtime of the caller has its {driver} disabled: build the runtime with `enable_all` or `{setting}`"
    );
    ConfigError::NoRuntime { reason: reason.into() }
}
