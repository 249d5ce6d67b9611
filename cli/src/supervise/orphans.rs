//! What the first process of a container owes the others.

use std::convert::Infallible;

use nix::{
    sys::wait::{WaitPidFlag, waitpid},
    unistd::Pid,
};
use tokio::signal::unix::{self, SignalKind, signal};

use super::guardian::Guardian;
use crate::failure::Failure;

/// Buries processes whose parent has ended before them, where the system gives them to this one: to
/// the first process of a container, or to one that was made their reaper before it was this program.
/// Nobody else would, and each that has ended takes a place among the processes there may be.
#[derive(Debug)]
pub(crate) struct Orphans {
    /// `None`: they are given to another process.
    changes: Option<unix::Signal>,
}

impl Orphans {
    /// Finds out whether they come here.
    ///
    /// # Errors
    ///
    /// If the system does not tell when a process ends.
    pub(crate) fn of_this_process() -> Result<Self, Failure> {
        let changes = is_heir().then(|| signal(SignalKind::child())).transpose();
        Ok(Self { changes: changes.map_err(|error| Failure::internal("listening to signals", error))? })
    }

    /// Buries them for as long as it is polled, but not the command, whose end somebody waits for.
    pub(crate) async fn bury(
        &mut self,
        command: Option<Pid>,
        mut guardian: Option<&mut Guardian>,
    ) -> Infallible {
        let Some(changes) = &mut self.changes else { return std::future::pending().await };
        loop {
            while let Some(dead) = dead().filter(|dead| Some(*dead) != command) {
                let is_guardian = guardian.as_mut().is_some_and(|guardian| guardian.bury(dead));
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

#[cfg(all(target_os = "linux", not(redquorum_portable)))]
fn is_heir() -> bool {
    Pid::this().as_raw() == 1 || nix::sys::prctl::get_child_subreaper() == Ok(true)
}

/// A process that has ended and that nobody has waited for, which it stays.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
fn dead() -> Option<Pid> {
    use nix::sys::wait::{Id, waitid};
    waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT).ok()?.pid()
}

/// Containers are of Linux.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
fn is_heir() -> bool {
    false
}

#[cfg(any(not(target_os = "linux"), redquorum_portable))]
fn dead() -> Option<Pid> {
    None
}
