//! What rings when the earliest sleeper is due.

use std::{
    io,
    sync::Weak,
    thread::{self, Thread},
    time::Duration,
};

#[cfg(all(target_os = "linux", not(redquorum_portable)))]
use crate::clock::timerfd::Timerfd;
use crate::clock::{Instant, boot_time::boot_time, sleepers::Sleepers};

/// The longest that the thread sleeps without looking at the clock: by so much it may be late after
/// a suspend, which a thread's sleep does not count.
const SLICE: Duration = Duration::from_secs(1);

/// What rings when the earliest sleeper is due.
#[derive(Debug)]
pub(super) enum Alarm {
    /// The kernel's timer, as long as the runtime that watches it lives.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    Timerfd(Timerfd),
    /// A thread that depends on no runtime and no file descriptor.
    Thread(Thread),
    /// Nothing yet, or nothing any more.
    None,
}

impl Alarm {
    /// Sets the alarm, whatever it was set for before. False if it will not ring.
    #[cfg_attr(
        any(not(target_os = "linux"), redquorum_portable),
        expect(unused_variables, reason = "the thread looks itself")
    )]
    pub(super) fn set(&self, deadline: Instant) -> bool {
        match self {
            #[cfg(all(target_os = "linux", not(redquorum_portable)))]
            Self::Timerfd(timer) => timer.set(deadline).is_ok(),
            Self::Thread(ringer) => {
                // It looks for the earliest deadline, and does so anyway when it is done with this
                // one.
                if thread::current().id() != ringer.id() {
                    ringer.unpark();
                }
                true
            }
            Self::None => false,
        }
    }

    /// Starts a thread that rings; it ends with the last handle on the sleepers, which sets the
    /// alarm.
    ///
    /// # Errors
    ///
    /// If the system allows no more threads.
    pub(super) fn thread(sleepers: Weak<Sleepers>) -> io::Result<Self> {
        let ringer = thread::Builder::new()
            .name("redquorum-clock".to_owned())
            .spawn(move || ring_in_slices(&sleepers))?;
        Ok(Self::Thread(ringer.thread().clone()))
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, which blocks nobody")]
fn ring_in_slices(sleepers: &Weak<Sleepers>) {
    while let Some(next) = sleepers.upgrade().map(|sleepers| sleepers.ring()) {
        match next {
            Some(deadline) => {
                thread::park_timeout(deadline.saturating_duration_since(boot_time()).min(SLICE))
            }
            None => thread::park(),
        }
    }
}
