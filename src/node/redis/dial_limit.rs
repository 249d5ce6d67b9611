//! The time of a dial.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::clock::Clock;

/// The time in which one server has to be reached, and the clock that measures it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DialLimit<'a> {
    clock: &'a dyn Clock,
    timeout: Duration,
}

impl<'a> DialLimit<'a> {
    pub(super) fn new(clock: &'a dyn Clock, timeout: Duration) -> Self {
        Self { clock, timeout }
    }

    /// Returns the time for what precedes the connection, such as fresh credentials, so that enough time is left for the
    /// connection if nothing fresh arrives.
    pub(super) fn half(&self) -> Duration {
        self.timeout / 2
    }

    /// Waits from now on.
    pub(super) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(self.clock.now() + duration)
    }
}
