//! The spawners of the tasks of a client: a tokio runtime, or a simulated process that can be paused and killed.

use std::{fmt, future::pending};

use futures::future::{BoxFuture, FutureExt};
use tokio::{runtime::Handle, task::AbortHandle};

use crate::process::{HomeProcess, InHomeProcess};

/// Starts the tasks of one client.
pub(crate) trait Spawner: fmt::Debug + Send + Sync {
    /// Runs the task until it is done or aborted.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle;

    /// Whether no task runs any more, because the runtime has ended or is ending.
    fn has_ended(&self) -> bool;
}

impl Spawner for Handle {
    /// Spawns the task on this runtime. If a forked process continues or drops its copy of the runtime, the task
    /// neither uses nor closes the connections there, which the original process still uses.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle {
        let task = InHomeProcess::new(HomeProcess::current(), task);
        Self::spawn(self, task.map(drop)).abort_handle()
    }

    /// Tokio has no function that returns this. A runtime refuses new tasks before it drops the first task, so a task
    /// that is finished at its start shows that the runtime has ended. The probe does not depend on the order in which
    /// the runtime drops the tasks of a client.
    fn has_ended(&self) -> bool {
        let probe = Self::spawn(self, pending::<()>());
        let has_ended = probe.is_finished();
        probe.abort();
        has_ended
    }
}

/// Whether IO is enabled in the current runtime. Without IO, no connection can be opened.
///
/// Tokio has no function that returns this. If IO is disabled, tokio panics at the first use of IO. In a program with
/// `panic = "abort"`, or with a panic hook that ends the process, this panic ends the process, as the first dial would.
pub(crate) fn has_io() -> bool {
    #[cfg(unix)]
    let probe = || drop(tokio::net::UnixDatagram::unbound());
    #[cfg(not(unix))]
    let probe = || {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
            socket.set_nonblocking(true)?;
            tokio::net::UdpSocket::from_std(socket)
        });
        drop(socket);
    };
    // An error of the system does not mean that IO is disabled. The dials report that error.
    std::panic::catch_unwind(probe).is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Handle};

    use super::Spawner;

    #[test]
    fn a_runtime_has_ended_from_its_drop_on() {
        let single = || Builder::new_current_thread().build().unwrap();
        let multi = || Builder::new_multi_thread().worker_threads(1).build().unwrap();
        for runtime in [single(), multi()] {
            let handle: Handle = runtime.handle().clone();
            assert!(!Spawner::has_ended(&handle));
            drop(runtime);
            assert!(Spawner::has_ended(&handle));
        }
    }
}
