//! Stores, and the accesses on their way to a store and back.

use std::{
    collections::BTreeMap,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::{World, WorldState, event::WorldEvent, teardown::Teardown};
use crate::{
    sim::{
        history,
        register::Register,
        rng::{RandomStream, hash_of, part},
    },
    values::{FencingToken, Resource, StaleToken},
};

/// The shortest time of an access, one way, in microseconds.
const SHORTEST: u64 = 100;

/// The largest addition to [`SHORTEST`], exclusive, in microseconds.
const SPREAD: u64 = 900;

/// All stores of a run, and the accesses in progress.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    registers: BTreeMap<Resource, Register>,
    /// The number of accesses that each process has sent.
    sent: BTreeMap<usize, u64>,
    /// The accesses that a task waits for, by process and number.
    pending: BTreeMap<(usize, u64), PendingAccess>,
}

/// An operation on a register. The register does not check an operation without a token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Read(Option<FencingToken>),
    ReadShared(FencingToken),
    Write(Option<FencingToken>, u64),
}

/// An access on the way to its store.
#[derive(Debug)]
pub(crate) struct RegisterAccess {
    process: usize,
    number: u64,
    name: Resource,
    operation: Operation,
}

/// An access that a task waits for, from its request until the task drops the access.
#[derive(Debug, Default)]
struct PendingAccess {
    waker: Option<Waker>,
    /// The value that was read or written, or the refusal, once the reply has arrived.
    reply: Option<AccessOutcome>,
}

/// The value that an access has read or written, or its refusal.
pub(crate) type AccessOutcome = Result<u64, StaleToken>;

impl Operation {
    fn perform(self, register: &mut Register) -> AccessOutcome {
        match self {
            Self::Read(Some(token)) => register.read(token),
            Self::ReadShared(token) => register.read_shared(token),
            Self::Read(None) => Ok(register.read_unfenced()),
            Self::Write(Some(token), value) => register.write(token, value).map(|()| value),
            Self::Write(None, value) => {
                register.write_unfenced(value);
                Ok(value)
            }
        }
    }

    fn into_event(self, register: Resource, outcome: AccessOutcome) -> history::Event {
        match self {
            Self::Read(token) => history::Event::Read { register, token, value: outcome.ok() },
            Self::ReadShared(token) => {
                history::Event::Read { register, token: Some(token), value: outcome.ok() }
            }
            Self::Write(token, value) => {
                history::Event::Written { register, token, value, is_accepted: outcome.is_ok() }
            }
        }
    }
}

impl WorldState {
    /// Sends an access. The access arrives even if the process stops meanwhile. Returns the number of the
    /// access in its process.
    fn send_access(&mut self, process: usize, name: Resource, operation: Operation) -> u64 {
        let sent = self.stores.sent.entry(process).or_default();
        let number = *sent;
        *sent += 1;
        self.stores.pending.insert((process, number), PendingAccess::default());
        self.network.in_flight += 1;
        let at = self.now().saturating_add(self.store_latency(process, number, 0));
        self.at(at, WorldEvent::Access(RegisterAccess { process, number, name, operation }));
        number
    }

    /// Performs an access that arrives at its store, and sends the reply.
    pub(super) fn access(&mut self, access: RegisterAccess) {
        self.network.in_flight -= 1;
        let RegisterAccess { process, number, name, operation } = access;
        let outcome = operation.perform(self.stores.registers.entry(name.clone()).or_default());
        self.note(process, operation.into_event(name, outcome));
        let at = self.now().saturating_add(self.store_latency(process, number, 1));
        self.at(at, WorldEvent::Accessed { process, number, outcome });
    }

    /// Handles the arrival of a reply: wakes the task, unless the task has dropped the access.
    pub(super) fn reply(
        &mut self,
        process: usize,
        number: u64,
        outcome: AccessOutcome,
        after: &mut Teardown,
    ) {
        if let Some(pending) = self.stores.pending.get_mut(&(process, number)) {
            pending.reply = Some(outcome);
            after.woken.extend(pending.waker.take());
        }
    }

    fn store_latency(&self, process: usize, number: u64, way: u64) -> u64 {
        SHORTEST + hash_of(self.schedule.seed, RandomStream::Store, [part(process), number, way]) % SPREAD
    }
}

/// A future of the reply to an access. The access is sent before the first poll.
#[derive(Debug)]
#[must_use = "the access is sent, but its outcome comes later"]
pub(crate) struct RoundTrip {
    world: World,
    process: usize,
    number: u64,
}

impl RoundTrip {
    pub(crate) fn begin(world: &World, process: usize, name: Resource, operation: Operation) -> Self {
        let number = world.lock().send_access(process, name, operation);
        Self { world: world.clone(), process, number }
    }
}

impl Future for RoundTrip {
    type Output = AccessOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker().clone();
        let mut state = self.world.lock();
        let Some(pending) = state.stores.pending.get_mut(&(self.process, self.number)) else {
            return Poll::Pending;
        };
        if let Some(outcome) = pending.reply {
            return Poll::Ready(outcome);
        }
        let stale = pending.waker.replace(waker);
        drop(state);
        // The old waker is dropped outside of the mutex, because a waker may run any code.
        drop(stale);
        Poll::Pending
    }
}

impl Drop for RoundTrip {
    fn drop(&mut self) {
        let pending = self.world.lock().stores.pending.remove(&(self.process, self.number));
        // The waker is dropped outside of the mutex, as in `poll`.
        drop(pending);
    }
}
