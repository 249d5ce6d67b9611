//! When a waiter asks again, and whom.

use std::time::Duration;

use crate::{
    algorithm::{
        attempt::Plan,
        holder::{holder, is_split},
        node_set::NodeSet,
        orphaned_keys::OrphanedKeys,
        tally::Electorate,
    },
    clock::Instant,
    values::{LeaseId, NodeReply},
};

mod after_failure;
#[cfg(test)]
mod tests;

/// An entry of a waiter that does not ask again is kept for so many of the longest polls.
const POLLS_PER_ENTRY_TTL: u32 = 2;

/// So many of the first in the queue listen for releases, and come when the holder's ttl ends.
pub(crate) const LISTENING: u32 = 2;

/// The timing of a waiter's attempts. All but the floor matter only when it is not woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pacing {
    /// The first fallback poll; each next one is twice as late ...
    pub(crate) first_poll: Duration,
    /// ... up to this.
    pub(crate) longest_poll: Duration,
    /// The least delay after an attempt that failed or saw a split vote for a second time.
    pub(crate) floor: Duration,
    /// The most of those delays before jitter.
    pub(crate) ceiling: Duration,
}

impl Pacing {
    /// The delay after so many failures in a row and one more: it doubles, up to the ceiling, and is
    /// never less than the floor. `jitter` is uniform in 0..1.
    pub(crate) fn delay_after(&self, failures: u32, jitter: f64) -> Duration {
        let delay = self.floor.saturating_mul(1 << failures.min(16)).min(self.ceiling);
        delay.mul_f64(0.5 + jitter).max(self.floor)
    }
}

/// When to try again, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NextAttempt {
    pub(crate) at: Instant,
    pub(crate) plan: Plan,
}

/// The rule of waiting: a waiter that is woken asks. All others come back only to keep their entry,
/// or in case that no node wakes them.
///
/// The queue node is the first node of the queue node order that serves. A node is passed over when
/// it keeps a lock that can be nobody's: it would wake nobody.
///
/// The first two in the queue also hear of releases, for not every unlock wakes a waiter: the first
/// asks then, and the second asks if nothing has come of it after a while, as the first may be
/// stopped.
///
/// # Invariants
///
/// 1. A wake that arrives during an attempt is not forgotten; it may be older than the attempt's
///    refusal, so all nodes are not asked at once for it.
/// 2. Attempts that cannot ask a quorum keep the floor if there is no news in between, and those
///    that split the votes wait for times that grow, so no failure makes a busy loop.
#[derive(Clone, Debug)]
pub(crate) struct Queueing {
    electorate: Electorate,
    pacing: Pacing,
    /// How long an entry is kept.
    entry_ttl: Duration,
    /// How long the second waits for the first.
    hand_over: Duration,
    /// The queue node order of the resource.
    order: Vec<usize>,
    /// The node in whose queue the waiter is, and how many are before it.
    queued_at: Option<usize>,
    rank: u32,
    woken_by: Option<usize>,
    /// When to ask again for what was heard, or for a failure.
    again_at: Option<Instant>,
    not_before: Instant,
    come_back_at: Instant,
    poll: Duration,
    /// Whether a release was heard of since the last attempt, and no wake followed.
    is_unwoken: bool,
    /// Whether the attempt under way, or the last one, is for no news, or for a release without a
    /// wake.
    is_poll: bool,
    /// Queue nodes with an orphaned key: they name an owner that no quorum can have.
    orphaned: OrphanedKeys,
    is_in_doubt: bool,
    /// The owner that a queue node named last, and whether that was the same as the time before.
    named: Option<LeaseId>,
    is_named_again: bool,
    /// The owner that a quorum was last seen to name.
    confirmed: Option<LeaseId>,
    /// Until when the queue node is distrusted, and only to keep the entry: it had granted what a
    /// quorum holds for another, and knows nothing of that lease.
    only_queues_until: Option<Instant>,
    /// Until when its wakes are not followed, and how often it has granted in vain: as long as it
    /// takes the resource for free, it wakes a waiter whenever a client asks.
    distrusted_until: Instant,
    vain_grants: u32,
    splits: u32,
    failures: u32,
}

impl Queueing {
    pub(crate) fn new(
        electorate: Electorate,
        pacing: Pacing,
        entry_ttl: Duration,
        hand_over: Duration,
        order: Vec<usize>,
        now: Instant,
    ) -> Self {
        Self {
            electorate,
            pacing,
            entry_ttl,
            hand_over,
            order,
            queued_at: None,
            rank: u32::MAX,
            woken_by: None,
            again_at: None,
            not_before: now,
            come_back_at: now + pacing.first_poll,
            poll: pacing.first_poll,
            is_unwoken: false,
            is_poll: false,
            orphaned: OrphanedKeys::new(electorate.nodes()),
            is_in_doubt: false,
            named: None,
            is_named_again: false,
            confirmed: None,
            only_queues_until: None,
            distrusted_until: now,
            vain_grants: 0,
            splits: 0,
            failures: 0,
        }
    }

    /// How long an entry is kept of which nothing is heard, if `longest` is the longest ttl of all.
    pub(crate) fn entry_ttl(pacing: Pacing, longest: Duration) -> Duration {
        pacing.longest_poll.saturating_mul(POLLS_PER_ENTRY_TTL).min(longest)
    }

    /// A node says that it is our turn.
    pub(crate) fn woken(&mut self, node: usize, now: Instant) {
        self.orphaned.released(node);
        self.follow();
        if self.queued_at == Some(node) {
            self.woken_by = Some(node);
        } else {
            self.ask_again(now);
        }
    }

    /// A node says that the resource was released, which is heard by the first two in the queue.
    pub(crate) fn released(&mut self, node: usize, now: Instant) {
        self.orphaned.released(node);
        self.follow();
        let is_first = self.rank == 0 && self.queued_at.is_some();
        if is_first && self.queued_at == Some(node) {
            self.woken_by = Some(node);
        } else if self.queued_at.is_some() {
            // The wake is on its way, or another waiter is woken.
            self.is_unwoken = true;
            self.again_at = Some(now + self.hand_over);
        } else {
            self.ask_again(now);
        }
    }

    /// The queue node says that this waiter is one of the first two.
    pub(crate) fn comes_next(&mut self, node: usize) {
        if self.queued_at == Some(node) {
            self.rank = self.rank.min(LISTENING - 1);
        }
    }

    /// A node says that something may have happened there unheard, or during the attempt.
    pub(crate) fn look(&mut self, node: usize, now: Instant) {
        self.orphaned.released(node);
        self.ask_again(now);
    }

    /// Nothing can be heard from a node any more.
    pub(crate) fn interrupted(&mut self, node: usize, now: Instant) {
        if self.queued_at == Some(node) {
            self.queued_at = None;
            self.ask_again(now);
        }
    }

    pub(crate) fn attempt_begins(&mut self, now: Instant) {
        let is_news = self.woken_by.is_some() || self.again_at.is_some_and(|again| again <= now);
        self.is_poll = !is_news && self.come_back_at <= now;
        if self.is_poll {
            self.poll = self.poll.saturating_mul(2).min(self.pacing.longest_poll);
        }
        self.is_poll |= std::mem::take(&mut self.is_unwoken) && self.woken_by.is_none();
        self.again_at = None;
        self.woken_by = None;
        self.only_queues_until = self.only_queues_until.filter(|until| *until > now);
    }

    /// Whether the next attempt only keeps the entry in the queue, and takes nothing.
    pub(crate) fn only_queues(&self) -> bool {
        self.only_queues_until.is_some()
    }

    /// Whether the waiter is one of those who listen for releases.
    pub(crate) fn listens(&self) -> bool {
        self.rank < LISTENING
    }

    }

    /// Whether it is time to ask all nodes who holds the resource: without any news, or after a
    /// release that it knows nothing of, the queue node has put us off for the same owner as
    /// before, whom nobody has confirmed since.
    pub(crate) fn wants_look(&self) -> bool {
        let is_suspect = self.is_poll || self.is_in_doubt;
        is_suspect && self.is_named_again && self.confirmed != self.named
    }

    /// All nodes were asked who holds the resource, and which reader of it ends first.
    pub(crate) fn looked(
        &mut self,
        votes: &[NodeReply],
        readers: &[Option<LeaseId>],
        took: Duration,
        now: Instant,
    ) {
        self.is_in_doubt = is_split(votes, self.electorate);
        if self.is_in_doubt {
            // One look alone may have met the holder while it locked.
            self.orphaned.note(votes, readers);
            self.ask_again(now + took.max(self.pacing.floor));
        } else {
            self.orphaned = OrphanedKeys::new(self.electorate.nodes());
            self.confirmed = holder(votes, self.electorate).cloned();
        }
    }

    /// The attempt has acquired the lock: the next task of this client goes to the end of the
    /// queue, at once.
    pub(crate) fn acquired(&mut self, now: Instant) {
        self.queued_at = None;
        self.rank = u32::MAX;
        self.woken_by = None;
        self.not_before = now;
        self.again_at = Some(now);
        self.poll = self.pacing.first_poll;
        self.is_in_doubt = false;
        self.only_queues_until = None;
        self.distrusted_until = now;
        (self.splits, self.failures, self.vain_grants) = (0, 0, 0);
    }

    /// When to ask again if nothing more is heard, and whom.
    pub(crate) fn next_attempt(&self) -> NextAttempt {
        if let Some(by) = self.woken_by {
            return NextAttempt { at: self.not_before, plan: Plan::Woken(by) };
        }
        let at = self.again_at.map_or(self.come_back_at, |again| again.min(self.come_back_at));
        let order = self.queue_nodes();
        // Where no quorum could be asked, nobody is asked before the others: there is no time to
        // lose, and nobody to overtake.
        let plan = match order.first() {
            Some(queue_node) if self.failures > 0 => Plan::AllAtOnce(*queue_node),
            _ => Plan::QueueNodeFirst(order),
        };
        NextAttempt { at: at.max(self.not_before), plan }
    }

    /// Tries to take what the queue node takes for free.
    fn follow(&mut self) {
        self.only_queues_until = None;
        self.not_before = self.not_before.max(self.distrusted_until);
    }

    /// Which nodes may be the queue node, in order.
    fn queue_nodes(&self) -> Vec<usize> {
        let passed_over: NodeSet = self.orphaned.nodes();
        self.order.iter().copied().filter(|node| !passed_over.contains(*node)).collect()
    }

    /// Asks again then, if not earlier.
    pub(crate) fn ask_again(&mut self, at: Instant) {
        self.again_at = Some(self.again_at.map_or(at, |again| again.min(at)));
    }
}
