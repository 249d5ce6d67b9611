//! The calls in flight on the present connection, and the load of the script.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    mutation::{self, Mutation},
    node::{
        operation::{Answer, Operation},
        send_queue::{MAX_CALLS_IN_FLIGHT, item::Item},
        transport::BatchId,
    },
    values::NodeError,
};

/// The position of a request in the order of submission.
pub(super) type Sequence = u64;

/// The requests that one call carries.
#[derive(Debug)]
pub(super) struct Batch {
    id: BatchId,
    sent_at: Instant,
    items: Vec<(Sequence, Item)>,
}

/// The number of node timeouts without an answer after which the connection is given up.
const SILENT_TIMEOUTS: u32 = 4;

/// The shortest time without an answer after which the connection is given up. A server that loads data or forks may
/// pause for a second or two.
const MIN_SILENCE: Duration = Duration::from_secs(3);

/// The largest number of requests in the first call after a silence, which each answer doubles.
const MAX_REQUESTS_AFTER_SILENCE: usize = 16;

/// The longest time, in multiples of the usual time without an answer, for which a renewal in flight keeps the
/// connection. A lost connection must not stay until the end of a long renewal timeout.
const MAX_RENEWAL_SILENCES: u32 = 2;

/// The share of the shortest ttl for which a renewal in flight keeps the connection. A renewal is due after a third of
/// the ttl, so a third is left for the renewal on a new connection.
const KEPT_TTL_SHARE: u32 = 3;

/// The unanswered calls, oldest first, and the unconfirmed load of the script.
///
/// # Invariant
///
/// The node is unresponsive from the detection of an overdue call or load until no call and no load is unanswered.
#[derive(Debug)]
pub(super) struct UnansweredCalls {
    node_timeout: Duration,
    batches: VecDeque<Batch>,
    next: u64,
    /// The time at which the present load of the script began.
    loading: Option<Instant>,
    /// Whether a call or load stayed unanswered for the node timeout, and a call or load is still unanswered.
    is_unresponsive: bool,
    /// The number of connections that were given up since the last answer within the node timeout.
    silences: u32,
    /// The number of answers since the last connection was given up.
    answers_since: u32,
}

impl UnansweredCalls {
    pub(super) fn new(node_timeout: Duration) -> Self {
        Self {
            node_timeout,
            batches: VecDeque::new(),
            next: 0,
            loading: None,
            is_unresponsive: false,
            silences: 0,
            answers_since: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Returns the largest number of calls in flight: one call after a silence, until an answer in time.
    pub(super) fn max_calls(&self) -> usize {
        if self.has_been_silent() { 1 } else { MAX_CALLS_IN_FLIGHT }
    }

    /// Returns the largest number of requests in a call. After a silence, and until an answer in time, the number is
    /// small at first. Otherwise each client of an overloaded node would send hundreds of unconfirmed unlocks at once on
    /// each new connection, and the unlocks of all clients would keep the node busy until the next silence.
    pub(super) fn max_requests(&self) -> usize {
        if self.has_been_silent() {
            MAX_REQUESTS_AFTER_SILENCE.saturating_mul(2_usize.saturating_pow(self.answers_since))
        } else {
            usize::MAX
        }
    }

    fn has_been_silent(&self) -> bool {
        mutation::altered(Mutation::ForgetSilences, self.silences > 0, |_| false)
    }

    pub(super) fn is_unresponsive(&self) -> bool {
        self.is_unresponsive
    }

    pub(super) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Records that the script must be loaded. Returns whether the caller has to start the load: `false` if a load is
    /// in progress.
    pub(super) fn begin_load(&mut self, now: Instant) -> bool {
        let must_load = self.loading.is_none();
        self.loading.get_or_insert(now);
        must_load
    }

    /// Records the end of the load.
    pub(super) fn end_load(&mut self) {
        self.loading = None;
        self.end_unresponsiveness();
    }

    /// Records the answer to a call that was sent at this time.
    pub(super) fn on_answer(&mut self, sent_at: Instant, now: Instant) {
        self.answers_since = self.answers_since.saturating_add(1);
        if now < sent_at + self.node_timeout {
            self.silences = 0;
        }
        self.end_unresponsiveness();
    }

    /// Makes the node responsive again if no call and no load is unanswered.
    fn end_unresponsiveness(&mut self) {
        if self.oldest().is_none() {
            self.is_unresponsive = false;
        }
    }

    /// Makes the node unresponsive if the oldest call, or the load of the script, is overdue. Returns whether the node
    /// was responsive before and is unresponsive now.
    pub(super) fn record_overdue(&mut self, now: Instant) -> bool {
        let is_new =
            !self.is_unresponsive && self.oldest().is_some_and(|oldest| oldest + self.node_timeout <= now);
        self.is_unresponsive |= is_new;
        is_new
    }

    /// Whether the connection should be given up because the node has not answered for too long. `unsent_ttl` is the
    /// shortest ttl to which an unsent renewal extends a lease.
    pub(super) fn is_silent(&self, now: Instant, unsent_ttl: Option<Duration>) -> bool {
        // The requests are searched for renewals only after a long silence.
        self.oldest()
            .is_some_and(|since| since + self.silence() <= now && self.give_up_at(since, unsent_ttl) <= now)
    }

    /// Returns the time at which the oldest call, or the load of the script, becomes overdue. If the node is
    /// unresponsive, returns the time at which the connection is given up.
    pub(super) fn deadline(&self, unsent_ttl: Option<Duration>) -> Option<Instant> {
        if self.is_unresponsive {
            return self.oldest().map(|since| self.give_up_at(since, unsent_ttl));
        }
        self.oldest().map(|oldest| oldest + self.node_timeout)
    }

    /// Returns the time at which the oldest unanswered call, or the load of the script, was sent.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let sent = self.batches.front().map(|batch| batch.sent_at);
        [sent, self.loading].into_iter().flatten().min()
    }

    /// Returns the time at which the connection is given up, if it carries no answer to the oldest call until then.
    ///
    /// A renewal in flight keeps the connection until the deadline of the renewal, because a busy node may still
    /// answer in time. A new connection costs a busy node several messages more, and the renewal would be last in line
    /// again. If a shorter lease is renewed as well, in flight or unsent, the connection is given up sooner, so that this
    /// lease can still be renewed on a new connection, unless its ttl is below three times the usual time of a silence.
    fn give_up_at(&self, since: Instant, unsent_ttl: Option<Duration>) -> Instant {
        let kept = self.kept_for_renewals(unsent_ttl);
        let silence = self.silence();
        let renewals = self.items().filter(|(_, item)| item.is_awaited_renewal());
        let last = renewals.map(|(_, item)| item.until).max();
        let Some(last) = mutation::altered(Mutation::GiveUpRenewals, last, |_| None) else {
            return since + silence;
        };
        let longest = silence.saturating_mul(MAX_RENEWAL_SILENCES).min(kept);
        last.min(since + longest).max(since + silence)
    }

    /// Returns the longest time for which the shortest lease that a renewal extends permits to keep a silent connection. A
    /// renewal that timed out counts, too, because the renewal is repeated.
    fn kept_for_renewals(&self, unsent_ttl: Option<Duration>) -> Duration {
        let in_flight = self.items().filter_map(|(_, item)| item.extended_ttl());
        let kept = in_flight.chain(unsent_ttl).min().map_or(Duration::MAX, |ttl| ttl / KEPT_TTL_SHARE);
        mutation::altered(Mutation::WaitForLongLeases, kept, |_| Duration::MAX)
    }

    fn silence(&self) -> Duration {
        self.node_timeout.saturating_mul(SILENT_TIMEOUTS).max(MIN_SILENCE)
    }

    /// Returns the unanswered requests, in the order of submission.
    pub(super) fn items(&self) -> impl Iterator<Item = &(Sequence, Item)> {
        self.batches.iter().flat_map(|batch| &batch.items)
    }

    /// Adds a call that carries these requests. Returns its number and the operations to send.
    pub(super) fn start(
        &mut self,
        items: Vec<(Sequence, Item)>,
        now: Instant,
    ) -> (BatchId, Arc<[Operation]>) {
        let operations = match &*items {
            [(_, only)] => Arc::clone(&only.operations),
            several => several.iter().flat_map(|(_, item)| item.operations.iter().cloned()).collect(),
        };
        let id = BatchId(self.next);
        self.next += 1;
        self.batches.push_back(Batch { id, sent_at: now, items });
        (id, operations)
    }

    /// Removes one call. Unless the connection violates the protocol, this call is the oldest.
    pub(super) fn take(&mut self, id: BatchId) -> Option<Batch> {
        let position = self.batches.iter().position(|batch| batch.id == id)?;
        self.batches.remove(position)
    }

    /// Counts a connection that is given up because it [is silent](Self::is_silent). Returns the number of these
    /// connections since the last answer within the node timeout.
    pub(super) fn count_silence(&mut self) -> u32 {
        self.silences = self.silences.saturating_add(1);
        self.answers_since = 0;
        self.silences
    }

    /// Removes all calls, in the order of submission.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (Sequence, Item)> + use<> {
        self.loading = None;
        self.is_unresponsive = false;
        std::mem::take(&mut self.batches).into_iter().flat_map(|batch| batch.items)
    }
}

impl Batch {
    pub(super) fn weight(&self) -> usize {
        self.items.iter().map(|(_, item)| item.weight()).sum()
    }

    /// Returns the number of operations that acquire or renew a lease, and whose callers no longer wait.
    pub(super) fn late_answers(&self) -> usize {
        let abandoned = self.items.iter().filter(|(_, item)| item.is_abandoned());
        abandoned.map(|(_, item)| item.acquired_leases().count()).sum()
    }

    pub(super) fn sent_at(&self) -> Instant {
        self.sent_at
    }

    pub(super) fn into_items(self) -> Vec<(Sequence, Item)> {
        self.items
    }

    /// Passes the answers to the callers of the requests. Returns the requests that must still be delivered.
    pub(super) fn answer(self, mut answers: Vec<Answer>) -> Vec<(Sequence, Item)> {
        let expected: usize = self.items.iter().map(|(_, item)| item.operations.len()).sum();
        if answers.len() != expected {
            let problem = format!("{} answers to {expected} operations", answers.len());
            answers = vec![Answer::Error(NodeError::Protocol(problem.into())); expected];
        }
        let mut answers = answers.into_iter();
        let mut undelivered = Vec::new();
        for (sequence, item) in self.items {
            let own: Vec<Answer> = answers.by_ref().take(item.operations.len()).collect();
            undelivered.extend(item.still_undelivered(&own).map(|item| (sequence, item)));
            item.answer(own);
        }
        undelivered
    }
}
