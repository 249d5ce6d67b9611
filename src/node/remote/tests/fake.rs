//! A fake server, which records the calls that it receives. Tests set the behaviour of the server.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use super::*;
use crate::{
    node::{
        Answer, Operation, Registration,
        dial::{DialLimit, DialStep},
        parameters::Incarnation,
        transport::{BatchId, Connection, ConnectionEvent},
    },
    values::NodeError,
};

/// The outcome of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialBehaviour {
    Accepting,
    Refusing,
    Flooding,
    Hanging,
}

#[derive(Clone, Debug)]
pub(super) struct FakeServer {
    clock: Arc<TokioClock>,
    state: Arc<Mutex<FakeState>>,
}

#[derive(Debug)]
struct FakeState {
    behaviour: DialBehaviour,
    /// Whether new calls are answered at once.
    answers_calls: bool,
    dials: Vec<Duration>,
    has_script: bool,
    /// The answer to every registration.
    registration: Answer,
    /// The answers to the next locks. Further locks are granted.
    lock_answers: VecDeque<Answer>,
    /// The unanswered calls.
    unanswered: VecDeque<(BatchId, Arc<[Operation]>)>,
    /// Descriptions of the calls and subscriptions that the server has received.
    sent_texts: Vec<String>,
    events: VecDeque<ConnectionEvent>,
    waker: Option<Waker>,
    connections: usize,
}

/// A connection to the fake server.
#[derive(Debug)]
struct FakeConnection {
    server: FakeServer,
}

impl FakeServer {
    pub(super) fn new(clock: &Arc<TokioClock>) -> Self {
        let state = FakeState {
            behaviour: DialBehaviour::Accepting,
            answers_calls: true,
            dials: Vec::new(),
            has_script: true,
            registration: registered("first incarnation"),
            lock_answers: VecDeque::new(),
            unanswered: VecDeque::new(),
            sent_texts: Vec::new(),
            events: VecDeque::new(),
            waker: None,
            connections: 0,
        };
        Self { clock: Arc::clone(clock), state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap()
    }

    pub(super) fn set_dial_behaviour(&self, behaviour: DialBehaviour) {
        self.state().behaviour = behaviour;
    }

    /// Sets the answer to every later registration.
    pub(super) fn set_registration(&self, answer: Answer) {
        self.state().registration = answer;
    }

    /// Sets the answer to the next lock.
    pub(super) fn answer_lock(&self, answer: Answer) {
        self.state().lock_answers.push_back(answer);
    }

    /// Leaves later calls unanswered.
    pub(super) fn freeze(&self) {
        self.state().answers_calls = false;
    }

    /// Answers later calls, but leaves earlier calls unanswered.
    pub(super) fn revive(&self) {
        self.state().answers_calls = true;
    }

    /// Answers the unanswered calls and all later calls.
    pub(super) fn thaw(&self) {
        let mut state = self.state();
        state.answers_calls = true;
        while let Some((batch, operations)) = state.unanswered.pop_front() {
            state.answer(batch, &operations);
        }
        state.wake();
    }

    pub(super) fn push_event(&self, event: ConnectionEvent) {
        let mut state = self.state();
        state.events.push_back(event);
        state.wake();
    }

    /// Lets the server lose the script, which the server reports for the oldest unanswered call and for later calls.
    pub(super) fn lose_script(&self) {
        self.forget_script();
        let (batch, _) = self.state().unanswered.pop_front().unwrap();
        self.push_event(ConnectionEvent::NotLoaded { batch });
    }

    /// Answers the oldest unanswered call, and lets the server lose the script afterwards.
    pub(super) fn answer_and_forget_script(&self) {
        let mut state = self.state();
        let (batch, operations) = state.unanswered.pop_front().unwrap();
        state.answer(batch, &operations);
        state.has_script = false;
        state.wake();
    }

    /// Lets the server lose the script, which the server reports for later calls.
    pub(super) fn forget_script(&self) {
        self.state().has_script = false;
    }

    /// Lets another client deliver the script.
    pub(super) fn get_script(&self) {
        self.state().has_script = true;
    }

    pub(super) fn dials(&self) -> Vec<Duration> {
        self.state().dials.clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.state().connections
    }

    /// Returns the descriptions of the calls and subscriptions that the server has received since the last call of this
    /// method.
    pub(super) fn sent_texts(&self) -> Vec<String> {
        std::mem::take(&mut self.state().sent_texts)
    }
}

impl FakeState {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Records a call, and answers it unless the server is frozen.
    fn receive(&mut self, batch: BatchId, operations: Arc<[Operation]>, script: &str) {
        let words: Vec<_> = operations.iter().map(describe).collect();
        let words = if words.is_empty() { "ask".to_owned() } else { words.join(", ") };
        // The question of a new connection is not recorded while the server has the script.
        if words != "ask" || !self.has_script {
            self.sent_texts.push(format!("{words}{script}"));
        }
        if !self.answers_calls {
            self.unanswered.push_back((batch, operations));
        } else if self.has_script {
            self.answer(batch, &operations);
        } else {
            self.events.push_back(ConnectionEvent::NotLoaded { batch });
        }
    }

    fn answer(&mut self, batch: BatchId, operations: &[Operation]) {
        let answers = operations.iter().map(|operation| match operation {
            Operation::Unlock(_) => Answer::Unlocked { deleted: 1 },
            Operation::Register(_) => self.registration.clone(),
            _ => self.lock_answers.pop_front().unwrap_or(Answer::Granted { vote: 1 }),
        });
        let answers = answers.collect();
        self.events.push_back(ConnectionEvent::Answers { batch, answers });
    }
}

/// Returns the answer to a registration of a node in this incarnation without a quarantine.
pub(super) fn registered(incarnation: &str) -> Answer {
    Answer::Registered(Registration { incarnation: Some(incarnation.into()), quarantine: None })
}

fn describe(operation: &Operation) -> String {
    match operation {
        Operation::Lock(lock) => format!("lock {}", lock.lease_id),
        Operation::Unlock(unlock) => format!("unlock {}", unlock.lease_id),
        Operation::Register(_) => "register".into(),
        other => format!("{other:?}"),
    }
}

impl Transport for FakeServer {
    fn dial<'a>(&'a self, limit: DialLimit<'a>) -> BoxFuture<'a, Result<Box<dyn Connection>, NodeError>> {
        let now = self.clock.now().since_origin();
        self.state().dials.push(now);
        let behaviour = self.state().behaviour;
        async move {
            match behaviour {
                DialBehaviour::Accepting => {}
                DialBehaviour::Refusing => return Err(NodeError::Unreachable("refused".into())),
                DialBehaviour::Flooding => return Err(NodeError::ReadLimit { most: 1, most_values: 1 }),
                DialBehaviour::Hanging => limit.step(DialStep::All, futures::future::pending()).await?,
            }
            let mut state = self.state();
            state.events.clear();
            state.unanswered.clear();
            state.connections += 1;
            let connection: Box<dyn Connection> = Box::new(FakeConnection { server: self.clone() });
            Ok(connection)
        }
        .boxed()
    }
}

impl Connection for FakeConnection {
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        self.server.state().receive(batch, operations, "");
    }

    fn send_with_script(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        let mut state = self.server.state();
        state.has_script = true;
        state.receive(batch, operations, " with the script");
    }

    fn registered(&mut self, incarnation: Option<Incarnation>) {
        self.server
            .state()
            .sent_texts
            .push(format!("registered in {}", incarnation.as_deref().unwrap_or("nothing")));
    }

    fn load(&mut self) {
        let mut state = self.server.state();
        state.has_script = true;
        state.sent_texts.push("load".into());
        state.events.push_back(ConnectionEvent::Loaded);
    }

    fn subscribe(&mut self, resource: &Resource) {
        let mut state = self.server.state();
        state.sent_texts.push(format!("subscribe {resource}"));
        state.events.push_back(ConnectionEvent::Subscribed(resource.clone()));
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        self.server.state().sent_texts.push(format!("unsubscribe {resource}"));
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent> {
        let mut state = self.server.state();
        state.waker = Some(context.waker().clone());
        state.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for FakeConnection {
    fn drop(&mut self) {
        self.server.state().connections -= 1;
    }
}
