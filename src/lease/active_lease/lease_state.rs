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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{
        algorithm::{lease::HoldLimits, validity::Validity},
        mutex::lock,
        node::remote::Monitor,
    };

    const RENEWED: Answer = Answer::Renewed { proves: true };
    const NODE_TIMEOUT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    /// Returns the state of a lease at a node that was sent nothing.
    fn untouched() -> NodeLeaseState {
        NodeLeaseState {
            vote: NodeReply::NotAsked,
            is_touched: false,
            unanswered: 0,
            awaited_since: None,
            executed_by: None,
            executed_before: None,
            was_renewed: false,
            has_waiters: None,
            renewed_at: None,
            sent_at: None,
        }
    }

    /// Returns the state of a lease on three nodes. Node 1 is the queue node.
    fn state() -> LeaseState {
        let (ttl, validity) = (Duration::from_secs(1), Validity::with_drift(0.0).unwrap());
        LeaseState {
            phase: LeasePhase::Active,
            time: LeaseTime::granted(at(0), ttl, validity, HoldLimits::default()),
            holds: 1,
            nodes: vec![untouched(); 3],
            late: Vec::new(),
            queue_node: QueueNodeView::new(Some(1), 0),
        }
    }

    #[test]
    fn the_queue_is_empty_if_the_queue_node_has_answered_everything_and_reports_no_waiters() {
        let mut state = state();
        assert!(!state.is_queue_empty(), "the queue node has reported nothing");
        state.nodes[1].renewal_begins(at(1));
        state.record(1, &RENEWED);
        state.nodes[0].renewal_begins(at(1));
        assert!(state.is_queue_empty(), "only the answer of another node is outstanding");
        state.nodes[1].renewal_begins(at(2));
        assert!(!state.is_queue_empty(), "the answer of the queue node is outstanding");
        state.record(1, &RENEWED.with_waiters(true));
        assert!(!state.is_queue_empty(), "the queue node reports waiters");
    }

    #[test]
    fn a_node_has_no_queue_if_it_has_answered_everything_and_reports_no_waiters() {
        for (unanswered, has_waiters, has_no_queue) in
            [(0, Some(false), true), (0, Some(true), false), (0, None, false), (1, Some(false), false)]
        {
            let mut state = state();
            state.nodes[2] = NodeLeaseState { unanswered, has_waiters, ..untouched() };
            assert_eq!(state.has_no_queue_at(2), has_no_queue, "{unanswered} {has_waiters:?}");
        }
        assert!(!state().has_no_queue_at(3), "there is no such node");
    }

    #[test]
    fn a_node_has_executed_all_requests_once_it_has_answered_all() {
        let mut state = state();
        state.nodes[0].renewal_begins(at(1));
        state.nodes[0].renewal_begins(at(2));
        state.record_awaited(0, &RENEWED, at(3));
        assert_eq!((state.nodes[0].unanswered, state.nodes[0].executed_by), (1, None));
        state.record_awaited(0, &RENEWED, at(4));
        assert_eq!((state.nodes[0].unanswered, state.nodes[0].executed_by), (0, Some(at(4))));
    }

    #[test]
    fn each_kind_of_answer_shows_whether_the_node_may_still_execute_the_request() {
        // (the answer, whether a request may have reached the node, the number of unanswered requests, the time of the
        // last renewal)
        for (answer, is_touched, unanswered, renewed_at) in [
            (RENEWED, true, 0, Some(at(1))),
            (Answer::Error(NodeError::Overloaded), false, 0, None),
            (Answer::Error(NodeError::OutOfMemory), true, 0, Some(at(1))),
            (Answer::Error(NodeError::TimedOut), true, 1, Some(at(1))),
        ] {
            let mut state = state();
            state.nodes[0].renewal_begins(at(1));
            state.record(0, &answer);
            let node = &state.nodes[0];
            assert_eq!(
                (node.is_touched, node.unanswered, node.renewed_at),
                (is_touched, unanswered, renewed_at),
                "{answer:?}"
            );
        }
    }

    #[test]
    fn a_renewal_counts_as_timed_out_after_a_node_timeout_without_an_answer() {
        let mut node = NodeLeaseState { vote: NodeReply::Done, ..untouched() };
        node.renewal_begins(at(0));
        assert_eq!(node.reply(NODE_TIMEOUT, at(99)), NodeReply::Done);
        assert_eq!(node.reply(NODE_TIMEOUT, at(100)), NodeReply::Failed(NodeError::TimedOut));
    }

    /// An observer that keeps the answers of the nodes.
    #[derive(Debug, Default)]
    struct Answers(Mutex<Vec<(usize, OperationKind, Answer)>>);

    impl Monitor for Answers {}

    impl Observer for Answers {
        fn answered(&self, node: usize, operation: OperationKind, answer: &Answer) {
            lock(&self.0).push((node, operation, answer.clone()));
        }
    }

    #[test]
    fn late_answers_are_recorded_and_reported_once() {
        let (mut state, observer) = (state(), Answers::default());
        state.nodes[2].unanswered = 1;
        let (responder, reply) = Reply::channel(1);
        state.late.push((2, OperationKind::Lock, reply));
        state.take_late().report(&observer);
        assert!(lock(&observer.0).is_empty(), "the node has not answered");
        let answer = Answer::Granted { vote: 7 };
        responder.answer(vec![answer.clone()]);
        state.take_late().report(&observer);
        state.take_late().report(&observer);
        assert_eq!(*lock(&observer.0), [(2, OperationKind::Lock, answer)]);
        assert_eq!(state.nodes[2].unanswered, 0);
    }
}
