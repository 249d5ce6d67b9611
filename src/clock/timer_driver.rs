//! The driver of the timers: the timerfd or the thread that fires the timers when the earliest timer is due.

use std::{
    io,
    sync::Weak,
    thread::{self, Thread},
    time::Duration,
};

#[cfg(all(target_os = "linux", not(redquorum_portable)))]
use crate::clock::timerfd::Timerfd;
use crate::clock::{Instant, boot_time::boot_time, timers::TimerSet};

/// The longest sleep of the thread. Since the sleep does not count suspended time, the thread may be late by this time
/// after a suspend.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The source of wake-ups that fires the timers when the earliest is due.
#[derive(Debug)]
pub(super) enum TimerDriver {
    /// A timer of the kernel, which a task of the runtime watches until the runtime ends.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    Timerfd(Timerfd),
    /// A thread, which needs no runtime and no file descriptor.
    Thread(Thread),
    /// No driver was started yet, or the driver has ended.
    None,
}

impl TimerDriver {
    /// Sets the deadline, in place of the previous deadline. Returns whether the driver will fire at that time.
    #[cfg_attr(
        any(not(target_os = "linux"), redquorum_portable),
        expect(unused_variables, reason = "the thread reads the timers itself")
    )]
    pub(super) fn set(&self, deadline: Instant) -> bool {
        match self {
            #[cfg(all(target_os = "linux", not(redquorum_portable)))]
            Self::Timerfd(timer) => timer.set(deadline).is_ok(),
            Self::Thread(thread) => {
                // A call by the thread itself needs no wake-up, because the thread reads the earliest deadline before
                // each sleep.
                if thread::current().id() != thread.id() {
                    thread.unpark();
                }
                true
            }
            Self::None => false,
        }
    }

    /// Starts a thread that fires the timers. The thread ends after the last handle on the timers is dropped,
    /// because that drop sets the driver once more.
    ///
    /// # Errors
    ///
    /// If the system allows no more threads.
    pub(super) fn thread(timers: Weak<TimerSet>) -> io::Result<Self> {
        let thread =
            thread::Builder::new().name("redquorum-clock".to_owned()).spawn(move || run_thread(&timers))?;
        Ok(Self::Thread(thread.thread().clone()))
    }
}

/// Fires the timers at each deadline, until the timers are dropped.
#[expect(clippy::disallowed_methods, reason = "a thread of its own, which blocks no task")]
fn run_thread(timers: &Weak<TimerSet>) {
    while let Some(next) = timers.upgrade().map(|timers| timers.fire()) {
        match next {
            Some(deadline) => {
                thread::park_timeout(deadline.saturating_duration_since(boot_time()).min(MAX_SLEEP))
            }
            None => thread::park(),
        }
    }
}
