//! The kernel's timer on boot time, and the task that waits for it.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
    time::Duration,
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

use crate::clock::{Instant, timers::TimerSet};

/// A timer on `CLOCK_BOOTTIME`, which counts suspended time. Tokio's own timers do not.
#[derive(Clone, Debug)]
pub(super) struct Timerfd(Arc<OwnedFd>);

impl Timerfd {
    pub(super) fn create() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(Arc::new(timerfd_create(TimerfdClockId::Boottime, flags)?)))
    }

    /// Sets the deadline of the timer, in place of the previous deadline. If `deadline` has passed, the timer fires at
    /// once.
    pub(super) fn set(&self, deadline: Instant) -> io::Result<()> {
        // For the kernel, zero means "never". The kernel limits values that are too large.
        let deadline = deadline.since_origin().max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: deadline.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: deadline.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Registers the timer with the current runtime.
    ///
    /// # Panics
    ///
    /// If the runtime has its IO disabled.
    #[expect(
        deprecated,
        reason = "the replacement is unsafe, because a type may close its descriptor; an `Arc<OwnedFd>` keeps the \
            descriptor open"
    )]
    fn watch(self) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
        AsyncFd::with_interest(self.0, Interest::READABLE)
    }
}

/// The task that fires the timers when the timerfd is due.
///
/// The drop of the last handle on the timers fires the timerfd, and the task ends. If the task ends earlier, because
/// its runtime ends or cannot watch the timerfd, the drop of the task reports the end to the timers.
#[derive(Debug)]
pub(super) struct TimerfdTask {
    timers: Weak<TimerSet>,
}

impl TimerfdTask {
    pub(super) fn new(timers: Weak<TimerSet>) -> Self {
        Self { timers }
    }

    /// Runs the task. The future owns the task: if the runtime has ended, the runtime drops the future
    /// without a poll, and the task with it.
    pub(super) async fn run(self, timer: Timerfd) {
        let Ok(timer) = timer.watch() else {
            return;
        };
        while let Ok(mut readable) = timer.readable().await {
            // The read clears the expiry of the timerfd, and fails if a sleep has just set the timerfd again.
            let _taken = rustix::io::read(timer.get_ref(), &mut [0; 8]);
            // Readiness is cleared before the timers are read, so that a later expiry is not missed.
            readable.clear_ready();
            let Some(timers) = self.timers.upgrade() else {
                return;
            };
            timers.fire();
        }
    }
}

impl Drop for TimerfdTask {
    fn drop(&mut self) {
        if let Some(timers) = self.timers.upgrade() {
            timers.on_timerfd_task_ended();
        }
    }
}
