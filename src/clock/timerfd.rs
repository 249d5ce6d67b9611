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

use crate::clock::{Instant, sleepers::Sleepers};

/// A timer on `CLOCK_BOOTTIME`. Tokio's own timers stand still while the machine is suspended.
#[derive(Clone, Debug)]
pub(super) struct Timerfd(Arc<OwnedFd>);

impl Timerfd {
    pub(super) fn create() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(Arc::new(timerfd_create(TimerfdClockId::Boottime, flags)?)))
    }

    /// Sets the timer, whatever it was set for before; it rings at once if `deadline` is past.
    pub(super) fn set(&self, deadline: Instant) -> io::Result<()> {
        // The kernel takes zero for "never", and saturates what is too far away.
        let deadline = deadline.since_origin().max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: deadline.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: deadline.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// The timer as the current runtime sees it.
    ///
    /// # Panics
    ///
    /// If the runtime has its IO disabled.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, because not every type owns its descriptor; this one \
            does, and keeps it open"
    )]
    fn watch(self) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
        AsyncFd::with_interest(self.0, Interest::READABLE)
    }
}

/// The task that wakes sleepers when the timer rings.
///
/// It ends with the last handle on the sleepers, which rings the timer. If it ends before them,
/// because its runtime is shut down or cannot watch the timer, it tells them.
#[derive(Debug)]
pub(super) struct Driver {
    sleepers: Weak<Sleepers>,
}

impl Driver {
    pub(super) fn new(sleepers: Weak<Sleepers>) -> Self {
        Self { sleepers }
    }

    /// Takes the driver by value: a runtime that is gone drops this future unpolled, and the driver
    /// with it.
    pub(super) async fn run(self, timer: Timerfd) {
        let Ok(timer) = timer.watch() else {
            return;
        };
        while let Ok(mut readable) = timer.readable().await {
            // Takes the ring off the timer. There is none to take if a sleeper has just set the
            // timer anew.
            let _taken = rustix::io::read(timer.get_ref(), &mut [0; 8]);
            // Before the sleepers are looked at, for what rings from now on has to be seen.
            readable.clear_ready();
            let Some(sleepers) = self.sleepers.upgrade() else {
                return;
            };
            sleepers.ring();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(sleepers) = self.sleepers.upgrade() {
            sleepers.driver_is_gone();
        }
    }
}
