//! The seam between the queue of a remote node and whatever carries its calls: a Redis connection,
//! or a simulated one.

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

/// Makes connections to one node.
pub(crate) trait Transport: fmt::Debug + Send + Sync {
    /// Connects and shakes hands: what comes back is ready for calls. Dropping the future gives up.
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, NodeError>>;

    /// Why a dial that was given up after some time came to nothing.
    fn late(&self, patience: Duration) -> NodeError {
        late(patience)
    }

    /// Whether the next dial may lead to another server, so that a connection to what has become a
    /// replica is of no use.
    fn follows_master(&self) -> bool {
        false
    }
}

/// What there is to say of a dial of which nobody knows more than that it took too long.
pub(crate) fn late(patience: Duration) -> NodeError {
    NodeError::Unreachable(format!("no connection within {patience:?}").into())
}

/// A connection that has shaken hands. Dropping it closes it, without waiting.
///
/// # Invariants
///
/// 1. What is sent goes out in the order of these calls; no dropped or unpolled future takes it
///    back.
/// 2. Calls are answered in that order.
/// 3. It never reconnects: after [`ConnectionEvent::Closed`] it is of no use.
pub(crate) trait Connection: fmt::Debug + Send {
    /// Sends the operations as one call.
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>);

    /// Loads the script again.
    fn load(&mut self);

    /// From now on, calls say that they mean this incarnation of the server.
    fn registered(&mut self, incarnation: Option<Incarnation>);

    /// Asks for the release notices of a resource.
    fn subscribe(&mut self, resource: &Resource);

    /// Asks for no more of them.
    fn unsubscribe(&mut self, resource: &Resource);

    /// What happened next. Nothing moves on the connection unless this is polled until it is
    /// pending.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent>;
}

/// One call, among those of one send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BatchId(pub(crate) u64);

/// What a connection tells.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// A call was answered, one answer for each operation.
    Answers { batch: BatchId, answers: Vec<Answer> },
    /// A call was not executed: the node has lost the script.
    NotLoaded { batch: BatchId },
    /// The script is loaded again.
    Loaded,
    /// From now on the resource's release notices come.
    Subscribed(Resource),
    /// A release notice.
    Released(Resource),
    /// The connection is broken.
    Closed(NodeError),
}
