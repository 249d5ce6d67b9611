//! The teardown after events: what is left to do outside of the world's mutex.

use std::task::Waker;

use tokio::task::AbortHandle;

/// What events leave to be done once the mutex is free: a waker may be anybody's code, and so may
/// what a task drops.
#[derive(Debug, Default)]
#[must_use = "somebody is to be woken"]
pub(super) struct Teardown {
    /// Whom to wake.
    pub(super) woken: Vec<Waker>,
    /// Which tasks to end.
    pub(super) aborted: Vec<AbortHandle>,
    /// Whom nothing will wake any more.
    pub(super) forgotten: Vec<Waker>,
}

impl Teardown {
    pub(super) fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.aborted.is_empty() && self.forgotten.is_empty()
    }

    /// Does it.
    pub(super) fn settle(self) {
        self.aborted.iter().for_each(AbortHandle::abort);
        self.woken.into_iter().for_each(Waker::wake);
    }
}
