//! Time: the only access of this crate to clocks and sleeps.
//!
//! The decisions of the protocol receive the time as an argument, and the simulator provides clocks of its own.
//! `clippy.toml` forbids any other access.

use std::{fmt, ops::Add, time::Duration};

use futures::future::BoxFuture;

mod boot;
mod boot_time;
mod timer_driver;
mod timer_queue;
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
mod timerfd;
mod timers;
mod virtual_time;

#[cfg(any(test, feature = "sim"))]
pub(crate) use self::virtual_time::VIRTUAL_EPOCH;
pub(crate) use self::{
    boot::BootClock,
    virtual_time::{TokioClock, has_timers},
};

/// A point in monotonic time, comparable only with instants of the same clock.
///
/// On Linux, an instant of a [`BootClock`] counts the time since boot, including suspended time. Without suspended
/// time, a lease would seem valid although the machine was suspended beyond the end of the lease. Therefore this type
/// replaces [`std::time::Instant`], which excludes suspended time there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    pub(crate) const fn since_origin(self) -> Duration {
        self.0
    }

    /// Returns the time from `earlier` until this instant; zero if `earlier` is later.
    #[must_use]
    pub(crate) const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Adds a duration. The sum saturates at the largest instant.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", self.0)
    }
}

/// A source of monotonic time.
pub(crate) trait Clock: fmt::Debug + Send + Sync {
    /// Returns the present time.
    fn now(&self) -> Instant;

    /// Returns the time since the Unix epoch, according to this machine. This time serves only for a rough comparison,
    /// by the hour, with the clock of a node.
    fn time_of_day(&self) -> Duration;

    /// Returns the largest delay of a sleep. A caller that *must* act before a deadline sets the deadline earlier by
    /// this delay.
    fn granularity(&self) -> Duration;

    /// Completes at `deadline`, or later by at most the granularity of the clock, but never earlier.
    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()>;
}
