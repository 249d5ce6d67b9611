//! A Redis connection as the send queue sees it.

use std::{
    collections::VecDeque,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt};
use redis::{Cmd, RedisError, RedisResult, Value};

use super::{
    classify::classify_call,
    script, script_load,
    wire::{Answering, Wire, broken},
};
use crate::{
    node::{
        answer::Answer,
        names,
        parameters::{Incarnation, QuorumParameters},
        request::Entry,
        transport::{BatchId, Link, LinkEvent},
    },
    resource::Resource,
};

/// The most channels that are named in one command.
const MOST_CHANNELS: usize = 64;

/// A connection to a server that has the script.
pub(super) struct RedisLink {
    wire: Wire,
    parameters: QuorumParameters,
    /// What is asked and not answered, in the order of the wire, which is that of the answers.
    asked: VecDeque<(Question, Answering)>,
    /// Subscriptions to be asked for, and those that are being asked for: one command at a time, so
    /// that a thousand of them never fill the room that the calls need.
    wishes: VecDeque<Wish>,
    granting: Option<Granting>,
    events: VecDeque<LinkEvent>,
    /// Whether the events at hand are all that the last look found, so that no other look is needed
    /// when they are taken. Never when `poll_event` has said pending.
    is_settled: bool,
}

#[derive(Debug)]
enum Question {
    Call { batch: BatchId, entries: Arc<[Entry]> },
    Load,
}

#[derive(Debug)]
struct Wish {
    resource: Resource,
    is_on: bool,
}

struct Granting {
    wishes: Vec<Wish>,
    answering: BoxFuture<'static, RedisResult<()>>,
}

impl RedisLink {
    pub(super) fn new(wire: Wire, parameters: QuorumParameters) -> Self {
        Self {
            wire,
            parameters,
            asked: VecDeque::new(),
            wishes: VecDeque::new(),
            granting: None,
            events: VecDeque::new(),
            is_settled: false,
        }
    }

    /// Puts a question on the wire.
    fn ask(&mut self, question: Question, command: Cmd) {
        let answering = self.wire.start(command);
        self.asked.push_back((question, answering));
        if self.asked.len() == 1 {
            self.expect_next();
        }
        self.is_settled = false;
    }

    fn wish(&mut self, wish: Wish) {
        self.wishes.push_back(wish);
        self.is_settled = false;
    }

    /// Lets the wire move, and collects all that came of it.
    fn advance(&mut self, context: &mut Context<'_>) {
        let is_broken = self.wire.poll_drive(context).is_ready();
        let outcome = self.take_answers(context).and_then(|()| self.take_grants(context));
        // A connection that is driven elsewhere says in this way that it is broken.
        let mail = self.wire.take_mail(context);
        self.events.extend(mail.released.into_iter().map(LinkEvent::Released));
        let node_error = match outcome {
            _ if mail.error.is_some() => mail.error,
            Err(error) => Some(self.wire.node_error(&error)),
            Ok(()) if is_broken || mail.has_ended => Some(self.wire.node_error(&broken())),
            Ok(()) => None,
        };
        self.events.extend(node_error.map(LinkEvent::Closed));
    }

    /// Says how long the answer may be that comes next.
    fn expect_next(&self) {
        let leaders = match self.asked.front() {
            Some((Question::Call { entries, .. }, _)) => {
                entries.iter().filter(|entry| matches!(entry, Entry::Observe(_))).count()
            }
            _ => 0,
        };
        self.wire.intake.expect(leaders);
    }

    fn take_answers(&mut self, context: &mut Context<'_>) -> RedisResult<()> {
        while let Some((_, answering)) = self.asked.front_mut() {
            let Poll::Ready(answer) = self.wire.poll_answer(answering, context) else { return Ok(()) };
            let Some((question, _)) = self.asked.pop_front() else { return Ok(()) };
            self.wire.intake.heard();
            self.expect_next();
            let event = match question {
                Question::Call { batch, entries } => call_event(batch, &entries, answer?),
                Question::Load => {
                    answer?.extract_error()?;
                    LinkEvent::Loaded
                }
            };
            self.events.push_back(event);
        }
        Ok(())
    }

    /// Finishes the subscription command that is under way, and starts the next.
    fn take_grants(&mut self, context: &mut Context<'_>) -> RedisResult<()> {
        loop {
            let Some(granting) = &mut self.granting else {
                match self.grant_next() {
                    Some(granting) => self.granting = Some(granting),
                    None => return Ok(()),
                }
                continue;
            };
            let Poll::Ready(outcome) = granting.answering.poll_unpin(context) else { return Ok(()) };
            let wishes = self.granting.take().map(|granting| granting.wishes).unwrap_or_default();
            self.wire.inbox.expect(Vec::new());
            self.wire.intake.heard();
            match outcome {
                Ok(()) => {
                    let on = wishes.into_iter().filter(|wish| wish.is_on);
                    self.events.extend(on.map(|wish| LinkEvent::Subscribed(wish.resource)));
                }
                Err(error) if error.is_unrecoverable_error() => return Err(error),
                Err(error) => tracing::warn!(%error, "a node refuses subscriptions: waiters poll"),
            }
        }
    }

    /// The next command: as many wishes of one kind as may travel together.
    fn grant_next(&mut self) -> Option<Granting> {
        let is_on = self.wishes.front()?.is_on;
        let alike = self.wishes.iter().take(MOST_CHANNELS).take_while(|wish| wish.is_on == is_on).count();
        let wishes: Vec<_> = self.wishes.drain(..alike).collect();
        let channels: Vec<_> = wishes.iter().map(|wish| names::notice_channel(&wish.resource)).collect();
        self.wire.inbox.expect(channels.clone());
        let mut connection = self.wire.connection();
        let answering = async move {
            if is_on { connection.subscribe(channels).await } else { connection.unsubscribe(channels).await }
        };
        Some(Granting { wishes, answering: answering.boxed() })
    }
}

impl Link for RedisLink {
    fn send(&mut self, batch: BatchId, entries: Arc<[Entry]>) {
        let command = script::command(&self.parameters, &entries);
        self.ask(Question::Call { batch, entries }, command);
    }

    fn load(&mut self) {
        self.ask(Question::Load, script_load());
    }

    fn registered(&mut self, incarnation: Option<Incarnation>) {
        self.parameters.incarnation = incarnation;
    }

    fn subscribe(&mut self, resource: &Resource) {
        self.wire.inbox.listen(names::notice_channel(resource), resource.clone());
        self.wish(Wish { resource: resource.clone(), is_on: true });
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        self.wire.inbox.ignore(&names::notice_channel(resource));
        self.wish(Wish { resource: resource.clone(), is_on: false });
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<LinkEvent> {
        // A task that has taken the last event asks once more, and then everything has been polled
        // already.
        if self.events.is_empty() && !std::mem::take(&mut self.is_settled) {
            self.advance(context);
            self.is_settled = !self.events.is_empty();
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for RedisLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLink").field("asked", &self.asked.len()).finish_non_exhaustive()
    }
}

/// What the reply to a call means: one error for all of it, or an answer to each entry.
fn call_event(batch: BatchId, entries: &[Entry], reply: Value) -> LinkEvent {
    let error = match reply {
        Value::ServerError(error) => RedisError::from(error),
        reply => return LinkEvent::Answers { batch, answers: script::decode(entries, reply) },
    };
    if error.code() == Some("NOSCRIPT") {
        return LinkEvent::NotLoaded { batch };
    }
    LinkEvent::Answers { batch, answers: vec![Answer::Error(classify_call(&error)); entries.len()] }
}
