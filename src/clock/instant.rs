//! Points in time.

use std::{fmt, ops::Add, time::Duration};

/// A point in monotonic time, comparable only with instants of the same clock.
///
/// On Linux, an instant of a `BootClock` counts the time since boot, including suspended time. Without suspended time, a
/// lease would seem valid although the machine was suspended beyond the end of the lease. Therefore this type replaces
/// [`std::time::Instant`], which excludes suspended time there.
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
