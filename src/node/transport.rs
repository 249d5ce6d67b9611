//! The connections of a remote node: to a Redis server, or simulated.
//!
//! The driver of the node (`remote/driver.rs`) uses a connection only by these traits.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;

use crate::{
    node::{
        dial::DialLimit,
        names,
        operation::{Answer, Operation},
        parameters::Incarnation,
    },
    values::{NodeError, Resource},
};

/// A maker of connections to one node.
pub(crate) trait Transport: fmt::Debug + Send + Sync {
    /// Connects and completes the handshake, each step within the limit. Dropping the future ends the attempt.
    fn dial<'a>(&'a self, limit: DialLimit<'a>) -> BoxFuture<'a, Result<Box<dyn Connection>, NodeError>>;

    /// Whether the next dial may lead to another server. If so, the driver gives up a connection to a server that
    /// became a replica.
    fn follows_master(&self) -> bool {
        false
    }

    /// Returns the topic that represents all topics with the same channel.
    fn shared_topic(&self, topic: &Resource) -> Resource {
        names::shared_key_alias(topic)
    }
}

/// A connection after its handshake. The drop closes the connection, without waiting.
///
/// # Invariants
///
/// 1. Calls are sent in order. A call cannot be withdrawn.
/// 2. Calls are answered in the order of sending.
/// 3. A connection never reconnects. After [`ConnectionEvent::Closed`], the connection has no further event.
pub(crate) trait Connection: fmt::Debug + Send {
    /// Sends the operations as one call. If the node lacks the script, [`ConnectionEvent::NotLoaded`] follows, and the
    /// call was not executed.
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>);

    /// Sends the operations as one call that has the text of the script. The node executes the call in any case.
    fn send_with_script(&mut self, batch: BatchId, operations: Arc<[Operation]>);

    /// Sends the text of the script alone, which the node then keeps. The event [`ConnectionEvent::Loaded`] follows.
    fn load(&mut self);

    /// Sets the incarnation that later calls carry.
    fn registered(&mut self, incarnation: Option<Incarnation>);

    /// Subscribes to the notices of a resource or topic.
    fn subscribe(&mut self, resource: &Resource);

    /// Ends the subscription to a resource or topic.
    fn unsubscribe(&mut self, resource: &Resource);

    /// Returns the next event. The connection sends and receives only if the caller polls until the result is pending.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent>;
}

/// The number of one call of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BatchId(pub(crate) u64);

/// A command by which notices are sent or received. Notices are best effort, so no answer depends on the
/// permission to use these commands.
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
    /// The answers to a call, one for each operation.
    Answers { batch: BatchId, answers: Vec<Answer> },
    /// A call that the node did not execute, because the node lacks the script.
    NotLoaded { batch: BatchId },
    /// The end of a load of the script.
    Loaded,
    /// The confirmation of a subscription.
    Subscribed(Resource),
    /// A published notice of a resource or topic.
    Released(Resource),
    /// The refusal of a command of notices, which was part of a call or changed subscriptions.
    NoticeRefused { command: NoticeCommand, error: NodeError },
    /// The end of the connection.
    Closed(NodeError),
}
