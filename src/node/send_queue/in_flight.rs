//! What was sent on the present connection and is not answered yet.

use std::{collections::VecDeque, sync::Arc};

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

/// The unanswered calls, oldest first.
#[derive(Debug, Default)]
pub(super) struct UnansweredCalls {
    batches: VecDeque<Batch>,
    next: u64,
}

impl UnansweredCalls {
    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// When the oldest unanswered call was sent.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.batches.front().map(|batch| batch.sent_at)
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

    /// Takes out everything, in the order of submission.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (Sequence, Item)> + use<> {
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
