//! Time, as everything in this crate reads it.
//!
//! Nothing else reads a clock or sleeps: time is an argument of every decision, and the simulator
//! hands out clocks of its own. `clippy.toml` refuses the ways round it.

use std::{fmt, ops::Add, time::Duration};

use futures::future::BoxFuture;

mod alarm;
mod boot;
mod boot_time;
mod queue;
mod sleepers;
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
mod timerfd;
mod virtual_time;

#[cfg(any(test, feature = "sim"))]
pub(crate) use self::virtual_time::VIRTUAL_EPOCH;
pub(crate) use self::{boot::BootClock, virtual_time::TokioClock};

/// A point in monotonic time, comparable only with others of the same clock.
///
/// On Linux it counts the time since boot, a suspended machine included, which
/// [`std::time::Instant`] does not: a lease must not look valid because the machine slept through
/// its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    pub(crate) const fn since_origin(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; zero if it is before it.
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

    /// Saturates: no instant is ever past the end of time.
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
    /// The present.
    fn now(&self) -> Instant;

    /// The time of day, as far as it is known: since the Unix epoch. Only to be compared with that
    /// of a node, by the hour.
    fn time_of_day(&self) -> Duration;

    /// How late a sleep may end: what must happen *by* an instant is set earlier by this much.
    fn granularity(&self) -> Duration;

    /// Ready at `deadline` or as soon after it as the clock's granularity allows, never before.
    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()>;
}
