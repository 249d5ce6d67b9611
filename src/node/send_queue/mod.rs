//! The send queue of one remote node: a pure state machine, with time as an argument.
//!
//! ```text
//!  submit ─► unsent (order of submission) ─next_batch─► in flight (≤ MAX_CALLS_IN_FLIGHT) ─answered─► replies
//!               ▲                                          │
//!               ├── disconnected: unlocks ─────────────────┤
//!               ├── not_loaded: calls not executed ────────┤
//!               └── retries ◄─ answered: refused unlocks ──┘
//! ```
//!
//! | event | decision |
//! |---|---|
//! | `submit` | queues the request, or refuses it if the queue is closed or full, or the node down or, for locks, unresponsive |
//! | `connected` | calls may be sent |
//! | `answered` | answers the callers, and counts late answers; refused unlocks are retried after a delay |
//! | `not_loaded` | requests a load of the script; requests that may be sent again return to their places |
//! | `tick` | drops expired requests, and returns due retries to their places; if a call is overdue, the node is unresponsive, and unsent requests are refused, except renewals and unlocks |
//! | `dial_failed` | the node is down: unsent requests are refused, except unlocks |
//! | `disconnected` | answers requests in flight as possibly executed, and refuses unsent requests; unlocks return to their places; counts silent connections |
//! | `close` | accepts only unlocks; the queue is done when none is left |
//! | `end` | answers all requests, and accepts no request |
//!
//! Here, "unlocks" are all requests that must be delivered: requests of unlocks and withdrawals only.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use self::{
    in_flight::{Sequence, UnansweredCalls},
    item::{Item, must_deliver, waits_while_unresponsive},
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
    values::{ClosedReason, LeaseId, NodeError},
};

mod in_flight;
mod item;
#[cfg(test)]
mod tests;
mod unsent;

/// The largest number of calls in flight. Two calls keep a server busy, and two more keep the server busy while the
/// client pauses. The number is small, because a server that was stopped executes all calls in flight when the server
/// continues.
pub(crate) const MAX_CALLS_IN_FLIGHT: usize = 4;

/// The largest number of operations, without unlocks, that are unsent or in flight to one node. A server executes
/// this number in some tens of milliseconds, and a longer wait is of no use to a caller.
pub(crate) const MAX_PENDING_OPERATIONS: usize = 4096;

/// The accepted, unanswered requests of one node.
///
/// # Invariants
///
/// 1. Requests are sent in the order of submission on every connection: a request that is put back keeps its
///    place. In particular, no unlock overtakes an earlier lock or renewal with the same lease id. After a broken
///    connection, the unlocks are sent first, because the unlocks are the oldest requests.
/// 2. Every reply is answered once.
/// 3. An unlock is kept until the node executes the unlock or refuses it for good, until the deadline of the unlock
///    passes, or until the send queue ends.
/// 4. An unlock is sent again on the next connection, and after an error that may pass. If the node had lost the
///    script, the requests of the call were certainly not executed, and are sent again before their deadlines. In this
///    case, a request other than an unlock is sent again only if its caller still waits, no unlock of the same lease id
///    was submitted since, and no later request of the same lease id may have been executed. No other request is sent
///    twice.
/// 5. At most [`MAX_CALLS_IN_FLIGHT`] calls are in flight. After a silence, and until an answer within the node timeout,
///    one call is in flight, with few requests at first. No call is sent while the node is unresponsive, or while a
///    load of the script is in progress.
#[derive(Debug)]
pub(crate) struct SendQueue {
    stage: Stage,
    connection: ConnectionStatus,
    unsent: Unsent,
    next: Sequence,
    in_flight: UnansweredCalls,
    /// The unlocks that got an error that may pass, by the time of the retry.
    retries: BTreeMap<(Instant, Sequence), Item>,
    /// The number of operations, without unlocks, that are unsent or in flight.
    weight: usize,
    /// The counter of requests that must be delivered. Each of these requests has a clone, so the number of clones
    /// is the number of requests.
    deliveries: Arc<()>,
}

/// The part of the connection's state that the send queue needs.
#[derive(Debug)]
struct ConnectionStatus {
    state: ConnectionState,
    /// Whether any connection was ever established. Before the first connection, the node can have no key of this
    /// client.
    was_up: bool,
    /// Whether a connection was wanted, such as by a submitted request, since the last failed dial, the end of the last connection, or the last call of
    /// [`take_wanted`](SendQueue::take_wanted).
    is_wanted: bool,
}

#[derive(Debug)]
enum ConnectionState {
    /// No connection, and no dial has failed since the last connection. Requests are queued.
    Dialling,
    Up,
    /// No connection, for this reason. Requests are refused with this error.
    Down(NodeError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The stage after [`close`](SendQueue::close), in which only unlocks are accepted.
    Closing,
    /// The stage after [`end`](SendQueue::end), with the reason why no request is accepted.
    Ended(ClosedReason),
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

    /// Accepts a request, or refuses it with an error that means "not sent".
    pub(crate) fn submit(&mut self, request: Request) -> Reply {
        self.want_connection();
        let operations = request.operations.len();
        if let Some(error) = self.refusal(&request.operations) {
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

    /// Records that a caller waits for a connection, without a request.
    pub(crate) fn want_connection(&mut self) {
        self.connection.is_wanted = true;
    }

    /// Whether a submission must wake the driver. The driver need not be woken if no call may be sent before the
    /// next answer, which wakes the driver anyway.
    pub(crate) fn needs_service(&self) -> bool {
        self.in_flight.is_unresponsive()
            || !self.connection.is_up()
            || self.in_flight.len() < self.in_flight.max_calls()
    }

    /// Returns the next call, or `None` if no call may be sent or no request waits. A request that waits alone is
    /// sent alone, and requests that have accumulated share a call.
    pub(crate) fn next_batch(&mut self, now: Instant) -> Option<(BatchId, Arc<[Operation]>)> {
        self.tick(now);
        let may_send =
            self.connection.is_up() && !self.in_flight.is_loading() && !self.in_flight.is_unresponsive();
        if !may_send || self.in_flight.len() >= self.in_flight.max_calls() {
            return None;
        }
        let mut size = RequestSize::default();
        let mut items = Vec::new();
        while items.len() < self.in_flight.max_requests()
            && self.unsent.first().is_some_and(|next| next.try_join(&mut size))
        {
            items.extend(self.unsent.pop());
        }
        if items.is_empty() { None } else { Some(self.in_flight.start(items, now)) }
    }

    /// Handles the answers to a call. An unlock that got an error that may pass is sent again after a retry delay.
    /// Returns the number of answers to locks, write-backs and renewals whose callers no longer wait.
    pub(crate) fn answered(&mut self, batch: BatchId, answers: Vec<Answer>, now: Instant) -> usize {
        let mut late = 0;
        if let Some(batch) = self.in_flight.take(batch) {
            self.in_flight.on_answer(batch.sent_at(), now);
            self.weight -= batch.weight();
            late = batch.late_answers();
            let undelivered = batch.answer(answers).into_iter();
            self.retries
                .extend(undelivered.map(|(sequence, item)| ((now + item.retry_delay(), sequence), item)));
        }
        late
    }

    /// Returns the time at which the oldest unanswered call, or the load of the script, was sent.
    pub(crate) fn oldest_call(&self) -> Option<Instant> {
        self.in_flight.oldest()
    }

    /// Handles the passing of time: detects a node that became unresponsive, returns due retries to their places, and
    /// drops expired requests.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.in_flight.record_overdue(now) {
            self.drop_queued(&NodeError::Unresponsive, |item| !waits_while_unresponsive(&item.operations));
        }
        self.insert_retries(now);
        if self.unsent.earliest().is_some_and(|earliest| earliest <= now) {
            self.drop_expired(now);
        }
    }

    /// Whether the connection has been silent for so long that the driver should dial again. A connection that ended
    /// without a packet stays silent for ever, even when the network works again.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.in_flight.is_silent(now, self.unsent.shortest_ttl())
    }

    /// Returns the time of the next tick if no event happens before. The time is later than the last
    /// [`tick`](Self::tick), unless the connection [is silent](Self::is_silent).
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let last = match self.stage {
            // A closed queue is done when the deadlines of all requests have passed, even without any other event.
            Stage::Closing => self.unanswered().map(|item| item.until).max(),
            Stage::Open | Stage::Ended(_) => None,
        };
        let retry = self.retries.keys().next().map(|(at, _)| *at);
        [self.in_flight.deadline(self.unsent.shortest_ttl()), self.unsent.earliest(), last, retry]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns whether a connection was wanted, such as by a submitted request, since the last failure or the last call of this method.
    pub(crate) fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.connection.is_wanted)
    }

    /// Returns the number of kept requests that must be delivered: unlocks and withdrawals.
    pub(crate) fn undelivered_count(&self) -> usize {
        Arc::strong_count(&self.deliveries).saturating_sub(1)
    }

    /// Returns the unconfirmed unlocks and withdrawals, by request.
    pub(crate) fn undelivered(&self, now: Instant) -> impl Iterator<Item = PendingUnlocks> {
        self.unanswered().filter(move |item| !self.is_moot(item, now)).filter_map(Item::undelivered)
    }

    /// Accepts only unlocks from now on.
    pub(crate) fn close(&mut self) {
        if self.stage == Stage::Open {
            self.stage = Stage::Closing;
        }
    }

    /// Handles a new connection on which the script is loaded.
    pub(crate) fn connected(&mut self) {
        self.connection.state = ConnectionState::Up;
        self.connection.was_up = true;
    }

    /// Handles a failed dial: refuses the unsent requests, except unlocks. Returns the error of the refusals.
    pub(crate) fn dial_failed(&mut self, error: NodeError) -> NodeError {
        let error = unreachable(error);
        self.connection.down(ConnectionState::Down(error.clone()));
        self.drop_unsent(&error);
        error
    }

    /// Handles the end of a connection. Unlocks return to their places. Other requests are answered: requests in
    /// flight as possibly executed, unsent requests as not sent.
    ///
    /// If the node was unresponsive before, or violated the protocol, the node is down until the next
    /// connection. Otherwise, calls wait for the next connection.
    ///
    /// Returns the number of connections in a row, up to this one, that ended because they [were silent](Self::is_silent).
    /// An answer to a call within the node timeout ends the row.
    pub(crate) fn disconnected(&mut self, error: NodeError, now: Instant) -> u32 {
        let silences = if self.is_silent(now) { self.in_flight.count_silence() } else { 0 };
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
            if item.must_deliver() && !item.is_expired(now) {
                item.was_sent = true;
                self.unsent.insert(sequence, item);
            } else {
                self.weight -= item.weight();
                item.error(&NodeError::Disconnected);
            }
        }
        silences
    }

    /// Handles a registration that the node did not execute because the node lacks the script: no call is sent until
    /// the script [is loaded](Self::loaded).
    pub(crate) fn registration_not_loaded(&mut self, now: Instant) {
        self.in_flight.begin_load(now);
    }

    /// Handles a call that the node did not execute because the node had lost the script. Returns whether the
    /// driver has to load the script: `false` if a load is in progress.
    pub(crate) fn not_loaded(&mut self, batch: BatchId, now: Instant) -> bool {
        let Some(batch) = self.in_flight.take(batch) else { return false };
        let must_load = self.in_flight.begin_load(now);
        let items = batch.into_items();
        let last = self.superseding(&items);
        let error = NodeError::NotExecuted("the node had lost the script".into());
        for (sequence, item) in items {
            let is_superseded = item
                .acquired_leases()
                .any(|lease_id| last.get(lease_id).is_some_and(|last| *last > sequence));
            let resend = item.must_deliver() || !(item.is_abandoned() || is_superseded);
            if resend && !item.is_expired(now) {
                self.unsent.insert(sequence, item);
            } else {
                self.weight -= item.weight();
                item.error(&error);
            }
        }
        must_load
    }

    /// Handles the end of a load of the script, by this client or by another client.
    pub(crate) fn loaded(&mut self) {
        self.in_flight.end_load();
    }

    /// Ends the queue: accepts no request from now on, and answers all requests that are left. Returns the reason of
    /// the end.
    ///
    /// A queue that was not closed ends with the runtime of its client.
    pub(crate) fn end(&mut self) -> ClosedReason {
        let reason = match self.stage {
            Stage::Open => ClosedReason::RuntimeEnded,
            Stage::Closing => ClosedReason::ShutDown,
            Stage::Ended(reason) => reason,
        };
        self.stage = Stage::Ended(reason);
        for (_, item) in self.in_flight.take_all() {
            item.error(&NodeError::Disconnected);
        }
        for item in self.unsent.take_if(|_| true) {
            item.refuse(&NodeError::Closed(reason));
        }
        self.retries.clear();
        self.weight = 0;
        reason
    }

    /// Whether the queue has ended, or is closed and need not send any further request.
    pub(crate) fn is_done(&self, now: Instant) -> bool {
        match self.stage {
            Stage::Open => false,
            Stage::Ended(_) => true,
            Stage::Closing => self.unanswered().all(|item| self.is_moot(item, now)),
        }
    }

    /// Whether a closing send queue need not send a request: the request has expired, or no connection was ever
    /// established and the request concerns this client alone. Without any connection, the node has no key of this
    /// client.
    fn is_moot(&self, item: &Item, now: Instant) -> bool {
        item.is_expired(now) || !(self.connection.was_up || item.concerns_other_clients())
    }

    /// Returns all unanswered requests.
    fn unanswered(&self) -> impl Iterator<Item = &Item> {
        let sent = self.in_flight.items().map(|(_, item)| item);
        self.unsent.iter().map(|(_, item)| item).chain(sent).chain(self.retries.values())
    }

    /// Returns the error with which a submitted request is refused; `None` if the request is accepted.
    fn refusal(&self, operations: &[Operation]) -> Option<NodeError> {
        match (self.stage, &self.connection.state) {
            (Stage::Ended(reason), _) => Some(NodeError::Closed(reason)),
            _ if must_deliver(operations) => None,
            (Stage::Closing, _) => Some(NodeError::Closed(ClosedReason::ShutDown)),
            (Stage::Open, ConnectionState::Down(error)) => Some(error.clone()),
            _ if self.in_flight.is_unresponsive() && !waits_while_unresponsive(operations) => {
                Some(NodeError::Unresponsive)
            }
            _ if self.weight + operations.len() > MAX_PENDING_OPERATIONS => Some(NodeError::Overloaded),
            _ => None,
        }
    }

    /// Moves requests that are due for a retry back to their places.
    fn insert_retries(&mut self, now: Instant) {
        while let Some(first) = self.retries.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, sequence), item) = first.remove_entry();
            self.unsent.insert(sequence, item);
        }
    }

    /// Returns the error of a request that expired unsent.
    fn expiry_error(&self) -> NodeError {
        match &self.connection.state {
            ConnectionState::Down(error) => error.clone(),
            ConnectionState::Dialling => NodeError::Unreachable("no connection yet".into()),
            // The request waited for the answers to earlier calls, of which few are in flight at a time.
            ConnectionState::Up => NodeError::Unresponsive,
        }
    }

    /// Refuses the unsent requests, except unlocks.
    fn drop_unsent(&mut self, error: &NodeError) {
        self.drop_queued(error, |item| !item.must_deliver());
    }

    /// Refuses the unsent requests that have expired.
    fn drop_expired(&mut self, now: Instant) {
        let error = self.expiry_error();
        self.drop_queued(&error, |item| item.is_expired(now));
    }

    fn drop_queued(&mut self, error: &NodeError, is_dropped: impl Fn(&Item) -> bool) {
        for item in self.unsent.take_if(is_dropped) {
            self.weight -= item.weight();
            item.refuse(error);
        }
    }

    /// Returns, by lease id, the last request that supersedes earlier requests of the lease: an unlock, sent or unsent,
    /// or any request in flight, which may have been executed. An earlier request must not be sent again, because the
    /// node would execute the requests of the lease in the wrong order.
    fn superseding(&self, items: &[(Sequence, Item)]) -> HashMap<LeaseId, Sequence> {
        let mut last = HashMap::new();
        let mut record = |lease_id: &LeaseId, sequence: Sequence| {
            let recorded = last.entry(lease_id.clone()).or_insert(sequence);
            *recorded = sequence.max(*recorded);
        };
        for (sequence, item) in self.in_flight.items() {
            item.acquired_leases()
                .chain(item.released_leases())
                .for_each(|lease_id| record(lease_id, *sequence));
        }
        for (sequence, item) in items.iter().chain(self.unsent.iter()) {
            item.released_leases().for_each(|lease_id| record(lease_id, *sequence));
        }
        last
    }
}

impl ConnectionStatus {
    fn is_up(&self) -> bool {
        matches!(self.state, ConnectionState::Up)
    }

    /// Records that there is no connection. The next dial is sooner only if a request is submitted from now on.
    fn down(&mut self, state: ConnectionState) {
        self.state = state;
        self.is_wanted = false;
    }
}

/// Converts any reason for having no connection to an error that means "not sent".
fn unreachable(error: NodeError) -> NodeError {
    match error {
        error if error.is_unsent() => error,
        error if error.is_answer() => NodeError::Handshake(Arc::new(error)),
        // The server has accepted the connection before.
        NodeError::Disconnected => NodeError::NotExecuted(error.to_string().into()),
        error => NodeError::Unreachable(error.to_string().into()),
    }
}
