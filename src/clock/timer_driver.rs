//! The driver of the timers: the timerfd or thread that fires when the earliest timer is due.

use std::{
    io,
    sync::Weak,
    thread::{self, Thread},
    time::Duration,
};

#[cfg(all(target_os = "linux", not(redquorum_portable)))]
use crate::clock::timerfd::Timerfd;
use crate::clock::{Instant, boot_time::boot_time, timers::TimerSet};

/// The longest sleep of the thread. The sleep does not count suspended time, so after a suspend, the thread may be late
/// by this time.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The source of wake-ups that fires the timers when the earliest is due.
#[derive(Debug)]
pub(super) enum TimerDriver {
    /// A timer of the kernel. A task of the runtime watches the timer, so the timer fires until the runtime ends.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    Timerfd(Timerfd),
    /// A thread, which needs no runtime and no file descriptor.
    Thread(Thread),
    /// No driver was started yet, or the driver has ended.
    None,
}

impl TimerDriver {
    /// Sets the deadline, which replaces the previous deadline. Returns whether the driver will fire.
    #[cfg_attr(
        any(not(target_os = "linux"), redquorum_portable),
        expect(unused_variables, reason = "the thread reads the timers itself")
    )]
    pub(super) fn set(&self, deadline: Instant) -> bool {
        match self {
            #[cfg(all(target_os = "linux", not(redquorum_portable)))]
            Self::Timerfd(timer) => timer.set(deadline).is_ok(),
            Self::Thread(thread) => {
                // The thread reads the earliest deadline before it sleeps, so a call by the thread itself needs no
                // wake-up.
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
