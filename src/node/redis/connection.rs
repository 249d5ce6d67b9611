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
    script::{self, CallReply, ScriptName},
    script_load,
};
use crate::{
    node::{
        names,
        operation::{Answer, AnswerSize, Operation},
        parameters::{Incarnation, QuorumParameters},
        transport::{BatchId, Connection, ConnectionEvent, NoticeCommand},
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
    unanswered: VecDeque<UnansweredCommand>,
    /// The subscription changes that are not sent yet. At most one command with changes is unanswered at a time, so
    /// that a thousand changes do not fill the queue that calls need.
    pending_subscriptions: VecDeque<PendingSubscription>,
    /// The changes of a refused command, each of which is sent again as a command of its own, before the
    /// pending changes: one forbidden channel refuses a whole command.
    refused_together: VecDeque<PendingSubscription>,
    subscribing: Option<SubscriptionCommand>,
    events: VecDeque<ConnectionEvent>,
    /// Whether the last poll found exactly the queued events, so that no further poll is needed after the events are
    /// taken. False again once `poll_event` returns `Pending`.
    is_settled: bool,
}

struct UnansweredCommand {
    pending: PendingReply,
    /// The largest size of the answers, beyond that of ordinary answers.
    longest_answers: AnswerSize,
    answering: PendingAnswer,
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
            refused_together: VecDeque::new(),
            subscribing: None,
            events: VecDeque::new(),
            is_settled: false,
        }
    }

    /// Sends a command.
    fn send_command(&mut self, pending: PendingReply, command: Cmd) {
        let longest_answers = match &pending {
            PendingReply::Call { operations, .. } => Operation::longest_answers(operations),
            PendingReply::Load => AnswerSize::default(),
        };
        let answering = self.raw.start(command);
        self.unanswered.push_back(UnansweredCommand { pending, longest_answers, answering });
        self.expect_answers();
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

    /// Sets the limits for the unanswered commands. The bytes of several answers may be read before the first of them is
    /// taken, so the longest answer counts, and not the next.
    fn expect_answers(&self) {
        let longest = self.unanswered.iter().map(|command| command.longest_answers);
        self.raw.budget.expect(longest.fold(AnswerSize::default(), AnswerSize::max));
    }

    fn take_answers(&mut self, context: &mut Context<'_>) -> RedisResult<()> {
        while let Some(UnansweredCommand { answering, .. }) = self.unanswered.front_mut() {
            let Poll::Ready(answer) = self.raw.poll_answer(answering, context) else { return Ok(()) };
            let Some(command) = self.unanswered.pop_front() else { return Ok(()) };
            self.raw.budget.reset();
            self.expect_answers();
            match command.pending {
                PendingReply::Call { batch, operations } => {
                    self.events.extend(call_events(batch, &operations, answer?));
                }
                PendingReply::Load => {
                    self.script_name = script_name(&answer?.extract_error()?)?;
                    self.events.push_back(ConnectionEvent::Loaded);
                }
            }
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
                Err(_) if subscriptions.len() > 1 => self.refused_together.extend(subscriptions),
                Err(error) => {
                    let is_on = subscriptions.first().is_some_and(|subscription| subscription.is_on);
                    let command = if is_on { NoticeCommand::Subscribe } else { NoticeCommand::Unsubscribe };
                    self.events
                        .push_back(ConnectionEvent::NoticeRefused { command, error: classify(&error) });
                }
            }
        }
    }

    /// Returns the next command: pending changes of one kind, up to [`MAX_CHANNELS`], or one change of a
    /// refused command.
    fn next_subscription_command(&mut self) -> Option<SubscriptionCommand> {
        let subscriptions: Vec<_> = match self.refused_together.pop_front() {
            Some(subscription) => vec![subscription],
            None => {
                let is_on = self.pending_subscriptions.front()?.is_on;
                let pending = self.pending_subscriptions.iter().take(MAX_CHANNELS);
                let alike = pending.take_while(|subscription| subscription.is_on == is_on).count();
                self.pending_subscriptions.drain(..alike).collect()
            }
        };
        let is_on = subscriptions.first()?.is_on;
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

/// Converts the reply to a call: one error for the whole call, or one answer for each operation, and the error of an
/// unpublished notice. A reply of another shape ends the connection.
fn call_events(
    batch: BatchId,
    operations: &[Operation],
    reply: Value,
) -> impl Iterator<Item = ConnectionEvent> {
    let (event, unpublished, violation) = match reply {
        Value::ServerError(error) => (failed_call(batch, operations, &RedisError::from(error)), None, None),
        reply => {
            let CallReply { answers, unpublished, violation } = script::decode(operations, reply);
            (ConnectionEvent::Answers { batch, answers }, unpublished, violation)
        }
    };
    let command = NoticeCommand::Publish;
    let refused = unpublished.map(|error| ConnectionEvent::NoticeRefused { command, error });
    std::iter::once(event).chain(refused).chain(violation.map(ConnectionEvent::Closed))
}

fn failed_call(batch: BatchId, operations: &[Operation], error: &RedisError) -> ConnectionEvent {
    if error.code() == Some("NOSCRIPT") {
        return ConnectionEvent::NotLoaded { batch };
    }
    ConnectionEvent::Answers { batch, answers: vec![Answer::Error(classify_call(error)); operations.len()] }
}
