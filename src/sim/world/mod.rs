//! The simulated world: processes, nodes, the network between them, and global time.
//!
//! ```text
//!  tasks of process 0 ─┐  (real lock code)          ┌─ node 0  the pure node function, a clock,
//!  tasks of process 1 ─┼── connections ── queue of ─┼─ node 1  an incarnation
//!  tasks of process 2 ─┘                  events    └─ node 2
//! ```
//!
//! Each thing that takes time is an event in one queue. The events are in the order of their times,
//! and events of the same time are in the order of their creation. All events that are due at one time run
//! together. Then tasks run until all tasks are pending, before time passes. One millisecond of tokio
//! is one microsecond of simulated time.
//!
//! The mutex of the world must not be held while the waker of a task is woken or dropped, or while a task
//! is dropped, because wakers and destructors may run any code. The waker of [`World::pass`] is an
//! exception.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::future::poll_fn;

use self::{
    event::WorldEvent,
    network::{Connection, Network},
    process::ProcessState,
    proof_trace::ProofTrace,
    recorder::Leases,
    server::Server,
    stores::Stores,
    teardown::Teardown,
};
#[cfg(test)]
use crate::values::Resource;
use crate::{
    mutex,
    sim::{
        Schedule,
        history::{self, AttemptId, History},
        report::{End, Report},
    },
    values::LeaseId,
};

mod connection;
mod event;
mod faults;
mod message;
mod network;
mod process;
mod proof_trace;
mod recorder;
mod server;
mod sleep;
mod stores;
mod subscribers;
mod teardown;

#[cfg(test)]
pub(crate) use self::proof_trace::{keep_traces, write_trace};
pub(crate) use self::{
    connection::SimTransport,
    process::ProcessSpawner,
    recorder::Recorder,
    sleep::SimClock,
    stores::{Operation, RoundTrip},
};

/// The world, shared by all its parts.
#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Mutex<WorldState>>);

/// The state of the world at the present instant.
#[derive(Debug)]
pub(crate) struct WorldState {
    schedule: Arc<Schedule>,
    /// The start of the run, in the time of tokio.
    origin: tokio::time::Instant,
    /// The events by time in microseconds, and by number among events of the same time.
    queue: BTreeMap<(u64, u64), WorldEvent>,
    /// The number of the next event.
    next_event: u64,
    /// The task that waits for the next event.
    driver: Option<Waker>,
    network: Network,
    connections: Vec<Connection>,
    servers: Vec<Server>,
    processes: Vec<ProcessState>,
    leases: Leases,
    stores: Stores,
    /// The number of clients that each process has created.
    clients: BTreeMap<usize, u64>,
    /// The leases that have become tickets, by the lease ids of the tickets.
    tickets: BTreeMap<LeaseId, AttemptId>,
    history: History,
    trace: DefaultHasher,
    budget: u64,
    /// The part of the budget that events and task polls have used.
    spent: u64,
    /// The lease ids of the attempts of which a node has executed a lock.
    rounds: BTreeSet<LeaseId>,
    messages: u64,
    /// The first node whose stored data was found to contradict itself.
    inconsistent: Option<usize>,
    end: Option<End>,
    /// The events for the proof; `None` if the run records no trace.
    proof_trace: Option<ProofTrace>,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The largest number of events and task polls together.
    pub(crate) budget: u64,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "virtual time comes from tokio's paused clock")]
    pub(crate) fn new(schedule: Arc<Schedule>, limits: Limits) -> Self {
        let mut state = WorldState {
            origin: tokio::time::Instant::now(),
            queue: BTreeMap::new(),
            next_event: 0,
            driver: None,
            network: Network::new(&schedule),
            connections: Vec::new(),
            servers: (0..schedule.nodes).map(|node| Server::new(&schedule, node)).collect(),
            processes: (0..schedule.processes).map(|process| ProcessState::new(&schedule, process)).collect(),
            leases: Leases::default(),
            stores: Stores::default(),
            clients: BTreeMap::new(),
            tickets: BTreeMap::new(),
            history: History::new(),
            trace: DefaultHasher::new(),
            budget: limits.budget,
            spent: 0,
            rounds: BTreeSet::new(),
            messages: 0,
            inconsistent: None,
            end: None,
            proof_trace: ProofTrace::new(),
            schedule: Arc::clone(&schedule),
        };
        state.schedule_faults();
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, WorldState> {
        mutex::lock(&self.0)
    }

    /// Returns the report of the run. If the run has not ended, the horizon was reached: records each
    /// process whose program has not ended as stalled, and ends the run.
    pub(crate) fn into_report(self) -> Report {
        let mut state = self.lock();
        if state.end.is_none() {
            let waiting = state.processes.iter().enumerate().filter(|(_, process)| process.is_running);
            let waiting: Vec<usize> = waiting.map(|(process, _)| process).collect();
            waiting.into_iter().for_each(|process| state.note(process, history::Event::Stalled));
            state.finish(End::Horizon);
        }
        if let (Some(node), Some(End::Done | End::Horizon)) = (state.inconsistent, &state.end) {
            state.end = Some(End::Inconsistent { node });
        }
        let now = state.now();
        let mut trace = state.trace.clone();
        state.servers.iter().for_each(|server| server.state.hash(&mut trace));
        Report {
            schedule: Arc::clone(&state.schedule),
            end: state.end.clone().unwrap_or(End::Horizon),
            history: std::mem::take(&mut state.history),
            lasted: Duration::from_micros(now),
            rounds: u64::try_from(state.rounds.len()).unwrap_or(u64::MAX),
            messages: state.messages,
            loads: state.servers.iter_mut().map(|server| std::mem::take(&mut server.load)).collect(),
            trace: trace.finish(),
            #[cfg(test)]
            proof_trace: state.proof_trace.take().map(ProofTrace::into_text),
        }
    }

    /// Lets time pass until the run ends, or until `horizon`.
    pub(crate) async fn pass(&self, horizon: Duration) {
        let horizon = crate::sim::clock::micros(horizon);
        let mut timer: Option<(u64, Pin<Box<tokio::time::Sleep>>)> = None;
        poll_fn(|context| self.poll_pass(context, horizon, &mut timer)).await;
        let driver = self.lock().driver.take();
        drop(driver);
    }

    #[expect(clippy::disallowed_methods, reason = "this is where simulated time passes")]
    fn poll_pass(
        &self,
        context: &mut Context<'_>,
        horizon: u64,
        timer: &mut Option<(u64, Pin<Box<tokio::time::Sleep>>)>,
    ) -> Poll<()> {
        loop {
            let (after, is_over) = {
                let mut state = self.lock();
                let after = state.run_due();
                (after, state.end.is_some() || state.now() >= horizon)
            };
            if is_over {
                return Poll::Ready(());
            }
            if !after.is_empty() {
                after.settle();
                continue;
            }
            let driver = context.waker().clone();
            let (stale, next) = {
                let mut state = self.lock();
                let next = state.queue.keys().next().map_or(horizon, |(at, _)| (*at).min(horizon));
                (state.driver.replace(driver), next)
            };
            drop(stale);
            if timer.as_ref().is_none_or(|(until, _)| *until != next) {
                let until = self.lock().origin + Duration::from_millis(next);
                *timer = Some((next, Box::pin(tokio::time::sleep_until(until))));
            }
            let Some((_, sleep)) = timer else { continue };
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            *timer = None;
        }
    }
}

impl WorldState {
    /// Returns the global time, in microseconds since the start of the run.
    #[expect(clippy::disallowed_methods, reason = "virtual time comes from tokio's paused clock")]
    pub(crate) fn now(&self) -> u64 {
        let elapsed = tokio::time::Instant::now().saturating_duration_since(self.origin);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the number of nodes at which clients wait for a resource.
    #[cfg(test)]
    pub(crate) fn wait_queues(&self, resource: &Resource) -> usize {
        let now = self.now();
        let is_in_use = |server: &&Server| {
            let queue = server.state.wait_queue(resource, server.time(now));
            queue.is_some_and(|queue| !queue.entries().is_empty())
        };
        self.servers.iter().filter(is_in_use).count()
    }

    /// Leaves a node without metadata until its first client registers.
    #[cfg(test)]
    pub(crate) fn leave_new(&mut self, node: usize) {
        if let Some(server) = self.servers.get_mut(node) {
            server.leave_new();
        }
    }

    /// Whether a node has metadata.
    #[cfg(test)]
    pub(crate) fn has_metadata(&self, node: usize) -> bool {
        self.servers.get(node).is_some_and(|server| server.state.metadata().is_some())
    }

    /// Adds an event to the queue. Returns the key that removes the event again.
    pub(crate) fn at(&mut self, at: u64, event: WorldEvent) -> (u64, u64) {
        let key = (at, self.next_event);
        self.next_event += 1;
        let is_next = self.queue.keys().next().is_none_or(|first| key < *first);
        self.queue.insert(key, event);
        if is_next && let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
        key
    }

    /// Records an event of a process in the history.
    pub(crate) fn note(&mut self, process: usize, event: history::Event) {
        let at = self.now();
        (at, process, &event).hash(&mut self.trace);
        self.history.note(Duration::from_micros(at), process, event);
    }

    /// Returns the number of the next client in this process, from 1.
    pub(crate) fn next_client(&mut self, process: usize) -> u64 {
        let next = self.clients.entry(process).or_default();
        *next += 1;
        *next
    }

    /// Keeps the lease that has become a ticket, for [`giver`](Self::giver).
    pub(crate) fn issue(&mut self, ticket: LeaseId, from: AttemptId) {
        self.tickets.insert(ticket, from);
    }

    /// Returns the lease that has become the ticket; `None` if no process has recorded the ticket.
    pub(crate) fn giver(&self, ticket: &LeaseId) -> Option<AttemptId> {
        self.tickets.get(ticket).copied()
    }

    /// Counts one event or task poll. Ends the run beyond its budget.
    pub(crate) fn spend(&mut self) {
        self.spent += 1;
        if self.spent > self.budget {
            self.finish(End::Exhausted);
        }
    }

    /// Ends the run, unless it has ended already.
    pub(crate) fn finish(&mut self, end: End) {
        if self.end.is_none() {
            self.end = Some(end);
            if let Some(driver) = &self.driver {
                driver.wake_by_ref();
            }
        }
    }

    /// Runs every event that is due, until the run ends. Returns the wakers and tasks to handle after the
    /// release of the mutex.
    fn run_due(&mut self) -> Teardown {
        let now = self.now();
        let mut after = Teardown::default();
        while self.end.is_none()
            && let Some(first) = self.queue.first_entry()
            && first.key().0 <= now
        {
            let event = first.remove();
            self.spend();
            self.run(event, &mut after);
        }
        after
    }
}
