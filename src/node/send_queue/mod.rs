//! The send queue of one remote node: pure, with time as an argument.
//!
//! ```text
//!  submit ─► queue (order of submission) ─next_batch─► in flight (≤ IN_FLIGHT calls) ─answered─► replies
//!               ▲                                         │
//!               └── unlocks, on a broken connection ──────┤
//!               └── what a lost script left unexecuted ───┘
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

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
    values::{LeaseId, NodeError},
};

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
    stage: Stage,
    connection: ConnectionStatus,
    unsent: Unsent,
    next: Sequence,
    in_flight: UnansweredCalls,
    /// Unlocks that the node refused, by when they are tried again.
    retries: BTreeMap<(Instant, Sequence), Item>,
    /// Entries, other than unlocks, in the queue and in flight.
    weight: usize,
    /// Shared by every request that must be delivered, so that they can be counted.
    deliveries: Arc<()>,
}

/// The connection, as far as the queue needs to know it.
#[derive(Debug)]
struct ConnectionStatus {
    state: ConnectionState,
    /// Whether there ever was a connection. Without one, nothing of this client can be at the node.
    was_up: bool,
    /// Whether something was submitted since the node was last found to be down.
    is_wanted: bool,
}

#[derive(Debug)]
enum ConnectionState {
    /// There is no connection, and no dial has failed since: calls are queued.
    Dialling,
    Up,
    /// There is no connection, and this is why: calls are refused with this error.
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
        let connection =
            ConnectionStatus { state: ConnectionState::Dialling, was_up: false, is_wanted: false };
        Self {
            stage: Stage::Open,
            connection,
            unsent: Unsent::default(),
            next: 0,
            in_flight: UnansweredCalls::new(node_timeout),
            retries: BTreeMap::new(),
            weight: 0,
            deliveries: Arc::new(()),
        }
    }

    /// Accepts a request, or refuses it with an error that says it was not sent.
    pub(crate) fn submit(&mut self, request: Request) -> Reply {
        self.connection.is_wanted = true;
        let operations = request.operations.len();
        if let Some(error) = self.refusal(must_deliver(&request.operations), operations) {
            return Reply::error(operations, &error);
        }
        let (responder, reply) = Reply::channel(operations);
        let sequence = self.next;
        self.next += 1;
        let item = Item::new(request, responder, &self.deliveries);
        self.weight += item.weight();
        self.unsent.insert(sequence, item);
        reply
    }

    /// Whether the task that serves the node has to be woken after a submission: not if it is
    /// waiting for an answer anyway, which comes before anything more can be sent.
    pub(crate) fn needs_service(&self) -> bool {
        self.in_flight.is_unresponsive() || !self.connection.is_up() || self.in_flight.len() < IN_FLIGHT
    }

    /// The next call, or `None` if there is nothing to send or now is not the time. A lone request
    /// goes at once; what has piled up goes together.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Option<(BatchId, Arc<[Operation]>)> {
        self.tick(now);
        let may_send =
            self.connection.is_up() && !self.in_flight.is_loading() && !self.in_flight.is_unresponsive();
        if !may_send || self.in_flight.len() >= IN_FLIGHT {
            return None;
        }
        let mut size = RequestSize::default();
        let mut items = Vec::new();
        while self.unsent.first().is_some_and(|next| size.take(next.operations.len(), next.resources())) {
            items.extend(self.unsent.pop());
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
        self.in_flight.on_answer();
    }

    /// Notes what time alone has brought about: requests that are over, and a node that became
    /// unresponsive.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.in_flight.note_overdue(now) {
            self.drop_unsent(&NodeError::Unresponsive);
        }
        self.insert_retries(now);
        if self.unsent.earliest().is_some_and(|earliest| earliest <= now) {
            self.drop_over(now);
        }
    }

    /// Whether the connection has been silent for so long that another may do better: one that was
    /// cut off without a word stays silent for ever, long after the network is well again.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.in_flight.is_silent(now)
    }

    /// When to look again if nothing happens: always after the last [`tick`](Self::tick).
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let last = match self.stage {
            // It is done when the last time is over, not when the last in flight is: that may be
            // long ago.
            Stage::Closing => self.left().map(|item| item.until).max(),
            Stage::Open | Stage::Ended => None,
        };
        let retry = self.retries.keys().next().map(|(at, _)| *at);
        [self.in_flight.deadline(), self.unsent.earliest(), last, retry].into_iter().flatten().min()
    }

    /// Whether something was submitted since this was last asked.
    pub(crate) fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.connection.is_wanted)
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

    /// A connection stands, and its script is loaded.
    pub(crate) fn connected(&mut self) {
        self.connection.state = ConnectionState::Up;
        self.connection.was_up = true;
    }

    /// No connection could be had. What waits is refused, except unlocks.
    pub(crate) fn dial_failed(&mut self, error: NodeError) {
        let error = unreachable(error);
        self.connection.down(ConnectionState::Down(error.clone()));
        self.drop_unsent(&error);
    }

    /// The connection is broken, or given up. Unlocks go back to their places; whatever else was
    /// sent is answered as possibly executed, and what was not, as not sent.
    ///
    /// A node that was unresponsive before, or has sent what it must not, is taken for down until
    /// it is heard of again; otherwise calls wait for the next connection.
    pub(crate) fn disconnected(&mut self, error: NodeError, now: Instant) {
        let is_violation = error.is_violation();
        let error = unreachable(error);
        let state = if self.in_flight.is_unresponsive() {
            ConnectionState::Down(NodeError::Unresponsive)
        } else if is_violation {
            ConnectionState::Down(error.clone())
        } else {
            ConnectionState::Dialling
        };
        self.connection.down(state);
        self.drop_unsent(&error);
        for (sequence, mut item) in self.in_flight.take_all() {
            if item.must_deliver() && !item.is_over(now) {
                item.was_sent = true;
                self.unsent.insert(sequence, item);
            } else {
                self.weight -= item.weight();
                item.error(&NodeError::Disconnected);
            }
        }
    }

    /// The node did not execute a call because it had lost the script. Whether the script is to be
    /// loaded now: not if that is under way.
    pub(crate) fn not_loaded(&mut self, batch: BatchId, now: Instant) -> bool {
        let Some(batch) = self.in_flight.take(batch) else { return false };
        let starts = self.in_flight.begin_load(now);
        let items = batch.into_items();
        let last = self.superseding(&items);
        let error = NodeError::Unreachable("not executed: the node had lost the script".into());
        for (sequence, item) in items {
            let is_past = item.takers().any(|owner| last.get(owner).is_some_and(|last| *last > sequence));
            let resend = item.must_deliver() || !(item.is_abandoned() || is_past);
            if resend && !item.is_over(now) {
                self.unsent.insert(sequence, item);
            } else {
                self.weight -= item.weight();
                item.error(&error);
            }
        }
        starts
    }

    /// The script is there again.
    pub(crate) fn loaded(&mut self) {
        self.in_flight.end_load();
    }

    /// Takes nothing any more and answers all that is left.
    pub(crate) fn end(&mut self) {
        self.stage = Stage::Ended;
        for (_, item) in self.in_flight.take_all() {
            item.error(&NodeError::Disconnected);
        }
        for item in self.unsent.take_if(|_| true) {
            item.refuse(&NodeError::Closed);
        }
        self.retries.clear();
        self.weight = 0;
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
        item.is_over(now) || !(self.connection.was_up || item.is_for_others())
    }

    /// Everything that is not answered yet.
    fn left(&self) -> impl Iterator<Item = &Item> {
        let sent = self.in_flight.items().map(|(_, item)| item);
        self.unsent.iter().map(|(_, item)| item).chain(sent).chain(self.retries.values())
    }

    fn refusal(&self, must_deliver: bool, operations: usize) -> Option<NodeError> {
        match (self.stage, &self.connection.state) {
            (Stage::Ended, _) => Some(NodeError::Closed),
            _ if must_deliver => None,
            (Stage::Closing, _) => Some(NodeError::Closed),
            (Stage::Open, ConnectionState::Down(error)) => Some(error.clone()),
            _ if self.in_flight.is_unresponsive() => Some(NodeError::Unresponsive),
            _ if self.weight + operations > MOST_WAITING => Some(NodeError::Overloaded),
            _ => None,
        }
    }

    /// Puts what is due for a retry back in its place.
    fn insert_retries(&mut self, now: Instant) {
        while let Some(first) = self.retries.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, sequence), item) = first.remove_entry();
            self.unsent.insert(sequence, item);
        }
    }

    /// What to say of a request that was never sent.
    fn unsent_error(&self) -> NodeError {
        match &self.connection.state {
            ConnectionState::Down(error) => error.clone(),
            ConnectionState::Dialling => NodeError::Unreachable("no connection yet".into()),
            ConnectionState::Up if self.in_flight.is_unresponsive() => NodeError::Unresponsive,
            ConnectionState::Up => NodeError::Overloaded,
        }
    }

    /// Refuses what waits to be sent, except unlocks.
    fn drop_unsent(&mut self, error: &NodeError) {
        self.drop_queued(error, |item| !item.must_deliver());
    }

    /// Drops what waits and is of no use any more.
    fn drop_over(&mut self, now: Instant) {
        let error = self.unsent_error();
        self.drop_queued(&error, |item| item.is_over(now));
    }

    fn drop_queued(&mut self, error: &NodeError, is_dropped: impl Fn(&Item) -> bool) {
        for item in self.unsent.take_if(is_dropped) {
            self.weight -= item.weight();
            item.refuse(error);
        }
    }

    /// By owner, the last request that makes sending an earlier one again wrong: an unlock,
    /// wherever it is, or whatever is in flight, for it may have been executed.
    fn superseding(&self, items: &[(Sequence, Item)]) -> HashMap<LeaseId, Sequence> {
        let mut last = HashMap::new();
        let mut note = |owner: &LeaseId, sequence: Sequence| {
            let noted = last.entry(owner.clone()).or_insert(sequence);
            *noted = sequence.max(*noted);
        };
        for (sequence, item) in self.in_flight.items() {
            item.takers().chain(item.leavers()).for_each(|owner| note(owner, *sequence));
        }
        for (sequence, item) in items.iter().chain(self.unsent.iter()) {
            item.leavers().for_each(|owner| note(owner, *sequence));
        }
        last
    }
}

impl ConnectionStatus {
    fn is_up(&self) -> bool {
        matches!(self.state, ConnectionState::Up)
    }

    /// Notes that there is no connection. What was submitted until now wants none any more.
    fn down(&mut self, state: ConnectionState) {
        self.state = state;
        self.is_wanted = false;
    }
}

/// Any cause of having no connection, as an error that says that nothing was sent.
fn unreachable(error: NodeError) -> NodeError {
    match error {
        error if error.is_unsent() => error,
        error if error.is_answer() => NodeError::Handshake(Arc::new(error)),
        error => NodeError::Unreachable(error.to_string().into()),
    }
}
