//! The runtimes behind a group.

use std::time::Duration;

use crate::blocking::runtime::{self, Runtime};

/// The runtimes of the quorums that a group lies in, one for each. Futures are awaited on the
/// first: each quorum's own wakes what concerns it.
///
/// An empty group has none. It is refused at its first use, before anything is waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Runtimes {
    runtimes: Vec<Runtime>,
}

impl Runtimes {
    pub(super) fn add(&mut self, runtime: Runtime) {
        if !self.runtimes.iter().any(|known| known.is_same(&runtime)) {
            self.runtimes.push(runtime);
        }
    }

    /// As [`Runtime::wait`].
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        match self.runtimes.first() {
            Some(runtime) => runtime.wait(future),
            None => runtime::wait(future),
        }
    }

    /// As [`Runtime::wait_for`].
    pub(super) fn wait_for<F: Future>(&self, patience: Duration, future: F) -> Option<F::Output> {
        self.runtimes.first()?.wait_for(patience, future)
    }

    /// As [`Runtime::look`].
    pub(super) fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        match self.runtimes.first() {
            Some(runtime) => runtime.look(look),
            None => look(),
        }
    }
}

impl From<Runtime> for Runtimes {
    fn from(runtime: Runtime) -> Self {
        Self { runtimes: vec![runtime] }
    }
}
