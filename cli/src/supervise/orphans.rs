//! The orphaned processes that redquorum has to reap if it is the first process of a container.

use std::convert::Infallible;

use nix::{
    sys::wait::{WaitPidFlag, waitpid},
    unistd::Pid,
};
use tokio::signal::unix::{self, SignalKind, signal};

use super::guardian::Guardian;
use crate::failure::Failure;

/// The orphans of this process: processes whose parent ended before them.
///
/// The system makes orphans children of the first process of a container, or of a process that was made a subreaper
/// before it ran this program. Only this process can reap them, and an unreaped process occupies a process id.
#[derive(Debug)]
pub(crate) struct Orphans {
    /// The receiver of SIGCHLD; `None` if another process receives the orphans.
    changes: Option<unix::Signal>,
}

impl Orphans {
    /// Checks whether this process receives orphans.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`](crate::exit::Exit::Internal) if the system refuses to deliver SIGCHLD.
    pub(crate) fn of_this_process() -> Result<Self, Failure> {
        let changes = is_reaper().then(|| signal(SignalKind::child())).transpose();
        Ok(Self { changes: changes.map_err(|error| Failure::internal("register signals", error))? })
    }

    /// Reaps orphans and the guardian, until the future is dropped. The command is not reaped here, because
    /// [`Child`](super::child::Child) waits for it.
    pub(crate) async fn reap(
        &mut self,
        command: Option<Pid>,
        mut guardian: Option<&mut Guardian>,
    ) -> Infallible {
        let Some(changes) = &mut self.changes else { return std::future::pending().await };
        loop {
            while let Some(dead) = dead_child().filter(|dead| Some(*dead) != command) {
                let is_guardian = guardian.as_mut().is_some_and(|guardian| guardian.reap(dead));
                if !is_guardian && waitpid(dead, Some(WaitPidFlag::WNOHANG)).is_err() {
                    break;
                }
            }
            if changes.recv().await.is_none() {
                return std::future::pending().await;
            }
        }
    }
}

/// Whether the system gives orphans to this process.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
fn is_reaper() -> bool {
    Pid::this().as_raw() == 1 || nix::sys::prctl::get_child_subreaper() == Ok(true)
}

/// Returns a child that has ended and is not reaped yet. The child stays unreaped.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
fn dead_child() -> Option<Pid> {
    use nix::sys::wait::{Id, waitid};
    waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT).ok()?.pid()
}

/// Whether the system gives orphans to this process. Containers need Linux.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
fn is_reaper() -> bool {
    false
}

#[cfg(any(not(target_os = "linux"), redquorum_portable))]
fn dead_child() -> Option<Pid> {
    None
}
