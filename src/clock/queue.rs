//! Who sleeps until when; no clock, no IO.

use std::{collections::BTreeMap, task::Waker};

use crate::clock::Instant;

/// Sleepers in the order of their deadlines, and the instant at which the alarm is set to ring for
/// them.
///
/// # Invariants
///
/// 1. A waker is in the queue at most once, and leaves it when it is handed out: no sleeper is
///    woken twice.
/// 2. After [`arm`](Self::arm), the alarm is set at or before the earliest deadline. It may be set
///    too early, after the earliest sleeper was [removed](Self::remove): an alarm for nobody costs
///    less than setting it again each time.
/// 3. A waker never runs and is never dropped in here: either may be anybody's code, and the queue
///    is behind a mutex.
#[derive(Debug, Default)]
pub(super) struct SleepQueue {
    sleepers: BTreeMap<(Instant, u64), Waker>,
    armed: Option<Instant>,
}

impl SleepQueue {
    /// Puts a sleeper in and returns the waker that it had left before. `id` tells sleepers with
    /// one deadline apart.
    #[must_use = "drop it only after the mutex is released"]
    pub(super) fn insert(&mut self, deadline: Instant, id: u64, waker: Waker) -> Option<Waker> {
        self.sleepers.insert((deadline, id), waker)
    }

    /// Takes a sleeper out, if it is still in.
    #[must_use = "drop it only after the mutex is released"]
    pub(super) fn remove(&mut self, deadline: Instant, id: u64) -> Option<Waker> {
        self.sleepers.remove(&(deadline, id))
    }

    /// Takes out all whose deadline has come, earliest first, and forgets that an alarm was set.
    ///
    /// It may have rung before its time: a thread that has just been started looks at once, and
    /// goes by the queue from then on. If the one for whom it was set is gone, nothing would ring
    /// for a later sleeper.
    #[must_use = "wake them after the mutex is released"]
    pub(super) fn due(&mut self, now: Instant) -> Vec<Waker> {
        self.armed = None;
        let mut due = Vec::new();
        while let Some(first) = self.sleepers.first_entry() {
            if first.key().0 > now {
                break;
            }
            due.push(first.remove());
        }
        due
    }

    /// Takes out everybody and forgets that an alarm was set, because it will not ring.
    #[must_use = "wake them after the mutex is released"]
    pub(super) fn abandon(&mut self) -> Vec<Waker> {
        self.armed = None;
        std::mem::take(&mut self.sleepers).into_values().collect()
    }

    /// The instant for which the caller has to set the alarm; none if it is set early enough or
    /// nobody sleeps.
    ///
    /// If it cannot be set, the caller says [so](Self::disarm).
    pub(super) fn arm(&mut self) -> Option<Instant> {
        let earliest = self.earliest()?;
        if self.armed.is_some_and(|armed| armed <= earliest) {
            return None;
        }
        self.armed = Some(earliest);
        self.armed
    }

    /// Takes note that no alarm is set.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.sleepers.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sleepers.len()
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

    /// Writes its name down when it is woken.
    struct NamedWaker(u64, Arc<Mutex<Vec<u64>>>);

    impl Wake for NamedWaker {
        fn wake(self: Arc<Self>) {
            lock(&self.1).push(self.0);
        }
    }

    #[derive(Default)]
    struct Bed {
        queue: SleepQueue,
        woken: Arc<Mutex<Vec<u64>>>,
    }

    impl Bed {
        fn sleep(&mut self, deadline: u64, id: u64) {
            let waker = Waker::from(Arc::new(NamedWaker(id, Arc::clone(&self.woken))));
            drop(self.queue.insert(at(deadline), id, waker));
        }

        fn ring(&mut self, now: u64) -> Vec<u64> {
            self.queue.due(at(now)).into_iter().for_each(Waker::wake);
            std::mem::take(&mut *lock(&self.woken))
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines_and_never_before() {
        let mut bed = Bed::default();
        for (deadline, id) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            bed.sleep(deadline, id);
        }
        assert!(bed.ring(9).is_empty());
        assert_eq!(bed.ring(20), [2, 4, 3]);
        assert!(bed.ring(20).is_empty());
        assert_eq!(bed.ring(1000), [1]);
    }

    #[test]
    fn a_removed_sleeper_leaves_nothing() {
        let mut bed = Bed::default();
        bed.sleep(10, 1);
        assert!(bed.queue.remove(at(10), 1).is_some());
        assert!(bed.queue.remove(at(10), 1).is_none());
        assert_eq!((bed.queue.len(), bed.ring(10)), (0, vec![]));
    }

    #[test]
    fn a_sleeper_that_is_polled_again_is_woken_once() {
        let mut bed = Bed::default();
        bed.sleep(10, 1);
        bed.sleep(10, 1);
        assert_eq!(bed.ring(10), [1]);
    }

    #[test]
    fn the_alarm_is_set_only_for_an_earlier_deadline() {
        let mut bed = Bed::default();
        assert_eq!(bed.queue.arm(), None, "nobody sleeps");
        bed.sleep(20, 1);
        assert_eq!(bed.queue.arm(), Some(at(20)));
        bed.sleep(30, 2);
        assert_eq!(bed.queue.arm(), None, "set for an earlier one");
        bed.sleep(10, 3);
        assert_eq!(bed.queue.arm(), Some(at(10)));
        assert_eq!(bed.ring(10), [3]);
        assert_eq!(bed.queue.arm(), Some(at(20)), "the first has rung");
    }

    #[test]
    fn an_alarm_that_rings_for_nobody_is_set_for_the_next() {
        let mut bed = Bed::default();
        bed.sleep(10, 1);
        bed.sleep(20, 2);
        assert_eq!(bed.queue.arm(), Some(at(10)));
        drop(bed.queue.remove(at(10), 1));
        assert_eq!(bed.queue.arm(), None, "set too early, which is early enough");
        assert!(bed.ring(10).is_empty());
        assert_eq!(bed.queue.arm(), Some(at(20)));
    }

    #[test]
    fn an_alarm_that_rings_early_and_for_nobody_is_set_for_the_next() {
        let mut bed = Bed::default();
        bed.sleep(10, 1);
        assert_eq!(bed.queue.arm(), Some(at(10)));
        drop(bed.queue.remove(at(10), 1));
        assert!(bed.ring(5).is_empty());
        assert_eq!(bed.queue.arm(), None, "nobody sleeps");
        bed.sleep(20, 2);
        assert_eq!(bed.queue.arm(), Some(at(20)), "the alarm has found no sleeper, and is set for nothing");
    }

    #[test]
    fn an_alarm_that_could_not_be_set_is_tried_again() {
        let mut bed = Bed::default();
        bed.sleep(10, 1);
        assert_eq!(bed.queue.arm(), Some(at(10)));
        bed.queue.disarm();
        assert_eq!(bed.queue.arm(), Some(at(10)));
        assert_eq!(bed.queue.abandon().len(), 1);
        assert_eq!((bed.queue.len(), bed.queue.arm()), (0, None));
    }
}
