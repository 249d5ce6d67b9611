//! The schedule of a waiter's attempts. The local waiter (`acquire/local_waiter.rs`) passes events to the schedule, and
//! makes the attempts.

use std::time::Duration;

pub(crate) use self::pacing::Pacing;
use self::{
    holder_check::HolderCheck,
    queue_position::{LISTENING_WAITERS, QueuePosition},
    stale_queue_node::StaleQueueNode,
    timers::Timers,
};
use crate::{
    algorithm::{
        attempt::{FailureReason, Plan},
        failed_attempt::{Deferral, FailedAttempt},
        holder::{holder, is_unknown, named},
        tally::Electorate,
    },
    clock::Instant,
    mutation::{self, Mutation},
    values::{LeaseId, NodeReply},
};

mod holder_check;
mod pacing;
mod queue_position;
mod stale_queue_node;
#[cfg(test)]
mod tests;
mod timers;

/// The divisor of the ttl in the longest delay after attempts for which nodes let their time pass.
const LATE_DELAY_SHARE: u32 = 6;

/// The longest time, in hand-overs, for which one of the first two waiters leaves a free resource to the waiter ahead.
const MAX_COVER_DELAY: u32 = 8;

/// The earliest time and the plan of the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NextAttempt {
    pub(crate) at: Instant,
    pub(crate) plan: Plan,
}

/// The constants of the schedule of one waiter.
#[derive(Clone, Debug)]
pub(crate) struct WaiterConfig {
    pub(crate) electorate: Electorate,
    pub(crate) pacing: Pacing,
    /// The time for which a queue node keeps an entry without a request.
    pub(crate) entry_ttl: Duration,
    /// The time that the second waiter leaves to the first waiter after a release.
    pub(crate) hand_over: Duration,
    /// The ttl of the lock.
    pub(crate) ttl: Duration,
    /// The node timeout of the lock.
    pub(crate) node_timeout: Duration,
    /// The queue node order of the resource.
    pub(crate) order: Vec<usize>,
}

/// The schedule of a waiter's attempts, as a pure state machine: events in, next attempt out.
///
/// ```text
///   woken, released, reached_head, interrupted         next_attempt: time and plan
///   may_have_missed, request_attempt            ─────► enqueues_only, listens_for_releases
///   attempt_begins, attempt_failed                     wants_holder_check
///   acquired, holder_checked
/// ```
///
/// A waiter makes an attempt after a wake by the queue node, after other events, and at fallback polls. The polls keep
/// the queue entry alive and cover lost wakes.
///
/// The queue node is the first node of the queue node order that has no [orphaned key](HolderCheck), because a node
/// with an orphaned key wakes no waiter.
///
/// The first two waiters also listen for releases, because some unlocks wake no waiter: the unlock of a Redisson
/// client, and an unlock that does not reach the queue node. After a release, the first waiter makes an attempt at
/// once. The second waiter makes an attempt a hand-over later, because the process of the first waiter may be
/// suspended.
///
/// # Invariants
///
/// 1. A wake during an attempt is kept, but leads to [`Plan::QueueNodeFirst`], because the wake may be older than the
///    refusal.
/// 2. No failure causes a busy loop. Attempts without a quorum are at least [`Pacing::floor`] apart, unless an event
///    arrives. Split votes lead to increasing delays.
/// 3. No delay exceeds the longest fallback poll with its jitter, however long an attempt has taken. The duration of an
///    attempt includes a suspension of the process. The delay after an attempt for which a node let its time pass may
///    be longer, up to a sixth of the ttl, but a queue entry outlives this delay, too.
#[derive(Clone, Debug)]
pub(crate) struct WaiterSchedule {
    config: WaiterConfig,
    position: QueuePosition,
    timers: Timers,
    holder_check: HolderCheck,
    stale: StaleQueueNode,
    failures: ConsecutiveFailures,
    /// The number of consecutive deferrals that named no holder.
    deferrals_while_free: u32,
}

/// The numbers of consecutive failures, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct ConsecutiveFailures {
    /// Attempts without a quorum of answers.
    no_quorum: u32,
    /// Attempts without a quorum of answers in which a node let its time pass.
    late: u32,
    /// Attempts that were refused without a deferral, because other clients have some of the votes.
    splits: u32,
}

impl WaiterSchedule {
    pub(crate) fn new(config: WaiterConfig, now: Instant) -> Self {
        Self {
            position: QueuePosition::default(),
            timers: Timers::new(config.pacing.first_poll, now),
            holder_check: HolderCheck::new(config.electorate),
            stale: StaleQueueNode::new(now),
            failures: ConsecutiveFailures::default(),
            deferrals_while_free: 0,
            config,
        }
    }

    /// Handles a wake by a node: this waiter is first in the queue there.
    pub(crate) fn woken(&mut self, node: usize, now: Instant) {
        self.holder_check.released(node);
        self.deferrals_while_free = 0;
        self.end_enqueue_only();
        if self.position.is_at(node) {
            self.timers.woken(node);
        } else {
            self.request_attempt(now);
        }
    }

    /// Handles a release notice. Only the first two waiters subscribe to release notices.
    pub(crate) fn released(&mut self, node: usize, now: Instant) {
        self.holder_check.released(node);
        self.end_enqueue_only();
        if self.position.is_first() && self.position.is_at(node) {
            self.timers.woken(node);
        } else if self.position.is_queued() {
            // The queue node may now wake this waiter or the waiter ahead. The attempt leaves time for that wake.
            self.timers.released_without_wake(now + self.config.hand_over);
        } else {
            self.request_attempt(now);
        }
    }

    /// Handles a notice of the queue node: this waiter is now one of the first two.
    pub(crate) fn reached_head(&mut self, node: usize) {
        if self.position.is_at(node) {
            self.position.advance_to_listening();
        }
    }

    /// Handles a possible loss of notices of this node: requests an attempt.
    pub(crate) fn may_have_missed(&mut self, node: usize, now: Instant) {
        self.holder_check.released(node);
        self.request_attempt(now);
    }

    /// Handles the end of the connection to a node, and thus of all subscriptions there.
    pub(crate) fn interrupted(&mut self, node: usize, now: Instant) {
        if self.position.is_at(node) {
            self.position.lose_queue();
            self.request_attempt(now);
        }
    }

    /// Handles the beginning of an attempt.
    pub(crate) fn attempt_begins(&mut self, now: Instant) {
        let is_unprompted = self.timers.attempt_begins(now, self.config.pacing.longest_poll);
        self.holder_check.attempt_begins(is_unprompted);
        self.stale.attempt_begins(now);
    }

    /// Handles a failed attempt. `jitter` is uniform in 0..1.
    pub(crate) fn attempt_failed(&mut self, failed: &FailedAttempt, now: Instant, jitter: f64) {
        let pacing = self.config.pacing;
        // An entry must be renewed before its ttl ends.
        let longest = self.config.entry_ttl.mul_f64(0.75).max(pacing.floor);
        let rank =
            failed.deferral.as_ref().filter(|deferral| deferral.is_queued).map(|deferral| deferral.rank);
        let longest_poll = rank.map_or(pacing.longest_poll, |rank| pacing.longest_poll_at(rank));
        let poll = self.timers.poll_delay(longest_poll, jitter).min(longest);
        self.timers.set_poll(now + poll);
        self.timers.set_earliest(now);
        let named_before = self.holder_check.take_named();
        self.position.leave();
        if failed.reason != FailureReason::Contended {
            let delay = match failed.was_late(self.config.node_timeout) {
                true => self.delay_after_late_answers(failed.took, jitter).min(longest),
                false => pacing.delay_after(self.failures.no_quorum, jitter).min(poll.max(pacing.floor)),
            };
            self.failures.no_quorum += 1;
            self.retry_after(delay, now);
            return;
        }
        (self.failures.no_quorum, self.failures.late) = (0, 0);
        if let Some(deferral) = &failed.deferral {
            self.failures.splits = 0;
            self.deferred(deferral, named_before.as_ref(), poll, now);
            return;
        }
        self.pause_after_futile_grant(failed, poll, now, jitter);
        self.retry_after_split(failed.took, poll, now, jitter);
    }

    /// Continues the schedule of a waiter that has waited in the queue of another resource, until this failure. The
    /// pauses at a stale queue node continue to grow, because the waiter may move between two queues of that node.
    pub(crate) fn continue_after(
        &mut self,
        former: &Self,
        failed: &FailedAttempt,
        now: Instant,
        jitter: f64,
    ) {
        self.stale = former.stale;
        self.pause_after_futile_grant(failed, self.config.pacing.first_poll, now, jitter);
    }

    /// Whether the next attempt only keeps the queue entry alive, and locks nothing.
    pub(crate) fn enqueues_only(&self) -> bool {
        self.stale.enqueues_only()
    }

    /// Whether this waiter listens for releases.
    pub(crate) fn listens_for_releases(&self) -> bool {
        self.position.listens_for_releases()
    }

    /// Whether the client should make a holder check. See [`HolderCheck`].
    pub(crate) fn wants_holder_check(&self) -> bool {
        self.holder_check.is_wanted()
    }

    /// Handles the result of an inspection of all nodes: the votes, and for each node the reader whose key expires
    /// first.
    pub(crate) fn holder_checked(
        &mut self,
        votes: &[NodeReply],
        readers: &[Option<LeaseId>],
        took: Duration,
        now: Instant,
    ) {
        let answers = votes.iter().filter(|vote| !is_unknown(vote)).count();
        if answers < self.config.electorate.needed() {
            // The refusal may have come from the only node that answers. After a counted failure, the next attempt asks
            // all nodes, and finds out whether a quorum answers.
            self.failures.no_quorum = self.failures.no_quorum.max(1);
            self.request_attempt(now + self.config.pacing.floor);
        }
        if !self.holder_check.finish(votes, readers, self.config.electorate) {
            // One more attempt and check are needed, because this check may have been in the middle of the attempt of a
            // holder.
            self.request_attempt(now + took.max(self.config.pacing.floor));
        }
    }

    /// Handles an acquired lock. The next local task attempts at once, and joins the end of the queue.
    pub(crate) fn acquired(&mut self, now: Instant) {
        self.position.leave();
        self.timers.acquired(self.config.pacing.first_poll, now);
        self.holder_check.acquired();
        self.stale = StaleQueueNode::new(now);
        self.failures = ConsecutiveFailures::default();
    }

    /// Returns the next attempt. Every further event may change the result.
    pub(crate) fn next_attempt(&self) -> NextAttempt {
        if let Some(node) = self.timers.woken_by() {
            return NextAttempt { at: self.timers.earliest(), plan: Plan::Woken(node) };
        }
        let order = self.queue_nodes();
        // After an attempt without a quorum, all nodes are asked at once. The quorum timeout may end soon, and without
        // a quorum no client overtakes the queue.
        let plan = match order.first() {
            Some(queue_node) if self.failures.no_quorum > 0 => Plan::AllAtOnceForQuorum(*queue_node),
            _ => Plan::QueueNodeFirst(order),
        };
        NextAttempt { at: self.timers.next(), plan }
    }

    /// Requests an attempt at `at`, unless an earlier attempt is requested.
    pub(crate) fn request_attempt(&mut self, at: Instant) {
        self.timers.request(at);
    }

    /// Handles a refusal by the queue node.
    fn deferred(
        &mut self,
        deferral: &Deferral,
        named_before: Option<&LeaseId>,
        poll: Duration,
        now: Instant,
    ) {
        let Deferral { node, is_queued, rank, holder, .. } = deferral;
        let named = holder.as_ref().and_then(|(lease_id, _)| lease_id.clone());
        self.holder_check.record_named(named, named_before);
        self.position.set(Some(*node).filter(|_| *is_queued), *rank);
        self.deferrals_while_free = if holder.is_none() { self.deferrals_while_free + 1 } else { 0 };
        let patience = mutation::altered(Mutation::IgnoreHolderTtl, self.patience(deferral), |_| poll);
        // A release during a pause may have preceded this answer unnoticed. Therefore the next attempt follows at the
        // end of the pause.
        let patience = self.stale.remaining(now).unwrap_or(patience);
        self.timers.set_poll(now + patience.max(self.config.pacing.floor).min(poll));
    }

    /// Returns the time for which a deferred waiter waits for a wake.
    fn patience(&self, deferral: &Deferral) -> Duration {
        let hand_over = self.config.hand_over;
        match &deferral.holder {
            Some((_, remaining)) if deferral.rank == 0 => *remaining,
            // The second waiter makes an attempt if the first waiter makes none.
            Some((_, remaining)) if deferral.rank < LISTENING_WAITERS => *remaining + hand_over,
            // The resource is free for this waiter. If the waiter ahead stands still, this waiter may lock after a
            // hand-over. If the waiter ahead is a writer that waits for readers, the wait may be long, so the delay
            // doubles.
            None if deferral.is_queued && deferral.rank < LISTENING_WAITERS => {
                let doublings = self.deferrals_while_free.saturating_sub(1).min(MAX_COVER_DELAY.ilog2());
                hand_over * (1 << doublings)
            }
            _ => deferral.patience,
        }
    }

    /// Returns the delay after an attempt for which a node let its time pass.
    ///
    /// The node has most likely more work than it can do in this time, and each attempt is more work, twice as much if
    /// the attempt is rolled back. The delay is random in a range that begins with twice the duration of the attempt
    /// and doubles, so that all clients together send less until the nodes answer in time.
    fn delay_after_late_answers(&mut self, took: Duration, jitter: f64) -> Duration {
        self.failures.late += 1;
        let longest = self.config.ttl / LATE_DELAY_SHARE;
        let range = took.max(self.config.pacing.floor).saturating_mul(1 << self.failures.late.min(16));
        range.min(longest).mul_f64(jitter)
    }

    /// Delays the next attempt after split votes. The first delay is zero, because the unlock of the other lease is
    /// probably on its way, and because the retry enters the queue before other clients. Later delays are random in a
    /// range that doubles.
    ///
    /// The range depends on the duration of the attempt, which is long if nodes hang or the process was suspended.
    /// During the delay, the waiter follows no wake. Therefore a delay is at most `longest`.
    fn retry_after_split(&mut self, took: Duration, longest: Duration, now: Instant, jitter: f64) {
        let splits = self.failures.splits;
        let range = if splits <= 1 { took } else { took.max(self.config.pacing.floor) };
        let delay = range.saturating_mul(1 << splits.min(6)).min(longest).mul_f64(jitter);
        self.failures.splits += 1;
        self.retry_after(if splits == 0 { Duration::ZERO } else { delay }, now);
    }

    fn retry_after(&mut self, delay: Duration, now: Instant) {
        self.timers.set_earliest(now + delay);
        self.timers.request(now + delay);
    }

    /// Pauses if the queue node has granted although a quorum names another lease. The pause is at most `longest`.
    fn pause_after_futile_grant(
        &mut self,
        failed: &FailedAttempt,
        longest: Duration,
        now: Instant,
        jitter: f64,
    ) {
        let Some(lease_end) = self.end_of_unknown_lease(failed.replies.all(), now) else { return };
        let latest = lease_end.min(now + longest);
        let end = self.stale.grant_was_futile(failed.took, self.config.pacing.floor, latest, now, jitter);
        self.timers.poll_by(end);
    }

    /// Returns the end of the lease that a quorum names although the queue node has granted; `None` if the queue node
    /// has not granted, or if no quorum names one lease.
    fn end_of_unknown_lease(&self, votes: &[NodeReply], now: Instant) -> Option<Instant> {
        let queue_node = self.queue_nodes().first().copied()?;
        let other = holder(votes, self.config.electorate)
            .filter(|_| votes.get(queue_node) == Some(&NodeReply::Done))?;
        let remaining = votes.iter().filter_map(named).filter(|(lease_id, _)| *lease_id == Some(other));
        remaining.map(|(_, remaining)| remaining).max().map(|remaining| now + remaining)
    }

    /// Ends the state in which attempts only enqueue. The next attempt locks, but not before the end of the present
    /// pause.
    fn end_enqueue_only(&mut self) {
        self.timers.delay_until(self.stale.end_enqueue_only());
    }

    /// Returns the queue node order without the nodes that have an orphaned key.
    fn queue_nodes(&self) -> Vec<usize> {
        let orphaned = self.holder_check.orphaned_nodes();
        self.config.order.iter().copied().filter(|node| !orphaned.contains(*node)).collect()
    }
}
