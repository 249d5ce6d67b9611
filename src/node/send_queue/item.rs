//! One accepted request of a send queue, and the responder of the caller.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Operation},
        reply::{Reply, Responder},
        request::{PendingUnlocks, Request, RequestSize},
    },
    values::{LeaseId, NodeError},
};

/// The delay after the first refusal of a request that must be delivered. Each further refusal doubles the
/// delay.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// The longest delay after a refusal. The delay is short, so that an unlock reaches its node soon after the node has
/// recovered.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

/// An accepted, unanswered request.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) operations: Arc<[Operation]>,
    pub(super) until: Instant,
    /// The time until which a shutdown waits for the request. See [`Request`].
    blocks_until: Option<Instant>,
    /// Whether a connection broke after the request was sent, so that the node may have executed the request.
    pub(super) was_sent: bool,
    /// The number of errors with which the node has answered the request. Only a request that must be delivered
    /// is sent again after an error.
    refusals: u32,
    /// A clone of the counter of the send queue, if the request must be delivered.
    delivery: Option<Arc<()>>,
    responder: Responder,
}

impl Item {
    /// Creates an item. All requests of a send queue that must be delivered share `deliveries`, whose clones
    /// are counted.
    pub(super) fn new(request: Request, responder: Responder, deliveries: &Arc<()>) -> Self {
        let Request { operations, until, blocks_until } = request;
        let delivery = must_deliver(&operations).then(|| Arc::clone(deliveries));
        Self { operations, until, blocks_until, was_sent: false, refusals: 0, delivery, responder }
    }

    /// Whether the request outlives a broken connection, because all operations are unlocks or withdrawals.
    pub(super) fn must_deliver(&self) -> bool {
        self.delivery.is_some()
    }

    /// Whether the request concerns other clients, and not only the keys and queue entries of this client at the
    /// node. For instance, a force-unlock deletes the keys of any client.
    pub(super) fn concerns_other_clients(&self) -> bool {
        self.operations.iter().any(|operation| operation.as_dyn().concerns_other_clients(self.blocks_until))
    }

    /// Returns the resources of the request that the node has not confirmed, if the request must be
    /// delivered.
    pub(super) fn undelivered(&self) -> Option<PendingUnlocks> {
        self.delivery.as_ref()?;
        let resources = self.operations.iter().flat_map(Operation::resources).cloned().collect();
        Some(PendingUnlocks { resources, blocks_until: self.blocks_until })
    }

    /// Returns the number of operations that count towards
    /// [`MAX_PENDING_OPERATIONS`](super::MAX_PENDING_OPERATIONS). Requests that must be delivered count 0, because they
    /// are never refused.
    pub(super) fn weight(&self) -> usize {
        if self.must_deliver() { 0 } else { self.operations.len() }
    }

    /// Adds the request to a call of this size if the request fits into the call.
    pub(super) fn try_join(&self, size: &mut RequestSize) -> bool {
        let resources = self.operations.iter().map(|operation| operation.resources().len()).sum();
        size.try_add(self.operations.len(), resources, Operation::longest_answers(&self.operations))
    }

    pub(super) fn is_expired(&self, now: Instant) -> bool {
        self.until <= now
    }

    /// Whether the request extends leases, and its caller still waits for the answer.
    pub(super) fn is_awaited_renewal(&self) -> bool {
        self.extended_ttl().is_some() && !self.is_abandoned()
    }

    /// Returns the shortest ttl to which the request extends a lease; `None` if the request does not only renew leases, or
    /// extends no lease. A renewal that extends no lease is not urgent, however short the rest of the validity is,
    /// because the renewal cannot save the lease.
    pub(super) fn extended_ttl(&self) -> Option<Duration> {
        let mut shortest = None;
        for operation in self.operations.iter() {
            let Operation::Renew(renew) = operation else { return None };
            shortest = shortest.into_iter().chain(renew.extends.then_some(renew.ttl)).min();
        }
        shortest
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.responder.is_abandoned()
    }

    /// Returns the ids of the leases that the request acquires, renews or writes back.
    pub(super) fn acquired_leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.operations.iter().filter_map(|operation| operation.as_dyn().acquired_lease())
    }

    /// Returns the ids of the leases that the request ends.
    pub(super) fn released_leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.operations.iter().filter_map(|operation| operation.as_dyn().released_lease())
    }

    /// Passes the answers to the caller.
    pub(super) fn answer(self, mut answers: Vec<Answer>) {
        if self.was_sent {
            answers.iter_mut().for_each(Answer::mark_resent);
        }
        self.responder.answer(answers);
    }

    /// Returns the request that must still be delivered after these answers: the operations that got an error that may
    /// pass. The new request has no caller.
    pub(super) fn still_undelivered(&self, answers: &[Answer]) -> Option<Self> {
        let deliveries = self.delivery.as_ref()?;
        let is_undelivered = |answer: &Answer| matches!(answer, Answer::Error(error) if !error.is_for_good());
        if !answers.iter().any(is_undelivered) {
            return None;
        }
        let left = self.operations.iter().zip(answers).filter(|(_, answer)| is_undelivered(answer));
        let operations: Arc<[Operation]> = left.map(|(operation, _)| operation.clone()).collect();
        let (responder, _) = Reply::channel(operations.len());
        let request = Request { operations, until: self.until, blocks_until: self.blocks_until };
        let refusals = self.refusals.saturating_add(1);
        let item = Self::new(request, responder, deliveries);
        Some(Self { was_sent: true, refusals, ..item })
    }

    /// Returns the delay before the request is sent again.
    pub(super) fn retry_delay(&self) -> Duration {
        RETRY_DELAY.saturating_mul(1 << self.refusals.saturating_sub(1).min(6)).min(MAX_RETRY_DELAY)
    }

    /// Answers every operation with this error.
    pub(super) fn error(self, error: &NodeError) {
        self.responder.error(error);
    }

    /// Answers a request that is not sent, or not sent again, with this error. If a connection broke after
    /// the request was sent, the error is [`NodeError::Disconnected`].
    pub(super) fn refuse(self, error: &NodeError) {
        let error = if self.was_sent { &NodeError::Disconnected } else { error };
        self.error(error);
    }
}

/// Whether a request of these operations waits while the node is unresponsive, because all of them are renewals, or
/// must be delivered.
pub(super) fn waits_while_unresponsive(operations: &[Operation]) -> bool {
    operations.iter().all(|operation| operation.as_dyn().waits_while_unresponsive())
}

/// Whether a request of these operations must be delivered, because all of them are unlocks or withdrawals.
pub(super) fn must_deliver(operations: &[Operation]) -> bool {
    operations.iter().all(Operation::must_deliver)
}
