//! One sleep at a time, armed as seldom as possible.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, FutureExt};

use crate::clock::{Clock, Instant};

/// Wakes its task at a deadline that moves.
///
/// Under load the deadline moves later with every call. The armed sleep is kept as long as it is
/// early enough, so that a clock's timer is set once per timeout and not once per call; the price
/// is a wake-up that finds nothing to do.
pub(super) struct Timer {
    clock: Arc<dyn Clock>,
    armed: Option<(Instant, BoxFuture<'static, ()>)>,
}

impl Timer {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, armed: None }
    }

    /// Ready when it is time to look: at the deadline, or at an earlier one that was asked for
    /// before.
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
