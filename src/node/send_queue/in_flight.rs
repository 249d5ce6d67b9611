//! The calls on the present connection that are not answered yet.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Operation},
        send_queue::item::Item,
        transport::BatchId,
    },
    values::NodeError,
};

/// Where a request stands in the order of submission.
pub(super) type Sequence = u64;

/// Requests that travel in one call.
#[derive(Debug)]
pub(super) struct Batch {
    id: BatchId,
    sent_at: Instant,
    items: Vec<(Sequence, Item)>,
}

/// The number of node timeouts without an answer after which a connection is given up.
const SILENT_TIMEOUTS: u32 = 4;

/// A connection is given up after no less than this: a server that loads or forks pauses for a
/// second or two.
const SHORTEST_SILENCE: Duration = Duration::from_secs(3);

/// The unanswered calls, oldest first, and a load of the script that is not confirmed.
///
/// # Invariant
///
/// The node is unresponsive from the first overdue call until nothing is unanswered.
#[derive(Debug)]
pub(super) struct UnansweredCalls {
    node_timeout: Duration,
    batches: VecDeque<Batch>,
    next: u64,
    /// Since when the script is being loaded again.
    loading: Option<Instant>,
    /// Whether the node has left a call unanswered for longer than the node timeout, and still
    /// leaves one.
    is_unresponsive: bool,
}

impl UnansweredCalls {
    pub(super) fn new(node_timeout: Duration) -> Self {
        Self { node_timeout, batches: VecDeque::new(), next: 0, loading: None, is_unresponsive: false }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn is_unresponsive(&self) -> bool {
        self.is_unresponsive
    }

    pub(super) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Notes that the script is being loaded. Returns whether it was not being loaded before.
    pub(super) fn begin_load(&mut self, now: Instant) -> bool {
        let starts = self.loading.is_none();
        self.loading.get_or_insert(now);
        starts
    }

    /// Notes that the script is loaded.
    pub(super) fn end_load(&mut self) {
        self.loading = None;
        self.on_answer();
    }

    /// Notes an answer of the node: the node is responsive again once nothing is unanswered.
    pub(super) fn on_answer(&mut self) {
        if self.oldest().is_none() {
            self.is_unresponsive = false;
        }
    }

    /// Notes that the oldest call is overdue, if it is. Returns whether it was not noted before.
    pub(super) fn note_overdue(&mut self, now: Instant) -> bool {
        let is_new =
            !self.is_unresponsive && self.oldest().is_some_and(|oldest| oldest + self.node_timeout <= now);
        self.is_unresponsive |= is_new;
        is_new
    }

    /// Whether the node has been silent for so long that the connection is to be given up.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.oldest().is_some_and(|oldest| oldest + self.silence() <= now)
    }

    /// The time at which the oldest call is overdue, or at which the connection is given up if it is
    /// overdue already.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let patience = if self.is_unresponsive { self.silence() } else { self.node_timeout };
        self.oldest().map(|oldest| oldest + patience)
    }

    /// Returns the time at which the oldest unanswered call was sent, or the load of the script.
    fn oldest(&self) -> Option<Instant> {
        let sent = self.batches.front().map(|batch| batch.sent_at);
        [sent, self.loading].into_iter().flatten().min()
    }

    fn silence(&self) -> Duration {
        self.node_timeout.saturating_mul(SILENT_TIMEOUTS).max(SHORTEST_SILENCE)
    }

    /// All that is unanswered, in the order of submission.
    pub(super) fn items(&self) -> impl Iterator<Item = &(Sequence, Item)> {
        self.batches.iter().flat_map(|batch| &batch.items)
    }

    /// Sends these requests together; the operations that go on the wire.
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

    /// Takes out one call, which is the oldest unless the connection errs.
    pub(super) fn take(&mut self, id: BatchId) -> Option<Batch> {
        let position = self.batches.iter().position(|batch| batch.id == id)?;
        self.batches.remove(position)
    }

    /// Takes out everything, in the order of submission, because the connection has ended.
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

    pub(super) fn into_items(self) -> Vec<(Sequence, Item)> {
        self.items
    }

    /// Gives every request its share of the answers, and returns what must be delivered all the
    /// same.
    pub(super) fn answer(self, mut answers: Vec<Answer>) -> Vec<(Sequence, Item)> {
        let asked: usize = self.items.iter().map(|(_, item)| item.operations.len()).sum();
        if answers.len() != asked {
            let problem = format!("{} answers to {asked} operations", answers.len());
            answers = vec![Answer::Error(NodeError::Protocol(problem.into())); asked];
        }
        let mut answers = answers.into_iter();
        let mut undelivered = Vec::new();
        for (sequence, item) in self.items {
            let share: Vec<Answer> = answers.by_ref().take(item.operations.len()).collect();
            undelivered.extend(item.still_undelivered(&share).map(|item| (sequence, item)));
            item.answer(share);
        }
        undelivered
    }
}
