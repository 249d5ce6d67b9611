//! The spawners of the tasks of a client: a tokio runtime, or a simulated process that can be paused and killed.

use std::fmt;

use futures::future::{BoxFuture, FutureExt};
use tokio::{runtime::Handle, task::AbortHandle};

use crate::process::{HomeProcess, InHomeProcess};

/// Starts the tasks of one client.
pub(crate) trait Spawner: fmt::Debug + Send + Sync {
    /// Runs the task until it is done or aborted.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle;
}

impl Spawner for Handle {
    /// Spawns the task on this runtime. If a forked process continues or drops its copy of the runtime, the task
    /// neither uses nor closes the connections there, which the original process still uses.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle {
        let task = InHomeProcess::new(HomeProcess::current(), task);
        Self::spawn(self, task.map(drop)).abort_handle()
    }
}

/// Whether IO is enabled in the current runtime. Without IO, no connection can be opened.
///
/// Tokio has no function that returns this. If IO is disabled, tokio panics at the first use of IO.
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
