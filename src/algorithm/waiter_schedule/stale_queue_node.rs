//! The pauses of a waiter at a stale queue node, as a part of the waiter schedule.

use std::time::Duration;

use crate::{
    clock::Instant,
    mutation::{self, Mutation},
};

/// The pauses of a waiter whose queue node granted although a quorum names another lease.
///
/// The queue node has no key of that lease, so the resource is free there, and every request at the node wakes a
/// waiter. During a pause, the waiter only keeps its queue entry alive, and follows no wake.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaleQueueNode {
    enqueue_only_until: Option<Instant>,
    ignores_wakes_until: Instant,
    /// The number of consecutive grants that led to no lease.
    futile_grants: u32,
}

impl StaleQueueNode {
    pub(super) fn new(now: Instant) -> Self {
        Self { enqueue_only_until: None, ignores_wakes_until: now, futile_grants: 0 }
    }

    /// Handles a futile grant. Returns the end of the pause, which is no later than `latest`. The first pause is about
    /// as long as the attempt, because the unlock of the other lease may be on its way, and may wake no waiter. Each
    /// further pause is about twice as long.
    pub(super) fn grant_was_futile(
        &mut self,
        took: Duration,
        floor: Duration,
        latest: Instant,
        now: Instant,
        jitter: f64,
    ) -> Instant {
        let range = if self.futile_grants == 0 { took } else { took.max(floor) };
        // `took` may include a suspension of the process, so the range has a bound before it is multiplied.
        let longest = latest.saturating_duration_since(now);
        let range = range.saturating_mul(1 << self.futile_grants.min(6)).min(longest.saturating_mul(2));
        let end = (now + range.mul_f64(0.5 + jitter)).min(latest);
        let end = mutation::altered(Mutation::NoPauseAfterFutileGrant, end, |_| now);
        (self.ignores_wakes_until, self.enqueue_only_until) = (end, Some(end));
        self.futile_grants += 1;
        end
    }

    pub(super) fn attempt_begins(&mut self, now: Instant) {
        self.enqueue_only_until = self.enqueue_only_until.filter(|until| *until > now);
    }

    pub(super) fn enqueues_only(&self) -> bool {
        self.enqueue_only_until.is_some()
    }

    /// Returns the rest of the pause; `None` if the next attempt may lock.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.enqueue_only_until.map(|until| until.saturating_duration_since(now))
    }

    /// Handles a wake or a release. The next attempt may lock, but no earlier than the returned end of the pause.
    pub(super) fn end_enqueue_only(&mut self) -> Instant {
        self.enqueue_only_until = None;
        self.ignores_wakes_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_at_the_end_of_the_pause_may_lock() {
        let at = |millis| Instant::from_origin(Duration::from_millis(millis));
        let mut stale = StaleQueueNode::new(at(0));
        let end = stale.grant_was_futile(Duration::from_millis(10), Duration::ZERO, at(1000), at(0), 0.5);
        assert_eq!(end, at(10));
        stale.attempt_begins(at(9));
        assert!(stale.enqueues_only());
        stale.attempt_begins(at(10));
        assert!(!stale.enqueues_only());
    }
}
