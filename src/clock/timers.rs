//! The timers of a [`BootClock`](crate::clock::BootClock), and the sleeps that wait for them.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use crate::{
    clock::{Instant, boot_time::boot_time, timer_driver::TimerDriver, timer_queue::TimerQueue},
    mutex::lock,
};

/// The timers of one clock, and the driver that is set for the earliest of them.
///
/// The handles of the clock and each [`Sleep`] share the timers. The task or thread of the driver has a weak reference,
/// and ends when the timers are dropped.
///
/// ```text
///  Sleep::poll ──► TimerQueue::insert ──► arm ──► TimerDriver::set
///                                                      │ deadline
///  wakers  ◄── TimerQueue::take_due ◄── TimerSet::fire ◄─┘
/// ```
///
/// # Invariants
///
/// 1. As long as a timer is in the queue, a driver is set that will fire. If no driver can be set, the task of the
///    sleep is woken at once, so that the task polls the sleep again.
/// 2. Wakers run and are dropped after the mutex is released, because they may run code of other crates, such
///    as the drop of another sleep.
#[derive(Debug)]
pub(super) struct TimerSet {
    state: Mutex<TimersState>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct TimersState {
    timer_queue: TimerQueue,
    timer_driver: TimerDriver,
}

impl TimerSet {
    pub(super) fn new(timer_driver: TimerDriver) -> Self {
        Self {
            state: Mutex::new(TimersState { timer_queue: TimerQueue::default(), timer_driver }),
            next_id: AtomicU64::new(0),
        }
    }

    pub(super) fn sleep_until(self: &Arc<Self>, deadline: Instant) -> Sleep {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        Sleep { timers: Arc::clone(self), deadline, id, was_queued: false }
    }

    /// Wakes the sleeps that are due, and returns the next deadline. If no driver can be set for the next deadline,
    /// wakes all sleeps. The driver calls this function. Additional calls are harmless.
    pub(super) fn fire(self: &Arc<Self>) -> Option<Instant> {
        let mut state = lock(&self.state);
        let mut wakers = state.timer_queue.take_due(boot_time());
        if !self.arm(&mut state) {
            wakers.append(&mut state.timer_queue.take_all());
        }
        let next = state.timer_queue.earliest();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    /// Handles the end of the timerfd task: wakes all sleeps. If a sleep is polled again, its timer is inserted again,
    /// and a thread drives the timers.
    ///
    /// This function starts no thread, because most sleeps belong to tasks of the runtime that has ended, and are not
    /// polled again.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    pub(super) fn on_timerfd_task_ended(&self) {
        let mut state = lock(&self.state);
        if matches!(state.timer_driver, TimerDriver::Thread(_)) {
            return;
        }
        state.timer_driver = TimerDriver::None;
        let wakers = state.timer_queue.take_all();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Inserts the timer of a sleep that was polled before its deadline, or replaces the waker of that timer.
    fn enqueue(self: &Arc<Self>, deadline: Instant, id: u64, waker: &Waker) {
        let cloned = waker.clone();
        let mut state = lock(&self.state);
        let replaced = state.timer_queue.insert(deadline, id, cloned);
        let armed = self.arm(&mut state);
        drop(state);
        drop(replaced);
        if !armed {
            // Without any driver, the task is polled again and again until the deadline. The polls cost processor time,
            // but the sleep ends in time.
            waker.wake_by_ref();
        }
    }

    /// Sets the driver if necessary. If the driver cannot be set, starts a thread as the driver. Returns `false` if no
    /// thread can be started.
    ///
    /// The caller keeps the mutex locked. Otherwise two deadlines could reach the driver in the wrong order, and the
    /// driver would be set for the later deadline.
    fn arm(self: &Arc<Self>, state: &mut TimersState) -> bool {
        let Some(deadline) = state.timer_queue.arm() else {
            return true;
        };
        if state.timer_driver.set(deadline) {
            return true;
        }
        if let Ok(timer_driver) = TimerDriver::thread(Arc::downgrade(self)) {
            state.timer_driver = timer_driver;
            return true;
        }
        state.timer_queue.disarm();
        false
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.state).timer_queue.len()
    }

    #[cfg(test)]
    pub(super) fn has_thread(&self) -> bool {
        matches!(lock(&self.state).timer_driver, TimerDriver::Thread(_))
    }
}

impl Drop for TimerSet {
    /// Fires the driver, so that its task or thread finds the timers dropped and ends.
    fn drop(&mut self) {
        lock(&self.state).timer_driver.set(Instant::from_origin(std::time::Duration::ZERO));
    }
}

/// A sleep, which completes at its deadline on any executor.
///
/// # Cancel safety
///
/// If the future is dropped, its timer is removed.
#[must_use = "a future does nothing unless it is polled"]
#[derive(Debug)]
pub(super) struct Sleep {
    timers: Arc<TimerSet>,
    deadline: Instant,
    id: u64,
    /// Whether a poll has inserted the timer, which may have fired since.
    was_queued: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if boot_time() >= this.deadline {
            return Poll::Ready(());
        }
        this.was_queued = true;
        this.timers.enqueue(this.deadline, this.id, context.waker());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.was_queued {
            let removed = lock(&self.timers.state).timer_queue.remove(self.deadline, self.id);
            drop(removed);
        }
    }
}
