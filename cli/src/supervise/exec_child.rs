//! What a command is before it is the command: this program once more.

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::process::CommandExt,
    process::Command,
};

use clap::Parser;
use nix::unistd::{Pid, getppid};

use crate::{exit::Exit, failure::Failure, supervise::terminal};

/// The first argument by which this program knows that it is to become a command. It is for itself
/// alone, so it is no subcommand, which help and completions would know of.
pub(crate) const NAME: &str = "exec-child";

/// What it is told.
#[derive(Debug, Parser)]
#[command(name = NAME)]
pub(crate) struct ExecChild {
    /// The process that has started this one.
    #[arg(long)]
    parent: i32,
    /// Take the terminal.
    #[arg(long)]
    foreground: bool,
    /// Say errors as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// What to become.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl ExecChild {
    /// What it is told, if this process is one.
    pub(crate) fn of_this_process() -> Option<Self> {
        let mut arguments = std::env::args_os().skip(1).peekable();
        let is_one = arguments.peek().is_some_and(|first| first == NAME);
        is_one.then(|| Self::parse_from(arguments))
    }

    /// Becomes the command.
    ///
    /// # Errors
    ///
    /// [`Exit::NotFound`] or [`Exit::NotExecutable`] if it cannot.
    pub(crate) fn perform(&self) -> Result<Infallible, Failure> {
        self.die_with_parent()?;
        if self.foreground {
            terminal::come_into_foreground();
        }
        let mut words = self.command.iter();
        let program = words.next().map_or_else(|| OsStr::new(""), OsString::as_os_str);
        let error = Command::new(program).args(words).exec();
        let exit = if error.kind() == ErrorKind::NotFound { Exit::NotFound } else { Exit::NotExecutable };
        Err(Failure::new(exit, format!("{}: {error}", program.display())))
    }

    /// Has the kernel kill this process when its parent dies, whatever it becomes.
    fn die_with_parent(&self) -> Result<(), Failure> {
        #[cfg(all(target_os = "linux", not(redquorum_portable)))]
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
            .map_err(|error| Failure::internal("being killed with the parent", error))?;
        // It may have died before that: then nobody keeps the lease any more.
        if getppid() == Pid::from_raw(self.parent) {
            Ok(())
        } else {
            Err(Failure::new(Exit::Internal, "the parent is gone, and the lock with it"))
        }
    }
}
