//! The send queue of one remote node: pure, with time as an argument.
//!
//! ```text
//!  submit ─► queue (order of submission) ─next_batch─► in flight (≤ IN_FLIGHT calls) ─answered─► replies
//!               ▲                                         │
//!               └── unlocks, on a broken connection ──────┤
//!               └── what a lost script left unexecuted ───┘
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{
    in_flight::{Sequence, UnansweredCalls},
    item::{Item, must_deliver},
    unsent::Unsent,
};
use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Operation},
        reply::Reply,
        request::{PendingUnlocks, Request, RequestSize},
        transport::BatchId,
    },
    values::NodeError,
};

mod disconnect;
mod in_flight;
mod item;
#[cfg(test)]
mod tests;
mod unsent;

/// The most calls that are under way at once. Two keep a connection busy; a few more hide the
/// client's own pauses; and a server that freezes swallows no more than these.
pub(crate) const IN_FLIGHT: usize = 4;

/// The most operations, other than unlocks, that wait for one node or are under way to it: some
/// tens of milliseconds of a server's work, beyond which waiting is of no use to anybody.
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
///    its owner, and what must be delivered from a broken connection goes first, being older than
///    all else.
/// 2. Every reply is answered once.
/// 3. An unlock is kept until the node has executed or refused it for good, its time is over, or
///    the send queue ends.
/// 4. Nothing but unlocks is sent twice, and nothing at all on one connection, unless the node said
///    that it was not executed. That is sent again only while somebody waits for it, its time is
///    not over, no unlock of its owner was submitted since, and nothing else of its owner that may
///    have been executed already.
/// 5. At most [`IN_FLIGHT`] calls are under way, and none is started while one of them is older
///    than the node timeout.
#[derive(Debug)]
pub(crate) struct SendQueue {
    node_timeout: Duration,
    connection: ConnectionState,
    /// Whether there ever was a connection. Without one, nothing of this client can be at the node.
    was_up: bool,
    stage: Stage,
    unsent: Unsent,
    next: Sequence,
    in_flight: UnansweredCalls,
    /// Unlocks that the node refused, by when they are tried again.
    retries: BTreeMap<(Instant, Sequence), Item>,
    /// Since when the script is being loaded again.
    loading: Option<Instant>,
    /// Whether the node has left a call unanswered for longer than the node timeout, and still
    /// leaves one.
    is_unresponsive: bool,
    /// Entries, other than unlocks, in the queue and in flight.
    weight: usize,
    /// No request in the queue is over before this.
    earliest: Option<Instant>,
    /// Whether something was submitted since the node was last found to be down.
    wanted: bool,
    /// Shared by every request that must be delivered, so that they can be counted.
    deliveries: Arc<()>,
}

/// The connection, as far as the queue needs to know it.
#[derive(Debug)]
enum ConnectionState {
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

impl SendQueue {
    pub(crate) fn new(node_timeout: Duration) -> Self {
        Self {
            node_timeout,
            connection: ConnectionState::Dialling,
            was_up: false,
            stage: Stage::Open,
            unsent: Unsent::default(),
            next: 0,
            in_flight: UnansweredCalls::default(),
            retries: BTreeMap::new(),
            loading: None,
            is_unresponsive: false,
            weight: 0,
            earliest: None,
            wanted: false,
            deliveries: Arc::new(()),
        }
    }

    /// Accepts a request, or refuses it with an error that says it was not sent.
    pub(crate) fn submit(&mut self, request: Request) -> Reply {
        self.wanted = true;
        let operations = request.operations.len();
        if let Some(error) = self.refusal(must_deliver(&request.operations), operations) {
            return Reply::error(operations, &error);
        }
        let (responder, reply) = Reply::channel(operations);
        let sequence = self.next;
        self.next += 1;
        let item = Item::new(request, responder, &self.deliveries);
        self.weight += item.weight();
        self.insert(sequence, item);
        reply
    }

    /// Whether the task that serves the node has to be woken after a submission: not if it is
    /// waiting for an answer anyway, which comes before anything more can be sent.
    pub(crate) fn needs_service(&self) -> bool {
        self.is_unresponsive
            || !matches!(self.connection, ConnectionState::Up)
            || self.in_flight.len() < IN_FLIGHT
    }

    /// The next call, or `None` if there is nothing to send or now is not the time. A lone request
    /// goes at once; what has piled up goes together.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Option<(BatchId, Arc<[Operation]>)> {
        self.tick(now);
        let may_send =
            matches!(self.connection, ConnectionState::Up) && self.loading.is_none() && !self.is_unresponsive;
        if !may_send || self.in_flight.len() >= IN_FLIGHT {
            return None;
        }
        let mut size = RequestSize::default();
        let mut items = Vec::new();
        while self.unsent.first().is_some_and(|next| size.take(next.operations.len(), next.resources())) {
            items.extend(self.unsent.pop());
        }
        if self.unsent.is_empty() {
            self.earliest = None;
        }
        if items.is_empty() { None } else { Some(self.in_flight.start(items, now)) }
    }

    /// The node has answered a call. Unlocks that it refused, and not for good, are sent again
    /// after a retry delay.
    pub(crate) fn answered(&mut self, batch: BatchId, answers: Vec<Answer>, now: Instant) {
        if let Some(batch) = self.in_flight.take(batch) {
            self.weight -= batch.weight();
            let undelivered = batch.answer(answers).into_iter();
            self.retries
                .extend(undelivered.map(|(sequence, item)| ((now + item.retry_delay(), sequence), item)));
        }
        self.heard();
    }

    /// Notes what time alone has brought about: requests that are over, and a node that became
    /// unresponsive.
    pub(crate) fn tick(&mut self, now: Instant) {
        if !self.is_unresponsive && self.oldest().is_some_and(|oldest| oldest + self.node_timeout <= now) {
            self.is_unresponsive = true;
            self.drop_unsent(&NodeError::Unresponsive);
        }
        self.insert_retries(now);
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
        let patience = if self.is_unresponsive { self.silence() } else { self.node_timeout };
        let answer = self.oldest().map(|oldest| oldest + patience);
        let last = match self.stage {
            // It is done when the last time is over, not when the last in flight is: that may be
            // long ago.
            Stage::Closing => self.left().map(|item| item.until).max(),
            Stage::Open | Stage::Ended => None,
        };
        let retry = self.retries.keys().next().map(|(at, _)| *at);
        [answer, self.earliest, last, retry].into_iter().flatten().min()
    }

    /// Whether something was submitted since this was last asked.
    pub(crate) fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.wanted)
    }

    /// How many requests must be delivered: unlocks and withdrawals that are neither confirmed nor
    /// past their time.
    pub(crate) fn undelivered_count(&self) -> usize {
        Arc::strong_count(&self.deliveries).saturating_sub(1)
    }

    /// What must be delivered, request by request.
    pub(crate) fn undelivered(&self, now: Instant) -> impl Iterator<Item = PendingUnlocks> {
        self.left().filter(move |item| !self.is_moot(item, now)).filter_map(Item::undelivered)
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

    /// Whether a closing send queue need not send a request any more. A node that was never reached
    /// has nothing of this client's to give back, and what the client wanted there it wants no
    /// longer.
    fn is_moot(&self, item: &Item, now: Instant) -> bool {
        item.is_over(now) || !(self.was_up || item.is_for_others())
    }

    /// Everything that is not answered yet.
    fn left(&self) -> impl Iterator<Item = &Item> {
        let sent = self.in_flight.items().map(|(_, item)| item);
        self.unsent.iter().map(|(_, item)| item).chain(sent).chain(self.retries.values())
    }

    fn refusal(&self, must_deliver: bool, operations: usize) -> Option<NodeError> {
        match (self.stage, &self.connection) {
            (Stage::Ended, _) => Some(NodeError::Closed),
            _ if must_deliver => None,
            (Stage::Closing, _) => Some(NodeError::Closed),
            (Stage::Open, ConnectionState::Down(error)) => Some(error.clone()),
            _ if self.is_unresponsive => Some(NodeError::Unresponsive),
            _ if self.weight + operations > MOST_WAITING => Some(NodeError::Overloaded),
            _ => None,
        }
    }

    /// Puts what is due for a retry back in its place.
    fn insert_retries(&mut self, now: Instant) {
        while let Some(first) = self.retries.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, sequence), item) = first.remove_entry();
            self.insert(sequence, item);
        }
    }

    /// What to say of a request that was never sent.
    fn unsent_error(&self) -> NodeError {
        match &self.connection {
            ConnectionState::Down(error) => error.clone(),
            ConnectionState::Dialling => NodeError::Unreachable("no connection yet".into()),
            ConnectionState::Up if self.is_unresponsive => NodeError::Unresponsive,
            ConnectionState::Up => NodeError::Overloaded,
        }
    }

    fn silence(&self) -> Duration {
        self.node_timeout.saturating_mul(SILENT_TIMEOUTS).max(SHORTEST_SILENCE)
    }

    fn oldest(&self) -> Option<Instant> {
        [self.in_flight.oldest(), self.loading].into_iter().flatten().min()
    }

    /// The node has answered something: it is responsive again once nothing is open.
    fn heard(&mut self) {
        if self.oldest().is_none() {
            self.is_unresponsive = false;
        }
    }

    fn insert(&mut self, sequence: Sequence, item: Item) {
        self.earliest = Some(self.earliest.map_or(item.until, |earliest| earliest.min(item.until)));
        self.unsent.insert(sequence, item);
    }
}
