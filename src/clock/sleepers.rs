//! Everyone who sleeps by one clock.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use crate::{
    clock::{Instant, alarm::Alarm, boot_time::boot_time, queue::SleepQueue},
    mutex::lock,
};

/// Everyone who sleeps by one clock, and the alarm that is set for the earliest of them.
///
/// The clock's handles and every [`Sleep`] share it. The alarm's task holds it weakly, and ends
/// when it is dropped.
///
/// # Invariants
///
/// 1. While anyone is in the queue, an alarm is set that will ring; a sleeper for whom none could
///    be set wakes itself.
/// 2. Wakers run and are dropped after the mutex is released: they may be anybody's code, such as
///    another sleep's drop.
#[derive(Debug)]
pub(super) struct Sleepers {
    state: Mutex<SleepersState>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct SleepersState {
    queue: SleepQueue,
    alarm: Alarm,
}

impl Sleepers {
    pub(super) fn new(alarm: Alarm) -> Self {
        Self {
            state: Mutex::new(SleepersState { queue: SleepQueue::default(), alarm }),
            next_id: AtomicU64::new(0),
        }
    }

    pub(super) fn sleep_until(self: &Arc<Self>, deadline: Instant) -> Sleep {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        Sleep { sleepers: Arc::clone(self), deadline, id, queued: false }
    }

    /// Wakes all who are due, and returns when the next will be. Called whenever the alarm rings;
    /// too often is harmless.
    pub(super) fn ring(self: &Arc<Self>) -> Option<Instant> {
        let mut state = lock(&self.state);
        let mut awake = state.queue.due(boot_time());
        if !self.arm(&mut state) {
            awake.append(&mut state.queue.abandon());
        }
        let next = state.queue.earliest();
        drop(state);
        awake.into_iter().for_each(Waker::wake);
        next
    }

    /// Wakes everyone, due or not: those who are still polled queue up again, behind an alarm that
    /// still rings.
    ///
    /// The others, most of all the tasks of the runtime that took the driver with it, are not worth
    /// a thread.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    pub(super) fn driver_is_gone(&self) {
        let mut state = lock(&self.state);
        if matches!(state.alarm, Alarm::Thread(_)) {
            return;
        }
        state.alarm = Alarm::None;
        let awake = state.queue.abandon();
        drop(state);
        awake.into_iter().for_each(Waker::wake);
    }

    fn queue_up(self: &Arc<Self>, deadline: Instant, id: u64, waker: &Waker) {
        let cloned = waker.clone();
        let mut state = lock(&self.state);
        let replaced = state.queue.insert(deadline, id, cloned);
        let armed = self.arm(&mut state);
        drop(state);
        drop(replaced);
        if !armed {
            // Costs a processor, but no truth: the sleeper reads the clock until it is due.
            waker.wake_by_ref();
        }
    }

    /// Sets the alarm if it has to be set, a thread where there is no other. False if there is not
    /// even a thread.
    ///
    /// Done under the mutex: two deadlines that reached the alarm in the wrong order would leave it
    /// set for the later.
    fn arm(self: &Arc<Self>, state: &mut SleepersState) -> bool {
        let Some(deadline) = state.queue.arm() else {
            return true;
        };
        if state.alarm.set(deadline) {
            return true;
        }
        if let Ok(alarm) = Alarm::thread(Arc::downgrade(self)) {
            state.alarm = alarm;
            return true;
        }
        state.queue.disarm();
        false
    }

    #[cfg(test)]
    pub(super) fn sleeping(&self) -> usize {
        lock(&self.state).queue.len()
    }

    #[cfg(test)]
    pub(super) fn has_thread(&self) -> bool {
        matches!(lock(&self.state).alarm, Alarm::Thread(_))
    }
}

impl Drop for Sleepers {
    /// Rings, so that the alarm's task finds that nobody needs it any more.
    fn drop(&mut self) {
        lock(&self.state).alarm.set(Instant::from_origin(std::time::Duration::ZERO));
    }
}

/// Ready at its deadline, whichever executor polls it.
///
/// # Cancel safety
///
/// Dropping it leaves nothing behind.
#[must_use = "a future does nothing unless it is polled"]
#[derive(Debug)]
pub(super) struct Sleep {
    sleepers: Arc<Sleepers>,
    deadline: Instant,
    id: u64,
    queued: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if boot_time() >= this.deadline {
            return Poll::Ready(());
        }
        this.queued = true;
        this.sleepers.queue_up(this.deadline, this.id, context.waker());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.queued {
            let removed = lock(&self.sleepers.state).queue.remove(self.deadline, self.id);
            drop(removed);
        }
    }
}
