//! A Redis connection as the send queue sees it.

use std::{
    collections::VecDeque,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use super::{
    classify::{classify, classify_call},
    raw_connection::{PendingAnswer, RawConnection, broken},
    script::{self, ScriptName},
    script_load,
};
use crate::{
    node::{
        names,
        operation::{Answer, Operation},
        parameters::{Incarnation, QuorumParameters},
        transport::{BatchId, Connection, ConnectionEvent},
    },
    values::Resource,
};

/// The most channels that are named in one command.
const MOST_CHANNELS: usize = 64;

/// A connection to a server that has the script.
pub(super) struct RedisConnection {
    raw: RawConnection,
    parameters: QuorumParameters,
    script_name: ScriptName,
    /// What is asked and not answered, in the order of sending, which is that of the answers.
    asked: VecDeque<(PendingReply, PendingAnswer)>,
    /// Pending subscriptions, and those that are being asked for: one command at a time, so that a
    /// thousand of them never fill the room that the calls need.
    pending_subscriptions: VecDeque<PendingSubscription>,
    subscribing: Option<SubscriptionCommand>,
    events: VecDeque<ConnectionEvent>,
    /// Whether the events at hand are all that the last look found, so that no other look is needed
    /// when they are taken. Never when `poll_event` has said pending.
    is_settled: bool,
}

#[derive(Debug)]
enum PendingReply {
    Call { batch: BatchId, operations: Arc<[Operation]> },
    Load,
}

#[derive(Debug)]
struct PendingSubscription {
    resource: Resource,
    is_on: bool,
}

struct SubscriptionCommand {
    subscriptions: Vec<PendingSubscription>,
    answering: BoxFuture<'static, RedisResult<()>>,
}

impl RedisConnection {
    pub(super) fn new(raw: RawConnection, parameters: QuorumParameters) -> Self {
        Self {
            raw,
            parameters,
            script_name: ScriptName::default(),
            asked: VecDeque::new(),
            pending_subscriptions: VecDeque::new(),
            subscribing: None,
            events: VecDeque::new(),
            is_settled: false,
        }
    }

    /// Sends a question.
    fn ask(&mut self, question: PendingReply, command: Cmd) {
        let answering = self.raw.start(command);
        self.asked.push_back((question, answering));
        if self.asked.len() == 1 {
            self.expect_next();
        }
        self.is_settled = false;
    }

    fn ask_for(&mut self, subscription: PendingSubscription) {
        self.pending_subscriptions.push_back(subscription);
        self.is_settled = false;
    }

    /// Drives the connection, and collects all that came of it.
    fn advance(&mut self, context: &mut Context<'_>) {
        let is_broken = self.raw.poll_drive(context).is_ready();
        let outcome = self.take_answers(context).and_then(|()| self.take_subscriptions(context));
        // A connection that is driven elsewhere says in this way that it is broken.
        let pushes = self.raw.take_pushes(context);
        self.events.extend(pushes.released.into_iter().map(ConnectionEvent::Released));
        let node_error = match outcome {
            _ if pushes.error.is_some() => pushes.error,
            Err(error) => Some(self.raw.node_error(&error)),
            Ok(()) if is_broken || pushes.has_ended => Some(self.raw.node_error(&broken())),
            Ok(()) => None,
        };
        self.events.extend(node_error.map(ConnectionEvent::Closed));
    }

    /// Says how long the answer may be that comes next.
    fn expect_next(&self) {
        let long = match self.asked.front() {
            Some((PendingReply::Call { operations, .. }, _)) => {
                operations.iter().filter(|operation| operation.as_dyn().may_be_long()).count()
            }
            _ => 0,
        };
        self.raw.budget.expect(long);
    }

    fn take_answers(&mut self, context: &mut Context<'_>) -> RedisResult<()> {
        while let Some((_, answering)) = self.asked.front_mut() {
            let Poll::Ready(answer) = self.raw.poll_answer(answering, context) else { return Ok(()) };
            let Some((question, _)) = self.asked.pop_front() else { return Ok(()) };
            self.raw.budget.heard();
            self.expect_next();
            let event = match question {
                PendingReply::Call { batch, operations } => call_event(batch, &operations, answer?),
                PendingReply::Load => {
                    self.script_name = script_name(&answer?.extract_error()?)?;
                    ConnectionEvent::Loaded
                }
            };
            self.events.push_back(event);
        }
        Ok(())
    }

    /// Finishes the subscription command that is under way, and starts the next.
    fn take_subscriptions(&mut self, context: &mut Context<'_>) -> RedisResult<()> {
        loop {
            let Some(subscribing) = &mut self.subscribing else {
                match self.next_subscription_command() {
                    Some(subscribing) => self.subscribing = Some(subscribing),
                    None => return Ok(()),
                }
                continue;
            };
            let Poll::Ready(outcome) = subscribing.answering.poll_unpin(context) else { return Ok(()) };
            let subscriptions =
                self.subscribing.take().map(|subscribing| subscribing.subscriptions).unwrap_or_default();
            self.raw.pushes.expect(Vec::new());
            self.raw.budget.heard();
            match outcome {
                Ok(()) => {
                    let on = subscriptions.into_iter().filter(|subscription| subscription.is_on);
                    self.events
                        .extend(on.map(|subscription| ConnectionEvent::Subscribed(subscription.resource)));
                }
                Err(error) if error.is_unrecoverable_error() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = %classify(&error), "a node refuses subscriptions: waiters poll");
                }
            }
        }
    }

    /// The next command: as many pending subscriptions of one kind as may travel together.
    fn next_subscription_command(&mut self) -> Option<SubscriptionCommand> {
        let is_on = self.pending_subscriptions.front()?.is_on;
        let alike = self
            .pending_subscriptions
            .iter()
            .take(MOST_CHANNELS)
            .take_while(|subscription| subscription.is_on == is_on)
            .count();
        let subscriptions: Vec<_> = self.pending_subscriptions.drain(..alike).collect();
        let channels: Vec<_> =
            subscriptions.iter().map(|subscription| names::notice_channel(&subscription.resource)).collect();
        self.raw.pushes.expect(channels.clone());
        let mut connection = self.raw.multiplexed();
        let answering = async move {
            if is_on { connection.subscribe(channels).await } else { connection.unsubscribe(channels).await }
        };
        Some(SubscriptionCommand { subscriptions, answering: answering.boxed() })
    }
}

impl Connection for RedisConnection {
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        let command = script::command(&self.script_name, &self.parameters, &operations);
        self.ask(PendingReply::Call { batch, operations }, command);
    }

    fn load(&mut self) {
        self.ask(PendingReply::Load, script_load());
    }

    fn registered(&mut self, incarnation: Option<Incarnation>) {
        self.parameters.incarnation = incarnation;
    }

    fn subscribe(&mut self, resource: &Resource) {
        self.raw.pushes.listen(names::notice_channel(resource), resource.clone());
        self.ask_for(PendingSubscription { resource: resource.clone(), is_on: true });
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        self.raw.pushes.ignore(&names::notice_channel(resource));
        self.ask_for(PendingSubscription { resource: resource.clone(), is_on: false });
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent> {
        // A task that has taken the last event asks once more, and then everything has been polled
        // already.
        if self.events.is_empty() && !std::mem::take(&mut self.is_settled) {
            self.advance(context);
            self.is_settled = !self.events.is_empty();
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConnection").field("asked", &self.asked.len()).finish_non_exhaustive()
    }
}

/// The name that the server has given the script.
fn script_name(reply: &Value) -> RedisResult<ScriptName> {
    ScriptName::read(reply).ok_or_else(|| {
        let shown = script::beginning(reply);
        (ErrorKind::UnexpectedReturnType, "the server has not named the script", shown).into()
    })
}

/// What the reply to a call means: one error for all of it, or an answer to each operation.
fn call_event(batch: BatchId, operations: &[Operation], reply: Value) -> ConnectionEvent {
    let error = match reply {
        Value::ServerError(error) => RedisError::from(error),
        reply => return ConnectionEvent::Answers { batch, answers: script::decode(operations, reply) },
    };
    if error.code() == Some("NOSCRIPT") {
        return ConnectionEvent::NotLoaded { batch };
    }
    ConnectionEvent::Answers { batch, answers: vec![Answer::Error(classify_call(&error)); operations.len()] }
}
