//! The clock of all histories: the time since the machine started, which every process of the machine reads alike.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// An instant in nanoseconds since the start of the machine. The clock also counts while the machine is suspended, as
/// the clock of the library does.
pub(crate) type Nanoseconds = i64;

/// Returns the present instant.
pub(crate) fn now() -> Nanoseconds {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Returns a duration in nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> Nanoseconds {
    duration.as_nanos().try_into().unwrap_or(Nanoseconds::MAX)
}
