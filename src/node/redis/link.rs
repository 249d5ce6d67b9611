//! A Redis connection as the outbox sees it.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt};
use redis::{Cmd, PushInfo, PushKind, RedisError, RedisResult, Value};

use super::{
    classify::classify,
    script, script_load,
    wire::{Answering, Wire, broken},
};
use crate::{
    node::{
        answer::Answer,
        names,
        request::Entry,
        terms::{Run, Terms},
        transport::{BatchId, Link, LinkEvent},
    },
    resource::Resource,
};

/// The most channels that are named in one command.
const MOST_CHANNELS: usize = 64;

/// A connection to a server that has the script.
pub(super) struct RedisLink {
    wire: Wire,
    terms: Terms,
    /// What is asked and not answered, in the order of the wire, which is that of the answers.
    asked: VecDeque<(Question, Answering)>,
    /// Subscriptions to be asked for, and those that are being asked for: one command at a time, so that a thousand
    /// of them never fill the room that the calls need.
    wishes: VecDeque<Wish>,
    granting: Option<Granting>,
    channels: HashMap<Vec<u8>, Resource>,
    events: VecDeque<LinkEvent>,
    /// Whether the events at hand are all that the last look found, so that no other look is needed when they are taken.
    /// Never when `poll_event` has said pending.
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
    pub(super) fn new(wire: Wire, terms: Terms) -> Self {
        Self {
            wire,
            terms,
            asked: VecDeque::new(),
            wishes: VecDeque::new(),
            granting: None,
            channels: HashMap::new(),
            events: VecDeque::new(),
            is_settled: false,
        }
    }

    /// Puts a question on the wire.
    fn ask(&mut self, question: Question, command: Cmd) {
        let answering = self.wire.start(command);
        self.asked.push_back((question, answering));
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
        let is_broken = self.take_pushes(context) || is_broken;
        match outcome {
            Err(error) => self.events.push_back(LinkEvent::Closed(classify(&error))),
            Ok(()) if is_broken => self.events.push_back(LinkEvent::Closed(classify(&broken()))),
            Ok(()) => {}
        }
    }

    fn take_answers(&mut self, context: &mut Context<'_>) -> RedisResult<()> {
        while let Some((_, answering)) = self.asked.front_mut() {
            let Poll::Ready(answer) = self.wire.poll_answer(answering, context) else { return Ok(()) };
            let Some((question, _)) = self.asked.pop_front() else { return Ok(()) };
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
        let mut connection = self.wire.connection();
        let answering = async move {
            if is_on { connection.subscribe(channels).await } else { connection.unsubscribe(channels).await }
        };
        Some(Granting { wishes, answering: answering.boxed() })
    }

    /// Whether one of them is the last.
    fn take_pushes(&mut self, context: &mut Context<'_>) -> bool {
        while let Poll::Ready(push) = self.wire.poll_push(context) {
            let Some(push) = push.filter(|push| push.kind != PushKind::Disconnection) else { return true };
            if let Some(resource) = self.released(&push) {
                self.events.push_back(LinkEvent::Released(resource));
            }
        }
        false
    }

    /// The resource of which a message tells the release.
    fn released(&self, push: &PushInfo) -> Option<Resource> {
        match (&push.kind, &*push.data) {
            (PushKind::Message, [Value::BulkString(channel), ..]) => self.channels.get(channel).cloned(),
            _ => None,
        }
    }
}

impl Link for RedisLink {
    fn send(&mut self, batch: BatchId, entries: Arc<[Entry]>) {
        let command = script::command(&self.terms, &entries);
        self.ask(Question::Call { batch, entries }, command);
    }

    fn load(&mut self) {
        self.ask(Question::Load, script_load());
    }

    fn enrolled(&mut self, run: Option<Run>) {
        self.terms.run = run;
    }

    fn subscribe(&mut self, resource: &Resource) {
        self.channels.insert(names::notice_channel(resource), resource.clone());
        self.wish(Wish { resource: resource.clone(), is_on: true });
    }

    fn unsubscribe(&mut self, resource: &Resource) {
        self.channels.remove(&names::notice_channel(resource));
        self.wish(Wish { resource: resource.clone(), is_on: false });
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<LinkEvent> {
        // Whoever takes what there is to the last asks once more, and then everything has been polled already.
        if self.events.is_empty() && !std::mem::take(&mut self.is_settled) {
            self.advance(context);
            self.is_settled = !self.events.is_empty();
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for RedisLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLink")
            .field("asked", &self.asked.len())
            .field("channels", &self.channels.len())
            .finish_non_exhaustive()
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
    LinkEvent::Answers { batch, answers: vec![Answer::Fault(classify(&error)); entries.len()] }
}
