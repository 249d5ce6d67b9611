//! The limit of time for a dial.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::clock::Clock;

/// The time in which a dial must reach one server, and the clock that measures the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct DialLimit<'a> {
    clock: &'a dyn Clock,
    timeout: Duration,
}

impl<'a> DialLimit<'a> {
    pub(super) fn new(clock: &'a dyn Clock, timeout: Duration) -> Self {
        Self { clock, timeout }
    }

    /// Returns half of the time, which is the limit for reading credentials, and likewise certificates. If this fails,
    /// the dial uses the last values, and time must be left for the connection.
    pub(super) fn half(&self) -> Duration {
        self.timeout / 2
    }

    /// Waits for this duration from now on.
    pub(super) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(self.clock.now() + duration)
    }
}
