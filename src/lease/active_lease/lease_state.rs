//! The state of a lease, as a whole and at each node.

use std::time::Duration;

use futures::FutureExt;

use crate::{
    algorithm::lease::LeaseTime,
    client::queue_node_view::QueueNodeView,
    clock::Instant,
    error::LossReason,
    mutation::{self, Mutation},
    node::{Answer, Reply},
    observer::{Observer, OperationKind},
    values::{NodeError, NodeReply},
};

/// The changing part of a lease: its phase, time, holds and nodes.
#[derive(Debug)]
pub(super) struct LeaseState {
    pub(super) phase: LeasePhase,
    pub(super) time: LeaseTime,
    pub(super) holds: u32,
    /// The state of the lease at each node.
    pub(super) nodes: Vec<NodeLeaseState>,
    /// The outstanding replies to the lock and to renewals that no call waits for.
    pub(super) late: Vec<(usize, OperationKind, Reply)>,
    /// The queue node with its last answer.
    pub(super) queue_node: QueueNodeView,
}

/// The phase of a lease, as in the diagram of [`lease`](crate::lease).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeasePhase {
    Active,
    Unlocked,
    Lost(LossReason),
}

/// Answers that arrived after the end of their calls.
#[must_use = "the observer has not received them"]
pub(super) struct LateAnswers(Vec<(usize, OperationKind, Answer)>);

impl LateAnswers {
    /// Reports the answers to the observer. The caller must not hold the mutex, because a recorder of metrics is
    /// foreign code, and a loss must not wait for that code.
    pub(super) fn report(self, observer: &dyn Observer) {
        for (node, operation, answer) in self.0 {
            observer.answered(node, operation, &answer);
        }
    }
}

/// The state of a lease at one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeLeaseState {
    /// The last answer of the node about the lease.
    pub(crate) vote: NodeReply,
    /// Whether a request of the lease may have reached the node.
    pub(crate) is_touched: bool,
    /// The number of locks and renewals that the node may still execute, because the node has not answered, or because
    /// the answer is an error that may come from a proxy.
    pub(crate) unanswered: u32,
    /// The time of the last renewal, until the node answers.
    pub(crate) awaited_since: Option<Instant>,
    /// The time by which the node has executed every request of the lease, if the last request was answered to a call
    /// that waited; otherwise `None`.
    pub(crate) executed_by: Option<Instant>,
    /// The time that `executed_by` returns to if the last renewal turns out to be unsent.
    pub(crate) executed_before: Option<Instant>,
    /// Whether a renewal was sent to the node. If so, the key on the node is no evidence that the node has executed
    /// every request of the lease.
    pub(crate) was_renewed: bool,
    /// Whether clients wait for any of the resources, according to the wait queues of this node; `None` until a renewal
    /// was answered.
    pub(crate) has_waiters: Option<bool>,
    /// The time of the last renewal that was submitted to the node. The renewal may not be sent yet.
    pub(crate) renewed_at: Option<Instant>,
    /// The time that `renewed_at` returns to if the last renewal turns out to be unsent: the time of the renewal
    /// before, or the same time once the node has answered.
    pub(crate) sent_at: Option<Instant>,
}

impl NodeLeaseState {
    /// Returns the last reply of the node about the lease at `now`. A renewal without an answer for a node timeout
    /// counts as timed out, although the watchdog waits for longer.
    pub(super) fn reply(&self, node_timeout: Duration, now: Instant) -> NodeReply {
        if self.awaited_since.is_some_and(|since| since + node_timeout <= now) {
            NodeReply::Failed(NodeError::TimedOut)
        } else {
            self.vote.clone()
        }
    }

    /// Counts a renewal as unanswered. The node may execute the renewal until it has answered.
    pub(super) fn renewal_begins(&mut self, now: Instant) {
        if mutation::is_on(Mutation::NoTombstoneForRenewal) {
            return;
        }
        self.unanswered += 1;
        self.awaited_since = Some(now);
        self.executed_before = self.executed_by.take();
        self.was_renewed = true;
        // The node may still execute an unanswered renewal, whatever the outcome of the new renewal is.
        self.sent_at = self.renewed_at;
        self.renewed_at = Some(now);
    }
}

impl LeaseState {
    pub(super) fn loss_at(&self, now: Instant) -> Option<LossReason> {
        match self.phase {
            LeasePhase::Lost(reason) => Some(reason),
            LeasePhase::Unlocked => Some(LossReason::Unlocked),
            _ if self.time.is_valid(now) => None,
            _ if self.time.is_at_hold_limit() => Some(LossReason::HoldLimit),
            _ => Some(LossReason::Expired),
        }
    }

    /// Whether the queue node has answered every request, and reported no waiters in its last answer. A client that
    /// arrived after that answer has left a mark of at least two thirds of the ttl, which the next renewals extend.
    pub(super) fn is_queue_empty(&self) -> bool {
        let queue_node = self.queue_node.node.and_then(|node| self.nodes.get(node));
        queue_node.is_some_and(|node| node.unanswered == 0) && self.queue_node.reports_no_waiters()
    }

    /// Whether the node has answered every request, and reported in its last answer that its wait queues of all
    /// resources are empty.
    pub(super) fn has_no_queue_at(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| node.unanswered == 0 && node.has_waiters == Some(false))
    }

    /// Records the answers that have arrived to requests that no call waits for, and returns them for the observer.
    pub(super) fn take_late(&mut self) -> LateAnswers {
        let mut taken = Vec::new();
        self.late.retain_mut(|(node, operation, reply)| match reply.now_or_never() {
            Some(answers) => {
                taken.extend(answers.into_iter().next().map(|answer| (*node, *operation, answer)));
                false
            }
            None => true,
        });
        for (node, _, answer) in &taken {
            self.record(*node, answer);
        }
        LateAnswers(taken)
    }

    /// Records an answer of a node at `now`, to a call that waited.
    pub(super) fn record_awaited(&mut self, node: usize, answer: &Answer, now: Instant) {
        self.record(node, answer);
        if let Some(node_state) = self.nodes.get_mut(node)
            && node_state.unanswered == 0
        {
            node_state.executed_by = node_state.executed_by.or(Some(now));
        }
    }

    /// Records an answer of a node.
    fn record(&mut self, node: usize, answer: &Answer) {
        let has_waiters = answer.has_waiters();
        if let Some(has_waiters) = has_waiters {
            self.queue_node.record(node, has_waiters);
        }
        let answer = answer.without_waiters();
        let Some(node_state) = self.nodes.get_mut(node) else { return };
        node_state.awaited_since = None;
        node_state.has_waiters = has_waiters.or(node_state.has_waiters);
        node_state.vote = NodeReply::from(answer);
        match answer {
            Answer::Error(error) if error.is_unsent() => {
                node_state.unanswered = node_state.unanswered.saturating_sub(1);
                node_state.renewed_at = node_state.sent_at;
                node_state.executed_by = node_state.executed_before;
                return;
            }
            Answer::Error(error) if error.may_land_yet() => {}
            _ => node_state.unanswered = node_state.unanswered.saturating_sub(1),
        }
        node_state.is_touched = true;
        node_state.sent_at = node_state.renewed_at;
    }
}
