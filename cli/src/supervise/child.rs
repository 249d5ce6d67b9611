//! The process of the command: its start, its signals and its end.

use std::{ffi::OsString, os::unix::process::CommandExt, process::Command};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::{environment::removed_for_commands, exit::Exit, failure::Failure, supervise::exec_child};

/// The process of the command, which leads its own process group.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    /// The receiver of SIGCHLD, which names neither the child nor the change.
    changes: unix::Signal,
}

/// A change of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildChange {
    /// The end, with the exit status.
    Ended(Exit),
    /// A stop by this signal.
    Stopped(Signal),
}

impl Child {
    /// Starts the command: in its own process group, killed if this process dies (on Linux), and in
    /// the foreground of the terminal if `is_foreground`.
    ///
    /// The signal for the death of the parent and the foreground have to be set between fork and exec, which needs
    /// unsafe code in Rust. Therefore the new process first runs this program again, [sets both](exec_child), and then
    /// becomes the command. If the command does not exist, the new process reports the failure.
    ///
    /// # Errors
    ///
    /// [`Exit::System`] if no process can be started.
    pub(crate) fn spawn(
        command: &[OsString],
        variables: &[(&str, OsString)],
        is_foreground: bool,
        is_json: bool,
    ) -> Result<Self, Failure> {
        // The receiver is registered before the start, so that the end of the process is not missed.
        let changes = signal(SignalKind::child());
        let changes = changes.map_err(|error| Failure::internal("register signals", error))?;
        let mut child = Command::new(this_program()?);
        child.arg0("redquorum").arg(exec_child::NAME).args(["--parent", &std::process::id().to_string()]);
        if is_foreground {
            child.arg("--foreground");
        }
        if is_json {
            child.arg("--json");
        }
        for name in removed_for_commands() {
            child.env_remove(name);
        }
        child.arg("--").args(command).envs(variables.iter().map(|(name, value)| (name, value)));
        let child = child.process_group(0).spawn();
        let child = child.map_err(|error| Failure::not_started("a process", &error))?;
        let pid =
            i32::try_from(child.id()).map_err(|error| Failure::internal("use the process id", error))?;
        Ok(Self { pid: Pid::from_raw(pid), changes })
    }

    /// Returns the process group, which has the id of its first process.
    pub(crate) fn group(&self) -> Pid {
        self.pid
    }

    /// Sends a signal to the whole group. An empty group is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        killpg(self.pid, signal).ok();
    }

    /// Waits for the next change of the process. The end is returned once, and later calls fail.
    ///
    /// # Errors
    ///
    /// A process that does not exist any more, because other code has reaped it.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses no change.
    pub(crate) async fn next_change(&mut self) -> Result<ChildChange, Failure> {
        loop {
            match waitpid(self.pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Exited(_, code)) => {
                    return Ok(ChildChange::Ended(Exit::Command(code.try_into().unwrap_or(u8::MAX))));
                }
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    return Ok(ChildChange::Ended(Exit::Signal(signal as u8)));
                }
                Ok(WaitStatus::Stopped(_, by)) => return Ok(ChildChange::Stopped(by)),
                Ok(_) => drop(self.changes.recv().await),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(Failure::internal("wait for the command", error)),
            }
        }
    }
}

/// Returns a path of this program that stays valid if the file is replaced while the program runs.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
pub(super) fn this_program() -> Result<std::path::PathBuf, Failure> {
    Ok("/proc/self/exe".into())
}

/// Returns the path of this program.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
pub(super) fn this_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::internal("find the file of this program", error))
}
