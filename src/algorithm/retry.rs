//! When a waiter tries again, and how.

use std::time::Duration;

use crate::{
    algorithm::{
        attempt::{Loss, Plan},
        node_set::NodeSet,
        seniority::Seniority,
        sighting::{self, Sighting, is_split},
        stale::Stale,
        tally::Electorate,
        waiting_strategy::WaitingStrategy,
    },
    clock::Instant,
    owner_id::OwnerId,
};

#[cfg(test)]
mod tests;

/// The timing of a waiter's attempts. All but the floor matter only when a release notice is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pacing {
    /// The first fallback poll, in parallel at all nodes; each next one is twice as late ...
    pub(crate) first_poll: Duration,
    /// ... up to this.
    pub(crate) longest_poll: Duration,
    /// The least delay after an attempt that failed or saw a split vote for a second time.
    pub(crate) floor: Duration,
    pub(crate) strategy: WaitingStrategy,
}

/// How late a waiter tries again at most that hears no notices.
const JITTER: Duration = Duration::from_millis(200);

/// How often an arbiter is not believed after a split vote. Each doubt costs one more command, at one node.
const MOST_DOUBTS: u32 = 2;

/// When to try again, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) at: Instant,
    pub(crate) plan: Plan,
}

/// The one rule of waiting: for each node the time from which it is believed free, and a wake-up when a quorum is.
///
/// Beliefs come from refusals (free when the holder's ttl ends) and from release notices (free now); they are hints, an
/// attempt finds out. A fallback poll makes up for notices that never come.
///
/// Asking the arbiter first costs a second round trip, so a holder that locks again at once would always come before
/// those that wait. Hence whoever had the arbiter and lost the others *presses*: it asks all nodes at once when it is
/// woken, until the votes are split. So does whoever is the first of those that wait, for the others come later.
///
/// Who comes first of those that hear of a release is for [`Seniority`] to say.
///
/// # Invariants
///
/// 1. A notice that arrives during an attempt is not forgotten when the attempt's refusals are noted.
/// 2. Attempts that follow one another without a notice in between keep the floor, so no failure makes a busy loop.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    electorate: Electorate,
    pacing: Pacing,
    /// The arbiter order of the resource.
    order: Vec<usize>,
    free_from: Vec<Option<Instant>>,
    /// Nodes that gave notice since the attempt under way began.
    noticed: NodeSet,
    stale: Stale,
    not_before: Instant,
    /// When to try again for want of any evidence: after a split vote or a failure.
    again_at: Option<Wake>,
    poll_at: Instant,
    poll: Duration,
    splits: u32,
    failures: u32,
    /// Whether the attempt under way asks one node first.
    asks_arbiter: bool,
    /// Whether to ask all nodes at once when woken, for having been overtaken by somebody who did.
    presses: bool,
    seniority: Seniority,
    /// How long after a notice this one comes, so that those who wait for longer come first.
    deference: Duration,
}

impl Retry {
    /// `let_go`: how many waited when this client unlocked the resource, and were let go first; `None` if that is unknown.
    pub(crate) fn new(
        electorate: Electorate,
        pacing: Pacing,
        order: Vec<usize>,
        now: Instant,
        let_go: Option<u32>,
    ) -> Self {
        Self {
            electorate,
            pacing,
            order,
            free_from: vec![None; electorate.nodes()],
            noticed: NodeSet::EMPTY,
            stale: Stale::new(electorate.nodes()),
            not_before: now,
            again_at: None,
            poll_at: now + pacing.first_poll,
            poll: pacing.first_poll,
            splits: 0,
            failures: 0,
            asks_arbiter: false,
            presses: false,
            seniority: Seniority::new(let_go),
            deference: Duration::ZERO,
        }
    }

    /// A node says that the resource was released there, or that releases may have gone unnoticed. Never makes it free later:
    /// where releases follow each other faster than this waiter comes, it would never come.
    pub(crate) fn notice(&mut self, node: usize, now: Instant) {
        self.noticed.insert(node);
        self.stale.released(node);
        let free_from = now + self.deference;
        if let Some(belief) = self.free_from.get_mut(node) {
            *belief = Some(belief.map_or(free_from, |believed| believed.min(free_from)));
        }
    }

    /// An attempt begins, with this plan.
    pub(crate) fn attempt_begins(&mut self, plan: &Plan, now: Instant) {
        self.asks_arbiter = matches!(plan, Plan::ArbiterFirst(_));
        self.noticed = NodeSet::EMPTY;
        self.again_at = None;
        if now >= self.poll_at {
            self.poll = self.poll.saturating_mul(2).min(self.pacing.longest_poll);
        }
    }

    /// An attempt that took `round_trip` was lost. `jitter` is uniform in 0..1.
    pub(crate) fn attempt_lost(
        &mut self,
        loss: Loss,
        seen: &[Sighting],
        round_trip: Duration,
        now: Instant,
        jitter: f64,
    ) {
        if self.pacing.strategy == WaitingStrategy::Jittered {
            let at = now + JITTER.mul_f64(jitter);
            (self.not_before, self.poll_at) = (at, at);
            return;
        }
        self.note(seen, now);
        if seen.contains(&Sighting::NotAsked) {
            // Only an arbiter spoke, perhaps for a contender that is about to give its votes back: look again soon.
            self.poll = self.pacing.first_poll;
        }
        self.poll_at = now + self.poll.mul_f64(0.5 + jitter);
        self.not_before = now;
        if loss == Loss::Contended {
            self.failures = 0;
            let is_split = is_split(seen, self.electorate);
            self.stale.note(seen, is_split);
            if is_split || self.may_be_split_still(seen) {
                let range = if self.splits == 0 { round_trip } else { round_trip.max(self.pacing.floor) };
                let delay = range.saturating_mul(1 << self.splits.min(6)).mul_f64(jitter);
                self.splits += 1;
                self.presses = false;
                self.seniority.split();
                self.not_before = now + delay;
                self.again_at = Some(Wake { at: self.not_before, plan: self.after_split() });
            } else {
                self.splits = 0;
                self.presses |= self.had_arbiter(seen);
                self.seniority.refused(self.holder(seen), round_trip);
                // Whoever presses comes at once, to be in time.
                self.deference = if self.presses { Duration::ZERO } else { self.seniority.deference(jitter) };
            }
        } else {
            let delay = self.pacing.floor.saturating_mul(1 << self.failures.min(16)).min(self.poll);
            self.failures += 1;
            self.not_before = now + delay.mul_f64(0.5 + jitter).max(self.pacing.floor);
            self.again_at = Some(Wake { at: self.not_before, plan: Plan::Parallel });
        }
    }

    /// The attempt was won: the next one is for when this lease ends.
    pub(crate) fn won(&mut self, now: Instant, ttl: Duration) {
        self.free_from.fill(Some(now + ttl));
        self.noticed = NodeSet::EMPTY;
        self.again_at = None;
        self.not_before = now;
        (self.splits, self.failures) = (0, 0);
        self.presses = false;
        (self.seniority, self.deference) = (Seniority::new(None), Duration::ZERO);
        self.poll = self.pacing.first_poll;
        self.poll_at = now + self.poll;
    }

    /// When to try again if nothing more is heard.
    pub(crate) fn next_wake(&self) -> Wake {
        let mut wake = Wake { at: self.poll_at.max(self.not_before), plan: Plan::Parallel };
        if let Some(again) = self.again_at.as_ref().filter(|again| again.at <= wake.at) {
            wake = again.clone();
        }
        if let Some(free) = self.quorum_free_from() {
            let at = free.max(self.not_before);
            if at <= wake.at {
                wake = Wake { at, plan: self.arbiter_first(at) };
            }
        }
        wake
    }

    /// Nodes that are believed free, in arbiter order; a node that keeps a stale lock is no arbiter.
    fn arbiter_first(&self, at: Instant) -> Plan {
        let is_free = |node: &usize| {
            self.free_from.get(*node).copied().flatten().is_some_and(|free_from| free_from <= at)
        };
        self.one_by_one(self.order.iter().copied().filter(is_free).collect())
    }

    /// Who holds the resource. Of those who keep single nodes none does, unless only those were asked.
    fn holder<'a>(&self, seen: &'a [Sighting]) -> Option<&'a OwnerId> {
        if seen.contains(&Sighting::NotAsked) {
            self.order.iter().find_map(|node| seen.get(*node)?.owner())
        } else {
            sighting::holder(seen, self.electorate)
        }
    }

    /// All who split ask the same node, whatever each has seen there: those votes are being given back. Where one is not,
    /// all of them find that out and go on to the same next node.
    fn after_split(&self) -> Plan {
        let stale = self.stale.nodes();
        self.one_by_one(self.order.iter().copied().filter(|node| !stale.contains(*node)).collect())
    }

    fn one_by_one(&self, order: Vec<usize>) -> Plan {
        if self.presses || self.seniority.is_first() || self.pacing.strategy != WaitingStrategy::ArbiterFirst
        {
            Plan::Parallel
        } else {
            Plan::ArbiterFirst(order)
        }
    }

    fn quorum_free_from(&self) -> Option<Instant> {
        let mut known: Vec<Instant> = self.free_from.iter().flatten().copied().collect();
        known.sort_unstable();
        known.get(self.electorate.needed() - 1).copied()
    }

    fn note(&mut self, seen: &[Sighting], now: Instant) {
        let longest = seen.iter().filter_map(Sighting::remaining).max();
        for (node, sighting) in seen.iter().enumerate() {
            let belief = match sighting {
                Sighting::Free => Some(now),
                Sighting::Held { remaining, .. } => Some(now + (*remaining).max(self.pacing.floor)),
                Sighting::Unknown => None,
                // Whoever has the arbiter is about to have the others.
                Sighting::NotAsked => match longest {
                    Some(remaining) => Some(now + remaining.max(self.pacing.floor)),
                    None => continue,
                },
            };
            if !self.noticed.contains(node) {
                self.believe(node, belief);
            }
        }
    }

    fn believe(&mut self, node: usize, free_from: Option<Instant>) {
        if let Some(belief) = self.free_from.get_mut(node) {
            *belief = free_from;
        }
    }

    /// Whether the first arbiter had granted before the others were asked. Of all who were woken together, at most one can say
    /// so; if it lost the other nodes all the same, then to a newcomer, whose first attempt is a round trip shorter. A vote
    /// that came of asking all nodes at once says nothing: an arbiter that lost its keys gives one to every poll.
    fn had_arbiter(&self, seen: &[Sighting]) -> bool {
        let arbiter = self.order.first().and_then(|arbiter| seen.get(*arbiter));
        self.asks_arbiter && arbiter == Some(&Sighting::Free)
    }

    /// Whether the arbiter's refusal, shortly after a split vote, may be for another who is about to give that vote back.
    /// If the last of those who split believed it, all would sleep until the next poll.
    fn may_be_split_still(&self, seen: &[Sighting]) -> bool {
        (1..=MOST_DOUBTS).contains(&self.splits) && seen.contains(&Sighting::NotAsked)
    }
}
