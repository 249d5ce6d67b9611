//! One attempt to acquire a lease: its requests to the nodes, and their answers.
//!
//! The driver runs the pure state machine [`Attempt`]:
//!
//! ```text
//!   decision of `Attempt::step`       driver                          event for `Attempt`
//!   ───────────────────────────       ──────                          ───────────────────
//!   Lock, Enqueue, WriteBack  ──────> send requests by the fan-out
//!   Wait(deadline)            ──────> wait for an answer         ───> on_lock, on_queue, on_write_back,
//!                                                                     refused_elsewhere, on_holder
//!   RollBack                  ──────> submit unlocks
//!   Acquired, Failed          ──────> report the end, return the outcome
//!
//!   drop of the future        ──────> submit unlocks, report the end
//! ```
//!
//! There are three kinds of callers: the local waiter, which makes attempt after attempt; calls that make single
//! attempts without a queue entry; and transfers: downgrades of write leases, and tickets.

use std::{sync::Arc, time::Duration};

use self::{
    evidence::AttemptEvidence,
    requests::{AttemptRequests, TransferFrom},
};
use crate::{
    acquire::{checked_request::CheckedRequest, outcome::AttemptOutcome, queue_entries::QueueEntries},
    algorithm::{
        attempt::{Attempt, AttemptStep, FailureReason, LockVote, Plan, SplitPatience},
        failed_attempt::{Deferral, FailedAttempt, RefusedResource},
        lease::{LeaseTime, renewal_timeout},
        node_set::NodeSet,
    },
    client::{
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
        in_flight_counter::InFlightGuard,
        queue_node_view::QueueNodeView,
    },
    clock::Instant,
    config::CheckedLock,
    lease::active_lease::{Acquired, ActiveLease, LeaseTerms, NodeLeaseState},
    mutation::{self, Mutation},
    node::{Answer, Holder, Queued, Request, Tombstone, names::is_slot},
    observer::{AttemptEnd, OperationKind},
    values::{FencingToken, LeaseId, NodeError, NodeReply},
};

mod evidence;
mod requests;

/// Makes one attempt of a call that waits, with a new lease id. The quorum timeout of the call ends after
/// `quorum_timeout`. If the plan asks a node for the turn, and `entries` subscribe to wakes of
/// that node, a deferral enters the wait queue there. [`AttemptRequests::hint`] describes `hint`.
///
/// # Cancel safety
///
/// If the future is dropped, the attempt is rolled back on every node that was asked and has not definitely refused:
/// the unlocks are submitted at once, behind the locks on the same connections.
pub(super) async fn attempt(
    context: &ClientContext,
    checked: &CheckedRequest,
    plan: Plan,
    quorum_timeout: Duration,
    hint: u64,
    entries: Option<&mut QueueEntries>,
) -> AttemptOutcome {
    let config = checked.settings.attempt.of_waiting_call(quorum_timeout);
    let requests = AttemptRequests { hint, ..AttemptRequests::new(context, checked, config) };
    AttemptDriver::new(context, requests, plan, SplitPatience::Hedge, entries).drive().await
}

/// Makes the attempt that transfers the resources of the lease `from`: to a read lease, or to the lease id `to` of a
/// ticket. The attempt fails at `until`, the end of the earlier lease, because another client may hold the resource
/// from then on.
///
/// # Cancel safety
///
/// As [`attempt`]; the earlier lease is not rolled back.
pub(crate) async fn attempt_to_transfer(
    context: &ClientContext,
    checked: &CheckedRequest,
    (from, until): (&ActiveLease, Instant),
    to: Option<LeaseId>,
) -> AttemptOutcome {
    let mut requests = AttemptRequests::new(context, checked, checked.settings.attempt);
    requests.transfer = Some(TransferFrom { from: from.terms.lease_id.clone(), proof: None });
    if let Some(to) = to {
        (requests.lease_id, requests.hint) = (to, from.terms.token.as_u64() + 1);
    }
    let (plan, patience) = (Plan::Downgrade(until), SplitPatience::NodeTimeout);
    AttemptDriver::new(context, requests, plan, patience, None).drive().await
}

/// Makes the attempts of a client that redeems a ticket. A node transfers the resources only if it can prove that no
/// lease with a larger token than the ticket's was granted since.
///
/// The queue node is asked first, so that of several clients that redeem at the same time all but one stop with
/// nothing taken. A refusal of the queue node alone decides nothing, because the ticket may have failed to reach that
/// node. If the queue node was slow, the attempt continues with the answers of the other nodes that were asked. If none
/// of these nodes has granted, all nodes are asked at once after a hedge: a client that redeems at the same time has
/// finished by then.
///
/// # Cancel safety
///
/// As [`attempt`]. The ticket is spent on the nodes that had transferred its resources.
pub(crate) async fn attempt_to_redeem(
    context: &ClientContext,
    checked: &CheckedRequest,
    ticket: &LeaseId,
    token: FencingToken,
) -> AttemptOutcome {
    let order = checked.queue_nodes(context, 0).to_vec();
    let queue_node = order.first().copied().unwrap_or_default();
    let plan = mutation::altered(Mutation::RedeemAtAllNodes, Plan::Redeem(order), |_| {
        Plan::AllAtOnceForQuorum(queue_node)
    });
    let first = redeem_once(context, checked, ticket, token, plan).await;
    match first {
        AttemptOutcome::Failed(failed)
            if failed.reason == FailureReason::Contended && !failed.is_refused_for_good(context) =>
        {
            let config = context.responsiveness.with_hedge_at(queue_node, checked.settings.attempt);
            context.sleep_until(Some(context.now() + config.hedge)).await;
            redeem_once(context, checked, ticket, token, Plan::AllAtOnceForQuorum(queue_node)).await
        }
        first => first,
    }
}

/// Makes one attempt to redeem a ticket. The hint makes the votes of the nodes agree, above the token of the ticket.
async fn redeem_once(
    context: &ClientContext,
    checked: &CheckedRequest,
    ticket: &LeaseId,
    token: FencingToken,
    plan: Plan,
) -> AttemptOutcome {
    let hint = token.as_u64() + 1;
    let mut requests = AttemptRequests {
        hint,
        will_not_wait: true,
        ..AttemptRequests::new(context, checked, checked.settings.attempt)
    };
    requests.transfer = Some(TransferFrom::with_proof(ticket.clone(), token));
    if mutation::is_on(Mutation::RedeemAsTicket) {
        requests.lease_id = ticket.clone();
    }
    AttemptDriver::new(context, requests, plan, SplitPatience::NodeTimeout, None).drive().await
}

/// Makes an attempt that enters no wait queue: for a `try_lock`, or for one candidate of several. If `is_only` is true,
/// the call makes no other attempt for these resources. Therefore the attempt waits for a node timeout, not for a
/// hedge, while votes are split, and does not wait longer than a node timeout for any vote.
///
/// # Cancel safety
///
/// As [`attempt`].
pub(crate) async fn attempt_once(
    context: &ClientContext,
    checked: &CheckedRequest,
    is_only: bool,
) -> AttemptOutcome {
    let with_waiters = context.resource_with_waiters(&checked.resources).await;
    let plan = match with_waiters {
        Some(index) => Plan::QueueNodeFirst(checked.queue_nodes(context, index).to_vec()),
        None => checked.newcomer_plan(context),
    };
    // These entries subscribe to no wakes. Therefore the attempt asks for the turn, but enters no queue.
    let mut entries = with_waiters.map(|index| QueueEntries::new(context, checked, index, &Arc::default()));
    let CheckedLock { attempt: config, quorum_timeout, .. } = checked.settings;
    let (config, patience) = match is_only {
        true => (config, SplitPatience::NodeTimeout),
        false => (config.of_waiting_call(quorum_timeout), SplitPatience::Hedge),
    };
    let requests = AttemptRequests { will_not_wait: true, ..AttemptRequests::new(context, checked, config) };
    AttemptDriver::new(context, requests, plan, patience, entries.as_mut()).drive().await
}

/// The kind of a request. The meaning of the answer depends on the kind.
#[derive(Clone, Copy, Debug)]
enum RequestKind {
    /// A lock of a newcomer. Waiters and marks refuse this lock.
    Lock,
    /// A lock that ignores wait queues and yield marks.
    LockPastQueue,
    /// A request for the turn: a lock if no waiter is ahead, and otherwise a queue entry.
    Enqueue,
    WriteBack,
}

impl RequestKind {
    fn operation(self) -> OperationKind {
        match self {
            Self::Lock | Self::LockPastQueue | Self::Enqueue => OperationKind::Lock,
            Self::WriteBack => OperationKind::WriteBack,
        }
    }
}

/// The driver of an [`Attempt`], which sends the requests that the attempt decides on, and passes the answers to the
/// attempt.
struct AttemptDriver<'a> {
    context: &'a ClientContext,
    /// The number of the attempt, from [`Observer::attempt_began`](crate::observer::Observer::attempt_began).
    number: u64,
    requests: AttemptRequests<'a>,
    attempt: Attempt,
    /// The requests in flight, with their kind and the time at which each was sent.
    fanout: Fanout<(RequestKind, Instant)>,
    entries: Option<&'a mut QueueEntries>,
    queue_node: QueueNodeView,
    evidence: AttemptEvidence,
    cleanup: Cleanup,
}

/// The work that remains for the end or the drop of an attempt.
///
/// # Invariants
///
/// 1. Exactly one end of the attempt is reported to the observer.
/// 2. The attempt is rolled back at most once, and never after [`AttemptDriver::acquired`] has returned the lease.
struct Cleanup {
    needs_rollback: bool,
    needs_report: bool,
    /// Keeps a shutdown waiting until the attempt is rolled back, or its lease is registered.
    in_flight: Option<InFlightGuard>,
}

impl<'a> AttemptDriver<'a> {
    fn new(
        context: &'a ClientContext,
        requests: AttemptRequests<'a>,
        plan: Plan,
        patience: SplitPatience,
        entries: Option<&'a mut QueueEntries>,
    ) -> Self {
        let checked = requests.checked;
        let index = entries.as_ref().map_or(0, |entries| entries.index());
        let config = match plan.queue_node() {
            Some(node) => context.responsiveness.with_hedge_at(node, requests.config),
            None => requests.config,
        };
        Self {
            context,
            number: context.observer.attempt_began(&checked.resources, &requests.lease_id),
            attempt: Attempt::new(config, plan, patience, context.now()),
            fanout: Fanout::new(),
            entries,
            queue_node: QueueNodeView::new(checked.queue_node(context, index), index),
            evidence: AttemptEvidence::new(context.nodes.len()),
            cleanup: Cleanup {
                needs_rollback: true,
                needs_report: true,
                in_flight: Some(context.attempts.enter()),
            },
            requests,
        }
    }

    async fn drive(mut self) -> AttemptOutcome {
        let context = self.context;
        if context.is_closed() {
            return AttemptOutcome::Failed(self.failed(FailureReason::NoQuorum));
        }
        loop {
            match self.attempt.step(context.now()) {
                AttemptStep::Lock { nodes, ignores_queue } => self.send_lock(nodes, ignores_queue),
                AttemptStep::Enqueue(node) => self.send_enqueue(node),
                AttemptStep::WriteBack { token, nodes } => self.send_write_back(token, nodes),
                AttemptStep::Wait(deadline) => {
                    if let FanoutEvent::Answer { node, tag: (kind, sent_at), answer } =
                        self.fanout.next(&*context.clock, deadline).await
                    {
                        self.record_response_time(node, sent_at, &answer);
                        self.on_answer(node, kind, answer);
                    }
                }
                AttemptStep::RollBack => self.roll_back(),
                AttemptStep::Acquired { token } => return AttemptOutcome::Acquired(self.acquired(token)),
                AttemptStep::Failed(reason) => return AttemptOutcome::Failed(self.failed(reason)),
            }
        }
    }

    fn send_lock(&mut self, nodes: NodeSet, ignores_queue: bool) {
        let kind = if ignores_queue { RequestKind::LockPastQueue } else { RequestKind::Lock };
        let now = self.context.now();
        let request = self.requests.request(self.requests.lock_operation(ignores_queue), now);
        for node in nodes.iter() {
            self.fanout.send(&self.context.nodes, node, (kind, now), request.clone());
            self.evidence.record(node, NodeReply::Pending);
        }
    }

    fn send_enqueue(&mut self, node: usize) {
        let now = self.context.now();
        // If the queue node was asked before, its answer is late, and the attempt now asks another node for the turn.
        if self.queue_node.node.is_some_and(|queue_node| self.evidence.was_asked(queue_node)) {
            self.queue_node.bypassed_by(self.context, node, now);
        }
        let ignores_queue = true;
        let lock = self.requests.lock(ignores_queue);
        let (operation, kind) = match &mut self.entries {
            Some(entries) => (entries.enqueue(node, lock), RequestKind::Enqueue),
            None => (self.requests.lock_operation(ignores_queue), RequestKind::LockPastQueue),
        };
        self.fanout.send(&self.context.nodes, node, (kind, now), self.requests.request(operation, now));
        self.evidence.record(node, NodeReply::Pending);
    }

    fn send_write_back(&mut self, token: u64, nodes: NodeSet) {
        let now = self.context.now();
        let request = self.requests.request(self.requests.write_back(token), now);
        for node in nodes.iter() {
            self.fanout.send(&self.context.nodes, node, (RequestKind::WriteBack, now), request.clone());
        }
    }

    /// Records the response time of a node if the answer is no error. The hedges of later attempts follow from this
    /// time. If the resource is a slot of a semaphore, the time is also recorded for the choice of slots, because a
    /// client that waits for any one of several resources avoids the wait queues of slow nodes.
    fn record_response_time(&self, node: usize, sent_at: Instant, answer: &Answer) {
        if matches!(answer, Answer::Error(_)) {
            return;
        }
        let now = self.context.now();
        self.context.responsiveness.lock_answered(node, sent_at, now);
        if is_slot(&self.requests.checked.resource) {
            self.context.responsiveness.answered_after(node, now.saturating_duration_since(sent_at));
        }
    }

    fn on_answer(&mut self, node: usize, kind: RequestKind, answer: Answer) {
        let checked = self.requests.checked;
        tracing::trace!(resource = %checked.resource, id = %self.requests.lease_id, node, operation = ?kind, ?answer, "vote");
        self.context.observer.answered(node, kind.operation(), &answer);
        let (answer, has_waiters) = answer.into_parts();
        if has_waiters.is_some() {
            self.context.responsiveness.answered(node);
        }
        // The answer to a lock that ignores the wait queue does not show whether clients wait.
        if let (RequestKind::Lock | RequestKind::Enqueue, Some(has_waiters)) = (kind, has_waiters) {
            self.queue_node.on_answer(self.context, &checked.resources, node, has_waiters);
        }
        match kind {
            RequestKind::Lock | RequestKind::LockPastQueue => self.on_lock(node, kind, &answer),
            RequestKind::Enqueue => {
                self.on_enqueue(node, &answer);
                self.on_lock(node, kind, &answer);
            }
            RequestKind::WriteBack => self.attempt.on_write_back(node, answer == Answer::WrittenBack),
        }
    }

    fn on_enqueue(&mut self, node: usize, answer: &Answer) {
        let Some(entries) = &mut self.entries else { return };
        match answer {
            Answer::Granted { .. } => entries.granted(node),
            Answer::Queued(queued) => {
                let is_queued = entries.deferred(queued);
                let holder = queued.holder.as_ref().map(|holder| (holder.lease_id.clone(), holder.remaining));
                let Queued { rank, patience, .. } = *queued;
                let deferral = Deferral { node, is_queued, rank, patience, holder };
                self.evidence.enqueue_deferred(deferral, queued.resource);
            }
            _ => {}
        }
    }

    fn on_lock(&mut self, node: usize, kind: RequestKind, answer: &Answer) {
        if let Some(holder) = holder_in(answer) {
            self.evidence.refused(holder);
            if holder.resource != self.queue_node.index {
                self.attempt.refused_elsewhere();
            }
        }
        let vote = match answer {
            Answer::Granted { vote } => {
                self.evidence.granted(*vote);
                LockVote::Granted(*vote)
            }
            Answer::Queued(queued) if !matches!(kind, RequestKind::Enqueue) => {
                self.on_deferral(node, queued);
                LockVote::Deferred
            }
            Answer::Held(_) | Answer::Queued(_) => LockVote::Refused,
            answer if self.requests.refutes_proof(answer) => LockVote::Refused,
            Answer::Error(error) if error.is_unsent() => LockVote::NotSent,
            Answer::Error(error) if error.may_land_yet() => LockVote::NoAnswer,
            _ => LockVote::Error,
        };
        self.attempt.on_lock(node, vote);
        self.evidence.record(node, self.requests.reply(answer));
        self.attempt.on_holder(self.evidence.is_held(self.context.settings.electorate));
    }

    /// Handles the deferral of a newcomer. A deferral by the queue node shows whether there are waiters. If the rank is
    /// 0, only a yield mark or a writer mark has caused the deferral.
    fn on_deferral(&mut self, node: usize, queued: &Queued) {
        self.evidence.deferred(queued.resource);
        if queued.resource != self.queue_node.index {
            self.attempt.refused_elsewhere();
        }
        if self.requests.checked.queue_node(self.context, queued.resource) == Some(node) {
            self.attempt.on_queue(queued.rank > 0);
        }
    }

    /// Unlocks at every node at which a key of the attempt may be, or may still arrive, without waiting for answers.
    /// Only the first call has an effect.
    fn roll_back(&mut self) {
        if !std::mem::replace(&mut self.cleanup.needs_rollback, false) {
            return;
        }
        let config = &self.requests.checked.settings.attempt;
        let now = self.context.now();
        let keys_over = now + config.validity.seen_by_any(config.ttl);
        let unlock = |tombstone| {
            let operation = self.requests.unlock(tombstone);
            Request::one(operation, self.context.latest_expiry()).blocks_until(keys_over)
        };
        let with_tombstone = unlock(Tombstone::IfMissing);
        let without_tombstone = unlock(Tombstone::Never);
        let mut nodes = NodeSet::EMPTY;
        let keeps = mutation::is_on(Mutation::NoRollback);
        for (node, has_answered) in self.attempt.to_roll_back().filter(|_| !keeps) {
            if let Some(to) = self.context.nodes.get(node) {
                let request = if may_land_yet(has_answered) { &with_tombstone } else { &without_tombstone };
                self.context.responsiveness.keep_unawaited(node, now, to.call(request.clone()));
                nodes.insert(node);
            }
        }
        let AttemptRequests { checked, lease_id, .. } = &self.requests;
        tracing::debug!(resource = %checked.resource, id = %lease_id, ?nodes, "rollback");
        // The report is last, because the observer may call code of the program, such as a metrics recorder. Even if
        // that code panics, the unlocks are submitted.
        self.context.observer.attempt_lost(self.number);
        if !nodes.is_empty() {
            self.context.observer.attempt_rolled_back();
        }
    }

    fn acquired(&mut self, token: FencingToken) -> Acquired {
        self.report(AttemptEnd::Acquired);
        self.close_replies();
        let AttemptRequests { checked, lease_id, .. } = &self.requests;
        tracing::debug!(resource = %checked.resource, id = %lease_id, %token, "acquired");
        // After this statement, the drop of the driver rolls nothing back. The statement follows the reports, so that
        // a panic of the observer still rolls the attempt back.
        self.cleanup.needs_rollback = false;
        let (settings, now) = (&checked.settings, self.context.now());
        let time = LeaseTime::granted(
            self.attempt.start(),
            settings.attempt.ttl,
            settings.attempt.validity,
            settings.limits,
        );
        Acquired {
            terms: LeaseTerms {
                attempt: self.number,
                resource: checked.resource.clone(),
                resources: checked.resources.clone(),
                lease_id: lease_id.clone(),
                token,
                is_renewed: settings.is_renewed,
                node_timeout: settings.attempt.node_timeout,
                lock_timeout: self.requests.config.request_timeout(),
                renewal_timeout: renewal_timeout(settings.attempt.ttl, settings.attempt.node_timeout),
            },
            time,
            in_flight: self.cleanup.in_flight.take(),
            nodes: self
                .attempt
                .lock_votes()
                .iter()
                .zip(self.evidence.replies())
                .map(|(vote, reply)| node_lease_state(*vote, reply, now))
                .collect(),
            late: self.fanout.take_outstanding(|(kind, _)| !matches!(kind, RequestKind::WriteBack)),
            queue_node: self.queue_node.on_acquired(self.context, &checked.resources),
        }
    }

    fn failed(&mut self, reason: FailureReason) -> FailedAttempt {
        let checked = self.requests.checked;
        let index = self.evidence.refused_index();
        let queue_node = checked.queue_node(self.context, index.unwrap_or_default());
        let mut deferral = self.evidence.take_deferral();
        if self.attempt.is_newcomer() && reason == FailureReason::Contended && deferral.is_none() {
            deferral = queue_node.map(|node| self.deferral_of_newcomer(node));
        }
        self.report(AttemptEnd::Failed(reason));
        self.close_replies();
        let took = self.context.now().saturating_duration_since(self.attempt.start());
        self.record_queue_node_timeout(took);
        let is_sure = deferral.as_ref().is_some_and(|deferral| queue_node == Some(deferral.node))
            || self.evidence.is_held(self.context.settings.electorate);
        let is_overloaded = reason != FailureReason::Contended && self.are_nodes_overloaded();
        self.keep_late_locks();
        let replies = self.context.replies(self.evidence.take_replies());
        tracing::debug!(resource = %checked.resource, id = %self.requests.lease_id, ?reason, %replies, "failed");
        FailedAttempt {
            reason,
            replies,
            hint: self.evidence.hint(),
            took,
            has_stood_still: self.attempt.has_stood_still(),
            is_overloaded,
            deferral,
            refused: index.map(|index| RefusedResource { index, is_sure }),
        }
    }

    /// Whether a quorum of nodes would have answered if no node was overloaded. A node is overloaded if the node has
    /// not answered the attempt in time, but has answered other requests of the client since.
    fn are_nodes_overloaded(&self) -> bool {
        let (start, now) = (self.attempt.start(), self.context.now());
        let attempt_timeout = self.context.settings.attempt_timeout;
        let answered_after = |node, patience: Duration, since: Instant| {
            let last = self.context.responsiveness.last_answer(node);
            last.is_some_and(|last| last + patience >= since)
        };
        let is_overloaded = |node, reply: &NodeReply| match reply {
            NodeReply::Failed(NodeError::Overloaded) => true,
            NodeReply::Failed(NodeError::TimedOut) | NodeReply::Pending => {
                answered_after(node, Duration::ZERO, start)
            }
            // The send queue of the node refuses new requests until the node has answered the calls in flight.
            NodeReply::Failed(NodeError::Unresponsive) => answered_after(node, attempt_timeout, now),
            _ => false,
        };
        let replies = self.evidence.replies().iter().enumerate();
        let overloaded: NodeSet =
            replies.filter_map(|(node, reply)| is_overloaded(node, reply).then_some(node)).collect();
        let answered = self.attempt.answered();
        let electorate = self.context.settings.electorate;
        !electorate.is_quorum(answered) && electorate.is_quorum(answered.union(overloaded))
    }

    /// Returns the deferral of a refused newcomer. `node` is the queue node of the resource for which the newcomer was
    /// refused, and the next attempt enters the queue there. The rank is 0, because the queue node may not have
    /// answered, and the newcomer may be first in that queue.
    fn deferral_of_newcomer(&self, node: usize) -> Deferral {
        let patience = self.context.settings.parameters.hand_over;
        Deferral { node, is_queued: false, rank: 0, patience, holder: None }
    }

    /// Records a timeout of the queue node, if the attempt has waited for the answer of that node for a hedge.
    fn record_queue_node_timeout(&self, took: Duration) {
        if let Some(node) = self.queue_node.node
            && took >= self.attempt.hedge()
            && self.queue_node.is_unknown()
            && self.attempt.lock_votes().get(node) == Some(&LockVote::NoAnswer)
        {
            self.context.responsiveness.timed_out(node, self.context.now());
        }
    }

    /// Records and reports a timeout of each node that has not answered its lock request in time. Nodes with time left
    /// to answer stay pending.
    fn close_replies(&mut self) {
        for node in self.evidence.time_out(self.attempt.pending()).iter() {
            self.context.observer.answered(node, OperationKind::Lock, &Answer::Error(NodeError::TimedOut));
        }
    }

    /// Keeps the replies to lock requests that have not come, because the answers count for the usual response times.
    fn keep_late_locks(&mut self) {
        for (node, (kind, sent_at), reply) in self.fanout.drain_outstanding() {
            if !matches!(kind, RequestKind::WriteBack) {
                self.context.responsiveness.keep_late_lock(node, sent_at, reply);
            }
        }
    }

    fn report(&mut self, end: AttemptEnd) {
        self.cleanup.needs_report = false;
        self.context.observer.attempt_ended(end);
    }
}

impl Drop for AttemptDriver<'_> {
    fn drop(&mut self) {
        self.roll_back();
        if self.cleanup.needs_report {
            self.context.observer.attempt_ended(AttemptEnd::Cancelled);
        }
    }
}

/// Returns the holder that a refusal names.
fn holder_in(answer: &Answer) -> Option<&Holder> {
    match answer {
        Answer::Held(holder) => Some(holder),
        Answer::Queued(queued) => queued.holder.as_ref(),
        _ => None,
    }
}

/// Whether a node may execute the lock request after an unlock, because the node has not answered the lock request. In
/// this case, the unlock leaves a tombstone.
fn may_land_yet(has_answered: bool) -> bool {
    mutation::altered(Mutation::NoTombstoneForLock, !has_answered, |_| false)
}

/// Returns the state of the lease at a node after the lock round, which ended at `now`.
fn node_lease_state(vote: LockVote, reply: &NodeReply, now: Instant) -> NodeLeaseState {
    NodeLeaseState {
        vote: reply.clone(),
        is_touched: vote != LockVote::NotSent,
        unanswered: u32::from(may_land_yet(vote != LockVote::NoAnswer)),
        awaited_since: None,
        executed_by: (vote != LockVote::NoAnswer).then_some(now),
        executed_before: None,
        was_renewed: false,
        has_waiters: None,
        renewed_at: None,
        sent_at: None,
    }
}
