//! A timer with a moving deadline.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt};

use crate::clock::{Clock, Instant};

/// A timer that wakes its task at a deadline that moves.
///
/// Under load, each call moves the deadline later. A sleep is kept if it ends before the new deadline. Therefore the
/// clock's timer is set once per node timeout, and not once per call. The end of an early sleep wakes the task without
/// any work to do.
pub(super) struct Timer {
    clock: Arc<dyn Clock>,
    armed: Option<(Instant, BoxFuture<'static, ()>)>,
}

impl Timer {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, armed: None }
    }

    /// Completes at the deadline, or at the earlier deadline of a previous poll. Does not complete without a deadline.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, deadline: Option<Instant>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        let armed = self.armed.take().filter(|(at, _)| *at <= deadline);
        let (at, mut sleep) = armed.unwrap_or_else(|| (deadline, self.clock.sleep_until(deadline)));
        let poll = sleep.poll_unpin(context);
        if poll.is_pending() {
            self.armed = Some((at, sleep));
        }
        poll
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("armed", &self.armed.as_ref().map(|(at, _)| at)).finish_non_exhaustive()
    }
}
