//! The work of events that must wait until the mutex of the world is released.

use std::task::Waker;

use tokio::task::AbortHandle;

/// Wakers and tasks to handle outside of the mutex, because wakers and the destructors of tasks may
/// run any code.
#[derive(Debug, Default)]
#[must_use = "tasks are to be woken"]
pub(super) struct Teardown {
    /// The tasks to wake.
    pub(super) woken: Vec<Waker>,
    /// The tasks to abort.
    pub(super) aborted: Vec<AbortHandle>,
    /// The wakers to drop, of closed connections.
    pub(super) forgotten: Vec<Waker>,
}

impl Teardown {
    pub(super) fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.aborted.is_empty() && self.forgotten.is_empty()
    }

    /// Aborts and wakes the tasks.
    pub(super) fn settle(self) {
        self.aborted.iter().for_each(AbortHandle::abort);
        self.woken.into_iter().for_each(Waker::wake);
    }
}
