//! Spawners of tasks: on a tokio runtime, or in a simulated process that can be paused and killed.

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
    /// Spawns the task on this runtime. If a forked process continues or drops its copy of the runtime, the task neither
    /// uses nor closes the connections there, which the original process still uses.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> AbortHandle {
        let task = InHomeProcess::new(HomeProcess::current(), task);
        Self::spawn(self, task.map(drop)).abort_handle()
    }
}

/// Whether the current runtime has its IO enabled, without which no connection can be opened.
///
/// Tokio has no question for this, and panics at the first use of IO.
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
    // An error of the system is no sign: the dials report it.
    std::panic::catch_unwind(probe).is_ok()
}
