//! Who is asked next, and who is asked again.

use std::time::Duration;

use super::{Attempt, AttemptStep, HEDGE_SHARE, LockVote, Plan};
use crate::{
    algorithm::{node_set::NodeSet, tally::TallyResult},
    clock::Instant,
};

/// A client that has its turn and is refused asks again after no less than this share of the time
/// it has for that.
const SHORTEST_PAUSE_SHARE: u32 = 64;

impl Attempt {
    /// What to do as long as a quorum may still grant.
    pub(super) fn step_pending(&mut self, now: Instant) -> AttemptStep {
        if self.waking_node_refused() {
            return self.abandon(now);
        }
        let next = self.next_to_ask(now);
        if let Some(node) = self.queue_node_among(next) {
            self.ask(NodeSet::only(node), now);
            return AttemptStep::Enqueue(node);
        }
        if !next.is_empty() {
            self.ask(next, now);
            return AttemptStep::Lock { nodes: next, has_turn: !matches!(self.plan, Plan::First(_)) };
        }
        let split_until = self.split_until();
        let again = self.ask_put_off(now).or_else(|| split_until.and_then(|_| self.ask_again(now)));
        if let Some(step) = again {
            return step;
        }
        if self.queue_node_refused() || split_until.is_some_and(|end| end <= now) {
            return self.abandon(now);
        }
        let is_put_off = self.turn.is_none() && self.lock_votes.contains(&LockVote::PutOff);
        let hedge = is_put_off.then(|| self.start + self.hedge()).filter(|end| *end > now);
        self.wait([self.lock.next_deadline(), hedge, split_until].into_iter().flatten().min())
    }

    /// A client that has its turn and is refused asks again, instead of giving its turn back: the
    /// votes in the way are most likely those of a lease whose unlock is on its way there, or of
    /// others who are about to give theirs back. It asks at once where it cannot win without them, and
    /// then less and less often; not for longer than it waits for a silent queue node, nor if a quorum
    /// names one owner both times.
    pub(super) fn ask_again(&mut self, now: Instant) -> Option<AttemptStep> {
        // Not from the start, if a silent queue node was waited for first.
        let until = self.hedge_at.max(self.start + self.hedge());
        let is_vain = self.is_refused_elsewhere || (self.is_held && self.repeats > 0);
        if self.turn.is_none() || now >= until || is_vain {
            return None;
        }
        if self.repeats == 0 && self.lock.result() == TallyResult::Lost {
            self.again_at = Some(now);
        }
        let lasted = now.saturating_duration_since(self.start);
        let pause = (lasted / 2).max(self.hedge() / SHORTEST_PAUSE_SHARE);
        let at = *self.again_at.get_or_insert(now + pause);
        if now < at {
            return Some(AttemptStep::Wait(at.min(until).min(self.end())));
        }
        let refused = self.nodes_that(|lock_vote| matches!(lock_vote, LockVote::Refused | LockVote::PutOff));
        if refused.is_empty() {
            return None;
        }
        self.repeats += 1;
        Some(self.repeat(refused, now))
    }

    /// Nodes that put us off are asked as one whose turn it is, once the queue node has granted.
    pub(super) fn ask_put_off(&mut self, now: Instant) -> Option<AttemptStep> {
        let put_off = self.nodes_that(|lock_vote| lock_vote == LockVote::PutOff);
        let goes = (self.turn.is_some() || self.is_queue_lost(now)) && !self.is_refused_elsewhere;
        (goes && !put_off.is_empty()).then(|| self.repeat(put_off, now))
    }

    fn repeat(&mut self, nodes: NodeSet, now: Instant) -> AttemptStep {
        self.again_at = None;
        self.set_silent(nodes);
        self.lock.ask_again(nodes, now + self.rules.node_timeout);
        AttemptStep::Lock { nodes, has_turn: true }
    }

    /// An attempt of a newcomer that has no votes, or was put off, fails when the queue node has
    /// refused, too, if that is soon: it may grant.
    pub(super) fn wait_for_queue_node(&self, now: Instant) -> Option<AttemptStep> {
        let Plan::First(queue_node) = self.plan else { return None };
        let until = self.start + self.hedge();
        let is_open = self.lock_votes.get(queue_node) == Some(&LockVote::Silent)
            && self.lock.pending().contains(queue_node);
        let may_win = self.lock.granted().is_empty() || self.lock_votes.contains(&LockVote::PutOff);
        (is_open && may_win && now < until).then(|| AttemptStep::Wait(until.min(self.end())))
    }

    /// Until when silent nodes are waited for once a quorum has answered and some of it has refused:
    /// those who hold the other votes may wait for the same nodes. It is a hedge, and twice as long
    /// after each split, or a node that is always slow would never be heard.
    pub(super) fn split_until(&self) -> Option<Instant> {
        let is_refused =
            self.lock_votes.iter().any(|vote| matches!(vote, LockVote::Refused | LockVote::PutOff));
        let is_split = is_refused && self.rules.electorate.is_quorum(self.answered());
        let patience = self.hedge().saturating_mul(1 << self.splits.min(16)).min(self.rules.node_timeout);
        is_split.then(|| self.asked_at + patience)
    }

    /// Whether the queue node of a newcomer was asked, and will not answer, or not soon.
    fn is_queue_lost(&self, now: Instant) -> bool {
        let Plan::First(queue_node) = self.plan else { return false };
        match self.lock_votes.get(queue_node) {
            Some(LockVote::Silent) => now >= self.start + self.hedge(),
            Some(LockVote::Failed) => true,
            Some(LockVote::Unsent) => self.lock.asked().contains(queue_node),
            _ => false,
        }
    }

    pub(super) fn hedge(&self) -> Duration {
        self.rules.node_timeout / HEDGE_SHARE
    }

    /// Whether a grant of this node is our turn.
    pub(super) fn is_queue_node(&self, node: usize) -> bool {
        match &self.plan {
            Plan::First(queue_node) | Plan::Woken(queue_node) => *queue_node == node,
            Plan::Queued(_) => self.lock.granted().is_empty(),
            Plan::Downgrade(_) => false,
        }
    }

    pub(super) fn nodes_that(&self, is_wanted: impl Fn(LockVote) -> bool) -> NodeSet {
        let all = self.lock_votes.iter().enumerate();
        all.filter_map(|(node, lock_vote)| is_wanted(*lock_vote).then_some(node)).collect()
    }

    /// Whether the queue node that was asked last has said that the resource is held, so that no
    /// other node needs to be asked.
    pub(super) fn queue_node_refused(&self) -> bool {
        self.plan.queue_nodes().is_some()
            && self.lock.granted().is_empty()
            && self.lock_votes.contains(&LockVote::Refused)
    }

    /// Whether the node that is said to have woken this client has refused it.
    pub(super) fn waking_node_refused(&self) -> bool {
        let Plan::Woken(by) = self.plan else { return false };
        self.lock_votes.get(by) == Some(&LockVote::Refused)
    }

    /// Which of these is to be asked for a turn, before the others are asked to lock.
    pub(super) fn queue_node_among(&self, next: NodeSet) -> Option<usize> {
        match &self.plan {
            Plan::Woken(by) => Some(*by).filter(|by| next.contains(*by)),
            Plan::Queued(order) if self.lock.granted().is_empty() => {
                next.iter().next().filter(|node| next.len() == 1 && order.contains(node))
            }
            _ => None,
        }
    }

    pub(super) fn ask(&mut self, nodes: NodeSet, now: Instant) {
        self.asked_at = now;
        self.set_silent(nodes);
        self.lock.ask(nodes, now + self.rules.node_timeout);
    }

    fn set_silent(&mut self, nodes: NodeSet) {
        for node in nodes.iter() {
            if let Some(lock_vote) = self.lock_votes.get_mut(node) {
                *lock_vote = LockVote::Silent;
            }
        }
    }

    pub(super) fn next_to_ask(&mut self, now: Instant) -> NodeSet {
        let asked = self.lock.asked();
        let rest = self.rules.electorate.all().without(asked);
        let Some(order) = self.plan.queue_nodes() else { return rest };
        if !self.lock.granted().is_empty() {
            return rest;
        }
        let silent = !self.lock.pending().is_empty() && now < self.hedge_at;
        if silent || self.queue_node_refused() {
            return NodeSet::EMPTY;
        }
        let next = order.iter().find(|node| rest.contains(**node)).copied();
        self.hedge_at = now + self.hedge();
        // None of the queue nodes serves: as if there were no order.
        next.map_or(rest, NodeSet::only)
    }
}
