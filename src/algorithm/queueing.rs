//! When somebody in line asks again, and whom.

use std::time::Duration;

use crate::{
    algorithm::{
        attempt::{Loss, Plan},
        node_set::NodeSet,
        retry::{Pacing, Wake},
        sighting::{Sighting, holder, is_split},
        stale::Stale,
        tally::Electorate,
    },
    clock::Instant,
    owner_id::OwnerId,
};

#[cfg(test)]
mod tests;

/// A place in line that nobody asks for is kept for so many of the longest polls.
const POLLS_PER_LIFE: u32 = 2;

/// The rule of waiting in line: who is called asks, all others come back only so that their place is kept, or in case that
/// nobody calls.
///
/// The line is at the first node of the arbiter order that serves. A node is passed over when it keeps a lock that can
/// be nobody's, or knows nothing of one that a quorum holds: it would call nobody, or the wrong one.
///
/// # Invariants
///
/// 1. A call that arrives during an attempt is not forgotten; it may be older than the attempt's refusal, so all nodes are not
///    asked at once for it.
/// 2. Attempts that cannot ask a quorum keep the floor if there is no news in between, and those that split the votes wait for
///    times that grow, so no failure makes a busy loop.
#[derive(Clone, Debug)]
pub(crate) struct Queueing {
    electorate: Electorate,
    pacing: Pacing,
    /// How long a place is kept.
    life: Duration,
    /// The arbiter order of the resource.
    order: Vec<usize>,
    /// In whose line the waiter is.
    queued_at: Option<usize>,
    called_by: Option<usize>,
    /// When to ask again for what was heard, or for a failure.
    again_at: Option<Instant>,
    not_before: Instant,
    come_back_at: Instant,
    poll: Duration,
    /// Whether the attempt under way, or the last one, is for no news.
    is_poll: bool,
    /// Arbiters that name an owner which no quorum can have.
    stale: Stale,
    is_in_doubt: bool,
    /// The owner that an arbiter named last, and whether that was the same as the time before.
    named: Option<OwnerId>,
    is_named_again: bool,
    /// The owner that a quorum was last seen to name.
    confirmed: Option<OwnerId>,
    /// The same, while the arbiter had granted; and arbiters that did so twice.
    overruled_by: Option<OwnerId>,
    blind: NodeSet,
    splits: u32,
    failures: u32,
}

/// How an arbiter put somebody off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deferral {
    pub(crate) node: usize,
    /// Whether it keeps a place there.
    pub(crate) is_in_line: bool,
    /// When to come back uncalled.
    pub(crate) patience: Duration,
    /// Who holds the resource there, if it is known.
    pub(crate) holder: Option<OwnerId>,
}

/// What an attempt that was lost has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setback<'a> {
    pub(crate) loss: Loss,
    pub(crate) sightings: &'a [Sighting],
    pub(crate) deferral: Option<&'a Deferral>,
    pub(crate) took: Duration,
}

impl Queueing {
    pub(crate) fn new(
        electorate: Electorate,
        pacing: Pacing,
        life: Duration,
        order: Vec<usize>,
        now: Instant,
    ) -> Self {
        Self {
            electorate,
            pacing,
            life,
            order,
            queued_at: None,
            called_by: None,
            again_at: None,
            not_before: now,
            come_back_at: now + pacing.first_poll,
            poll: pacing.first_poll,
            is_poll: false,
            stale: Stale::new(electorate.nodes()),
            is_in_doubt: false,
            named: None,
            is_named_again: false,
            confirmed: None,
            overruled_by: None,
            blind: NodeSet::EMPTY,
            splits: 0,
            failures: 0,
        }
    }

    /// How long a place is kept of which nothing is heard, if `longest` is the longest ttl of all.
    pub(crate) fn life(pacing: Pacing, longest: Duration) -> Duration {
        pacing.longest_poll.saturating_mul(POLLS_PER_LIFE).min(longest)
    }

    /// A node says that it is our turn.
    pub(crate) fn called(&mut self, node: usize, now: Instant) {
        self.trust(node);
        if self.queued_at == Some(node) {
            self.called_by = Some(node);
        } else {
            self.ask_again(now);
        }
    }

    /// A node says that something may have happened there unheard, or during the attempt.
    pub(crate) fn look(&mut self, node: usize, now: Instant) {
        self.trust(node);
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
        let is_news = self.called_by.is_some() || self.again_at.is_some_and(|again| again <= now);
        self.is_poll = !is_news && self.come_back_at <= now;
        if self.is_poll {
            self.poll = self.poll.saturating_mul(2).min(self.pacing.longest_poll);
        }
        self.again_at = None;
        self.called_by = None;
    }

    /// An attempt was lost. `jitter` is uniform in 0..1.
    pub(crate) fn attempt_lost(&mut self, seen: &Setback<'_>, now: Instant, jitter: f64) {
        let floor = self.pacing.floor;
        let most = self.life.mul_f64(0.75).max(floor);
        let poll = self.poll.mul_f64(0.5 + jitter).min(most);
        self.come_back_at = now + poll;
        self.not_before = now;
        let named_before = self.named.take();
        self.is_named_again = false;
        self.queued_at = None;
        if seen.loss != Loss::Contended {
            let delay = floor.saturating_mul(1 << self.failures.min(16)).min(self.poll);
            self.failures += 1;
            self.not_before = now + delay.mul_f64(0.5 + jitter).max(floor);
            self.ask_again(self.not_before);
            return;
        }
        self.failures = 0;
        if let Some(deferral) = seen.deferral {
            self.splits = 0;
            self.is_named_again = deferral.holder.is_some() && deferral.holder == named_before;
            self.named = deferral.holder.clone();
            self.queued_at = Some(deferral.node).filter(|_| deferral.is_in_line);
            self.come_back_at = now + deferral.patience.max(floor).min(poll);
            return;
        }
        self.note_overruling(seen.sightings);
        // The first time, the votes in the way are most likely those of a lease whose unlock is on its way there. To ask at once
        // is also to be in line again before anybody else.
        let range = if self.splits <= 1 { seen.took } else { seen.took.max(floor) };
        let delay = range.saturating_mul(1 << self.splits.min(6)).mul_f64(jitter);
        self.not_before = if self.splits == 0 { now } else { now + delay };
        self.splits += 1;
        self.ask_again(self.not_before);
    }

    /// Whether it is time to ask all nodes who holds the resource: without any news, the arbiter has put us off for the same
    /// owner as before, whom nobody has confirmed.
    pub(crate) fn wants_look(&self) -> bool {
        let is_suspect = self.is_poll || self.is_in_doubt;
        is_suspect && self.is_named_again && self.confirmed != self.named
    }

    /// All nodes were asked who holds the resource.
    pub(crate) fn looked(&mut self, sightings: &[Sighting], took: Duration, now: Instant) {
        self.is_in_doubt = is_split(sightings, self.electorate);
        if self.is_in_doubt {
            // One look alone may have met the holder while it locked.
            self.stale.note(sightings, true);
            self.ask_again(now + took.max(self.pacing.floor));
        } else {
            self.stale = Stale::new(self.electorate.nodes());
            self.confirmed = holder(sightings, self.electorate).cloned();
        }
    }

    /// The attempt was won: whoever of this client comes next goes to the end of the line, at once.
    pub(crate) fn won(&mut self, now: Instant) {
        self.queued_at = None;
        self.called_by = None;
        self.not_before = now;
        self.again_at = Some(now);
        self.poll = self.pacing.first_poll;
        self.is_in_doubt = false;
        self.overruled_by = None;
        self.blind = NodeSet::EMPTY;
        (self.splits, self.failures) = (0, 0);
    }

    /// When to ask again if nothing more is heard, and whom.
    pub(crate) fn next_wake(&self) -> Wake {
        if let Some(by) = self.called_by {
            return Wake { at: self.not_before, plan: Plan::Called(by) };
        }
        let at = self.again_at.map_or(self.come_back_at, |again| again.min(self.come_back_at));
        Wake { at: at.max(self.not_before), plan: Plan::InLine(self.arbiters()) }
    }

    /// Who keeps the line, in order.
    fn arbiters(&self) -> Vec<usize> {
        let passed_over = self.stale.nodes().union(self.blind);
        self.order.iter().copied().filter(|node| !passed_over.contains(*node)).collect()
    }

    fn ask_again(&mut self, at: Instant) {
        self.again_at = Some(self.again_at.map_or(at, |again| again.min(at)));
    }

    fn trust(&mut self, node: usize) {
        self.stale.released(node);
        self.blind.remove(node);
    }

    /// An arbiter that grants what a quorum says is held, by the same owner twice, has lost the key.
    fn note_overruling(&mut self, sightings: &[Sighting]) {
        let holder = holder(sightings, self.electorate).cloned();
        if holder.is_some() && holder == self.overruled_by {
            for (node, _) in sightings.iter().enumerate().filter(|(_, seen)| **seen == Sighting::Free) {
                self.blind.insert(node);
            }
        }
        self.overruled_by = holder;
    }
}
