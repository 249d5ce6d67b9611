//! The transport from a process to a simulated node.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt};

use super::{
    World,
    message::{Inbound, Outbound, Payload},
};
use crate::{
    node::{
        Operation, QuorumParameters,
        dial::{DialLimit, DialStep},
        names,
        parameters::Incarnation,
        transport::{BatchId, Connection, ConnectionEvent, Transport},
    },
    values::{NodeError, Resource},
};

/// A transport from one process to one node.
#[derive(Debug)]
pub(crate) struct SimTransport {
    pub(crate) world: World,
    pub(crate) process: usize,
    pub(crate) node: usize,
    pub(crate) parameters: QuorumParameters,
}

impl Transport for SimTransport {
    fn dial<'a>(&'a self, limit: DialLimit<'a>) -> BoxFuture<'a, Result<Box<dyn Connection>, NodeError>> {
        let number = self.world.lock().open(self.process, self.node, &self.parameters);
        let dial = Dial {
            connection: Some(SimConnection { world: self.world.clone(), number, has_load_to_report: false }),
        };
        async move { limit.step(DialStep::All, dial).await? }.boxed()
    }
}

/// The opening of a connection: a future of the node's first message.
struct Dial {
    connection: Option<SimConnection>,
}

/// One connection, closed on drop.
#[derive(Debug)]
struct SimConnection {
    world: World,
    number: usize,
    /// Whether the client has requested to load the script, and the connection has not reported the load yet.
    has_load_to_report: bool,
}

impl Future for Dial {
    type Output = Result<Box<dyn Connection>, NodeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(connection) = self.connection.take() else { return Poll::Pending };
        match connection.poll_inbox(context) {
            Poll::Ready(Inbound::Welcome) => Poll::Ready(Ok(Box::new(connection))),
            Poll::Ready(Inbound::Refused(error)) => Poll::Ready(Err(error)),
            Poll::Ready(_) => Poll::Ready(Err(NodeError::Unreachable("the connection broke at once".into()))),
            Poll::Pending => {
                self.connection = Some(connection);
                Poll::Pending
            }
        }
    }
}

impl SimConnection {
    fn poll_inbox(&self, context: &Context<'_>) -> Poll<Inbound> {
        let waker = context.waker().clone();
        let mut state = self.world.lock();
        let Some(connection) = state.connections.get_mut(self.number) else { return Poll::Pending };
        if let Some(inbound) = connection.inbox.pop_front() {
            return Poll::Ready(inbound);
        }
        let stale = connection.waker.replace(waker);
        drop(state);
        // The old waker is dropped outside of the mutex, because a waker may run any code.
        drop(stale);
        Poll::Pending
    }

    fn send(&self, outbound: Outbound) {
        self.world.lock().send(self.number, Payload::Outbound(outbound));
    }
}

impl Connection for SimConnection {
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        Self::send(self, Outbound::Call { batch, operations });
    }

    fn send_with_script(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        Connection::send(self, batch, operations);
    }

    fn load(&mut self) {
        self.has_load_to_report = true;
    }

    fn registered(&mut self, incarnation: Option<Incarnation>) {
        if let Some(connection) = self.world.lock().connections.get_mut(self.number) {
            connection.parameters.incarnation = incarnation;
        }
    }

    fn subscribe(&mut self, resource: &Resource) {
        Self::send(self, Outbound::Subscribe(names::shared_key_alias(resource)));
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        Self::send(self, Outbound::Unsubscribe(names::shared_key_alias(resource)));
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent> {
        // Simulated nodes need no script, so each load succeeds at once.
        if std::mem::take(&mut self.has_load_to_report) {
            return Poll::Ready(ConnectionEvent::Loaded);
        }
        loop {
            match self.poll_inbox(context) {
                Poll::Ready(inbound) => {
                    if let Some(event) = inbound.into_event() {
                        return Poll::Ready(event);
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        let waker = self.world.lock().close(self.number);
        // The waker is dropped outside of the mutex, as in `poll_inbox`.
        drop(waker);
    }
}
