//! One server, and what it takes to be let in.

#[cfg(unix)]
use std::path::PathBuf;
use std::{
    io,
    net::SocketAddr,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt, select_ok};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, ProtocolVersion, RedisConnectionInfo,
    RedisError, RedisResult, aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

use super::{
    address,
    classify::classify,
    read_budget::{BudgetedStream, ReadBudget},
    tls::Connector,
};
use crate::{node::transport::late, values::NodeError};

/// Where a server is, and who speaks to it.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    place: Address,
    credentials: Credentials,
    /// Whether the server has been reached, and has not answered the handshake of TLS yet.
    is_securing: Arc<AtomicBool>,
}

/// Who speaks to a server, and in which database.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    /// Without the database: it is selected when the server is known to be one that has them.
    settings: RedisConnectionInfo,
    database: i64,
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
    /// Wherever a client of the redis crate goes in its own way: to TLS whose certificates it does
    /// not show.
    Client(Box<Client>),
}

/// The future that reads and writes the socket of a connection.
pub(super) type ConnectionDriver = BoxFuture<'static, ()>;

/// A connection, and its driver unless the connection drives itself.
pub(super) type OpenConnection = (MultiplexedConnection, Option<ConnectionDriver>);

impl Credentials {
    pub(super) fn new(settings: &RedisConnectionInfo, database: i64) -> Self {
        Self { settings: settings.clone().set_db(0).set_protocol(ProtocolVersion::RESP3), database }
    }
}

impl Endpoint {
    pub(super) fn tcp(host: &str, port: u16, connector: Option<Connector>, credentials: Credentials) -> Self {
        Self::new(Address::Tcp { host: host.to_owned(), port, connector }, credentials)
    }

    /// Where this client goes, with its credentials and its database; with a connector, over TCP,
    /// behind TLS.
    pub(super) fn of(client: &Client, connector: Option<Connector>) -> Self {
        let info = client.get_connection_info();
        let credentials = Credentials::new(info.redis_settings(), info.redis_settings().db());
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Address::Tcp { host: host.clone(), port: *port, connector },
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => {
                let tcp = info.tcp_settings().clone().set_nodelay(true);
                let info =
                    info.clone().set_redis_settings(credentials.settings.clone()).set_tcp_settings(tcp);
                // Opening checks the address and nothing else: that of a client was checked before.
                Address::Client(Box::new(Client::open(info).unwrap_or_else(|_| client.clone())))
            }
        };
        Self::new(place, credentials)
    }

    fn new(place: Address, credentials: Credentials) -> Self {
        Self { place, credentials, is_securing: Arc::default() }
    }

    /// The address, the same for all ways of writing it.
    pub(super) fn address(&self) -> String {
        match &self.place {
            Address::Tcp { host, port, .. } => address::of_host(host, *port),
            #[cfg(unix)]
            Address::Unix(path) => path.display().to_string(),
            Address::Client(client) => address::canonical(client.get_connection_info().addr()),
        }
    }

    /// The host, or the path of the socket.
    #[cfg(feature = "__command")]
    pub(super) fn host(&self) -> Option<&str> {
        match &self.place {
            Address::Tcp { host, .. } => Some(address::plain_host(host)),
            #[cfg(unix)]
            Address::Unix(path) => path.to_str(),
            Address::Client(client) => match client.get_connection_info().addr() {
                ConnectionAddr::TcpTls { host, .. } => Some(address::plain_host(host)),
                _ => None,
            },
        }
    }

    /// The same at one address of its host; `None` where that cannot be had by changing the address
    /// alone, as behind TLS, whose certificates name the host.
    #[cfg(feature = "__command")]
    pub(super) fn at(&self, address: std::net::IpAddr) -> Option<Self> {
        match &self.place {
            Address::Tcp { port, connector: None, .. } => {
                Some(Self::tcp(&address.to_string(), *port, None, self.credentials.clone()))
            }
            _ => None,
        }
    }

    pub(super) fn database(&self) -> i64 {
        self.credentials.database
    }

    #[cfg(test)]
    pub(super) fn settings(&self) -> &RedisConnectionInfo {
        &self.credentials.settings
    }

    /// Why a connection was not there within some time. A caller that gives up leaves it to the
    /// next to find out.
    pub(super) fn late(&self, patience: Duration) -> NodeError {
        if self.is_securing.swap(false, Ordering::Relaxed) {
            let why = format!(
                "no answer within {patience:?}: if the port has no TLS, write redis:// instead of rediss://"
            );
            return NodeError::Unreachable(why.into());
        }
        late(patience)
    }

    /// Connects, and speaks RESP3. The read budget counts what comes in, unless the redis crate opens
    /// the stream.
    pub(super) async fn open(
        &self,
        config: AsyncConnectionConfig,
        budget: &Arc<ReadBudget>,
    ) -> Result<OpenConnection, NodeError> {
        let opened = self.open_anyhow(config, budget).await;
        opened.map_err(|node_error| budget.node_error().unwrap_or(node_error))
    }

    async fn open_anyhow(
        &self,
        config: AsyncConnectionConfig,
        budget: &Arc<ReadBudget>,
    ) -> Result<OpenConnection, NodeError> {
        match &self.place {
            Address::Tcp { host, port, connector } => {
                let stream = connect(host, *port).await.map_err(|error| unreachable(&error))?;
                match connector {
                    None => self.greet(stream, config, budget).await.map_err(|error| in_the_clear(&error)),
                    Some(connector) => {
                        self.is_securing.store(true, Ordering::Relaxed);
                        let secured = connector.secure(host, stream).await;
                        self.is_securing.store(false, Ordering::Relaxed);
                        let secured = secured?;
                        self.greet(secured, config, budget).await.map_err(|error| behind_tls(&error))
                    }
                }
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                let stream = stream.map_err(|error| unreachable(&error))?;
                self.greet(stream, config, budget).await.map_err(|error| handshake(&error))
            }
            Address::Client(client) => {
                // Where the process has not chosen a crypto provider, the redis crate panics.
                let opening = client.get_multiplexed_async_connection_with_config(&config);
                let opened = AssertUnwindSafe(opening).catch_unwind().await;
                let opened = opened.map_err(|_| {
                    NodeError::Tls(
                        "the redis crate panicked: has the process a crypto provider for rustls?".into(),
                    )
                })?;
                opened.map(|connection| (connection, None)).map_err(|error| handshake(&error))
            }
        }
    }

    /// Shakes hands over a stream that the caller drives.
    async fn greet(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        config: AsyncConnectionConfig,
        budget: &Arc<ReadBudget>,
    ) -> RedisResult<OpenConnection> {
        let stream = BudgetedStream::new(stream, budget);
        let opening = MultiplexedConnection::new_with_config(&self.credentials.settings, stream, config);
        opening.await.map(|(connection, driver)| (connection, Some(driver.boxed())))
    }
}

/// Connects to whichever address of the host answers first, so that a dead one does not hide one
/// that works.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((address::plain_host(host), port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    let (stream, _) =
        select_ok(addresses.into_iter().map(|address| TcpStream::connect(address).boxed())).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn unreachable(error: &io::Error) -> NodeError {
    NodeError::Unreachable(Arc::from(error.to_string()))
}

/// Why a handshake failed, where the likeliest reason deserves better words than the server's.
fn handshake(error: &RedisError) -> NodeError {
    let refuses_hello = error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || error.detail().is_some_and(|detail| detail.to_ascii_lowercase().contains("hello"));
    if refuses_hello && error.code() != Some("NOAUTH") && error.code() != Some("WRONGPASS") {
        return NodeError::Protocol(
            "the server does not speak RESP3 (HELLO 3): Redis 6 or later is required".into(),
        );
    }
    if error.code() == Some("NOAUTH") {
        return NodeError::NoAuth("the server wants a password: write redis://:PASSWORD@HOST:PORT".into());
    }
    if error.kind() == ErrorKind::Parse {
        return NodeError::Protocol("the server does not speak the protocol of Redis".into());
    }
    classify(error)
}

/// The same of a connection without TLS, to a server that may want it.
fn in_the_clear(error: &RedisError) -> NodeError {
    if error.kind() == ErrorKind::Io || error.is_connection_dropped() {
        let why =
            "the server closed the connection instead of answering: if the port has TLS, write rediss://";
        return NodeError::Unreachable(why.into());
    }
    handshake(error)
}

/// With TLS 1.3, a client hears only now that its certificate is wanted or not trusted: mostly as
/// an alert, sometimes as a connection that breaks.
fn behind_tls(error: &RedisError) -> NodeError {
    if error.kind() == ErrorKind::Io {
        return NodeError::Tls(format!("the server ended the handshake: {error}").into());
    }
    handshake(error)
}
