//! What ends a command's whole group if redquorum is killed.

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

/// The first argument by which this program knows that it is a guardian.
const NAME: &str = "guard-group";

/// A process beside the command that waits for the end of this one, and then kills the command's
/// group: a process that is killed with SIGKILL can do nothing any more, and the group would work
/// on without a lock.
///
/// It hears of that end by a pipe which only this process holds. So it needs nobody to tell it, and
/// dropping this without [`dismiss`](Self::dismiss) kills the group as well. It is in a group of
/// its own and hears no signals but SIGKILL: what ends all of a session must not end it first.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
}

impl Guardian {
    /// Starts it, with nothing to guard.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`] if no process can be started.
    pub(crate) fn start() -> Result<Self, Failure> {
        let mut process = Command::new(this_program()?);
        process.arg0("redquorum").arg(NAME).process_group(0);
        process.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = process.spawn().map_err(|error| Failure::internal("starting a process", error))?;
        Ok(Self { process })
    }

    /// Tells it which group to kill.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`] if it is not there any more.
    pub(crate) fn guard(&mut self, group: Pid) -> Result<(), Failure> {
        let pipe = self.process.stdin.as_mut();
        let told = pipe.map_or(Ok(()), |pipe| writeln!(pipe, "{group}"));
        told.map_err(|error| Failure::internal("telling the guardian", error))
    }

    /// Whether the process that has ended is the guardian, which is then waited for by whom it may be.
    pub(crate) fn bury(&mut self, dead: Pid) -> bool {
        let is_it = i32::try_from(self.process.id()) == Ok(dead.as_raw());
        is_it && self.process.try_wait().is_ok()
    }

    /// Ends it: there is nothing to guard any more.
    pub(crate) fn dismiss(mut self) {
        // Killed first: by the end of the pipe it would know only one thing.
        if self.process.kill().is_ok() {
            self.process.wait().ok();
        }
    }
}

/// Guards a group, if this process was started as a guardian.
pub(crate) fn guard_if_told() -> Option<Exit> {
    let is_one = std::env::args_os().nth(1).is_some_and(|first| first == NAME);
    is_one.then(|| if guard().is_ok() { Exit::Success } else { Exit::Internal })
}

fn guard() -> io::Result<()> {
    SigSet::all().thread_block()?;
    let mut pipe = stdin().lock();
    let mut group = String::new();
    pipe.read_line(&mut group)?;
    io::copy(&mut pipe, &mut io::sink())?;
    // Nothing was said if the other end was gone before there was a group; 0 and 1 would be other
    // groups than meant.
    match group.trim().parse() {
        Ok(group) if group > 1 => Ok(killpg(Pid::from_raw(group), Signal::SIGKILL)?),
        _ => Ok(()),
    }
}
