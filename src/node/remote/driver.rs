//! The task that owns a node's connection.
//!
//! ```text
//!           ┌──────────── failed: wait, growing ───────────┐
//!           ▼                                              │
//!         dial ──── connected ───► serve ──── broken ──────┘
//!           │                        │
//!           └──── ended or drained ──┴──► end: whatever is left is answered
//! ```

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{Either, poll_fn, select};

use super::{
    ConnectionConfig, NextSend, QueueDeadlines, SharedState,
    duplicate_servers::ConnectedServers,
    monitor::Monitor,
    redial::{Delay, Redial},
    registration::{self, REGISTRATION, Registered},
    timer::Timer,
};
use crate::{
    clock::{Clock, Instant},
    node::{
        Answer, Incarnation, Listener, NewNodes, Notice,
        transport::{ConnectionEvent, Transport},
    },
    values::NodeError,
};

mod telling;

/// Dials, serves, and dials again until the node is closed.
#[derive(Debug)]
pub(super) struct Driver {
    /// For the traces.
    address: Arc<str>,
    shared: Arc<SharedState>,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    timer: Timer,
    redial: Redial,
    dial_timeout: Duration,
    registers: Option<NewNodes>,
    connected_servers: ConnectedServers,
    monitor: Arc<dyn Monitor>,
    /// Whether there is a connection.
    is_connected: bool,
    /// How many connections there were.
    connections: u64,
    /// How long a node that may have forgotten votes gives none.
    quarantine: Duration,
    /// The incarnation that the last connection led to, and when that broke.
    last: Option<(Incarnation, Instant)>,
    /// What must be delivered, as the monitor has been told.
    undelivered: usize,
}

/// The node is closed: there is nothing more to do.
struct Done;

impl Driver {
    pub(super) fn new(
        address: Arc<str>,
        shared: Arc<SharedState>,
        transport: Arc<dyn Transport>,
        config: &ConnectionConfig,
    ) -> Self {
        config.monitor.dials(&address);
        Self {
            address,
            shared,
            transport,
            clock: Arc::clone(&config.clock),
            timer: Timer::new(Arc::clone(&config.clock)),
            redial: Redial::new(config.seed),
            dial_timeout: config.dial_timeout(),
            registers: config.registers,
            connected_servers: config.connected_servers.clone(),
            monitor: Arc::clone(&config.monitor),
            is_connected: false,
            connections: 0,
            quarantine: config.quarantine,
            last: None,
            undelivered: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let Done = match self.connect_and_serve().await {
            Ok(never) => match never {},
            Err(done) => done,
        };
    }

    async fn connect_and_serve(&mut self) -> Result<std::convert::Infallible, Done> {
        loop {
            let connection = self.connect().await?;
            let (incarnation, since) = (connection.incarnation.clone(), self.clock.now());
            let error = self.serve(connection).await?;
            let now = self.clock.now();
            self.last = incarnation.map(|incarnation| (incarnation, now));
            tracing::debug!(node = %self.address, %error, "the connection to a node is broken");
            self.tell_violation(&error);
            self.tell_disconnected();
            self.redial.lasted(now.saturating_duration_since(since), &error);
            let mut state = self.shared.lock();
            state.send_queue.disconnected(error, now);
            let interrupted = state.subscriptions.disconnected();
            drop(state);
            tell(&interrupted, Notice::Interrupted);
        }
    }

    /// Dials until there is a connection.
    async fn connect(&mut self) -> Result<Registered, Done> {
        loop {
            let delay = self.redial.delay();
            self.wait(delay).await?;
            match self.dial().await? {
                Ok(connection) => {
                    self.shared.lock().send_queue.connected();
                    self.tell_connected(&connection);
                    return Ok(connection);
                }
                Err(error) => {
                    tracing::debug!(node = %self.address, %error, "a node cannot be reached");
                    self.tell_violation(&error);
                    self.redial.failed(&error);
                    self.shared.lock().send_queue.dial_failed(error);
                }
            }
        }
    }

    /// Connects and registers.
    async fn dial(&mut self) -> Result<Result<Registered, NodeError>, Done> {
        let (transport, timeout) = (Arc::clone(&self.transport), self.dial_timeout);
        let (clock, registers) = (Arc::clone(&self.clock), self.registers);
        let (address, connected_servers) = (Arc::clone(&self.address), self.connected_servers.clone());
        let patience = self.clock.sleep_until(self.clock.now() + timeout);
        self.meanwhile(async move {
            let dialled = async {
                let connection = transport.dial().await?;
                registration::register(connection, address, registers, &connected_servers, &*clock).await
            };
            match select(pin!(dialled), patience).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), _)) => Err(transport.late(timeout)),
            }
        })
        .await
    }

    /// Waits before a dial.
    async fn wait(&mut self, Delay { least, most }: Delay) -> Result<(), Done> {
        if most.is_zero() {
            return Ok(());
        }
        let (shared, clock) = (Arc::clone(&self.shared), Arc::clone(&self.clock));
        let now = clock.now();
        self.meanwhile(async move {
            clock.sleep_until(now + least).await;
            if most > least {
                // Woken by the driver's own waker, which every call wakes while there is no
                // connection.
                let called = poll_fn(|_| {
                    if shared.lock().send_queue.take_wanted() { Poll::Ready(()) } else { Poll::Pending }
                });
                select(called, clock.sleep_until(now + most)).await;
            }
        })
        .await
    }

    /// Does some work while there is no connection, and what time asks for beside it.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Done> {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.shared.driver.register(context.waker());
            loop {
                let upkeep = self.shared.lock().upkeep(self.clock.now());
                let deadline = match self.kept_up(upkeep) {
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

    /// Serves calls over a connection, until it is broken or given up.
    async fn serve(&mut self, mut connection: Registered) -> Result<NodeError, Done> {
        poll_fn(|context| {
            self.shared.driver.register(context.waker());
            self.poll_serve(&mut connection, context)
        })
        .await
    }

    /// One wake-up: sends what may be sent, takes every answer that is there, and goes on until
    /// neither finds anything.
    fn poll_serve(
        &mut self,
        registered: &mut Registered,
        context: &mut Context<'_>,
    ) -> Poll<Result<NodeError, Done>> {
        // First, since mostly a call wakes: the one poll of the connection below then writes it as
        // well. But what is overdue may be so because this process stood still, and its answer be
        // there: then that is heard first.
        let mut now = self.clock.now();
        let mut state = self.shared.lock();
        let is_overdue = state.send_queue.next_deadline().is_some_and(|deadline| deadline <= now);
        let next = if is_overdue { NextSend::default() } else { state.next_traffic(now) };
        drop(state);
        next.send(&mut *registered.connection);
        loop {
            while let Poll::Ready(event) = registered.connection.poll_event(context) {
                now = self.clock.now();
                if let Some(error) = self.take_event(registered, event, now) {
                    return Poll::Ready(Ok(error));
                }
            }
            let mut state = self.shared.lock();
            let next = state.next_traffic(now);
            if !next.is_empty() {
                drop(state);
                next.send(&mut *registered.connection);
                continue;
            }
            let (is_silent, upkeep) = (state.send_queue.is_silent(now), state.upkeep(now));
            drop(state);
            let deadline = match self.kept_up(upkeep) {
                Ok(deadline) => deadline,
                Err(done) => return Poll::Ready(Err(done)),
            };
            if is_silent {
                let silent = "given up after a long silence";
                return Poll::Ready(Ok(NodeError::Unreachable(silent.into())));
            }
            if self.timer.poll(context, deadline).is_pending() {
                return Poll::Pending;
            }
            now = self.clock.now();
        }
    }

    /// Deals with what a connection says: the error, if it is broken.
    fn take_event(
        &self,
        registered: &mut Registered,
        event: ConnectionEvent,
        now: Instant,
    ) -> Option<NodeError> {
        match event {
            ConnectionEvent::Answers { batch, answers } => {
                if batch == REGISTRATION {
                    let heard = registered.hear_again(answers);
                    self.tell_registered(registered);
                    return heard.err();
                }
                // Where nobody registers, the state may pass, and what must be delivered is sent
                // again over the same connection, unless another server is the master now.
                let leaves = self.registers.is_some() || self.transport.follows_master();
                let is_replica = leaves && registration::is_replica(&answers);
                if answers.iter().any(Answer::is_not_registered) {
                    registered.register_again(self.registers, &*self.clock);
                }
                self.shared.lock().send_queue.answered(batch, answers, now);
                return is_replica.then_some(NodeError::ReadOnly);
            }
            ConnectionEvent::NotLoaded { batch } => {
                if self.shared.lock().send_queue.not_loaded(batch, now) {
                    // Another server may have taken over behind a proxy. What follows still names
                    // the incarnation that this connection knows, so it is refused there. The
                    // registration comes first, and brings the script along.
                    registered.register_again(self.registers, &*self.clock);
                    registered.connection.load();
                }
            }
            ConnectionEvent::Loaded => self.shared.lock().send_queue.loaded(),
            ConnectionEvent::Subscribed(resource) => {
                let listeners = self.shared.lock().subscriptions.confirmed(&resource);
                tell(&listeners, Notice::Subscribed);
            }
            ConnectionEvent::Released(resource) => {
                let listeners = self.shared.lock().subscriptions.listeners(&resource);
                tell(&listeners, Notice::Released);
            }
            ConnectionEvent::Closed(error) => return Some(error),
        }
        None
    }

    /// Tells what came of the upkeep, and when to look again.
    fn kept_up(&mut self, upkeep: QueueDeadlines) -> Result<Option<Instant>, Done> {
        self.tell_undelivered(upkeep.undelivered);
        if upkeep.is_done { Err(Done) } else { Ok(upkeep.deadline) }
    }
}

impl Drop for Driver {
    /// However the task ends, with its runtime or by a panic: nobody waits for an answer for ever.
    fn drop(&mut self) {
        self.shared.lock().send_queue.end();
        self.tell_disconnected();
        self.tell_undelivered(0);
    }
}

fn tell(listeners: &[Arc<dyn Listener>], notice: Notice) {
    for listener in listeners {
        listener.notice(notice);
    }
}
