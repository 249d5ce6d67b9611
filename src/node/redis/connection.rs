//! A Redis connection with the interface that the send queue needs.

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

/// The largest number of channels in one command.
const MAX_CHANNELS: usize = 64;

/// A connection to a server that has the script.
pub(super) struct RedisConnection {
    raw: RawConnection,
    parameters: QuorumParameters,
    script_name: ScriptName,
    /// The unanswered commands in the order of sending, which is the order of their answers.
    unanswered: VecDeque<(PendingReply, PendingAnswer)>,
    /// The subscription changes that are not sent yet. At most one command with changes is unanswered at a time, so
    /// that a thousand changes do not fill the queue that calls need.
    pending_subscriptions: VecDeque<PendingSubscription>,
    subscribing: Option<SubscriptionCommand>,
    events: VecDeque<ConnectionEvent>,
    /// Whether the last poll found exactly the queued events, so that no further poll is needed after the events are
    /// taken. False again once `poll_event` returns `Pending`.
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
            unanswered: VecDeque::new(),
            pending_subscriptions: VecDeque::new(),
            subscribing: None,
            events: VecDeque::new(),
            is_settled: false,
        }
    }

    /// Sends a command.
    fn send_command(&mut self, pending: PendingReply, command: Cmd) {
        let answering = self.raw.start(command);
        self.unanswered.push_back((pending, answering));
        if self.unanswered.len() == 1 {
            self.expect_next();
        }
        self.is_settled = false;
    }

    fn queue_subscription(&mut self, subscription: PendingSubscription) {
        self.pending_subscriptions.push_back(subscription);
        self.is_settled = false;
    }

    /// Drives the connection, and queues the events that result.
    fn advance(&mut self, context: &mut Context<'_>) {
        let is_broken = self.raw.poll_drive(context).is_ready();
        let outcome = self.take_answers(context).and_then(|()| self.take_subscriptions(context));
        // If the redis crate drives the connection, only the end of the pushes shows that the connection is broken.
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

    /// Sets the limit of bytes for the next answer.
    fn expect_next(&self) {
        let long = match self.unanswered.front() {
            Some((PendingReply::Call { operations, .. }, _)) => {
                operations.iter().filter(|operation| operation.as_dyn().has_long_answer()).count()
            }
            _ => 0,
        };
        self.raw.budget.expect(long);
    }

    fn take_answers(&mut self, context: &mut Context<'_>) -> RedisResult<()> {
        while let Some((_, answering)) = self.unanswered.front_mut() {
            let Poll::Ready(answer) = self.raw.poll_answer(answering, context) else { return Ok(()) };
            let Some((pending, _)) = self.unanswered.pop_front() else { return Ok(()) };
            self.raw.budget.reset();
            self.expect_next();
            let event = match pending {
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

    /// Finishes the subscription command in flight, and starts the next.
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
            self.raw.budget.reset();
            match outcome {
                Ok(()) => {
                    let on = subscriptions.into_iter().filter(|subscription| subscription.is_on);
                    self.events
                        .extend(on.map(|subscription| ConnectionEvent::Subscribed(subscription.resource)));
                }
                Err(error) if error.is_unrecoverable_error() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = %classify(&error), "node refuses subscriptions: waiters poll");
                }
            }
        }
    }

    /// Returns the next command: pending changes of one kind, up to [`MAX_CHANNELS`].
    fn next_subscription_command(&mut self) -> Option<SubscriptionCommand> {
        let is_on = self.pending_subscriptions.front()?.is_on;
        let alike = self
            .pending_subscriptions
            .iter()
            .take(MAX_CHANNELS)
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
        self.send_command(PendingReply::Call { batch, operations }, command);
    }

    fn load(&mut self) {
        self.send_command(PendingReply::Load, script_load());
    }

    fn registered(&mut self, incarnation: Option<Incarnation>) {
        self.parameters.incarnation = incarnation;
    }

    fn subscribe(&mut self, resource: &Resource) {
        self.raw.pushes.listen(names::notice_channel(resource), resource.clone());
        self.queue_subscription(PendingSubscription { resource: resource.clone(), is_on: true });
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        self.raw.pushes.ignore(&names::notice_channel(resource));
        self.queue_subscription(PendingSubscription { resource: resource.clone(), is_on: false });
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent> {
        // A task that has taken the last event polls once more. Everything is polled already then, so this poll can
        // return at once.
        if self.events.is_empty() && !std::mem::take(&mut self.is_settled) {
            self.advance(context);
            self.is_settled = !self.events.is_empty();
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConnection").field("unanswered", &self.unanswered.len()).finish_non_exhaustive()
    }
}

/// Returns the name that the server has given to the script.
fn script_name(reply: &Value) -> RedisResult<ScriptName> {
    ScriptName::read(reply).ok_or_else(|| {
        let shown = script::beginning(reply);
        (ErrorKind::UnexpectedReturnType, "the server has not named the script", shown).into()
    })
}

/// Converts the reply to a call: one error for the whole call, or one answer for each operation.
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
