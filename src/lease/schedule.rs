//! What is due when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use tokio::sync::Notify;

use crate::{clock::Instant, mutex::lock};

/// A lease of this client.
pub(crate) type LeaseNumber = u64;

/// Leases by the time at which something has to be done about them.
///
/// Any thread may set and remove; one task takes.
#[derive(Debug, Default)]
pub(crate) struct LeaseTimers {
    due: Mutex<Due>,
    /// Something became due earlier than what the task sleeps for.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Due {
    by_time: BTreeSet<(Instant, LeaseNumber)>,
    by_lease: BTreeMap<LeaseNumber, Instant>,
    /// Until when the task sleeps. Left as it is when what it sleeps for is removed: locks that
    /// come and go within a ttl need not wake it.
    armed: Option<Instant>,
}

impl LeaseTimers {
    /// The lease is due at `at`, and not when it was before.
    pub(crate) fn set(&self, lease: LeaseNumber, at: Instant) {
        let mut due = lock(&self.due);
        due.remove(lease);
        due.by_time.insert((at, lease));
        due.by_lease.insert(lease, at);
        let is_earlier = due.armed.is_none_or(|armed| at < armed);
        if is_earlier {
            due.armed = Some(at);
        }
        drop(due);
        if is_earlier {
            self.earlier.notify_one();
        }
    }

    pub(crate) fn remove(&self, lease: LeaseNumber) {
        lock(&self.due).remove(lease);
    }

    /// Takes everything that is due at `now`, earliest first.
    pub(crate) fn take_due(&self, now: Instant) -> Vec<LeaseNumber> {
        let mut due = lock(&self.due);
        let mut taken = Vec::new();
        while let Some((_, lease)) = due.by_time.first().copied().filter(|(at, _)| *at <= now) {
            due.remove(lease);
            taken.push(lease);
        }
        taken
    }

    /// When the task has to look again, to be asked before it sleeps. Where nothing is due any
    /// more, it sleeps as long as it would have: a lock that is gone before the task runs is mostly
    /// followed by another.
    pub(crate) fn arm(&self, now: Instant) -> Option<Instant> {
        let mut due = lock(&self.due);
        let before = due.armed.filter(|armed| *armed > now);
        due.armed = due.by_time.first().map(|(at, _)| *at).or(before);
        due.armed
    }

    /// Ready when something became due earlier than all before, since the last call or during it.
    pub(crate) async fn earlier(&self) {
        self.earlier.notified().await;
    }
}

impl Due {
    fn remove(&mut self, lease: LeaseNumber) {
        if let Some(at) = self.by_lease.remove(&lease) {
            self.by_time.remove(&(at, lease));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn what_is_due_is_taken_in_order_once_and_as_set_last() {
        let schedule = LeaseTimers::default();
        for (lease, due) in [(1, 30), (2, 10), (3, 20), (2, 40), (4, 20)] {
            schedule.set(lease, at(due));
        }
        schedule.remove(4);
        assert_eq!(schedule.take_due(at(30)), [3, 1]);
        assert!(schedule.take_due(at(30)).is_empty());
        assert_eq!(schedule.arm(at(30)), Some(at(40)));
    }

    #[test]
    fn only_what_is_due_earlier_than_the_task_sleeps_wakes_it() {
        let schedule = LeaseTimers::default();
        schedule.set(1, at(10));
        assert!(schedule.earlier().now_or_never().is_some());
        assert_eq!(schedule.arm(at(0)), Some(at(10)));
        schedule.remove(1);
        assert_eq!(schedule.arm(at(9)), Some(at(10)));
        schedule.set(2, at(20));
        assert!(schedule.earlier().now_or_never().is_none());
        schedule.set(3, at(5));
        assert!(schedule.earlier().now_or_never().is_some());
        schedule.remove(2);
        schedule.remove(3);
        assert_eq!(schedule.arm(at(5)), None);
        schedule.set(4, at(30));
        assert!(schedule.earlier().now_or_never().is_some());
    }
}
