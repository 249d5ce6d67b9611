//! What a connection says before any call.

use std::sync::Arc;

use futures::future::poll_fn;

use crate::{
    clock::Clock,
    node::{
        Answer, Incarnation, NewNodes, Operation, Register,
        remote::duplicate_servers::{ConnectedServers, ServerRegistration},
        transport::{BatchId, Connection, ConnectionEvent},
    },
    values::NodeError,
};

/// No call of a send queue has this number.
pub(super) const REGISTRATION: BatchId = BatchId(u64::MAX);

/// A connection that may send calls: its node knows of it, and has begun a quarantine if it has to.
pub(super) struct Registered {
    pub(super) connection: Box<dyn Connection>,
    /// The incarnation of the server that it leads to; `None` where nobody asks.
    pub(super) incarnation: Option<Incarnation>,
    /// Whether the node has said that it must not vote; `None` until it has registered.
    pub(super) is_quarantined: Option<bool>,
    /// Whether it has been asked again, and has not answered yet.
    is_asked: bool,
    /// Which node it is, for the traces.
    node: Arc<str>,
    /// Keeps other connections of this client from the same server.
    server_registration: Option<ServerRegistration>,
}

/// Registers a new connection, and sees to it that the node keeps the script.
pub(super) async fn register(
    mut connection: Box<dyn Connection>,
    node: Arc<str>,
    new_nodes: Option<NewNodes>,
    connected_servers: &ConnectedServers,
    clock: &dyn Clock,
) -> Result<Registered, NodeError> {
    if let Some(new_nodes) = new_nodes {
        send(&mut *connection, new_nodes, clock);
    }
    connection.load();
    let is_asked = new_nodes.is_some();
    let mut registered = Registered {
        connection,
        incarnation: None,
        is_quarantined: None,
        is_asked,
        node,
        server_registration: None,
    };
    let mut is_loaded = false;
    while registered.is_asked || !is_loaded {
        match poll_fn(|context| registered.connection.poll_event(context)).await {
            ConnectionEvent::Answers { batch: REGISTRATION, answers } => {
                registered.is_asked = false;
                let (incarnation, is_quarantined) =
                    hear(&mut *registered.connection, &registered.node, answers)?;
                registered.is_quarantined = Some(is_quarantined);
                if registered.server_registration.is_none() {
                    registered.server_registration = incarnation
                        .as_ref()
                        .map(|incarnation| connected_servers.register(&registered.node, incarnation))
                        .transpose()?;
                }
                registered.incarnation = incarnation;
            }
            ConnectionEvent::Loaded => is_loaded = true,
            ConnectionEvent::Closed(error) => return Err(error),
            other => return Err(NodeError::Protocol(format!("not registered, but {other:?}").into())),
        }
    }
    Ok(registered)
}

impl Registered {
    /// Registers again, over the same connection: the node has lost its metadata, or its script,
    /// and may be another one.
    pub(super) fn register_again(&mut self, new_nodes: Option<NewNodes>, clock: &dyn Clock) {
        if let Some(new_nodes) = new_nodes.filter(|_| !self.is_asked) {
            self.is_asked = true;
            send(&mut *self.connection, new_nodes, clock);
        }
    }

    /// Takes the node's answer. An error if the connection is of no use any more: calls under way
    /// mean another server.
    pub(super) fn hear_again(&mut self, answers: Vec<Answer>) -> Result<(), NodeError> {
        self.is_asked = false;
        let (incarnation, is_quarantined) = hear(&mut *self.connection, &self.node, answers)?;
        self.is_quarantined = Some(is_quarantined);
        if incarnation == self.incarnation {
            return Ok(());
        }
        Err(NodeError::Unreachable("another server answers on this connection".into()))
    }
}

fn send(connection: &mut dyn Connection, new_nodes: NewNodes, clock: &dyn Clock) {
    let register = Register { new_nodes, time: clock.time_of_day() };
    connection.send(REGISTRATION, Arc::new([Operation::Register(register)]));
}

/// Takes the node's answer: the incarnation that it is in, and whether in quarantine.
fn hear(
    connection: &mut dyn Connection,
    node: &str,
    answers: Vec<Answer>,
) -> Result<(Option<Incarnation>, bool), NodeError> {
    match answers.into_iter().next() {
        Some(Answer::Registered(registration)) => {
            let (incarnation, quarantine) = (&registration.incarnation, &registration.quarantine);
            tracing::debug!(%node, ?incarnation, ?quarantine, "registered");
            connection.registered(registration.incarnation.clone());
            Ok((registration.incarnation, registration.quarantine.is_some()))
        }
        Some(Answer::WrongQuorum { fingerprint }) => Err(NodeError::WrongQuorum(fingerprint.as_str().into())),
        Some(Answer::Error(error)) => Err(error),
        other => Err(NodeError::Protocol(format!("not registered, but {other:?}").into())),
    }
}

/// Whether a replica speaks, which takes over the data of its master, whatever it voted before: the
/// connection is of no use.
pub(super) fn is_replica(answers: &[Answer]) -> bool {
    answers.contains(&Answer::Error(NodeError::ReadOnly))
}
