//! Time: the only access of this crate to clocks and sleeps.
//!
//! The decisions of the protocol receive the time as an argument, and the simulator provides clocks of its own.
//! `clippy.toml` forbids any other access.

use std::{fmt, time::Duration};

use futures::future::BoxFuture;

mod boot;
mod boot_time;
mod instant;
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
    instant::Instant,
    virtual_time::{TokioClock, has_timers},
};

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
