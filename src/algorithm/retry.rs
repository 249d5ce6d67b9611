//! When a waiter tries again, and how.

use std::time::Duration;

use crate::{
    algorithm::{
        attempt::{Loss, Plan},
        node_set::NodeSet,
        tally::Electorate,
    },
    clock::Instant,
    owner_id::OwnerId,
};

/// The timing of a waiter's attempts. All but the floor matter only when a release notice is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The first fallback poll, in parallel at all nodes; each next one is twice as late ...
    pub(crate) first_poll: Duration,
    /// ... up to this.
    pub(crate) longest_poll: Duration,
    /// The least delay after an attempt that failed or saw a split vote for a second time.
    pub(crate) floor: Duration,
}

/// What an attempt has seen at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// Ours, and rolled back.
    Free,
    Held {
        owner: Option<OwnerId>,
        remaining: Duration,
    },
    /// Asked, but it gave no vote.
    Unknown,
    NotAsked,
}

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
/// # Invariants
///
/// 1. A notice that arrives during an attempt is not forgotten when the attempt's refusals are noted.
/// 2. Attempts that follow one another without a notice in between keep the floor, so no failure makes a busy loop.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    electorate: Electorate,
    schedule: Schedule,
    /// The arbiter order of the resource.
    order: Vec<usize>,
    free_from: Vec<Option<Instant>>,
    /// Nodes that gave notice since the attempt under way began.
    noticed: NodeSet,
    not_before: Instant,
    /// When to try again for want of any evidence: after a split vote or a failure.
    again_at: Option<Wake>,
    poll_at: Instant,
    poll: Duration,
    splits: u32,
    failures: u32,
}

impl Retry {
    pub(crate) fn new(electorate: Electorate, schedule: Schedule, order: Vec<usize>, now: Instant) -> Self {
        Self {
            electorate,
            schedule,
            order,
            free_from: vec![None; electorate.nodes()],
            noticed: NodeSet::EMPTY,
            not_before: now,
            again_at: None,
            poll_at: now + schedule.first_poll,
            poll: schedule.first_poll,
            splits: 0,
            failures: 0,
        }
    }

    /// A node says that the resource was released there, or that releases may have gone unnoticed.
    pub(crate) fn notice(&mut self, node: usize, now: Instant) {
        self.noticed.insert(node);
        self.believe(node, Some(now));
    }

    /// An attempt begins.
    pub(crate) fn attempt_begins(&mut self, now: Instant) {
        self.noticed = NodeSet::EMPTY;
        self.again_at = None;
        if now >= self.poll_at {
            self.poll = self.poll.saturating_mul(2).min(self.schedule.longest_poll);
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
        self.note(seen, now);
        if seen.contains(&Sighting::NotAsked) {
            // Only an arbiter spoke, perhaps for a contender that is about to give its votes back: look again soon.
            self.poll = self.schedule.first_poll;
        }
        self.poll_at = now + self.poll.mul_f64(0.5 + jitter);
        self.not_before = now;
        if loss == Loss::Contended {
            self.failures = 0;
            if self.is_split(seen) {
                let range = if self.splits == 0 { round_trip } else { round_trip.max(self.schedule.floor) };
                let delay = range.saturating_mul(1 << self.splits.min(6)).mul_f64(jitter);
                self.splits += 1;
                self.not_before = now + delay;
                self.again_at = Some(Wake { at: self.not_before, plan: self.arbiter_first(now) });
            } else {
                self.splits = 0;
            }
        } else {
            let delay = self.schedule.floor.saturating_mul(1 << self.failures.min(16)).min(self.poll);
            self.failures += 1;
            self.not_before = now + delay.mul_f64(1.0 + jitter);
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
        self.poll = self.schedule.first_poll;
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
        Plan::ArbiterFirst(self.order.iter().copied().filter(is_free).collect())
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
                Sighting::Held { remaining, .. } => Some(now + (*remaining).max(self.schedule.floor)),
                Sighting::Unknown => None,
                // Whoever has the arbiter is about to have the others.
                Sighting::NotAsked => match longest {
                    Some(remaining) => Some(now + remaining.max(self.schedule.floor)),
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

    /// Whether no owner was seen, or may stand, on enough nodes to be the holder. An arbiter's refusal is no split.
    fn is_split(&self, seen: &[Sighting]) -> bool {
        let unknown =
            seen.iter().filter(|sighting| matches!(sighting, Sighting::Unknown | Sighting::NotAsked)).count();
        let most = seen
            .iter()
            .filter(|sighting| matches!(sighting, Sighting::Held { .. }))
            .map(|one| {
                seen.iter()
                    .filter(|other| one.owner() == other.owner() && other.remaining().is_some())
                    .count()
            })
            .max();
        most.unwrap_or(0) + unknown < self.electorate.needed()
    }
}

impl Sighting {
    fn remaining(&self) -> Option<Duration> {
        if let Self::Held { remaining, .. } = self { Some(*remaining) } else { None }
    }

    fn owner(&self) -> Option<&OwnerId> {
        if let Self::Held { owner, .. } = self { owner.as_ref() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule {
        first_poll: Duration::from_millis(500),
        longest_poll: Duration::from_secs(5),
        floor: Duration::from_millis(5),
    };
    const ROUND_TRIP: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn retry() -> Retry {
        Retry::new(Electorate::new(5, 3), SCHEDULE, vec![4, 2, 0, 1, 3], at(0))
    }

    fn held(owner: &str, remaining: u64) -> Sighting {
        Sighting::Held {
            owner: Some(OwnerId::from_wire(owner.as_bytes())),
            remaining: Duration::from_millis(remaining),
        }
    }

    fn lose(retry: &mut Retry, seen: &[Sighting], now: u64) {
        retry.attempt_begins(at(now));
        retry.attempt_lost(Loss::Contended, seen, ROUND_TRIP, at(now), 0.5);
    }

    #[test]
    fn a_waiter_wakes_when_a_quorum_is_believed_free() {
        let mut retry = retry();
        let remaining = [100, 300, 200, 400, 50];
        lose(&mut retry, &remaining.map(|remaining| held("a", remaining)), 0);
        assert_eq!(retry.next_wake(), Wake { at: at(200), plan: Plan::ArbiterFirst(vec![4, 2, 0]) });
        for node in [1, 3] {
            retry.notice(node, at(10));
        }
        assert_eq!(retry.next_wake().at, at(50));
        retry.notice(2, at(11));
        assert_eq!(retry.next_wake(), Wake { at: at(11), plan: Plan::ArbiterFirst(vec![2, 1, 3]) });
    }

    #[test]
    fn a_notice_during_an_attempt_outlives_the_refusals_of_that_attempt() {
        let mut retry = retry();
        retry.attempt_begins(at(0));
        for node in 0..3 {
            retry.notice(node, at(1));
        }
        let seen = [1000; 5].map(|remaining| held("a", remaining));
        retry.attempt_lost(Loss::Contended, &seen, ROUND_TRIP, at(2), 0.5);
        assert_eq!(retry.next_wake().at, at(2));
    }

    #[test]
    fn an_arbiters_refusal_speaks_for_the_nodes_that_were_not_asked() {
        let mut retry = retry();
        for node in 0..5 {
            retry.notice(node, at(0));
        }
        let mut seen = vec![Sighting::NotAsked; 5];
        seen[4] = held("b", 300);
        lose(&mut retry, &seen, 1);
        assert_eq!(retry.next_wake(), Wake { at: at(301), plan: Plan::ArbiterFirst(vec![4, 2, 0, 1, 3]) });
    }

    #[test]
    fn a_split_vote_is_tried_again_after_a_jitter_of_one_round_trip_then_of_more() {
        let mut retry = retry();
        let seen = [held("a", 1000), held("a", 1000), held("b", 1000), Sighting::Free, Sighting::Free];
        lose(&mut retry, &seen, 0);
        let wake = retry.next_wake();
        assert_eq!(wake.at, at(0) + ROUND_TRIP / 2);
        assert!(matches!(wake.plan, Plan::ArbiterFirst(_)));
        lose(&mut retry, &seen, 10);
        assert_eq!(retry.next_wake().at, at(15));
    }

    #[test]
    fn two_owners_and_a_silent_node_may_hide_a_holder_so_it_is_no_split() {
        let mut retry = retry();
        let seen = [held("a", 9000), held("a", 9000), Sighting::Unknown, Sighting::Free, Sighting::Free];
        lose(&mut retry, &seen, 0);
        assert_eq!(retry.next_wake(), Wake { at: at(500), plan: Plan::Parallel });
    }

    #[test]
    fn fallback_polls_are_parallel_and_grow_to_the_longest() {
        let mut retry = retry();
        let seen = [60_000; 5].map(|remaining| held("a", remaining));
        let mut now = 0;
        let mut gaps = Vec::new();
        lose(&mut retry, &seen, now);
        for _ in 0..6 {
            let wake = retry.next_wake();
            assert_eq!(wake.plan, Plan::Parallel);
            let next = u64::try_from(wake.at.since_origin().as_millis()).unwrap();
            gaps.push(next - now);
            now = next;
            lose(&mut retry, &seen, now);
        }
        assert_eq!(gaps, [500, 1000, 2000, 4000, 5000, 5000]);
    }

    #[test]
    fn failures_are_tried_again_no_sooner_than_the_floor_and_ever_later() {
        let mut retry = retry();
        let mut delays = Vec::new();
        for _ in 0..9 {
            retry.attempt_begins(at(0));
            retry.attempt_lost(Loss::NoQuorum, &vec![Sighting::Unknown; 5], ROUND_TRIP, at(0), 0.0);
            delays.push(retry.next_wake().at.since_origin().as_millis());
        }
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 500, 500]);
    }

    #[test]
    fn a_holder_about_to_expire_does_not_make_a_busy_loop() {
        let mut retry = retry();
        lose(&mut retry, &[0; 5].map(|remaining| held("a", remaining)), 0);
        assert_eq!(retry.next_wake().at, at(5));
    }
}
