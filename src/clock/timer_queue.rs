//! The queue of the timers by deadline, without a clock and without IO. `clock/timers.rs` has the queue behind a mutex.

use std::{collections::BTreeMap, task::Waker};

use crate::clock::Instant;

/// The timers by deadline, and the deadline that is set in the driver.
///
/// ```text
///  sleep polled ──insert──► timers ──take_due──► wakers to wake
///  sleep dropped ─remove──►   │
///                            arm ──► deadline to set in the driver, unless a deadline as early is set
/// ```
///
/// # Invariants
///
/// 1. A sleep has at most one timer in the queue. The queue removes a timer when it returns the waker of the timer, so
///    that no timer wakes its task twice.
/// 2. After [`arm`](Self::arm), the driver is set to the earliest deadline or an earlier time. The time may be earlier
///    if a timer was [removed](Self::remove), because a useless wake-up costs less than a change of the driver after
///    each removal.
/// 3. No waker runs or is dropped inside of the queue. The queue is behind a mutex, and a waker may run code of other
///    crates.
#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    timers: BTreeMap<(Instant, u64), Waker>,
    /// The deadline that is set in the driver.
    armed: Option<Instant>,
}

impl TimerQueue {
    /// Inserts the timer of a sleep, or replaces its waker. Returns the replaced waker. `id` distinguishes timers with
    /// the same deadline.
    #[must_use = "drop it only after the mutex is released"]
    pub(super) fn insert(&mut self, deadline: Instant, id: u64, waker: Waker) -> Option<Waker> {
        self.timers.insert((deadline, id), waker)
    }

    /// Removes a timer, if the timer is in the queue. Returns its waker.
    #[must_use = "drop it only after the mutex is released"]
    pub(super) fn remove(&mut self, deadline: Instant, id: u64) -> Option<Waker> {
        self.timers.remove(&(deadline, id))
    }

    /// Handles a fire of the driver: removes all timers that are due, and records that no deadline is set. Returns the
    /// wakers, earliest deadline first.
    ///
    /// The driver may fire before its deadline, because a new thread reads the timers at once. Even then, the driver
    /// counts as not set. Otherwise no timer would fire if the earliest timer were removed and a later timer inserted.
    #[must_use = "wake them after the mutex is released"]
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        self.armed = None;
        let mut due = Vec::new();
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > now {
                break;
            }
            due.push(first.remove());
        }
        due
    }

    /// Removes all timers, and records that no deadline is set, because the driver will not fire. Returns the wakers.
    #[must_use = "wake them after the mutex is released"]
    pub(super) fn take_all(&mut self) -> Vec<Waker> {
        self.armed = None;
        std::mem::take(&mut self.timers).into_values().collect()
    }

    /// Returns the deadline that the caller must set in the driver, and records that deadline as set. Returns `None` if
    /// the driver is set early enough, or if there is no timer.
    ///
    /// If the driver cannot be set, the caller must call [`disarm`](Self::disarm).
    pub(super) fn arm(&mut self) -> Option<Instant> {
        let earliest = self.earliest()?;
        if self.armed.is_some_and(|armed| armed <= earliest) {
            return None;
        }
        self.armed = Some(earliest);
        self.armed
    }

    /// Records that no deadline is set.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }

    /// Returns the earliest deadline.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.timers.len()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        task::Wake,
        time::Duration,
    };

    use super::*;
    use crate::mutex::lock;

    /// A waker that records its name.
    struct NamedWaker(u64, Arc<Mutex<Vec<u64>>>);

    impl Wake for NamedWaker {
        fn wake(self: Arc<Self>) {
            lock(&self.1).push(self.0);
        }
    }

    #[derive(Default)]
    struct Fixture {
        timer_queue: TimerQueue,
        woken: Arc<Mutex<Vec<u64>>>,
    }

    impl Fixture {
        fn sleep(&mut self, deadline: u64, id: u64) {
            let waker = Waker::from(Arc::new(NamedWaker(id, Arc::clone(&self.woken))));
            drop(self.timer_queue.insert(at(deadline), id, waker));
        }

        fn fire(&mut self, now: u64) -> Vec<u64> {
            self.timer_queue.take_due(at(now)).into_iter().for_each(Waker::wake);
            std::mem::take(&mut *lock(&self.woken))
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn timers_fire_in_the_order_of_deadlines_and_never_early() {
        let mut fixture = Fixture::default();
        for (deadline, id) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            fixture.sleep(deadline, id);
        }
        assert!(fixture.fire(9).is_empty());
        assert_eq!(fixture.fire(20), [2, 4, 3]);
        assert!(fixture.fire(20).is_empty());
        assert_eq!(fixture.fire(1000), [1]);
    }

    #[test]
    fn a_removed_timer_never_fires() {
        let mut fixture = Fixture::default();
        fixture.sleep(10, 1);
        assert!(fixture.timer_queue.remove(at(10), 1).is_some());
        assert!(fixture.timer_queue.remove(at(10), 1).is_none());
        assert_eq!((fixture.timer_queue.len(), fixture.fire(10)), (0, vec![]));
    }

    #[test]
    fn a_timer_fires_once_if_it_is_inserted_twice() {
        let mut fixture = Fixture::default();
        fixture.sleep(10, 1);
        fixture.sleep(10, 1);
        assert_eq!(fixture.fire(10), [1]);
    }

    #[test]
    fn the_driver_is_set_only_for_an_earlier_deadline() {
        let mut fixture = Fixture::default();
        assert_eq!(fixture.timer_queue.arm(), None, "no timer");
        fixture.sleep(20, 1);
        assert_eq!(fixture.timer_queue.arm(), Some(at(20)));
        fixture.sleep(30, 2);
        assert_eq!(fixture.timer_queue.arm(), None, "the driver is set for an earlier deadline");
        fixture.sleep(10, 3);
        assert_eq!(fixture.timer_queue.arm(), Some(at(10)));
        assert_eq!(fixture.fire(10), [3]);
        assert_eq!(fixture.timer_queue.arm(), Some(at(20)), "the earliest timer has fired");
    }

    #[test]
    fn a_driver_is_set_again_after_it_fires_for_a_removed_timer() {
        let mut fixture = Fixture::default();
        fixture.sleep(10, 1);
        fixture.sleep(20, 2);
        assert_eq!(fixture.timer_queue.arm(), Some(at(10)));
        drop(fixture.timer_queue.remove(at(10), 1));
        assert_eq!(fixture.timer_queue.arm(), None, "the driver is set for an earlier deadline than needed");
        assert!(fixture.fire(10).is_empty());
        assert_eq!(fixture.timer_queue.arm(), Some(at(20)));
    }

    #[test]
    fn a_driver_is_set_again_after_it_fires_early_without_a_timer() {
        let mut fixture = Fixture::default();
        fixture.sleep(10, 1);
        assert_eq!(fixture.timer_queue.arm(), Some(at(10)));
        drop(fixture.timer_queue.remove(at(10), 1));
        assert!(fixture.fire(5).is_empty());
        assert_eq!(fixture.timer_queue.arm(), None, "no timer");
        fixture.sleep(20, 2);
        assert_eq!(fixture.timer_queue.arm(), Some(at(20)), "the driver has fired without a timer");
    }

    #[test]
    fn a_driver_is_set_again_after_a_failure_to_set_it() {
        let mut fixture = Fixture::default();
        fixture.sleep(10, 1);
        assert_eq!(fixture.timer_queue.arm(), Some(at(10)));
        fixture.timer_queue.disarm();
        assert_eq!(fixture.timer_queue.arm(), Some(at(10)));
        assert_eq!(fixture.timer_queue.take_all().len(), 1);
        assert_eq!((fixture.timer_queue.len(), fixture.timer_queue.arm()), (0, None));
    }
}
