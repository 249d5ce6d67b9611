//! The process that kills the command's group if redquorum dies.
//!
//! ```text
//!   redquorum ── pipe ──► guardian    a line: the group
//!                                     end of the pipe: kills the group
//!                                     SIGKILL (dismissed): ends without killing
//! ```

use std::{
    io::{self, BufRead, Write, stdin},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{SigSet, Signal, killpg},
    unistd::Pid,
};

use crate::{exit::Exit, failure::Failure, supervise::child::this_program};

/// The first argument of the guardian process.
const NAME: &str = "guard-group";

/// The handle of the guardian, a process beside the command. If redquorum ends, the guardian kills the
/// command's group. Without a guardian, the group would continue without a lock after a SIGKILL of
/// redquorum.
///
/// Only this process has the writing end of the pipe, so the pipe is closed however this process ends. Dropping
/// the handle without [`dismiss`](Self::dismiss) also closes the pipe, and so kills the group. The guardian has its own
/// process group and blocks all signals except SIGKILL, so that a signal to a whole session does not end the
/// guardian before redquorum.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
}

impl Guardian {
    /// Starts the guardian, which kills nothing until [`guard`](Self::guard) names a group.
    ///
    /// # Errors
    ///
    /// [`Exit::System`] if no process can be started.
    pub(crate) fn start() -> Result<Self, Failure> {
        let mut process = Command::new(this_program()?);
        process.arg0("redquorum").arg(NAME).process_group(0);
        process.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = process.spawn().map_err(|error| Failure::not_started("a process", &error))?;
        Ok(Self { process })
    }

    /// Sends the id of the group to the guardian.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`] if the guardian does not exist any more.
    pub(crate) fn guard(&mut self, group: Pid) -> Result<(), Failure> {
        let pipe = self.process.stdin.as_mut();
        let written = pipe.map_or(Ok(()), |pipe| writeln!(pipe, "{group}"));
        written.map_err(|error| Failure::internal("send the group to the guardian", error))
    }

    /// Reaps the guardian if `dead` is the guardian. Returns false if `dead` is another process.
    pub(crate) fn reap(&mut self, dead: Pid) -> bool {
        let is_guardian = i32::try_from(self.process.id()) == Ok(dead.as_raw());
        is_guardian && self.process.try_wait().is_ok()
    }

    /// Ends the guardian without killing the group.
    pub(crate) fn dismiss(mut self) {
        // The kill has to precede the end of the pipe, at which the guardian kills the group.
        if self.process.kill().is_ok() {
            self.process.wait().ok();
        }
    }
}

/// Guards a group until the parent ends, if this process was started as a guardian. Otherwise returns `None`.
pub(crate) fn guard_if_requested() -> Option<Exit> {
    let is_guardian = std::env::args_os().nth(1).is_some_and(|first| first == NAME);
    is_guardian.then(|| if guard().is_ok() { Exit::Success } else { Exit::Internal })
}

fn guard() -> io::Result<()> {
    SigSet::all().thread_block()?;
    let mut pipe = stdin().lock();
    let mut group = String::new();
    pipe.read_line(&mut group)?;
    io::copy(&mut pipe, &mut io::sink())?;
    // The line is empty if redquorum ended before the command was started. The number 0 would stand for the guardian's
    // own group, and 1 for every process.
    match group.trim().parse() {
        Ok(group) if group > 1 => Ok(killpg(Pid::from_raw(group), Signal::SIGKILL)?),
        _ => Ok(()),
    }
}
