//! The queue discipline of one remote node: pure, with time as an argument.
//!
//! ```text
//!  submit ──► queue (order of submission) ──next_batch──► flight (≤ IN_FLIGHT calls) ──answered──► replies
//!                ▲                                            │
//!                └── unlocks, on a broken connection ─────────┤
//!                └── what a lost script left unexecuted ──────┘
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{
    flight::{Flight, Place},
    item::{Item, is_owed},
    queue::Queue,
};
use crate::{
    clock::Instant,
    node::{
        answer::Answer,
        error::NodeError,
        reply::Reply,
        request::{Entry, Load, Owed, Request},
        transport::BatchId,
    },
};

mod flight;
mod item;
mod loss;
mod queue;
#[cfg(test)]
mod tests;

/// The most calls that are under way at once. Two keep a connection busy; a few more hide the
/// client's own pauses; and a server that freezes swallows no more than these.
pub(crate) const IN_FLIGHT: usize = 4;

/// The most entries, other than unlocks, that wait for one node or are under way to it: some tens
/// of milliseconds of a server's work, beyond which waiting is of no use to anybody.
pub(crate) const MOST_WAITING: usize = 4096;

/// How many node timeouts without an answer make a connection be given up.
const SILENT_TIMEOUTS: u32 = 4;

/// A connection is given up after no less than this: a server that loads or forks pauses for a
/// second or two.
const SHORTEST_SILENCE: Duration = Duration::from_secs(3);

/// What was accepted for one node and is not answered yet.
///
/// # Invariants
///
/// 1. Requests are sent in the order of submission, on whatever connection: a request keeps its
///    place when it is put back. In particular no unlock overtakes an earlier lock or renewal of
///    its owner, and what is owed from a broken connection goes first, being older than all else.
/// 2. Every reply is answered once.
/// 3. An unlock is kept until the node has executed or refused it for good, its time is over, or
///    the outbox ends.
/// 4. Nothing but unlocks is sent twice, and nothing at all on one connection, unless the node said
///    that it was not executed. That is sent again only while somebody waits for it, its time is
///    not over, no unlock of its owner was submitted since, and nothing else of its owner that may
///    have been executed already.
/// 5. At most [`IN_FLIGHT`] calls are under way, and none is started while one of them is older
///    than the node timeout.
#[derive(Debug)]
pub(crate) struct Outbox {
    node_timeout: Duration,
    line: Line,
    /// Whether there ever was a connection. Without one, nothing of this client can be at the node.
    was_up: bool,
    stage: Stage,
    queue: Queue,
    next: Place,
    flight: Flight,
    /// Unlocks that the node refused, by when they are sent again.
    resting: BTreeMap<(Instant, Place), Item>,
    /// Since when the script is being loaded again.
    loading: Option<Instant>,
    /// Whether the node has left a call unanswered for longer than the node timeout, and still
    /// leaves one.
    mute: bool,
    /// Entries, other than unlocks, in the queue and in flight.
    weight: usize,
    /// No request in the queue is over before this.
    earliest: Option<Instant>,
    /// Whether something was submitted since the node was last found to be down.
    wanted: bool,
    /// Shared by every request that is owed.
    owed: Arc<()>,
}

/// The connection, as far as the queue needs to know it.
#[derive(Debug)]
enum Line {
    /// None yet, or none any more, and that it cannot be had is not known: calls are queued for it.
    Dialling,
    Up,
    /// None, and this is why: calls are refused with it.
    Down(NodeError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// Only unlocks are accepted.
    Closing,
    Ended,
}

impl Outbox {
    pub(crate) fn new(node_timeout: Duration) -> Self {
        Self {
            node_timeout,
            line: Line::Dialling,
            was_up: false,
            stage: Stage::Open,
            queue: Queue::default(),
            next: 0,
            flight: Flight::default(),
            resting: BTreeMap::new(),
            loading: None,
            mute: false,
            weight: 0,
            earliest: None,
            wanted: false,
            owed: Arc::new(()),
        }
    }

    /// Accepts a request, or refuses it with an error that says it was not sent.
    pub(crate) fn submit(&mut self, request: Request) -> Reply {
        self.wanted = true;
        let entries = request.entries.len();
        if let Some(error) = self.refusal(is_owed(&request.entries), entries) {
            return Reply::error(entries, &error);
        }
        let (responder, reply) = Reply::channel(entries);
        let place = self.next;
        self.next += 1;
        let item = Item::new(request, responder, &self.owed);
        self.weight += item.weight();
        self.enqueue(place, item);
        reply
    }

    /// Whether the task that serves the node has to be woken after a submission: not if it is
    /// waiting for an answer anyway, which comes before anything more can be sent.
    pub(crate) fn needs_service(&self) -> bool {
        self.mute || !matches!(self.line, Line::Up) || self.flight.len() < IN_FLIGHT
    }

    /// The next call, or `None` if there is nothing to send or now is not the time. A lone request
    /// goes at once; what has piled up goes together.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Option<(BatchId, Arc<[Entry]>)> {
        self.tick(now);
        let may_send = matches!(self.line, Line::Up) && self.loading.is_none() && !self.mute;
        if !may_send || self.flight.len() >= IN_FLIGHT {
            return None;
        }
        let mut load = Load::default();
        let mut items = Vec::new();
        while self.queue.first().is_some_and(|next| load.take(next.entries.len(), next.resources())) {
            items.extend(self.queue.pop());
        }
        if self.queue.is_empty() {
            self.earliest = None;
        }
        if items.is_empty() { None } else { Some(self.flight.start(items, now)) }
    }

    /// The node has answered a call. Unlocks that it refused, and not for good, are sent again
    /// after a rest.
    pub(crate) fn answered(&mut self, batch: BatchId, answers: Vec<Answer>, now: Instant) {
        if let Some(batch) = self.flight.take(batch) {
            self.weight -= batch.weight();
            let owed = batch.answer(answers).into_iter();
            self.resting.extend(owed.map(|(place, item)| ((now + item.rest(), place), item)));
        }
        self.heard();
    }

    /// Notes what time alone has brought about: requests that are over, and a node that went mute.
    pub(crate) fn tick(&mut self, now: Instant) {
        if !self.mute && self.oldest().is_some_and(|oldest| oldest + self.node_timeout <= now) {
            self.mute = true;
            self.drop_unsent(&NodeError::Unresponsive);
        }
        self.wake_rested(now);
        if self.earliest.is_some_and(|earliest| earliest <= now) {
            self.drop_over(now);
        }
    }

    /// Whether the connection has been silent for so long that another may do better: one that was
    /// cut off without a word stays silent for ever, long after the network is well again.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.oldest().is_some_and(|oldest| oldest + self.silence() <= now)
    }

    /// When to look again if nothing happens: always after the last [`tick`](Self::tick).
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let patience = if self.mute { self.silence() } else { self.node_timeout };
        let answer = self.oldest().map(|oldest| oldest + patience);
        let last = match self.stage {
            // It is done when the last time is over, not when the last in flight is: that may be
            // long ago.
            Stage::Closing => self.left().map(|item| item.until).max(),
            Stage::Open | Stage::Ended => None,
        };
        let rested = self.resting.keys().next().map(|(rested, _)| *rested);
        [answer, self.earliest, last, rested].into_iter().flatten().min()
    }

    /// Whether something was submitted since this was last asked.
    pub(crate) fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.wanted)
    }

    /// How many requests are owed: unlocks and withdrawals that are neither confirmed nor past
    /// their time.
    pub(crate) fn owed(&self) -> usize {
        Arc::strong_count(&self.owed).saturating_sub(1)
    }

    /// What is owed, request by request.
    pub(crate) fn owes(&self, now: Instant) -> impl Iterator<Item = Owed> {
        self.left().filter(move |item| !self.is_moot(item, now)).filter_map(Item::owes)
    }

    /// From now on only unlocks are accepted.
    pub(crate) fn close(&mut self) {
        if self.stage == Stage::Open {
            self.stage = Stage::Closing;
        }
    }

    /// Whether all is done: ended, or closed with nothing left that still has time.
    pub(crate) fn is_done(&self, now: Instant) -> bool {
        match self.stage {
            Stage::Open => false,
            Stage::Ended => true,
            Stage::Closing => self.left().all(|item| self.is_moot(item, now)),
        }
    }

    /// Whether a closing outbox need not send a request any more. A node that was never reached has
    /// nothing of this client's to give back, and what the client wanted there it wants no longer.
    fn is_moot(&self, item: &Item, now: Instant) -> bool {
        item.is_over(now) || !(self.was_up || item.is_for_others())
    }

    /// Everything that is not answered yet.
    fn left(&self) -> impl Iterator<Item = &Item> {
        let in_flight = self.flight.items().map(|(_, item)| item);
        self.queue.iter().map(|(_, item)| item).chain(in_flight).chain(self.resting.values())
    }

    fn refusal(&self, owed: bool, entries: usize) -> Option<NodeError> {
        match (self.stage, &self.line) {
            (Stage::Ended, _) => Some(NodeError::Closed),
            _ if owed => None,
            (Stage::Closing, _) => Some(NodeError::Closed),
            (Stage::Open, Line::Down(error)) => Some(error.clone()),
            _ if self.mute => Some(NodeError::Unresponsive),
            _ if self.weight + entries > MOST_WAITING => Some(NodeError::Overloaded),
            _ => None,
        }
    }

    /// Puts what has rested back in its place.
    fn wake_rested(&mut self, now: Instant) {
        while let Some(first) = self.resting.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, place), item) = first.remove_entry();
            self.enqueue(place, item);
        }
    }

    /// What to say of a request that was never sent.
    fn unsent(&self) -> NodeError {
        match &self.line {
            Line::Down(error) => error.clone(),
            Line::Dialling => NodeError::Unreachable("no connection yet".into()),
            Line::Up if self.mute => NodeError::Unresponsive,
            Line::Up => NodeError::Overloaded,
        }
    }

    fn silence(&self) -> Duration {
        self.node_timeout.saturating_mul(SILENT_TIMEOUTS).max(SHORTEST_SILENCE)
    }

    fn oldest(&self) -> Option<Instant> {
        [self.flight.oldest(), self.loading].into_iter().flatten().min()
    }

    /// The node has answered something: it is mute no longer once nothing is open.
    fn heard(&mut self) {
        if self.oldest().is_none() {
            self.mute = false;
        }
    }

    fn enqueue(&mut self, place: Place, item: Item) {
        self.earliest = Some(self.earliest.map_or(item.until, |earliest| earliest.min(item.until)));
        self.queue.insert(place, item);
    }
}
