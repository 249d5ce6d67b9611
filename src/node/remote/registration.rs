//! The registration of a connection, before any call and again when the server may have changed.

use std::{sync::Arc, time::Duration};

use futures::future::poll_fn;

use crate::{
    clock::{Clock, Instant},
    node::{
        Answer, Incarnation, NewNodes, Operation, Register, Registration,
        dial::{DialLimit, DialStep},
        remote::{
            duplicate_servers::{ConnectedServers, ServerRegistration},
            script_delivery::ScriptDelivery,
        },
        transport::{BatchId, Connection, ConnectionEvent},
    },
    values::NodeError,
};

/// The batch id of every registration, which no call of a send queue has.
pub(super) const REGISTRATION: BatchId = BatchId(u64::MAX);

/// A connection that may send calls. If the client registers, the node has the script, and the registration is complete.
pub(super) struct Registered {
    pub(super) connection: Box<dyn Connection>,
    /// The result of the last registration; `None` if the client does not register.
    pub(super) registration: Option<Registration>,
    /// Whether a registration is unanswered.
    is_registering: bool,
    /// The delivery of the script, if the node lacks it.
    delivery: ScriptDelivery,
    /// The address of the node, for traces and for the check for duplicate servers.
    node: Arc<str>,
    /// The entry in the check for duplicate servers, as long as the connection lasts.
    server_registration: Option<ServerRegistration>,
}

/// Registers a new connection, or finds out whether the node has the script if the client does not register. Each answer must arrive within the limit. `pause` is the pause
/// before the delivery of the script.
pub(super) async fn register(
    connection: Box<dyn Connection>,
    node: Arc<str>,
    new_nodes: Option<NewNodes>,
    connected_servers: &ConnectedServers,
    clock: &dyn Clock,
    limit: DialLimit<'_>,
    pause: Duration,
) -> Result<Registered, NodeError> {
    let mut registered = Registered {
        connection,
        registration: None,
        is_registering: false,
        delivery: ScriptDelivery::default(),
        node,
        server_registration: None,
    };
    registered.register(new_nodes, clock);
    while registered.is_registering || registered.delivery != ScriptDelivery::Present {
        if let Some(end) = registered.delivery.pause_end() {
            clock.sleep_until(end).await;
            registered.end_pause(new_nodes, clock);
        }
        let event = poll_fn(|context| registered.connection.poll_event(context));
        match limit.step(DialStep::Registration, event).await? {
            ConnectionEvent::Answers { batch: REGISTRATION, answers } => {
                registered.is_registering = false;
                registered.delivery.on_executed();
                if new_nodes.is_none() {
                    continue;
                }
                let registration = on_answer(&mut *registered.connection, &registered.node, answers)?;
                registered.server_registration = registration
                    .incarnation
                    .as_ref()
                    .map(|incarnation| connected_servers.register(&registered.node, incarnation))
                    .transpose()?;
                registered.registration = Some(registration);
            }
            ConnectionEvent::NotLoaded { batch: REGISTRATION } => {
                registered.is_registering = false;
                registered.deliver_script(new_nodes, clock, pause);
            }
            ConnectionEvent::Loaded => registered.delivery.on_loaded(),
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
    /// Returns the incarnation of the server; `None` if the client does not register.
    pub(super) fn incarnation(&self) -> Option<&Incarnation> {
        self.registration.as_ref()?.incarnation.as_ref()
    }

    /// Whether the node is in quarantine; `None` if the client does not register.
    pub(super) fn is_quarantined(&self) -> Option<bool> {
        Some(self.registration.as_ref()?.quarantine.is_some())
    }

    /// Registers on the connection: for the first time, because the node has lost its metadata, or to find out whether
    /// the node has the script. Behind a proxy, the connection may lead to another server now.
    pub(super) fn register(&mut self, new_nodes: Option<NewNodes>, clock: &dyn Clock) {
        if !self.is_registering {
            self.is_registering = true;
            self.connection.send(REGISTRATION, registration(new_nodes, clock));
        }
    }

    /// Handles a registration that the node did not execute, because the node lacks the script.
    pub(super) fn on_unexecuted_registration(&mut self) {
        self.is_registering = false;
    }

    /// Takes the next step to a node with the script, after a call that the node did not execute. `pause` is the length
    /// of a pause that begins now.
    ///
    /// The text is part of a registration, if the client registers: the script must not be on the node before the
    /// incarnations are compared. The load follows, because some servers drop scripts that only `EVAL` has delivered.
    pub(super) fn deliver_script(&mut self, new_nodes: Option<NewNodes>, clock: &dyn Clock, pause: Duration) {
        if !self.delivery.on_lacking(clock.now(), pause) {
            return;
        }
        if new_nodes.is_some() {
            self.is_registering = true;
            self.connection.send_with_script(REGISTRATION, registration(new_nodes, clock));
        }
        self.connection.load();
    }

    /// Returns the end of the pause before the delivery of the script.
    pub(super) fn pause_end(&self) -> Option<Instant> {
        self.delivery.pause_end()
    }

    /// Handles the end of the pause, after which a registration by name follows. Returns whether the pause has ended.
    pub(super) fn end_pause(&mut self, new_nodes: Option<NewNodes>, clock: &dyn Clock) -> bool {
        let has_ended = self.delivery.tick(clock.now());
        if has_ended {
            self.register(new_nodes, clock);
        }
        has_ended
    }

    /// Handles a call that the node executed. Returns whether the node lacked the script before.
    pub(super) fn on_executed_call(&mut self) -> bool {
        self.delivery.on_executed()
    }

    /// Handles the confirmation of the script.
    pub(super) fn on_loaded(&mut self) {
        self.delivery.on_loaded();
    }

    /// Handles the node's answer to a further registration. Returns an error if another incarnation answers: the calls
    /// in flight were meant for the former incarnation, so the connection must end.
    pub(super) fn on_registration_answer(
        &mut self,
        new_nodes: Option<NewNodes>,
        answers: Vec<Answer>,
    ) -> Result<(), NodeError> {
        self.is_registering = false;
        if new_nodes.is_none() {
            return Ok(());
        }
        let registration = on_answer(&mut *self.connection, &self.node, answers)?;
        let is_same = self.incarnation() == registration.incarnation.as_ref();
        self.registration = Some(registration);
        if is_same {
            return Ok(());
        }
        Err(NodeError::NotExecuted("another server answers on this connection".into()))
    }
}

/// Returns the operations of a registration: none if the client does not register. A call without operations only
/// shows whether the node has the script.
fn registration(new_nodes: Option<NewNodes>, clock: &dyn Clock) -> Arc<[Operation]> {
    let register = |new_nodes| Operation::Register(Register { new_nodes, time: clock.time_of_day() });
    new_nodes.map(register).into_iter().collect()
}

/// Handles an answer to a registration, and passes its incarnation to the connection.
fn on_answer(
    connection: &mut dyn Connection,
    node: &str,
    answers: Vec<Answer>,
) -> Result<Registration, NodeError> {
    match answers.into_iter().next() {
        Some(Answer::Registered(registration)) => {
            let (incarnation, quarantine) = (&registration.incarnation, &registration.quarantine);
            tracing::debug!(%node, ?incarnation, ?quarantine, "registered");
            connection.registered(registration.incarnation.clone());
            Ok(registration)
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
