//! The times at which leases need a renewal or expire.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use tokio::sync::Notify;

use crate::{clock::Instant, mutex::lock};

/// The number of a lease of this client.
pub(crate) type LeaseNumber = u64;

/// The leases of a client, by the time at which an action is due. A client has one value for renewals and one for
/// expiries.
///
/// Any thread may set and remove times. One task, the watchdog or the expiry, takes the due leases.
#[derive(Debug, Default)]
pub(crate) struct LeaseTimers {
    due: Mutex<DueActions>,
    /// Notified if an action becomes due before the time until which the task sleeps.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct DueActions {
    by_time: BTreeSet<(Instant, LeaseNumber)>,
    by_lease: BTreeMap<LeaseNumber, Instant>,
    /// The time until which the task sleeps. The time stays if the action at that time is removed. Thus a sequence of
    /// short locks does not wake the task for each lock.
    armed: Option<Instant>,
}

impl LeaseTimers {
    /// Sets the time at which the lease is due. The time replaces the previous time of the lease.
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

    /// Takes the leases that are due at `now`, earliest first.
    pub(crate) fn take_due(&self, now: Instant) -> Vec<LeaseNumber> {
        let mut due = lock(&self.due);
        let mut taken = Vec::new();
        while let Some((_, lease)) = due.by_time.first().copied().filter(|(at, _)| *at <= now) {
            due.remove(lease);
            taken.push(lease);
        }
        taken
    }

    /// Returns the time until which the task may sleep. The task calls this before each sleep. If no lease is left, the
    /// time of the last call stays while it is in the future, because another lock usually follows a short lock.
    pub(crate) fn arm(&self, now: Instant) -> Option<Instant> {
        let mut due = lock(&self.due);
        let before = due.armed.filter(|armed| *armed > now);
        due.armed = due.by_time.first().map(|(at, _)| *at).or(before);
        due.armed
    }

    /// Waits until a lease is due before the time of the last [`arm`](Self::arm).
    pub(crate) async fn earlier(&self) {
        self.earlier.notified().await;
    }
}

impl DueActions {
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
    fn due_leases_are_taken_once_in_the_order_of_their_last_set_times() {
        let timers = LeaseTimers::default();
        for (lease, due) in [(1, 30), (2, 10), (3, 20), (2, 40), (4, 20)] {
            timers.set(lease, at(due));
        }
        timers.remove(4);
        assert_eq!(timers.take_due(at(30)), [3, 1]);
        assert!(timers.take_due(at(30)).is_empty());
        assert_eq!(timers.arm(at(30)), Some(at(40)));
    }

    #[test]
    fn the_task_is_woken_only_by_a_lease_due_before_its_timer() {
        let timers = LeaseTimers::default();
        timers.set(1, at(10));
        assert!(timers.earlier().now_or_never().is_some());
        assert_eq!(timers.arm(at(0)), Some(at(10)));
        timers.remove(1);
        assert_eq!(timers.arm(at(9)), Some(at(10)));
        timers.set(2, at(20));
        assert!(timers.earlier().now_or_never().is_none());
        timers.set(3, at(5));
        assert!(timers.earlier().now_or_never().is_some());
        timers.remove(2);
        timers.remove(3);
        assert_eq!(timers.arm(at(5)), None);
        timers.set(4, at(30));
        assert!(timers.earlier().now_or_never().is_some());
    }
}
