//! One accepted request, and the caller that waits for its answer.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Operation},
        reply::{Reply, Responder},
        request::{PendingUnlocks, Request},
    },
    values::{LeaseId, NodeError},
};

/// What must be delivered and was refused is sent again after this, and after twice as long
/// whenever it is refused again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// It is sent again after no longer than this, so that a lock is not left for long once the node is
/// well.
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(2);

/// A request that was accepted and is not answered yet.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) operations: Arc<[Operation]>,
    pub(super) until: Instant,
    /// Until when a shutdown waits for it, as its [`Request`] says.
    blocks_until: Option<Instant>,
    /// Whether a connection broke over it: then the node may have executed it already.
    pub(super) was_sent: bool,
    /// How often the node has answered with an error although it must be delivered.
    refusals: u32,
    /// One of those that the send queue counts, if it must be delivered.
    delivery: Option<Arc<()>>,
    responder: Responder,
}

impl Item {
    /// `deliveries`: what all requests of a send queue that must be delivered share, so that it can
    /// count them.
    pub(super) fn new(request: Request, responder: Responder, deliveries: &Arc<()>) -> Self {
        let Request { operations, until, blocks_until } = request;
        let delivery = must_deliver(&operations).then(|| Arc::clone(deliveries));
        Self { operations, until, blocks_until, was_sent: false, refusals: 0, delivery, responder }
    }

    /// Whether it outlives its connection: a request of nothing but unlocks and withdrawals.
    pub(super) fn must_deliver(&self) -> bool {
        self.delivery.is_some()
    }

    /// Whether it is about more than what this client has, or wants, at the node. Of unlocks, those
    /// of what others have.
    pub(super) fn is_for_others(&self) -> bool {
        self.operations.iter().any(|operation| operation.as_dyn().is_for_others(self.blocks_until))
    }

    /// What the node has not confirmed of it, if it must be delivered.
    pub(super) fn undelivered(&self) -> Option<PendingUnlocks> {
        self.delivery.as_ref()?;
        let resources = self.operations.iter().flat_map(Operation::resources).cloned().collect();
        Some(PendingUnlocks { resources, blocks_until: self.blocks_until })
    }

    /// What it takes of the room for calls that may be refused.
    pub(super) fn weight(&self) -> usize {
        if self.must_deliver() { 0 } else { self.operations.len() }
    }

    /// How many resources its operations name.
    pub(super) fn resources(&self) -> usize {
        self.operations.iter().map(|operation| operation.resources().len()).sum()
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.responder.is_abandoned()
    }

    /// The owners whose locks this would take, keep or write back.
    pub(super) fn takers(&self) -> impl Iterator<Item = &LeaseId> {
        self.operations.iter().filter_map(|operation| operation.as_dyn().taker())
    }

    /// The owners whose locks this ends.
    pub(super) fn leavers(&self) -> impl Iterator<Item = &LeaseId> {
        self.operations.iter().filter_map(|operation| operation.as_dyn().leaver())
    }

    pub(super) fn answer(self, mut answers: Vec<Answer>) {
        if self.was_sent {
            answers.iter_mut().for_each(Answer::may_have_been_before);
        }
        self.responder.answer(answers);
    }

    /// What must still be delivered although it was answered: operations that the node refused,
    /// unless it will always refuse them. Nobody waits for it any more.
    pub(super) fn still_undelivered(&self, answers: &[Answer]) -> Option<Self> {
        let deliveries = self.delivery.as_ref()?;
        let refused = |answer: &Answer| matches!(answer, Answer::Error(error) if !error.is_for_good());
        if !answers.iter().any(refused) {
            return None;
        }
        let left = self.operations.iter().zip(answers).filter(|(_, answer)| refused(answer));
        let operations: Arc<[Operation]> = left.map(|(operation, _)| operation.clone()).collect();
        let (responder, _) = Reply::channel(operations.len());
        let request = Request { operations, until: self.until, blocks_until: self.blocks_until };
        let refusals = self.refusals.saturating_add(1);
        let item = Self::new(request, responder, deliveries);
        Some(Self { was_sent: true, refusals, ..item })
    }

    /// How long it waits before it is sent again.
    pub(super) fn retry_delay(&self) -> Duration {
        RETRY_DELAY.saturating_mul(1 << self.refusals.saturating_sub(1).min(6)).min(LONGEST_RETRY_DELAY)
    }

    pub(super) fn error(self, error: &NodeError) {
        self.responder.error(error);
    }

    /// Answers what is not sent (any more): with this error, unless a connection broke over it
    /// before.
    pub(super) fn refuse(self, error: &NodeError) {
        let error = if self.was_sent { &NodeError::Disconnected } else { error };
        self.error(error);
    }
}

/// Whether a request of these operations outlives its connection.
pub(super) fn must_deliver(operations: &[Operation]) -> bool {
    operations.iter().all(Operation::must_deliver)
}
