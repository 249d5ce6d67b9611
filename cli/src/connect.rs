//! Plain connections to the nodes, for what is not asked through a quorum.

use std::{net::IpAddr, time::Duration};

use redquorum::{
    __command::NodeConnector,
    error::NodeError,
    unstable_redis::redis::{
        AsyncConnectionConfig, Cmd, FromRedisValue, PushInfo, RedisError, aio::MultiplexedConnection,
    },
};
use tokio::{net::lookup_host, sync::mpsc};

use crate::stopwatch;

/// A connection of one's own to a node.
pub(crate) struct NodeConnection {
    connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    patience: Duration,
}

/// There is no connection (any more), for this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disconnected {
    pub(crate) why: String,
    /// What connecting failed with; `None` where nothing was said for too long, or a connection
    /// broke.
    pub(crate) error: Option<NodeError>,
}

impl Disconnected {
    fn silent(patience: Duration) -> Self {
        Self { why: format!("no answer within {patience:?}"), error: None }
    }
}

/// What a node said, or the error that it gave instead.
pub(crate) type Reply<T> = Result<T, String>;

impl NodeConnection {
    /// Connects to a node, and speaks RESP3 with it, as locks do.
    ///
    /// # Errors
    ///
    /// Why it cannot be reached, or does not let this user in.
    pub(crate) async fn open(node: &NodeConnector, patience: Duration) -> Result<Self, Disconnected> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(sender);
        match node.connect(config, patience).await {
            Ok(connection) => Ok(Self { connection, pushes, patience }),
            Err(node_error) => Err(Disconnected { why: node_error.to_string(), error: Some(node_error) }),
        }
    }

    /// What the node answers to a command.
    ///
    /// # Errors
    ///
    /// The connection is gone; nothing more can be asked.
    pub(crate) async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<Reply<T>, Disconnected> {
        let answer = stopwatch::within(self.patience, command.query_async(&mut self.connection)).await;
        reply(self.patience, answer)
    }

    /// Subscribes to a channel.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(crate) async fn subscribe(&mut self, channel: &str) -> Result<Reply<()>, Disconnected> {
        let answer = stopwatch::within(self.patience, self.connection.subscribe(channel)).await;
        reply(self.patience, answer)
    }

    /// What the node says next without being asked.
    pub(crate) async fn heard(&mut self) -> Option<PushInfo> {
        self.pushes.recv().await
    }
}

fn reply<T>(patience: Duration, answer: Option<Result<T, RedisError>>) -> Result<Reply<T>, Disconnected> {
    match answer {
        None => Err(Disconnected::silent(patience)),
        Some(Ok(value)) => Ok(Ok(value)),
        Some(Err(error)) if error.is_unrecoverable_error() || error.is_io_error() => {
            Err(Disconnected { why: error.to_string(), error: None })
        }
        Some(Err(error)) => Ok(Err(words(&error))),
    }
}

/// A server's error in its own words.
fn words(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

/// The machines that a node's address leads to; nothing if that cannot be told.
pub(crate) async fn hosts(node: &NodeConnector, patience: Duration) -> Vec<IpAddr> {
    match node.host() {
        None => Vec::new(),
        // A socket is on this machine.
        Some(path) if path.starts_with('/') => vec![IpAddr::from([127, 0, 0, 1])],
        Some(host) => match stopwatch::within(patience, lookup_host((host.to_owned(), 0))).await {
            Some(Ok(addresses)) => addresses.map(|address| address.ip()).collect(),
            _ => Vec::new(),
        },
    }
}
