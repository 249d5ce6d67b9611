//! A connection before its handshake: it can ask, but not send calls.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt, select_ok};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, PushInfo, RedisError, RedisResult, Value,
    aio::MultiplexedConnection,
};
use tokio::{
    net::{TcpStream, lookup_host},
    sync::mpsc,
};

use super::classify::classify;
use crate::node::fault::Fault;

/// Commands that the redis crate holds until it has written them. Sending in order relies on there being room (see
/// [`Wire::start`]); the most that are unanswered at once are the calls in flight, one load and one subscription.
const ROOM: usize = 64;

/// The answer to a command that is in the redis crate's queue already.
pub(super) type Answering = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// A connection of the redis crate that we drive ourselves.
///
/// What reads and writes the socket is polled by the task that asks, and not spawned: an answer then costs no
/// hand-over from one task to another, and dropping the wire closes the socket at once.
pub(super) struct Wire {
    connection: MultiplexedConnection,
    /// `None` once it has ended, which it does when the connection is broken.
    driver: Option<BoxFuture<'static, ()>>,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    is_own: bool,
}

impl Wire {
    /// Connects, and speaks RESP3.
    pub(super) async fn open(client: &Client) -> Result<Self, Fault> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(ROOM)
            .set_push_sender(sender);
        let info = client.get_connection_info();
        let settings = info.redis_settings();
        let opened = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let stream = connect(host, *port).await.map_err(|error| unreachable(&error))?;
                MultiplexedConnection::new_with_config(settings, stream, config).await.map(own)
            }
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let stream = connect_unix(path).await.map_err(|error| unreachable(&error))?;
                MultiplexedConnection::new_with_config(settings, stream, config).await.map(own)
            }
            // TLS, where the application has switched it on in the redis crate: its handshake is the crate's own.
            _ => {
                let connection = client.get_multiplexed_async_connection_with_config(&config).await;
                connection.map(|connection| (connection, None))
            }
        };
        let (connection, driver) = opened.map_err(|error| handshake(&error))?;
        let is_own = driver.is_some();
        Ok(Self {
            connection,
            driver: driver.or_else(|| Some(futures::future::pending().boxed())),
            pushes,
            is_own,
        })
    }

    /// Puts a command on the wire; what comes back need not be polled for that.
    ///
    /// A future of the redis crate does nothing before its first poll, and at that puts its command into the queue of
    /// the connection (`Pipeline::send_recv`: a bounded channel, hence [`ROOM`]). So it is polled once here and now.
    /// `unconstrained`, because tokio's channels do nothing at all for a task that has used up its budget.
    pub(super) fn start(&self, command: Cmd) -> Answering {
        let mut connection = self.connection.clone();
        let sending = async move { connection.send_packed_command(&command).await };
        let mut answering: Answering = Box::pin(tokio::task::unconstrained(sending));
        match answering.poll_unpin(&mut nobody()) {
            Poll::Ready(answer) => Box::pin(futures::future::ready(answer)),
            Poll::Pending => answering,
        }
    }

    /// A connection with which to ask for what is not answered by a single value.
    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Reads and writes what can be; ready when the connection is broken.
    pub(super) fn poll_drive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(driver) = &mut self.driver else { return Poll::Ready(()) };
        let poll = driver.poll_unpin(context);
        if poll.is_ready() {
            self.driver = None;
        }
        poll
    }

    /// Looks for an answer. On a wire of our own, an answer can come only while we drive it, so nobody has to be woken.
    pub(super) fn poll_answer<F: Future + Unpin>(
        &self,
        answering: &mut F,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        if self.is_own { answering.poll_unpin(&mut nobody()) } else { answering.poll_unpin(context) }
    }

    /// The next thing that the server said unasked.
    pub(super) fn poll_push(&mut self, context: &mut Context<'_>) -> Poll<Option<PushInfo>> {
        self.pushes.poll_recv(context)
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("is_open", &self.driver.is_some()).finish_non_exhaustive()
    }
}

/// What is said when a connection ends without a word.
pub(super) fn broken() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

fn nobody() -> Context<'static> {
    Context::from_waker(std::task::Waker::noop())
}

fn own(
    (connection, driver): (MultiplexedConnection, impl Future<Output = ()> + Send + 'static),
) -> (MultiplexedConnection, Option<BoxFuture<'static, ()>>) {
    (connection, Some(driver.boxed()))
}

/// Connects to whichever address of the host answers first, so that a dead one does not hide one that works.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let host = host.trim_matches(['[', ']']);
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    let (stream, _) =
        select_ok(addresses.into_iter().map(|address| TcpStream::connect(address).boxed())).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(unix)]
async fn connect_unix(path: &std::path::Path) -> io::Result<tokio::net::UnixStream> {
    tokio::net::UnixStream::connect(path).await
}

fn unreachable(error: &io::Error) -> Fault {
    Fault::Unreachable(Arc::from(error.to_string()))
}

/// Why a handshake failed, where the likeliest reason deserves better words than the server's.
fn handshake(error: &RedisError) -> Fault {
    let refuses_hello = error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || error.detail().is_some_and(|detail| detail.to_ascii_lowercase().contains("hello"));
    if refuses_hello && error.code() != Some("NOAUTH") && error.code() != Some("WRONGPASS") {
        return Fault::Protocol(
            "the server does not speak RESP3 (HELLO 3): Redis 6 or later is required".into(),
        );
    }
    classify(error)
}
