//! Messages between processes and nodes.

use std::sync::Arc;

use crate::{
    node::{
        Answer, Operation,
        transport::{BatchId, ConnectionEvent},
    },
    sim::Direction,
    values::{NodeError, Resource},
};

/// A message in flight, with its connection.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(super) connection: usize,
    pub(super) payload: Payload,
}

/// The content of a message.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Outbound(Outbound),
    Inbound(Inbound),
}

/// A message from the process to the node.
#[derive(Clone, Debug)]
pub(crate) enum Outbound {
    Hello,
    Call { batch: BatchId, operations: Arc<[Operation]> },
    Subscribe(Resource),
    Unsubscribe(Resource),
}

/// A message from the node to the process.
#[derive(Clone, Debug)]
pub(crate) enum Inbound {
    Welcome,
    Refused(NodeError),
    Answers { batch: BatchId, answers: Vec<Answer> },
    Subscribed(Resource),
    Released(Resource),
    Closed,
}

impl Payload {
    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Outbound(_) => Direction::Request,
            Self::Inbound(_) => Direction::Reply,
        }
    }

    /// Returns the number of operations that the receiver executes.
    pub(super) fn operations(&self) -> usize {
        match self {
            Self::Outbound(outbound) => outbound.operations(),
            Self::Inbound(_) => 0,
        }
    }
}

impl Outbound {
    /// Returns the number of operations that the node executes.
    pub(super) fn operations(&self) -> usize {
        match self {
            Self::Call { operations, .. } => operations.len(),
            Self::Hello | Self::Subscribe(_) | Self::Unsubscribe(_) => 0,
        }
    }
}

impl Inbound {
    /// Returns the event that the connection reports; `None` for a part of the handshake.
    pub(super) fn into_event(self) -> Option<ConnectionEvent> {
        match self {
            Self::Answers { batch, answers } => Some(ConnectionEvent::Answers { batch, answers }),
            Self::Subscribed(resource) => Some(ConnectionEvent::Subscribed(resource)),
            Self::Released(resource) => Some(ConnectionEvent::Released(resource)),
            Self::Closed => Some(ConnectionEvent::Closed(NodeError::Disconnected)),
            Self::Refused(fault) => Some(ConnectionEvent::Closed(fault)),
            Self::Welcome => None,
        }
    }
}
