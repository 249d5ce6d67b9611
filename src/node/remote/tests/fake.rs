//! A server that does what a test says, and notes what it was told.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use super::*;
use crate::{
    node::{
        Answer, Operation, Registration,
        parameters::Incarnation,
        transport::{BatchId, Connection, ConnectionEvent},
    },
    values::NodeError,
};

/// What a dial meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    Refusing,
    Flooding,
    Hanging,
}

#[derive(Clone, Debug)]
pub(super) struct Fake {
    clock: Arc<TokioClock>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    door: Door,
    /// Whether calls are answered as they come.
    is_lively: bool,
    dials: Vec<Duration>,
    /// The answer to every registration.
    registration: Answer,
    /// The answers to the next locks; granted when there are none.
    to_locks: VecDeque<Answer>,
    /// Calls without an answer.
    open: VecDeque<(BatchId, Arc<[Operation]>)>,
    /// All that was told, in words.
    told: Vec<String>,
    events: VecDeque<ConnectionEvent>,
    waker: Option<Waker>,
    connections: usize,
}

/// A connection, and whether it has loaded the script once, as all do first.
#[derive(Debug)]
struct FakeConnection(Fake, bool);

impl Fake {
    pub(super) fn new(clock: &Arc<TokioClock>) -> Self {
        let inner = Inner {
            door: Door::Open,
            is_lively: true,
            dials: Vec::new(),
            registration: registered("first incarnation"),
            to_locks: VecDeque::new(),
            open: VecDeque::new(),
            told: Vec::new(),
            events: VecDeque::new(),
            waker: None,
            connections: 0,
        };
        Self { clock: Arc::clone(clock), inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(super) fn set_door(&self, door: Door) {
        self.inner().door = door;
    }

    /// Answers every registration so from now on.
    pub(super) fn set_registration(&self, answer: Answer) {
        self.inner().registration = answer;
    }

    /// Answers the next lock so.
    pub(super) fn answer_lock(&self, answer: Answer) {
        self.inner().to_locks.push_back(answer);
    }

    pub(super) fn freeze(&self) {
        self.inner().is_lively = false;
    }

    /// Answers what comes from now on, but not what is open.
    pub(super) fn revive(&self) {
        self.inner().is_lively = true;
    }

    /// Answers what is open, and from now on whatever comes.
    pub(super) fn thaw(&self) {
        let mut inner = self.inner();
        inner.is_lively = true;
        while let Some((batch, operations)) = inner.open.pop_front() {
            inner.answer(batch, &operations);
        }
        inner.wake();
    }

    pub(super) fn say(&self, event: ConnectionEvent) {
        let mut inner = self.inner();
        inner.events.push_back(event);
        inner.wake();
    }

    /// Says of the oldest open call that the script is lost.
    pub(super) fn lose_script(&self) {
        let (batch, _) = self.inner().open.pop_front().unwrap();
        self.say(ConnectionEvent::NotLoaded { batch });
    }

    pub(super) fn dials(&self) -> Vec<Duration> {
        self.inner().dials.clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.inner().connections
    }

    /// All that was told since this was last asked.
    pub(super) fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().told)
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn answer(&mut self, batch: BatchId, operations: &[Operation]) {
        let answers = operations.iter().map(|operation| match operation {
            Operation::Unlock(_) => Answer::Unlocked { deleted: 1 },
            Operation::Register(_) => self.registration.clone(),
            _ => self.to_locks.pop_front().unwrap_or(Answer::Granted { vote: 1 }),
        });
        let answers = answers.collect();
        self.events.push_back(ConnectionEvent::Answers { batch, answers });
    }
}

/// What a node says that is in this incarnation and no quarantine.
pub(super) fn registered(incarnation: &str) -> Answer {
    Answer::Registered(Registration { incarnation: Some(incarnation.into()), quarantine: None })
}

fn in_words(operation: &Operation) -> String {
    match operation {
        Operation::Lock(lock) => format!("lock {}", lock.owner),
        Operation::Unlock(unlock) => format!("unlock {}", unlock.owner),
        Operation::Register(_) => "register".into(),
        other => format!("{other:?}"),
    }
}

impl Transport for Fake {
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, NodeError>> {
        let now = self.clock.now().since_origin();
        self.inner().dials.push(now);
        let door = self.inner().door;
        async move {
            match door {
                Door::Open => {}
                Door::Refusing => return Err(NodeError::Unreachable("refused".into())),
                Door::Flooding => return Err(NodeError::ReadLimit { most: 1 }),
                Door::Hanging => futures::future::pending().await,
            }
            let mut inner = self.inner();
            inner.events.clear();
            inner.open.clear();
            inner.connections += 1;
            let connection: Box<dyn Connection> = Box::new(FakeConnection(self.clone(), false));
            Ok(connection)
        }
        .boxed()
    }
}

impl Connection for FakeConnection {
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        let mut inner = self.0.inner();
        let words: Vec<_> = operations.iter().map(in_words).collect();
        inner.told.push(words.join(", "));
        if inner.is_lively {
            inner.answer(batch, &operations);
        } else {
            inner.open.push_back((batch, operations));
        }
    }

    fn registered(&mut self, incarnation: Option<Incarnation>) {
        self.0.inner().told.push(format!("registered in {}", incarnation.as_deref().unwrap_or("nothing")));
    }

    fn load(&mut self) {
        let mut inner = self.0.inner();
        if std::mem::replace(&mut self.1, true) {
            inner.told.push("load".into());
        } else {
            inner.events.push_back(ConnectionEvent::Loaded);
        }
    }

    fn subscribe(&mut self, resource: &Resource) {
        let mut inner = self.0.inner();
        inner.told.push(format!("subscribe {resource}"));
        inner.events.push_back(ConnectionEvent::Subscribed(resource.clone()));
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        self.0.inner().told.push(format!("unsubscribe {resource}"));
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent> {
        let mut inner = self.0.inner();
        inner.waker = Some(context.waker().clone());
        inner.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for FakeConnection {
    fn drop(&mut self) {
        self.0.inner().connections -= 1;
    }
}
