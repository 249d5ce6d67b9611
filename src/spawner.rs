//! Spawners of tasks: on a tokio runtime, or in a simulated process that can be paused and killed.

use std::fmt;

use futures::future::BoxFuture;
use tokio::{runtime::Handle, task::AbortHandle};

/// Starts the tasks of one client.
pub(crate) trait Spawner: fmt::Debug + Send + Sync {
    /// Runs the task until it is done or aborted.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle;
}

impl Spawner for Handle {
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle {
        Self::spawn(self, task).abort_handle()
    }
}
