//! The interface between the send queue of a remote node and its connections: of Redis, or simulated.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;

use crate::{
    node::{
        operation::{Answer, Operation},
        parameters::Incarnation,
    },
    values::{NodeError, Resource},
};

/// A maker of connections to one node.
pub(crate) trait Transport: fmt::Debug + Send + Sync {
    /// Connects and completes the handshake. Dropping the future ends the attempt.
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, NodeError>>;

    /// Returns the error of a dial that was ended after `patience`.
    fn late(&self, patience: Duration) -> NodeError {
        late(patience)
    }

    /// Whether the next dial may lead to another server. If so, a connection to a server that became a replica
    /// should be given up.
    fn follows_master(&self) -> bool {
        false
    }
}

/// Returns the error of a dial that was ended after `patience`, without any further evidence.
pub(crate) fn late(patience: Duration) -> NodeError {
    NodeError::Unreachable(format!("no connection within {patience:?}").into())
}

/// A connection after its handshake. The drop closes the connection, without waiting.
///
/// # Invariants
///
/// 1. Calls are sent in order. No dropped or unpolled future revokes a call.
/// 2. Calls are answered in the order of sending.
/// 3. A connection never reconnects. After [`ConnectionEvent::Closed`], the connection has no further event.
pub(crate) trait Connection: fmt::Debug + Send {
    /// Sends the operations as one call.
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>);

    /// Loads the script again.
    fn load(&mut self);

    /// Sets the incarnation that later calls carry.
    fn registered(&mut self, incarnation: Option<Incarnation>);

    /// Subscribes to the release notices of a resource.
    fn subscribe(&mut self, resource: &Resource);

    /// Ends the subscription to a resource.
    fn unsubscribe(&mut self, resource: &Resource);

    /// Returns the next event. The connection makes progress only while this is polled until pending.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent>;
}

/// The number of one call of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BatchId(pub(crate) u64);

/// A command by which notices are sent or received. Notices are best effort, so no answer depends on the
/// permission to use one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoticeCommand {
    Publish,
    Subscribe,
    Unsubscribe,
}

impl NoticeCommand {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 3] = [Self::Publish, Self::Subscribe, Self::Unsubscribe];

    /// Returns the name of the command, which logs and metrics show.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
        }
    }
}

/// An event on a connection.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// A call was answered, one answer for each operation.
    Answers { batch: BatchId, answers: Vec<Answer> },
    /// A call was not executed: the node has lost the script.
    NotLoaded { batch: BatchId },
    /// The script is loaded again.
    Loaded,
    /// The subscription to a resource is active.
    Subscribed(Resource),
    /// A release notice.
    Released(Resource),
    /// The node refused a command of notices: during a call, or to change subscriptions.
    NoticeRefused { command: NoticeCommand, error: NodeError },
    /// The connection is broken.
    Closed(NodeError),
}
