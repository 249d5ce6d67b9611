//! The command as a process.

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

use crate::{environment::kept_from_commands, exit::Exit, failure::Failure, supervise::exec_child};

/// A process that leads a group of its own.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    /// Tells that a child has changed, not which and how.
    changes: unix::Signal,
}

/// A change of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildChange {
    Ended(Exit),
    /// By this signal.
    Stopped(Signal),
}

impl Child {
    /// Starts the command: in a group of its own, killed if this process dies (on Linux), and in
    /// the foreground of the terminal if `is_foreground`.
    ///
    /// Between fork and exec only unsafe code could arrange that. So the process begins as this
    /// program once more, which [does it](exec_child) and then becomes the command; it also tells
    /// if there is no such command.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`] if no process can be started.
    pub(crate) fn spawn(
        command: &[OsString],
        variables: &[(&str, OsString)],
        is_foreground: bool,
        is_json: bool,
    ) -> Result<Self, Failure> {
        // Before the process is there, or its end could be missed.
        let changes = signal(SignalKind::child());
        let changes = changes.map_err(|error| Failure::internal("listening to signals", error))?;
        let mut child = Command::new(this_program()?);
        child.arg0("redquorum").arg(exec_child::NAME).args(["--parent", &std::process::id().to_string()]);
        if is_foreground {
            child.arg("--foreground");
        }
        if is_json {
            child.arg("--json");
        }
        for name in kept_from_commands() {
            child.env_remove(name);
        }
        child.arg("--").args(command).envs(variables.iter().map(|(name, value)| (name, value)));
        let child = child.process_group(0).spawn();
        let child = child.map_err(|error| Failure::internal("starting a process", error))?;
        let pid = i32::try_from(child.id()).map_err(|error| Failure::internal("a process id", error))?;
        Ok(Self { pid: Pid::from_raw(pid), changes })
    }

    /// The process group, which has the number of its first process.
    pub(crate) fn group(&self) -> Pid {
        self.pid
    }

    /// Sends a signal to the whole group. That nobody is left there to get it is as good.
    pub(crate) fn signal(&self, signal: Signal) {
        killpg(self.pid, signal).ok();
    }

    /// What becomes of the process next. Its end is told once.
    ///
    /// # Errors
    ///
    /// If the process is not there any more: somebody else has waited for it.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub(crate) async fn changed(&mut self) -> Result<ChildChange, Failure> {
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
                Err(error) => return Err(Failure::internal("waiting for the command", error)),
            }
        }
    }
}

/// This program, also if its file was replaced by another since it was started.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
pub(super) fn this_program() -> Result<std::path::PathBuf, Failure> {
    Ok("/proc/self/exe".into())
}

/// This program.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
pub(super) fn this_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::internal("the file of this program", error))
}
