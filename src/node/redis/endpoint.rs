//! The address of one server, and the login at the server. [`Endpoint::open`] opens every connection to a server:
//! lookup, TCP, TLS, and the handshake of Redis.

#[cfg(unix)]
use std::path::PathBuf;
use std::{io, panic::AssertUnwindSafe, sync::Arc};

use futures::future::{BoxFuture, FutureExt, select_ok};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisConnectionInfo, RedisResult,
    aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use super::{
    address,
    classify::classify,
    handshake_error::{HandshakeSettings, ServerRole},
    login::{CredentialsProvider, Login},
    lookup::Lookups,
    read_budget::{BudgetedStream, ReadBudget},
    tls::Connector,
};
use crate::{
    node::dial::{DialLimit, DialStep},
    values::NodeError,
};

/// The address of a server, and the login at the server.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    address: Address,
    login: Login,
    lookups: Lookups,
    role: ServerRole,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp {
        host: String,
        port: u16,
        connector: Option<Connector>,
    },
    #[cfg(unix)]
    Unix(PathBuf),
    /// The address of a client of the redis crate with TLS. This client opens the connection, because the crate does
    /// not expose the certificates.
    Client(Box<Client>),
}

/// The future that reads and writes the socket of a connection.
pub(super) type ConnectionDriver = BoxFuture<'static, ()>;

/// A connection, and its driver unless the connection drives itself.
pub(super) type OpenConnection = (MultiplexedConnection, Option<ConnectionDriver>);

impl Endpoint {
    pub(super) fn tcp(host: &str, port: u16, connector: Option<Connector>, login: Login) -> Self {
        Self::new(Address::Tcp { host: host.to_owned(), port, connector }, login)
    }

    /// Returns the address, credentials and database of a client. If a connector is given, connections over
    /// TCP use TLS.
    pub(super) fn of(client: &Client, connector: Option<Connector>) -> Self {
        let info = client.get_connection_info();
        let login = Login::new(info.redis_settings(), info.redis_settings().db());
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Address::Tcp { host: host.clone(), port: *port, connector },
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => Address::Client(Box::new(client.clone())),
        };
        Self::new(address, login)
    }

    fn new(address: Address, login: Login) -> Self {
        let role = match &address {
            #[cfg(unix)]
            Address::Unix(_) => ServerRole::Socket,
            _ => ServerRole::Node,
        };
        Self { address, login, lookups: Lookups::default(), role }
    }

    /// Returns the same endpoint of a server with this role.
    pub(super) fn with_role(self, role: ServerRole) -> Self {
        Self { role, ..self }
    }

    /// Returns the same endpoint with this port, if the address has a port.
    pub(super) fn with_port(mut self, number: u16) -> Self {
        if let Address::Tcp { port, .. } = &mut self.address {
            *port = number;
        }
        self
    }

    /// Returns the same endpoint with the credentials of a provider, which gets the address of the node.
    pub(super) fn with_provider(self, provider: &CredentialsProvider, node: &Arc<str>) -> Self {
        Self { login: self.login.with_provider(provider, node), ..self }
    }

    /// Returns the same endpoint with these lookups, which the endpoints of a master set share.
    pub(super) fn with_lookups(self, lookups: &Lookups) -> Self {
        Self { lookups: lookups.clone(), ..self }
    }

    /// Returns the address, in a canonical form.
    pub(super) fn address(&self) -> String {
        match &self.address {
            Address::Tcp { host, port, .. } => address::of_host(host, *port),
            #[cfg(unix)]
            Address::Unix(path) => path.display().to_string(),
            Address::Client(client) => address::canonical(client.get_connection_info().addr()),
        }
    }

    /// Returns the host or the socket path.
    #[cfg(feature = "__command")]
    pub(super) fn host(&self) -> Option<&str> {
        match &self.address {
            Address::Tcp { host, .. } => Some(address::plain_host(host)),
            #[cfg(unix)]
            Address::Unix(path) => path.to_str(),
            Address::Client(client) => match client.get_connection_info().addr() {
                ConnectionAddr::TcpTls { host, .. } => Some(address::plain_host(host)),
                _ => None,
            },
        }
    }

    /// Returns the addresses of the host; none for a socket path.
    #[cfg(feature = "__command")]
    pub(super) async fn addresses(&self) -> io::Result<Vec<std::net::IpAddr>> {
        match (&self.address, self.host()) {
            #[cfg(unix)]
            (Address::Unix(_), _) => Ok(Vec::new()),
            (_, None) => Ok(Vec::new()),
            (_, Some(host)) => {
                let addresses = self.lookups.addresses(host, 0).await?;
                Ok(addresses.into_iter().map(|address| address.ip()).collect())
            }
        }
    }

    /// Returns the same endpoint at one address of its host; `None` for a Unix socket, and for a server with TLS, whose
    /// certificate names the host.
    #[cfg(feature = "__command")]
    pub(super) fn at(&self, address: std::net::IpAddr) -> Option<Self> {
        match &self.address {
            Address::Tcp { port, connector: None, .. } => {
                Some(Self::tcp(&address.to_string(), *port, None, self.login.clone()))
            }
            _ => None,
        }
    }

    pub(super) fn database(&self) -> i64 {
        self.login.database()
    }

    /// Returns the user of the last login; `None` for a connection without a login.
    pub(super) fn user(&self) -> Option<String> {
        self.login.user()
    }

    /// Returns the settings of the url.
    #[cfg(any(test, feature = "settings"))]
    pub(super) fn settings(&self) -> &RedisConnectionInfo {
        self.login.url_settings()
    }

    /// Connects and selects RESP3. The read budget counts received bytes, unless the redis crate opens the
    /// stream.
    pub(super) async fn open(
        &self,
        config: AsyncConnectionConfig,
        budget: &Arc<ReadBudget>,
        limit: DialLimit<'_>,
    ) -> Result<OpenConnection, NodeError> {
        let opened = self.open_by_address(config, budget, limit).await;
        opened.map_err(|node_error| budget.node_error().unwrap_or(node_error))
    }

    async fn open_by_address(
        &self,
        config: AsyncConnectionConfig,
        budget: &Arc<ReadBudget>,
        limit: DialLimit<'_>,
    ) -> Result<OpenConnection, NodeError> {
        let handshake_settings = |has_tls| HandshakeSettings { role: self.role, has_tls };
        let login = self.login.current_settings(limit).await?;
        match &self.address {
            Address::Tcp { host, port, connector } => {
                // The certificates are read before the connection is opened, so that a server never waits for a slow
                // disk.
                let connector = match connector {
                    Some(connector) => Some(connector.refreshed(limit).await),
                    None => None,
                };
                let stream = self.connect(host, *port, limit).await?;
                match connector {
                    None => limit
                        .step(DialStep::Login, handshake(&login, stream, config, budget))
                        .await?
                        .map_err(|error| handshake_settings(false).node_error(&error, &budget.opening())),
                    Some(connector) => {
                        let tls = DialStep::Tls { advice: self.role.advice_for_plain() };
                        let secured = limit.step(tls, connector.secure(host, stream, self.role)).await??;
                        limit
                            .step(DialStep::Login, handshake(&login, secured, config, budget))
                            .await?
                            .map_err(|error| handshake_settings(true).node_error(&error, &budget.opening()))
                    }
                }
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = limit.step(DialStep::Connect, tokio::net::UnixStream::connect(path)).await?;
                let stream = stream.map_err(|error| socket_unreachable(&error))?;
                limit
                    .step(DialStep::Login, handshake(&login, stream, config, budget))
                    .await?
                    .map_err(|error| handshake_settings(false).node_error(&error, &budget.opening()))
            }
            Address::Client(client) => {
                let info = client.get_connection_info();
                let tcp = info.tcp_settings().clone().set_nodelay(true);
                let info = info.clone().set_redis_settings(login).set_tcp_settings(tcp);
                // `Client::open` checks the address alone, which was checked when this client was made.
                let client =
                    Client::open(info).map_err(|error| handshake_settings(true).node_error(&error, &[]))?;
                let config = config.set_dns_resolver(self.lookups.clone());
                // If the process has no crypto provider, the redis crate panics.
                let opening = client.get_multiplexed_async_connection_with_config(&config);
                let opened = limit.step(DialStep::All, AssertUnwindSafe(opening).catch_unwind()).await?;
                let opened = opened.map_err(|_| {
                    NodeError::Tls(
                        "the redis crate panicked; likely cause: the process has no crypto provider for rustls".into(),
                    )
                })?;
                opened.map(|connection| (connection, None)).map_err(|error| match error.kind() {
                    // The crate has also opened the stream, so an I/O error may precede the handshake.
                    ErrorKind::Io => classify(&error),
                    _ => handshake_settings(true).node_error(&error, &[]),
                })
            }
        }
    }

    /// Connects to the address of the host that answers first, so that a dead address does not hide an address
    /// that works.
    async fn connect(&self, host: &str, port: u16, limit: DialLimit<'_>) -> Result<TcpStream, NodeError> {
        let addresses = limit.step(DialStep::Lookup, self.lookups.addresses(host, port)).await?;
        let addresses = addresses.map_err(|error| unreachable(&error))?;
        let dials = addresses.into_iter().map(|address| TcpStream::connect(address).boxed());
        let connected = limit.step(DialStep::Connect, select_ok(dials)).await?;
        let (stream, _) = connected.map_err(|error| unreachable(&error))?;
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        Ok(stream)
    }
}

/// Performs the Redis handshake on a stream that the caller drives.
async fn handshake(
    login: &RedisConnectionInfo,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    config: AsyncConnectionConfig,
    budget: &Arc<ReadBudget>,
) -> RedisResult<OpenConnection> {
    let stream = BudgetedStream::new(stream, budget);
    let opening = MultiplexedConnection::new_with_config(login, stream, config);
    opening.await.map(|(connection, driver)| (connection, Some(driver.boxed())))
}

/// Returns the error of a connection that could not be opened. If nothing listens, or the host is unknown or cannot be
/// reached, nothing has answered. Any other error is from a server that runs, or from this process, such as one with too
/// many open files.
fn unreachable(error: &io::Error) -> NodeError {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable, NotFound, TimedOut,
    };
    let text = Arc::from(error.to_string());
    // A lookup that fails has no code of the system.
    let is_lookup = error.raw_os_error().is_none();
    match error.kind() {
        // The path of a socket is not found.
        ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut | NotFound => {
            NodeError::Unreachable(text)
        }
        _ if is_lookup => NodeError::Unreachable(text),
        _ => NodeError::NotExecuted(text),
    }
}

/// Returns the error of a Unix socket. A socket with a full queue refuses connections at once. Over TCP, the connection
/// only times out.
#[cfg(unix)]
fn socket_unreachable(error: &io::Error) -> NodeError {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            NodeError::NotExecuted("the queue of new connections is full (tcp-backlog of the server)".into())
        }
        _ => unreachable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that was silent may be stated to be gone.
    #[test]
    fn only_a_connection_to_no_listener_or_host_is_silence() {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NotFound};
        for kind in [ConnectionRefused, HostUnreachable, NotFound] {
            assert!(unreachable(&kind.into()).is_silence(), "{kind}");
        }
        assert!(unreachable(&io::Error::other("unknown host")).is_silence());
        // EACCES, EMFILE and ECONNRESET of Linux.
        #[cfg(target_os = "linux")]
        for code in [13, 24, 104] {
            let error = io::Error::from_raw_os_error(code);
            assert!(matches!(unreachable(&error), NodeError::NotExecuted(_)), "{error}");
        }
        #[cfg(unix)]
        assert!(!socket_unreachable(&io::ErrorKind::WouldBlock.into()).is_silence());
    }
}
