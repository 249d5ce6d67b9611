//! A connection to a Redis server with the interface that the send queue needs: calls of the script, subscriptions, and
//! their events.

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
    script::{self, CallReply, Script, ScriptReference},
};
use crate::{
    node::{
        operation::{Answer, AnswerSize, Operation},
        parameters::{Incarnation, QuorumParameters},
        remote::ClusterRegistration,
        transport::{BatchId, Connection, ConnectionEvent, NoticeCommand},
    },
    values::Resource,
};

/// The largest number of channels in one command.
const MAX_CHANNELS: usize = 64;

/// A connection on which calls execute the script, and on which release notices arrive.
pub(super) struct RedisConnection {
    raw: RawConnection,
    script: Arc<Script>,
    /// The registration of the cluster to which the server belongs.
    cluster: Option<ClusterRegistration>,
    parameters: QuorumParameters,
    /// The unanswered commands in the order of sending, which is the order of their answers.
    unanswered: VecDeque<UnansweredCommand>,
    /// The subscription changes that are not sent yet. At most one command with changes is unanswered at a time, so
    /// that a thousand changes do not fill the queue that calls need.
    pending_changes: VecDeque<SubscriptionChange>,
    /// The changes of a command of several channels that the server refused. One forbidden channel is enough for that,
    /// so each change is sent again in a command of its own, before the pending changes.
    refused_together: VecDeque<SubscriptionChange>,
    subscribing: Option<SubscriptionCommand>,
    events: VecDeque<ConnectionEvent>,
    /// Whether the connection has no event beyond the queued events, so that `poll_event` need not drive the connection
    /// before the next `Pending`. A new command resets this flag, and so does that `Pending`.
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

/// The beginning or the end of a subscription to the release notices of a resource.
#[derive(Debug)]
struct SubscriptionChange {
    resource: Resource,
    is_on: bool,
}

struct SubscriptionCommand {
    changes: Vec<SubscriptionChange>,
    answering: BoxFuture<'static, RedisResult<()>>,
}

impl RedisConnection {
    pub(super) fn new(raw: RawConnection, script: Arc<Script>, parameters: QuorumParameters) -> Self {
        Self {
            raw,
            script,
            cluster: None,
            parameters,
            unanswered: VecDeque::new(),
            pending_changes: VecDeque::new(),
            refused_together: VecDeque::new(),
            subscribing: None,
            events: VecDeque::new(),
            is_settled: false,
        }
    }

    /// Returns the same connection, to a server of a cluster.
    pub(super) fn in_cluster(self, registration: ClusterRegistration) -> Self {
        Self { cluster: Some(registration), ..self }
    }

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

    fn send_call(&mut self, reference: ScriptReference, batch: BatchId, operations: Arc<[Operation]>) {
        let command = self.script.command(reference, &self.parameters, &operations);
        self.send_command(PendingReply::Call { batch, operations }, command);
    }

    fn queue_change(&mut self, change: SubscriptionChange) {
        self.pending_changes.push_back(change);
        self.is_settled = false;
    }

    /// Drives the connection, and queues the events that result.
    fn advance(&mut self, context: &mut Context<'_>) {
        let is_broken = self.raw.poll_drive(context).is_ready();
        if let Some(error) = self.raw.pushes.sentry_error() {
            // An answer that was read together with the end of the sentry may be younger than that end.
            self.events.push_back(ConnectionEvent::Closed(error));
            return;
        }
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
        self.events.extend(node_error.map(|error| ConnectionEvent::Closed(self.raw.with_user(error))));
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
                    let events = call_events(&self.script, batch, &operations, answer?);
                    let events = events.map(|event| with_user(event, &self.raw));
                    self.events.extend(events);
                }
                PendingReply::Load => {
                    check_script_name(&self.script, &answer?.extract_error()?)?;
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
            let changes = self.subscribing.take().map(|subscribing| subscribing.changes).unwrap_or_default();
            self.raw.pushes.expect(Vec::new());
            self.raw.budget.reset();
            match outcome {
                Ok(()) => {
                    let on = changes.into_iter().filter(|change| change.is_on);
                    self.events.extend(on.map(|change| ConnectionEvent::Subscribed(change.resource)));
                }
                Err(error) if error.is_unrecoverable_error() => return Err(error),
                Err(_) if changes.len() > 1 => self.refused_together.extend(changes),
                Err(error) => {
                    let is_on = changes.first().is_some_and(|change| change.is_on);
                    let command = if is_on { NoticeCommand::Subscribe } else { NoticeCommand::Unsubscribe };
                    let error = self.raw.with_user(classify(&error));
                    self.events.push_back(ConnectionEvent::NoticeRefused { command, error });
                }
            }
        }
    }

    /// Returns the next command: one change of a refused command, or else up to [`MAX_CHANNELS`] pending changes that
    /// all begin or all end a subscription.
    fn next_subscription_command(&mut self) -> Option<SubscriptionCommand> {
        let changes: Vec<_> = match self.refused_together.pop_front() {
            Some(change) => vec![change],
            None => {
                let is_on = self.pending_changes.front()?.is_on;
                let pending = self.pending_changes.iter().take(MAX_CHANNELS);
                let count = pending.take_while(|change| change.is_on == is_on).count();
                self.pending_changes.drain(..count).collect()
            }
        };
        let is_on = changes.first()?.is_on;
        let channels: Vec<_> =
            changes.iter().map(|change| self.script.notice_channel(&change.resource)).collect();
        self.raw.pushes.expect(channels.clone());
        let mut connection = self.raw.multiplexed();
        let answering = async move {
            if is_on { connection.subscribe(channels).await } else { connection.unsubscribe(channels).await }
        };
        Some(SubscriptionCommand { changes, answering: answering.boxed() })
    }
}

impl Connection for RedisConnection {
    fn send(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        self.send_call(ScriptReference::Name, batch, operations);
    }

    fn send_with_script(&mut self, batch: BatchId, operations: Arc<[Operation]>) {
        self.send_call(ScriptReference::Text, batch, operations);
    }

    fn load(&mut self) {
        self.send_command(PendingReply::Load, self.script.load());
    }

    fn registered(&mut self, incarnation: Option<Incarnation>) {
        self.parameters.incarnation = incarnation;
    }

    fn subscribe(&mut self, resource: &Resource) {
        self.raw.pushes.listen(self.script.notice_channel(resource), resource.clone());
        self.queue_change(SubscriptionChange { resource: resource.clone(), is_on: true });
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        self.raw.pushes.ignore(&self.script.notice_channel(resource));
        self.queue_change(SubscriptionChange { resource: resource.clone(), is_on: false });
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ConnectionEvent> {
        // A task that has taken the last event polls once more. The connection was driven before, so this poll need not
        // drive it.
        if self.events.is_empty() && !std::mem::take(&mut self.is_settled) {
            self.advance(context);
            self.is_settled = !self.events.is_empty();
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConnection")
            .field("unanswered", &self.unanswered.len())
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// Checks the reply to `SCRIPT LOAD`, which is the name of the script.
fn check_script_name(script: &Script, reply: &Value) -> RedisResult<()> {
    match reply {
        Value::BulkString(name) if name == script.name().as_bytes() => Ok(()),
        other => {
            let shown = script::beginning(other);
            let kind = ErrorKind::UnexpectedReturnType;
            Err((kind, "the reply to SCRIPT LOAD is not the name of the script", shown).into())
        }
    }
}

/// Adds the user of the connection to the errors of an event about missing permissions.
fn with_user(event: ConnectionEvent, raw: &RawConnection) -> ConnectionEvent {
    match event {
        ConnectionEvent::Answers { batch, answers } => {
            let answers = answers.into_iter().map(|answer| match answer {
                Answer::Error(error) => Answer::Error(raw.with_user(error)),
                answer => answer,
            });
            ConnectionEvent::Answers { batch, answers: answers.collect() }
        }
        ConnectionEvent::NoticeRefused { command, error } => {
            ConnectionEvent::NoticeRefused { command, error: raw.with_user(error) }
        }
        event => event,
    }
}

/// Converts the reply to a call: the error of an unpublished notice, if any; and then one error for the whole call, or one
/// answer for each operation. The refusal of a notice precedes the answers, so that the refusal is recorded when the
/// caller receives the answers. A reply of another shape ends the connection, and so does the reply of a server that is
/// no longer the master of the slot.
fn call_events(
    script: &Script,
    batch: BatchId,
    operations: &[Operation],
    reply: Value,
) -> impl Iterator<Item = ConnectionEvent> {
    let (event, unpublished, end) = match reply {
        Value::ServerError(error) => {
            let error = RedisError::from(error);
            let has_moved = error.code() == Some("MOVED");
            (failed_call(batch, operations, &error), None, has_moved.then(|| classify(&error)))
        }
        reply => {
            let CallReply { answers, unpublished, violation } = script.decode(operations, reply);
            (ConnectionEvent::Answers { batch, answers }, unpublished, violation)
        }
    };
    let command = NoticeCommand::Publish;
    let refused = unpublished.map(|error| ConnectionEvent::NoticeRefused { command, error });
    refused.into_iter().chain(std::iter::once(event)).chain(end.map(ConnectionEvent::Closed))
}

fn failed_call(batch: BatchId, operations: &[Operation], error: &RedisError) -> ConnectionEvent {
    if error.code() == Some("NOSCRIPT") {
        return ConnectionEvent::NotLoaded { batch };
    }
    ConnectionEvent::Answers { batch, answers: vec![Answer::Error(classify_call(error)); operations.len()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_confirms_the_script_by_its_name() {
        let text = |text: &str| Value::BulkString(text.into());
        let script = Script::standalone();
        assert!(check_script_name(&script, &text(script.name())).is_ok());
        for reply in [text(&"0a".repeat(20)), text(""), Value::Okay, Value::Nil] {
            assert!(check_script_name(&script, &reply).is_err(), "{reply:?}");
        }
    }
}
