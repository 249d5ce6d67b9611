//! Plain connections to single nodes, for work without a client of the quorum, such as the checks of `doctor` and the
//! reports while no quorum can be connected.

use std::{net::IpAddr, time::Duration};

use redquorum::{
    __command::NodeConnector,
    error::NodeError,
    unstable_redis::redis::{
        AsyncConnectionConfig, Cmd, FromRedisValue, PushInfo, RedisError, aio::MultiplexedConnection,
    },
};
use tokio::sync::mpsc;

use crate::stopwatch;

/// A plain connection to a node, which does not register with the node as a client of the quorum does.
pub(crate) struct NodeConnection {
    connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    /// The time limit of each answer.
    timeout: Duration,
    /// The hash tag of a node in a Redis Cluster, which precedes the names of keys.
    hash_tag: Option<String>,
}

/// The failure of a connection, when it is opened or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disconnected {
    pub(crate) reason: String,
    /// The error of the connection attempt; `None` if the connection broke later, or an answer timed out.
    pub(crate) error: Option<NodeError>,
}

impl Disconnected {
    fn timed_out(timeout: Duration) -> Self {
        Self { reason: format!("no answer within {timeout:?}"), error: None }
    }
}

/// A node's answer, or the server's error text.
pub(crate) type Reply<T> = Result<T, String>;

impl NodeConnection {
    /// Connects to a node with RESP3, as the library does.
    ///
    /// # Errors
    ///
    /// A node that is unreachable, or refuses this user.
    pub(crate) async fn open(node: &NodeConnector, timeout: Duration) -> Result<Self, Disconnected> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(sender);
        match node.connect(config, timeout).await {
            Ok(connection) => {
                let hash_tag = node.hash_tag().map(str::to_owned);
                Ok(Self { connection, pushes, timeout, hash_tag })
            }
            Err(node_error) => Err(Disconnected { reason: node_error.to_string(), error: Some(node_error) }),
        }
    }

    /// Returns the hash tag of a node in a Redis Cluster, with its braces.
    pub(crate) fn hash_tag(&self) -> Option<&str> {
        self.hash_tag.as_deref()
    }

    /// Returns the name of a key on the node.
    pub(crate) fn key(&self, name: impl AsRef<[u8]>) -> Vec<u8> {
        [self.hash_tag.as_deref().unwrap_or_default().as_bytes(), name.as_ref()].concat()
    }

    /// Sends a command and returns the answer.
    ///
    /// # Errors
    ///
    /// A connection that broke, or an answer that timed out.
    pub(crate) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<Reply<T>, Disconnected> {
        let answer = stopwatch::within(self.timeout, command.query_async(&mut self.connection)).await;
        reply(self.timeout, answer)
    }

    /// Subscribes to a channel.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub(crate) async fn subscribe(&mut self, channel: &str) -> Result<Reply<()>, Disconnected> {
        let answer = stopwatch::within(self.timeout, self.connection.subscribe(channel)).await;
        reply(self.timeout, answer)
    }

    /// Ends the subscription to a channel. The server also answers if there is no subscription.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub(crate) async fn unsubscribe(&mut self, channel: &str) -> Result<Reply<()>, Disconnected> {
        let answer = stopwatch::within(self.timeout, self.connection.unsubscribe(channel)).await;
        reply(self.timeout, answer)
    }

    /// Receives the next push message of the node.
    pub(crate) async fn next_push(&mut self) -> Option<PushInfo> {
        self.pushes.recv().await
    }
}

fn reply<T>(timeout: Duration, answer: Option<Result<T, RedisError>>) -> Result<Reply<T>, Disconnected> {
    match answer {
        None => Err(Disconnected::timed_out(timeout)),
        Some(Ok(value)) => Ok(Ok(value)),
        Some(Err(error)) if error.is_unrecoverable_error() || error.is_io_error() => {
            Err(Disconnected { reason: error.to_string(), error: None })
        }
        Some(Err(error)) => Ok(Err(server_text(&error))),
    }
}

/// Returns the error text that the server sent. The quoted arguments of an unknown command are removed, because an
/// argument may be a whole script.
fn server_text(error: &RedisError) -> String {
    let text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    text.split(", with args beginning with").next().unwrap_or(&text).to_owned()
}

/// Returns the IP addresses of a node's machines. The list is empty if the addresses are unknown.
pub(crate) async fn hosts(node: &NodeConnector, timeout: Duration) -> Vec<IpAddr> {
    match node.host() {
        None => Vec::new(),
        // A Unix socket is on this machine.
        Some(path) if path.starts_with('/') => vec![IpAddr::from([127, 0, 0, 1])],
        Some(_) => match stopwatch::within(timeout, node.addresses()).await {
            Some(Ok(addresses)) => addresses,
            _ => Vec::new(),
        },
    }
}
