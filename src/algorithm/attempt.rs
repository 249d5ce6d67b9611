//! One attempt to acquire a lease, as a pure state machine. The driver is in `acquire/attempt.rs`.
//!
//! ```text
//!   events                                            decisions of `step`
//!     on_lock            vote of a node                 Lock, Enqueue    ask nodes to lock
//!     on_write_back      confirmation, or none          WriteBack        raise counters to the token
//!     on_queue           waiters, or none      ─────►   Wait             until an event or a time
//!     refused_elsewhere  another resource               RollBack         unlock what was locked
//!     on_holder          a quorum names one lease       Acquired, Failed the end
//! ```
//!
//! ```text
//!                 q grants                  q confirmations, in time
//!   Locking ────────────────► Confirming ────────────────────────────► Acquired
//!      │                           │
//!      │ no quorum, deferral,      │ no quorum,
//!      │ or too late: RollBack     │ or too late: RollBack
//!      └─────────────┬─────────────┘
//!                    ▼        q answers, no node to wait for, or end of the attempt
//!             AwaitingReason ─────────────────────────────────────────────────────► Failed
//! ```
//!
//! If the refusal of a queue node decides the attempt, or if the time of the attempt is over, the attempt fails after
//! the rollback, without waiting for further answers.

use std::time::Duration;

pub(crate) use self::{
    config::{AttemptConfig, HEDGE_SHARE},
    lock_round::LockVote,
    plan::Plan,
    split_patience::SplitPatience,
    step::{AttemptStep, FailureReason},
};
use self::{confirmation::Confirmation, lock_round::LockRound, queue_state::QueueState, retries::Retries};
use crate::{
    algorithm::{node_set::NodeSet, tally::TallyResult},
    clock::Instant,
    mutation::{self, Mutation},
    values::FencingToken,
};

mod config;
mod confirmation;
mod lock_round;
mod plan;
mod queue_state;
mod retries;
mod split_patience;
mod step;
#[cfg(test)]
pub(crate) mod tests;

/// One attempt. The driver reads the clock, sends the requests and passes the answers.
///
/// # Invariants
///
/// 1. `start` is before the first byte of the attempt. The validity starts there, and includes the time of a
///    write-back.
/// 2. [`AttemptStep::Acquired`] is returned only before the end of the validity, by a time that was read after the
///    deciding answer.
/// 3. After [`AttemptStep::RollBack`] no vote makes the attempt succeed.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    config: AttemptConfig,
    plan: Plan,
    split_patience: SplitPatience,
    start: Instant,
    phase: AttemptPhase,
    lock: LockRound,
    confirmation: Confirmation,
    queue: QueueState,
    retries: Retries,
    /// The end of the present wait.
    waits_until: Option<Instant>,
    /// Whether the client stood still during a wait, so that answers may have arrived without being read in time.
    has_stood_still: bool,
}

#[derive(Clone, Copy, Debug)]
enum AttemptPhase {
    Locking,
    /// The write-back of this token, which the grants of a quorum have fixed.
    Confirming(u64),
    /// The wait for the reason after the rollback. Further votes decide between contention and the lack of a quorum.
    AwaitingReason,
    Acquired(u64),
    Failed(FailureReason),
}

impl Attempt {
    /// Creates an attempt. No request of the attempt may be sent before `start`.
    pub(crate) fn new(
        config: AttemptConfig,
        plan: Plan,
        split_patience: SplitPatience,
        start: Instant,
    ) -> Self {
        Self {
            split_patience,
            start,
            phase: AttemptPhase::Locking,
            lock: LockRound::new(&config, start),
            confirmation: Confirmation::new(config.electorate),
            queue: QueueState::new(start),
            retries: Retries::default(),
            waits_until: None,
            has_stood_still: false,
            config,
            plan,
        }
    }

    /// Whether the client attempts without a queue entry.
    pub(crate) fn is_newcomer(&self) -> bool {
        self.plan.is_newcomer()
    }

    /// Handles the answer of a node to the lock request. An answer after the deadline of the node cannot win the round,
    /// but still matters for the token, the rollback and the reason of a failure.
    pub(crate) fn on_lock(&mut self, node: usize, vote: LockVote) {
        if let LockVote::Granted(vote) = vote {
            self.confirmation.granted(node, vote);
            self.queue.is_passed |= self.is_queue_node(node);
        }
        self.lock.record(node, vote);
    }

    /// Handles a deferral of a newcomer by the queue node. If the queue node has waiters, the newcomer must yield to
    /// these waiters. If only a mark has caused the deferral, the attempt has passed the wait queue.
    pub(crate) fn on_queue(&mut self, has_waiters: bool) {
        if has_waiters {
            self.queue.must_yield |= self.plan.yields_to_waiters();
        } else {
            self.queue.is_passed = true;
        }
    }

    /// Handles a refusal for a resource for which the attempt does not have the turn. From then on, no node is asked
    /// again, because another waiter may have the turn for that resource.
    pub(crate) fn refused_elsewhere(&mut self) {
        self.queue.is_refused_elsewhere = true;
    }

    /// Records whether a quorum names the same other lease.
    pub(crate) fn on_holder(&mut self, is_held: bool) {
        self.retries.is_held = is_held;
    }

    /// Handles a node's answer to the write-back.
    pub(crate) fn on_write_back(&mut self, node: usize, is_confirmed: bool) {
        self.confirmation.on_write_back(node, is_confirmed);
    }

    /// Returns the decision at `now`. The driver calls this after every event, at the deadline of an
    /// [`AttemptStep::Wait`], and after every step except `Acquired` and `Failed`.
    pub(crate) fn step(&mut self, now: Instant) -> AttemptStep {
        self.has_stood_still |=
            self.waits_until.is_some_and(|until| now > until + self.config.shortest_hedge());
        let step = self.decide(now);
        self.waits_until = if let AttemptStep::Wait(until) = step { Some(until) } else { None };
        step
    }

    /// Whether a wait ended more than the shortest hedge too late, because the process was suspended or the future was
    /// not polled. In this case, answers in time may count as missing, so a failure does not show the state of the
    /// nodes.
    pub(crate) fn has_stood_still(&self) -> bool {
        self.has_stood_still
    }

    fn decide(&mut self, now: Instant) -> AttemptStep {
        self.start = self.validity_start(now);
        self.lock.expire(now);
        self.confirmation.expire(now);
        match self.phase {
            AttemptPhase::Locking => self.step_locking(now),
            AttemptPhase::Confirming(token) => self.step_confirming(token, now),
            AttemptPhase::AwaitingReason => self.step_awaiting_reason(now),
            AttemptPhase::Acquired(token) => AttemptStep::Acquired { token: FencingToken::new(token) },
            AttemptPhase::Failed(reason) => AttemptStep::Failed(reason),
        }
    }

    /// Returns the nodes at which a key of this attempt may be, or may still arrive. The flag of each node shows
    /// whether the node has answered the lock request.
    pub(crate) fn to_roll_back(&self) -> impl Iterator<Item = (usize, bool)> {
        self.lock.to_roll_back()
    }

    /// Returns the vote of every node in the lock round.
    pub(crate) fn lock_votes(&self) -> &[LockVote] {
        self.lock.votes()
    }

    /// Returns the nodes that were asked to lock, have not answered, and have time left to answer.
    pub(crate) fn pending(&self) -> NodeSet {
        self.lock.pending()
    }

    /// Returns the time for which the attempt waits for its queue node.
    pub(crate) fn hedge(&self) -> Duration {
        self.config.hedge
    }

    /// Returns the nodes that have granted or refused.
    pub(crate) fn answered(&self) -> NodeSet {
        self.lock.answered()
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    fn step_locking(&mut self, now: Instant) -> AttemptStep {
        if self.is_too_late(now) {
            return self.roll_back(now);
        }
        let result = self.lock.result();
        if self.queue.must_yield && result != TallyResult::Won {
            return self.roll_back(now);
        }
        match result {
            TallyResult::Lost => {
                let next = self.ask_deferring(now).or_else(|| self.ask_refusing(now));
                next.or_else(|| self.wait_for_queue_node(now)).unwrap_or_else(|| self.roll_back(now))
            }
            TallyResult::Won => {
                // A quorum of grants has a largest vote.
                let Some(token) = self.confirmation.fix_token() else { return self.roll_back(now) };
                self.phase = AttemptPhase::Confirming(token);
                self.step_confirming(token, now)
            }
            TallyResult::Pending => self.step_pending(now),
        }
    }

    /// Returns the decision while a quorum may still grant.
    fn step_pending(&mut self, now: Instant) -> AttemptStep {
        if self.waking_node_refused() {
            return self.roll_back(now);
        }
        let next = self.next_nodes(now);
        if let Some(node) = self.queue_node_among(next) {
            self.lock.ask(NodeSet::only(node), now);
            return AttemptStep::Enqueue(node);
        }
        if !next.is_empty() {
            self.lock.ask(next, now);
            return AttemptStep::Lock { nodes: next, ignores_queue: !self.plan.is_newcomer() };
        }
        let split_until = self.split_until();
        let again = self.ask_deferring(now).or_else(|| split_until.and_then(|_| self.ask_refusing(now)));
        if let Some(step) = again {
            return step;
        }
        if self.queue_node_refused() || split_until.is_some_and(|end| end <= now) {
            return self.roll_back(now);
        }
        let awaits_queue_node = !self.queue.is_passed && !self.lock.deferring().is_empty();
        let hedge = awaits_queue_node.then(|| self.hedge_end()).filter(|end| *end > now);
        self.wait([self.lock.next_deadline(), hedge, split_until].into_iter().flatten().min())
    }

    fn step_confirming(&mut self, token: u64, now: Instant) -> AttemptStep {
        self.confirmation.count(self.lock.open());
        if self.is_too_late(now) {
            return self.roll_back(now);
        }
        match self.confirmation.result() {
            TallyResult::Won => {
                self.phase = AttemptPhase::Acquired(token);
                AttemptStep::Acquired { token: FencingToken::new(token) }
            }
            TallyResult::Lost => self.roll_back(now),
            TallyResult::Pending => {
                let nodes = self.confirmation.ask(now + self.config.vote_timeout);
                if nodes.is_empty() {
                    let deadlines = [self.lock.next_deadline(), self.confirmation.next_deadline()];
                    self.wait(deadlines.into_iter().flatten().min())
                } else {
                    AttemptStep::WriteBack { token, nodes }
                }
            }
        }
    }

    /// Returns the decision after the rollback. The attempt waits for further votes only to distinguish contention from
    /// the lack of a quorum. A node that was asked later than the other nodes may have time left after the end of the
    /// attempt.
    fn step_awaiting_reason(&mut self, now: Instant) -> AttemptStep {
        let answered = self.lock.answered();
        let electorate = self.config.electorate;
        let may_answer = electorate.is_quorum(answered.union(self.lock.pending()));
        let is_over = now >= self.end();
        if electorate.is_quorum(answered) || !may_answer || is_over {
            let reason = self.reason();
            self.phase = AttemptPhase::Failed(reason);
            return AttemptStep::Failed(reason);
        }
        self.wait(self.lock.next_deadline())
    }

    fn roll_back(&mut self, now: Instant) -> AttemptStep {
        self.phase = if now >= self.end_of_validity() {
            AttemptPhase::Failed(FailureReason::Expired)
        } else if self.is_refused_by_queue_node() {
            AttemptPhase::Failed(FailureReason::Contended)
        } else if now >= self.end() {
            AttemptPhase::Failed(self.reason())
        } else {
            AttemptPhase::AwaitingReason
        };
        AttemptStep::RollBack
    }

    fn reason(&self) -> FailureReason {
        if !self.lock.refusing().is_empty() && self.config.electorate.is_quorum(self.lock.answered()) {
            FailureReason::Contended
        } else {
            FailureReason::NoQuorum
        }
    }

    /// Returns the nodes to ask next, among the nodes that have not been asked before.
    fn next_nodes(&mut self, now: Instant) -> NodeSet {
        let unasked = self.lock.unasked();
        let Some(order) = self.plan.queue_nodes() else { return unasked };
        if !self.lock.granted().is_empty() {
            return unasked;
        }
        let is_waiting = !self.lock.pending().is_empty() && now < self.queue.hedge_at;
        if is_waiting || self.queue_node_refused() {
            return NodeSet::EMPTY;
        }
        self.queue.hedge_at = now + self.config.hedge;
        // If every node of the order was asked, all other nodes are asked at once.
        let next = order.iter().find(|node| unasked.contains(**node));
        next.map_or(unasked, |node| NodeSet::only(*node))
    }

    /// Returns the node of `next` that is asked for the turn. The other nodes are asked to lock.
    fn queue_node_among(&self, next: NodeSet) -> Option<usize> {
        match &self.plan {
            Plan::Woken(node) => Some(*node).filter(|node| next.contains(*node)),
            Plan::QueueNodeFirst(order) | Plan::Redeem(order) if self.lock.granted().is_empty() => {
                next.iter().next().filter(|node| next.len() == 1 && order.contains(node))
            }
            _ => None,
        }
    }

    /// Asks the deferring nodes again, once the attempt has passed the wait queue, or once the queue node of a newcomer
    /// is lost. After a refusal elsewhere, asks no node again.
    fn ask_deferring(&mut self, now: Instant) -> Option<AttemptStep> {
        let deferring = self.lock.deferring();
        let may_ask = (self.queue.is_passed || self.is_queue_lost(now)) && !self.queue.is_refused_elsewhere;
        (may_ask && !deferring.is_empty()).then(|| self.ask_again(deferring, now))
    }

    /// Asks the refusing nodes again, with growing pauses until the end of the hedge, if the attempt has passed the
    /// wait queue. Most likely, these nodes have keys of a lease whose unlock is on its way, or keys of attempts that
    /// are rolling back. Without the repetition, the client would have to wait for another wake. If a quorum still
    /// names one other lease after a repeated request, the repetition ends.
    fn ask_refusing(&mut self, now: Instant) -> Option<AttemptStep> {
        // If the first queue nodes gave no answer in time, the hedge starts at the request to the last queue node.
        let until = self.queue.hedge_at.max(self.hedge_end());
        let is_futile = self.queue.is_refused_elsewhere || self.retries.are_futile();
        if !self.queue.is_passed || now >= until || is_futile {
            return None;
        }
        let is_lost = self.lock.result() == TallyResult::Lost;
        let elapsed = now.saturating_duration_since(self.start);
        let at = self.retries.next_at(now, elapsed, self.config.hedge, is_lost);
        if now < at {
            return Some(AttemptStep::Wait(at.min(until).min(self.end())));
        }
        let refusing = self.lock.refusing();
        if refusing.is_empty() {
            return None;
        }
        self.retries.count_one();
        Some(self.ask_again(refusing, now))
    }

    fn ask_again(&mut self, nodes: NodeSet, now: Instant) -> AttemptStep {
        self.retries.clear_time();
        self.lock.ask_again(nodes, now);
        AttemptStep::Lock { nodes, ignores_queue: true }
    }

    /// Returns the wait of a newcomer for its queue node, until the end of the hedge. If no node has granted, or if a
    /// node has deferred the newcomer, the wait is useful, because the answer of the queue node may still decide.
    fn wait_for_queue_node(&self, now: Instant) -> Option<AttemptStep> {
        let queue_node = self.plan.queue_node_of_newcomer()?;
        let until = self.hedge_end();
        let is_open = self.lock.vote(queue_node) == Some(LockVote::NoAnswer)
            && self.lock.pending().contains(queue_node);
        let may_win = self.lock.granted().is_empty() || !self.lock.deferring().is_empty();
        (is_open && may_win && now < until).then(|| AttemptStep::Wait(until.min(self.end())))
    }

    /// Returns the end of the wait for nodes without an answer, if the votes are split. The wait is limited because the
    /// clients with the other votes may wait for the same nodes.
    fn split_until(&self) -> Option<Instant> {
        self.lock.split_until(self.split_patience.time(&self.config))
    }

    /// Whether the queue node of a newcomer has failed, or has not answered by the end of the hedge.
    fn is_queue_lost(&self, now: Instant) -> bool {
        let Some(queue_node) = self.plan.queue_node_of_newcomer() else { return false };
        match self.lock.vote(queue_node) {
            Some(LockVote::NoAnswer) => now >= self.hedge_end(),
            Some(LockVote::Error) => true,
            Some(LockVote::NotSent) => !self.lock.unasked().contains(queue_node),
            _ => false,
        }
    }

    /// Whether a grant of this node gives the attempt its turn.
    fn is_queue_node(&self, node: usize) -> bool {
        match &self.plan {
            Plan::AllAtOnce(queue_node) | Plan::AllAtOnceForQuorum(queue_node) | Plan::Woken(queue_node) => {
                *queue_node == node
            }
            Plan::QueueNodeFirst(_) | Plan::Redeem(_) => self.lock.granted().is_empty(),
            Plan::Downgrade(_) => false,
        }
    }

    /// Whether a refusal by the queue node decides the attempt, whatever all other nodes answer.
    fn is_refused_by_queue_node(&self) -> bool {
        let is_refused = self.queue.must_yield || self.queue_node_refused() || self.waking_node_refused();
        is_refused && !self.plan.needs_quorum_to_refuse()
    }

    /// Whether a node that was asked for the turn has refused, and no node has granted. In this case, no other node
    /// needs to be asked. If the attempt redeems a ticket, a node that may yet grant prevents this decision.
    fn queue_node_refused(&self) -> bool {
        self.plan.queue_nodes().is_some()
            && self.lock.granted().is_empty()
            && self.lock.votes().contains(&LockVote::Refused)
            && (self.plan.is_decided_by_first_refusal() || self.lock.pending().is_empty())
    }

    /// Whether the node that woke this client has refused.
    fn waking_node_refused(&self) -> bool {
        let Plan::Woken(node) = self.plan else { return false };
        self.lock.vote(node) == Some(LockVote::Refused)
    }

    /// Whether the time of the attempt has ended, with or without a quorum.
    fn is_too_late(&self, now: Instant) -> bool {
        let is_late = now >= self.end();
        mutation::altered(Mutation::SkipLastValidityCheck, is_late, |is_late| is_late && !self.has_quorum())
    }

    fn has_quorum(&self) -> bool {
        let is_confirming = matches!(self.phase, AttemptPhase::Confirming(_));
        let result = if is_confirming { self.confirmation.result() } else { self.lock.result() };
        result == TallyResult::Won
    }

    /// Returns the start of the validity: always the start of the attempt, unless a test breaks this rule.
    fn validity_start(&self, now: Instant) -> Instant {
        mutation::altered(Mutation::StartAfterFirstAnswer, self.start, |start| {
            if self.lock.answered().len() <= 1 { now } else { start }
        })
    }

    /// Returns the time at which the attempt fails if it is not won before.
    fn end(&self) -> Instant {
        let end = self.end_of_validity().min(self.start + self.config.attempt_timeout);
        self.plan.too_late_from().map_or(end, |from| end.min(from))
    }

    fn end_of_validity(&self) -> Instant {
        self.config.validity.valid_until(self.start, self.config.ttl)
    }

    fn hedge_end(&self) -> Instant {
        self.start + self.config.hedge
    }

    fn wait(&self, deadline: Option<Instant>) -> AttemptStep {
        let seeks_queue_node = self.plan.queue_nodes().is_some()
            && matches!(self.phase, AttemptPhase::Locking)
            && self.lock.granted().is_empty();
        let deadline = deadline.into_iter().chain([self.end()]).min().unwrap_or(self.start);
        AttemptStep::Wait(if seeks_queue_node { deadline.min(self.queue.hedge_at) } else { deadline })
    }
}
