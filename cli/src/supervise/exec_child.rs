//! The first part of the command's process, which runs this program until the exec of the command.

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::process::CommandExt,
    process::Command,
};

use clap::Parser;
use nix::unistd::{Pid, getppid};

use crate::{exit::Exit, failure::Failure, name, supervise::terminal};

/// The first argument of a process that is to become a command. The argument is no subcommand, so that help and
/// completions do not list it.
pub(crate) const NAME: &str = "exec-child";

/// The arguments of a process that is to become a command.
#[derive(Debug, Parser)]
#[command(name = NAME)]
pub(crate) struct ExecChild {
    /// The process id of the parent.
    #[arg(long)]
    parent: i32,
    /// Whether to take the foreground of the terminal.
    #[arg(long)]
    foreground: bool,
    /// Whether to print errors as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl ExecChild {
    /// Returns the arguments; `None` if this process is not to become a command.
    pub(crate) fn of_this_process() -> Option<Self> {
        let mut arguments = std::env::args_os().skip(1).peekable();
        let is_exec_child = arguments.peek().is_some_and(|first| first == NAME);
        is_exec_child.then(|| Self::parse_from(arguments))
    }

    /// Replaces this process by the command.
    ///
    /// # Errors
    ///
    /// [`Exit::NotFound`] or [`Exit::NotExecutable`] if the command cannot be executed.
    pub(crate) fn perform(&self) -> Result<Infallible, Failure> {
        self.die_with_parent()?;
        if self.foreground {
            terminal::enter_foreground();
        }
        let mut words = self.command.iter();
        let program = words.next().map_or_else(|| OsStr::new(""), OsString::as_os_str);
        let error = Command::new(program).args(words).exec();
        let (exit, remedy) = match error.kind() {
            ErrorKind::NotFound => (Exit::NotFound, "correct the name, PATH, or the script's interpreter"),
            _ => (Exit::NotExecutable, "name an executable file"),
        };
        Err(Failure::new(exit, format!("{}: {error}: {remedy}", name::shown_path(program))))
    }

    /// Requests that the kernel kills this process when its parent dies, before and after the exec.
    fn die_with_parent(&self) -> Result<(), Failure> {
        #[cfg(all(target_os = "linux", not(redquorum_portable)))]
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
            .map_err(|error| Failure::internal("request a signal for the end of the parent", error))?;
        // A parent that died before this request does not renew the lease any more.
        if getppid() == Pid::from_raw(self.parent) {
            Ok(())
        } else {
            let message = "redquorum ended before its command was started, so the command was not run: the lock ends \
                           with its ttl";
            Err(Failure::new(Exit::Internal, message))
        }
    }
}
