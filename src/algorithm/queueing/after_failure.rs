//! What a waiter does after an attempt that failed.

use std::time::Duration;

use super::{LISTENING, Queueing};
use crate::{
    algorithm::{
        attempt::FailureReason,
        failed_attempt::{Deferral, FailedAttempt},
        holder::{holder, named},
    },
    clock::Instant,
    mutation::{self, Mutation},
    values::{LeaseId, NodeReply},
};

impl Queueing {
    /// An attempt failed. `jitter` is uniform in 0..1.
    pub(crate) fn attempt_failed(&mut self, seen: &FailedAttempt, now: Instant, jitter: f64) {
        let floor = self.pacing.floor;
        let most = self.entry_ttl.mul_f64(0.75).max(floor);
        let poll = self.poll.mul_f64(0.5 + jitter).min(most);
        self.come_back_at = now + poll;
        self.not_before = now;
        let named_before = self.named.take();
        self.is_named_again = false;
        self.queued_at = None;
        self.rank = u32::MAX;
        if seen.reason != FailureReason::Contended {
            self.not_before = now + self.pacing.delay_after(self.failures, jitter);
            self.failures += 1;
            self.ask_again(self.not_before);
            return;
        }
        self.failures = 0;
        if let Some(deferral) = &seen.deferral {
            self.splits = 0;
            self.put_off(deferral, named_before, poll, now);
            return;
        }
        if let Some(until) = self.end_of_other(seen.replies.all(), now) {
            // Less and less often: its unlock may be on its way to those nodes, and would wake
            // nobody any more.
            let range = if self.vain_grants == 0 { seen.took } else { seen.took.max(floor) };
            let pause = range.saturating_mul(1 << self.vain_grants.min(6)).mul_f64(0.5 + jitter);
            self.distrusted_until = (now + pause.min(poll)).min(until);
            self.only_queues_until = Some(self.distrusted_until);
            self.come_back_at = self.come_back_at.min(self.distrusted_until);
            self.vain_grants += 1;
        }
        // The first time, the votes in the way are most likely those of a lease whose unlock is on
        // its way there. To ask at once is also to be queued again before anybody else.
        let range = if self.splits <= 1 { seen.took } else { seen.took.max(floor) };
        // An attempt may take long, because nodes hang or the process stood still, and the waiter hears no wake in the pause.
        let delay = range.saturating_mul(1 << self.splits.min(6)).mul_f64(jitter).min(poll);
        self.not_before = if self.splits == 0 { now } else { now + delay };
        self.splits += 1;
        self.ask_again(self.not_before);
    }

    fn put_off(&mut self, deferral: &Deferral, named_before: Option<LeaseId>, poll: Duration, now: Instant) {
        let Deferral { node, is_queued, rank, holder, .. } = deferral;
        self.named = holder.as_ref().and_then(|(owner, _)| owner.clone());
        self.is_named_again = self.named.is_some() && self.named == named_before;
        self.queued_at = Some(*node).filter(|_| *is_queued);
        self.rank = *rank;
        let patience = mutation::altered(Mutation::SleepPastTheEnd, self.patience(deferral), |_| poll);
        let patience = patience.max(self.pacing.floor).min(poll);
        // A release that the waiter has not heard of, or was not told, may have been before this
        // answer.
        let only_queues_for = self.only_queues_until.map(|until| until.saturating_duration_since(now));
        self.come_back_at =
            now + only_queues_for.map_or(patience, |left| left.max(self.pacing.floor).min(poll));
    }

    /// How long a waiter that was put off waits to be woken.
    fn patience(&self, deferral: &Deferral) -> Duration {
        match &deferral.holder {
            // The second waiter comes in case that the first does not.
            Some((_, remaining)) if deferral.rank == 0 => *remaining,
            Some((_, remaining)) if deferral.rank < LISTENING => *remaining + self.hand_over,
            None if deferral.is_queued && deferral.rank < LISTENING => self.hand_over,
            _ => deferral.patience,
        }
    }

    /// When the lease is over that a quorum has seen although the queue node had granted.
    fn end_of_other(&self, votes: &[NodeReply], now: Instant) -> Option<Instant> {
        let had_turn = self.queue_nodes().first().and_then(|queue_node| votes.get(*queue_node))
            == Some(&NodeReply::Done);
        let other = holder(votes, self.electorate).filter(|_| had_turn)?;
        let left = votes.iter().filter_map(named).filter(|(owner, _)| *owner == Some(other));
        left.map(|(_, remaining)| remaining).max().map(|remaining| now + remaining)
    }
}
