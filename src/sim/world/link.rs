//! A client's way to a simulated node.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt};

use super::{
    World,
    network::{Inbound, Outbound, Payload},
};
use crate::{
    node::{
        Entry, NodeError, QuorumParameters, names,
        parameters::Incarnation,
        transport::{BatchId, Link, LinkEvent, Transport},
    },
    resource::Resource,
};

/// Connects one client to one node.
#[derive(Debug)]
pub(crate) struct SimTransport {
    pub(crate) world: World,
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) parameters: QuorumParameters,
}

impl Transport for SimTransport {
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Link>, NodeError>> {
        let number = self.world.lock().open(self.client, self.node, &self.parameters);
        Dial { link: Some(SimLink { world: self.world.clone(), number, is_loaded: false }) }.boxed()
    }
}

/// Waits for the node's first word.
struct Dial {
    link: Option<SimLink>,
}

/// One connection. Dropping it closes it.
#[derive(Debug)]
struct SimLink {
    world: World,
    number: usize,
    /// Whether it has been told to load the script, and has not said so.
    is_loaded: bool,
}

impl Future for Dial {
    type Output = Result<Box<dyn Link>, NodeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(link) = self.link.take() else { return Poll::Pending };
        match link.poll_inbox(context) {
            Poll::Ready(Inbound::Welcome) => Poll::Ready(Ok(Box::new(link))),
            Poll::Ready(Inbound::Refused(fault)) => Poll::Ready(Err(fault)),
            Poll::Ready(_) => Poll::Ready(Err(NodeError::Unreachable("the connection broke at once".into()))),
            Poll::Pending => {
                self.link = Some(link);
                Poll::Pending
            }
        }
    }
}

impl SimLink {
    fn poll_inbox(&self, context: &Context<'_>) -> Poll<Inbound> {
        let waker = context.waker().clone();
        let mut state = self.world.lock();
        let Some(connection) = state.connections.get_mut(self.number) else { return Poll::Pending };
        if let Some(inbound) = connection.inbox.pop_front() {
            return Poll::Ready(inbound);
        }
        let stale = connection.waker.replace(waker);
        drop(state);
        // Outside of the mutex: a waker may be anybody's code.
        drop(stale);
        Poll::Pending
    }

    fn send(&self, outbound: Outbound) {
        self.world.lock().send(self.number, Payload::Outbound(outbound));
    }
}

impl Link for SimLink {
    fn send(&mut self, batch: BatchId, entries: Arc<[Entry]>) {
        Self::send(self, Outbound::Call { batch, entries });
    }

    fn load(&mut self) {
        self.is_loaded = true;
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

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<LinkEvent> {
        // Simulated nodes do not lose the script.
        if std::mem::take(&mut self.is_loaded) {
            return Poll::Ready(LinkEvent::Loaded);
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

impl Drop for SimLink {
    fn drop(&mut self) {
        let waker = self.world.lock().close(self.number);
        // Outside of the mutex, as in `poll_inbox`.
        drop(waker);
    }
}
