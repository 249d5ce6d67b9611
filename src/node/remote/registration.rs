//! The registration of a connection, before any call and again when the server may have changed.

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

/// The batch id of every registration, which no call of a send queue has.
pub(super) const REGISTRATION: BatchId = BatchId(u64::MAX);

/// A connection that may send calls: the script is loaded, and the registration is complete, if the client registers.
pub(super) struct Registered {
    pub(super) connection: Box<dyn Connection>,
    /// The incarnation of the server; `None` if the client does not register.
    pub(super) incarnation: Option<Incarnation>,
    /// Whether the node is in quarantine; `None` if the client does not register.
    pub(super) is_quarantined: Option<bool>,
    /// Whether a registration is unanswered.
    is_registering: bool,
    /// The address of the node, for traces and for the check for duplicate servers.
    node: Arc<str>,
    /// The entry in the check for duplicate servers, as long as the connection lasts.
    server_registration: Option<ServerRegistration>,
}

/// Registers a new connection, and lets the node load the script.
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
    let is_registering = new_nodes.is_some();
    let mut registered = Registered {
        connection,
        incarnation: None,
        is_quarantined: None,
        is_registering,
        node,
        server_registration: None,
    };
    let mut is_loaded = false;
    while registered.is_registering || !is_loaded {
        match poll_fn(|context| registered.connection.poll_event(context)).await {
            ConnectionEvent::Answers { batch: REGISTRATION, answers } => {
                registered.is_registering = false;
                let (incarnation, is_quarantined) =
                    on_answer(&mut *registered.connection, &registered.node, answers)?;
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
            other => {
                let problem = format!("unexpected event before the registration: {other:?}");
                return Err(NodeError::Protocol(problem.into()));
            }
        }
    }
    Ok(registered)
}

impl Registered {
    /// Registers again on the same connection, because the node has lost its metadata or the script. Behind a proxy,
    /// the connection may lead to another server now.
    pub(super) fn register_again(&mut self, new_nodes: Option<NewNodes>, clock: &dyn Clock) {
        if let Some(new_nodes) = new_nodes.filter(|_| !self.is_registering) {
            self.is_registering = true;
            send(&mut *self.connection, new_nodes, clock);
        }
    }

    /// Handles the node's answer to a further registration. Returns an error if another incarnation answers: the calls
    /// in flight were meant for the former incarnation, so the connection must end.
    pub(super) fn on_registration_answer(&mut self, answers: Vec<Answer>) -> Result<(), NodeError> {
        self.is_registering = false;
        let (incarnation, is_quarantined) = on_answer(&mut *self.connection, &self.node, answers)?;
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

/// Handles an answer to a registration, and passes its incarnation to the connection. Returns the incarnation, and
/// whether the node is in quarantine.
fn on_answer(
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
        other => Err(NodeError::Protocol(format!("unexpected answer to a registration: {other:?}").into())),
    }
}

/// Whether a replica answered. The votes of a replica would be lost, because the data of the master will replace the
/// data of the replica.
pub(super) fn is_replica(answers: &[Answer]) -> bool {
    answers.contains(&Answer::Error(NodeError::ReadOnly))
}
