//! The task that owns the connection of a node.
//!
//! ```text
//!           ┌────── dial failed: growing delay ────────┐
//!           ▼                                          │
//!         dial ── connected ──► serve ── broken ───────┘
//!           │                     │
//!           └─ closed and done ───┴──► end: the send queue answers all unanswered requests
//! ```
//!
//! | event on the connection | decision |
//! |---|---|
//! | a call, or a deadline of the send queue | sends the calls that the send queue permits |
//! | answers to a call | answers the callers; registers again if the node is not registered |
//! | answer to a further registration | continues in the same incarnation, else breaks the connection |
//! | answer of a replica | breaks the connection, if the client registers or the transport follows the master |
//! | the node has lost the script | registers again, which [delivers](super::script_delivery) the script if no other client does, and sends the calls again |
//! | subscription confirmed, notice | notifies the listeners of the topic |
//! | a long silence, or the end of the connection | dials again |

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{poll_fn, select};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    ConnectionConfig, NextSend, QueueDeadlines, SharedState,
    dialler::Dialler,
    notices::ConnectionNotices,
    redial::{Delay, Redial},
    registration::{self, REGISTRATION, Registered},
    script_delivery::ScriptDelivery,
    timer::Timer,
};
use crate::{
    clock::{Clock, Instant},
    node::{
        Answer, InspectAnswer, Listener, NewNodes, Notice,
        transport::{ConnectionEvent, NoticeCommand, Transport},
    },
    values::{Fingerprint, NodeError},
};

/// The driver of a node's connection: dials, serves calls, and dials again until the node is closed.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<SharedState>,
    clock: Arc<dyn Clock>,
    timer: Timer,
    random: StdRng,
    node_timeout: Duration,
    /// The time of the last call or event on the connection.
    active_at: Instant,
    redial: Redial,
    dialler: Dialler,
    registers: Option<NewNodes>,
    /// Whether the transport always leads to the present master.
    follows_master: bool,
    notices: ConnectionNotices,
    /// The fingerprint of the quorum.
    fingerprint: Fingerprint,
    /// The error of a replaced node, whose address leads to no voter any more: the client neither dials nor registers
    /// the server again, because the server may have lost the mark of its retirement.
    replaced: Option<NodeError>,
}

/// The outcome of a driver whose node is closed and has no request left to deliver.
struct Done;

impl Driver {
    pub(super) fn new(
        address: Arc<str>,
        shared: Arc<SharedState>,
        transport: Arc<dyn Transport>,
        config: &ConnectionConfig,
    ) -> Self {
        Self {
            shared,
            clock: Arc::clone(&config.clock),
            timer: Timer::new(Arc::clone(&config.clock)),
            random: StdRng::seed_from_u64(config.seed),
            node_timeout: config.node_timeout,
            active_at: config.clock.now(),
            redial: Redial::new(config.dial_patience()),
            registers: config.registers,
            follows_master: transport.follows_master(),
            dialler: Dialler::new(Arc::clone(&address), transport, config),
            notices: ConnectionNotices::new(address, config),
            fingerprint: config.fingerprint.clone(),
            replaced: None,
        }
    }

    pub(super) async fn run(&mut self) {
        let Done = match self.connect_and_serve().await {
            Ok(never) => match never {},
            Err(done) => done,
        };
    }

    async fn connect_and_serve(&mut self) -> Result<std::convert::Infallible, Done> {
        loop {
            let connection = self.connect().await?;
            let (incarnation, since) = (connection.incarnation().cloned(), self.clock.now());
            self.active_at = since;
            let error = self.serve(connection).await?;
            let now = self.clock.now();
            self.notices.broken(incarnation, &error, now);
            let mut state = self.shared.lock();
            if error == NodeError::Disconnected && state.send_queue.oldest_call().is_none() {
                self.notices.closed_idle(now.saturating_duration_since(self.active_at));
            }
            let silences = state.send_queue.disconnected(error.clone(), now);
            self.redial.lasted(now.saturating_duration_since(since), &error, silences);
            let interrupted = state.subscriptions.disconnected();
            state.registrations.disconnected();
            drop(state);
            notify(&interrupted, Notice::Interrupted);
        }
    }

    /// Dials until there is a connection.
    async fn connect(&mut self) -> Result<Registered, Done> {
        loop {
            let delay = self.redial.delay(self.random.random());
            self.wait(delay).await?;
            let script_pause = self.script_pause();
            let dial = self.dialler.dial(self.redial.patience(), script_pause);
            let dialled = match self.replaced.clone() {
                Some(error) => Err(error),
                None => self.while_unconnected(dial).await?,
            };
            match dialled {
                Ok(connection) => {
                    let mut state = self.shared.lock();
                    state.send_queue.connected();
                    if let Some(registration) = &connection.registration {
                        state.registrations.registered(registration);
                    }
                    state.unpublished = None;
                    drop(state);
                    self.notices.connected(&connection, self.clock.now());
                    return Ok(connection);
                }
                Err(error) => {
                    self.on_refusal(&error);
                    self.notices.unreachable(&error, self.clock.now());
                    self.redial.failed(&error);
                    let mut state = self.shared.lock();
                    let error = state.send_queue.dial_failed(error);
                    state.registrations.failed(&error);
                }
            }
        }
    }

    /// Waits before a dial, for `most`. A request that is submitted after the last failure shortens the wait, but not
    /// below `least`.
    async fn wait(&mut self, Delay { least, most }: Delay) -> Result<(), Done> {
        if most.is_zero() {
            return Ok(());
        }
        let (shared, clock) = (Arc::clone(&self.shared), Arc::clone(&self.clock));
        let now = clock.now();
        self.while_unconnected(async move {
            clock.sleep_until(now + least).await;
            if most > least {
                // This future registers no waker. Without a connection, each submitted request wakes the driver, which
                // polls this future.
                let called = poll_fn(|_| {
                    if shared.lock().send_queue.take_wanted() { Poll::Ready(()) } else { Poll::Pending }
                });
                select(called, clock.sleep_until(now + most)).await;
            }
        })
        .await
    }

    /// Runs `work` while there is no connection. Meanwhile, handles the deadlines of the send queue.
    async fn while_unconnected<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Done> {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.shared.driver.register(context.waker());
            loop {
                let deadlines = self.shared.lock().tick(self.clock.now());
                let deadline = match self.on_deadlines(deadlines) {
                    Ok(deadline) => deadline,
                    Err(done) => return Poll::Ready(Err(done)),
                };
                if let Poll::Ready(output) = work.as_mut().poll(context) {
                    return Poll::Ready(Ok(output));
                }
                if self.timer.poll(context, deadline).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Serves calls on a connection until it breaks or is given up.
    async fn serve(&mut self, mut connection: Registered) -> Result<NodeError, Done> {
        poll_fn(|context| {
            self.shared.driver.register(context.waker());
            self.poll_serve(&mut connection, context)
        })
        .await
    }

    /// Handles one wake-up: sends calls and takes answers until there is nothing more to send or to take.
    fn poll_serve(
        &mut self,
        registered: &mut Registered,
        context: &mut Context<'_>,
    ) -> Poll<Result<NodeError, Done>> {
        // Calls are sent before the connection is polled. A submitted call is the usual cause of the wake-up, and the
        // poll below then writes the call. The exception is a deadline that has passed. If only this process paused,
        // the answer has arrived, so answers are taken before the deadline is handled.
        let mut now = self.clock.now();
        let mut state = self.shared.lock();
        let is_overdue = state.send_queue.next_deadline().is_some_and(|deadline| deadline <= now);
        let next = if is_overdue { NextSend::default() } else { state.next_send(now) };
        drop(state);
        next.send(&mut *registered.connection);
        loop {
            while let Poll::Ready(event) = registered.connection.poll_event(context) {
                now = self.clock.now();
                if !matches!(event, ConnectionEvent::Closed(_)) {
                    self.active_at = now;
                }
                if let Some(error) = self.on_event(registered, event, now) {
                    return Poll::Ready(Ok(error));
                }
            }
            if registered.end_pause(self.registers, &*self.clock) {
                continue;
            }
            let mut state = self.shared.lock();
            let next = state.next_send(now);
            if !next.is_empty() {
                drop(state);
                next.send(&mut *registered.connection);
                continue;
            }
            let (is_silent, deadlines) = (state.send_queue.is_silent(now), state.tick(now));
            drop(state);
            let deadline = match self.on_deadlines(deadlines) {
                Ok(deadline) => deadline,
                Err(done) => return Poll::Ready(Err(done)),
            };
            if is_silent {
                let silent = "given up after a long silence";
                return Poll::Ready(Ok(NodeError::Unreachable(silent.into())));
            }
            let deadline = [deadline, registered.pause_end()].into_iter().flatten().min();
            if self.timer.poll(context, deadline).is_pending() {
                return Poll::Pending;
            }
            now = self.clock.now();
        }
    }

    /// Handles an event of the connection. Returns the error if the connection is broken.
    fn on_event(
        &mut self,
        registered: &mut Registered,
        event: ConnectionEvent,
        now: Instant,
    ) -> Option<NodeError> {
        match event {
            ConnectionEvent::Answers { batch, answers } => {
                if batch == REGISTRATION {
                    let outcome = registered.on_registration_answer(self.registers, answers);
                    if outcome.is_ok() {
                        if let Some(registration) = &registered.registration {
                            self.shared.lock().registrations.registered(registration);
                        }
                        self.notices.registered(registered);
                        self.on_executed_call(registered);
                    }
                    return outcome.err().inspect(|error| self.on_refusal(error));
                }
                // A client that does not register keeps the connection to a replica. The replica may become a master
                // again, and until then the send queue retries the requests that must be delivered. If the transport
                // follows the master, a new dial finds the master sooner.
                let gives_up_replicas = self.registers.is_some() || self.follows_master;
                let must_give_up = gives_up_replicas && registration::is_replica(&answers);
                if self.registers.is_some() && answers.iter().any(Answer::is_not_registered) {
                    registered.register(self.registers, &*self.clock);
                }
                let refusal = answers.iter().find_map(|answer| match answer {
                    Answer::Error(error) if error.is_refused_call() => Some(error),
                    _ => None,
                });
                let replaced = self.replaced_by(&answers);
                self.notices.answered(refusal, now);
                let late = self.shared.lock().send_queue.answered(batch, answers, now);
                self.notices.answered_late(late);
                // The connection ends, so that no call reaches a server that loses the mark of its retirement.
                self.replaced.clone_from(&replaced);
                return replaced.or_else(|| must_give_up.then_some(NodeError::ReadOnly));
            }
            ConnectionEvent::NotLoaded { batch } => {
                // Behind a proxy, the calls may reach another server now. The registration is sent first, because the
                // registration compares the incarnations. Until the answer to the registration, calls name the former
                // incarnation, so another server refuses the calls.
                let mut state = self.shared.lock();
                let must_deliver = if batch == REGISTRATION {
                    state.send_queue.registration_not_loaded(now);
                    registered.on_unexecuted_registration();
                    true
                } else {
                    state.send_queue.not_loaded(batch, now)
                };
                drop(state);
                if must_deliver {
                    let pause = self.script_pause();
                    registered.deliver_script(self.registers, &*self.clock, pause);
                }
            }
            ConnectionEvent::Loaded => {
                registered.on_loaded();
                self.shared.lock().send_queue.loaded();
            }
            ConnectionEvent::Subscribed(topic) => {
                let listeners = self.shared.lock().subscriptions.confirmed(&topic);
                notify(&listeners, Notice::Subscribed);
            }
            ConnectionEvent::Released(topic) => {
                let listeners = self.shared.lock().subscriptions.listeners(&topic);
                notify(&listeners, Notice::Released);
            }
            ConnectionEvent::NoticeRefused { command, error } => {
                self.notices.notice_refused(command, &error);
                if command == NoticeCommand::Publish {
                    self.shared.lock().unpublished = Some(error);
                }
            }
            ConnectionEvent::Closed(error) => return Some(error),
        }
        None
    }

    /// Handles the error of a registration: no later call is sent to a node that was replaced in the quorum of this client.
    fn on_refusal(&mut self, error: &NodeError) {
        let new = error.wrong_quorum().and_then(|theirs| self.fingerprint.replacement_of(theirs));
        if let Some(new) = new.filter(|_| self.registers.is_some()) {
            self.notices.replaced(new);
            self.replaced = Some(error.clone());
        }
    }

    /// Returns the error of a replaced node if an answer is from a node that was replaced in the quorum of this client. The
    /// client of an administrator continues a replacement at a replaced node.
    fn replaced_by(&mut self, answers: &[Answer]) -> Option<NodeError> {
        self.registers?;
        let (new, theirs) = answers.iter().find_map(|answer| match answer {
            // A client that only reads receives the mark with an inspection.
            Answer::WrongQuorum { fingerprint: theirs }
            | Answer::Inspected(InspectAnswer { fingerprint: Some(theirs), .. }) => {
                Some((self.fingerprint.replacement_of(theirs.as_str())?, theirs))
            }
            _ => None,
        })?;
        self.notices.replaced(new);
        Some(NodeError::WrongQuorum(theirs.as_str().into()))
    }

    /// Handles a call that the node executed: if another client has delivered the script, calls may be sent again.
    fn on_executed_call(&self, registered: &mut Registered) {
        if registered.on_executed_call() {
            self.shared.lock().send_queue.loaded();
        }
    }

    /// Returns the length of the next pause before the delivery of the script.
    fn script_pause(&mut self) -> Duration {
        ScriptDelivery::pause(self.node_timeout, self.random.random())
    }

    /// Reports the undelivered requests and the age of the oldest call. Returns the time of the next tick, unless the
    /// send queue is done.
    fn on_deadlines(&mut self, deadlines: QueueDeadlines) -> Result<Option<Instant>, Done> {
        self.notices.undelivered(deadlines.undelivered);
        self.notices.oldest_call(deadlines.oldest_call);
        if deadlines.is_done { Err(Done) } else { Ok(deadlines.deadline) }
    }
}

impl Drop for Driver {
    /// Answers all requests, so that no caller waits for ever. The driver is dropped at every end of the task, even if
    /// the runtime ends or the task panics.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let reason = state.send_queue.end();
        state.registrations.failed(&NodeError::Closed(reason));
        drop(state);
        self.notices.ended();
    }
}

fn notify(listeners: &[Arc<dyn Listener>], notice: Notice) {
    for listener in listeners {
        listener.notice(notice);
    }
}
