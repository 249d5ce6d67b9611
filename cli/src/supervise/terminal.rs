//! The terminal of a job, and its foreground process group.

use std::{
    fs::File,
    io::{IsTerminal, stdin, stdout},
};

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal, killpg},
    unistd::{Pid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp},
};

/// The terminal of this process, if a shell started the process as a job in the foreground.
///
/// The command has its own process group, and only the foreground group may read from a terminal. If standard input and
/// output are terminals, the terminal is lent to the command: its group becomes the foreground group, and receives the
/// signals of typed keys (Ctrl-C, Ctrl-Z) directly. In a pipeline, the foreground stays unchanged, because another
/// program of the pipeline, such as a pager, may read from the terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    own_group: Pid,
    is_lendable: bool,
}

impl Terminal {
    /// Returns the terminal; `None` in the background, or without a terminal.
    pub(crate) fn of_job() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let own_group = getpgrp();
        let is_foreground = tcgetpgrp(&tty) == Ok(own_group);
        let is_lendable = stdin().is_terminal() && stdout().is_terminal();
        is_foreground.then_some(Self { tty, own_group, is_lendable })
    }

    /// Whether the terminal is lent to the command while the command runs.
    pub(crate) fn is_lendable(&self) -> bool {
        self.is_lendable
    }

    /// Lends the terminal to the command's group, if this process has the foreground.
    pub(crate) fn lend(&self, group: Pid) {
        if self.is_lendable && tcgetpgrp(&self.tty) == Ok(self.own_group) {
            put_into_foreground(&self.tty, group);
        }
    }

    /// Takes the terminal back from the command's group, if that group has the foreground.
    pub(crate) fn take_back(&self, group: Pid) {
        if self.is_lendable && tcgetpgrp(&self.tty) == Ok(group) {
            put_into_foreground(&self.tty, self.own_group);
        }
    }

    /// Handles a stop of the command by a signal. Stops the whole job: this process, and the processes that the shell
    /// started with this process. Returns when the shell continues the job.
    ///
    /// Without a shell, no process would continue the job, so a command that Ctrl-Z stopped is continued at once.
    /// Usually the system ignores Ctrl-Z if no shell waits, but here it treats this process as the shell of the
    /// command. A command that another signal stopped stays stopped, because the sender of the signal can continue the
    /// command.
    pub(crate) fn on_stopped(&self, group: Pid, by: Signal) {
        if !self.has_shell() {
            if by == Signal::SIGTSTP {
                self.lend(group);
                killpg(group, Signal::SIGCONT).ok();
            }
            return;
        }
        self.take_back(group);
        // The signal is SIGSTOP, because this process handles SIGTSTP. The signal is sent to the whole group, because a
        // script that waits for this process has to stop as well.
        killpg(self.own_group, Signal::SIGSTOP).ok();
    }

    /// Whether a shell with job control waits for this job. A shell with job control is the parent of the job, is in
    /// the same session, and gives each job a group of its own. The first group of a session is therefore no job.
    fn has_shell(&self) -> bool {
        let Ok(session) = getsid(None) else { return false };
        let parent = getppid();
        // The id 0 stands for a parent outside of this process namespace, or for no parent. It has to be excluded,
        // because `getsid` of 0 returns this process's own session.
        self.own_group != session && parent.as_raw() != 0 && getsid(Some(parent)) == Ok(session)
    }
}

/// Puts a process group into the foreground of its terminal, from the foreground or background.
///
/// SIGTTOU is blocked during the call, because the system would stop a background process with this signal.
fn put_into_foreground(tty: &File, group: Pid) {
    let mut ttou = SigSet::empty();
    ttou.add(Signal::SIGTTOU);
    if let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
        // A terminal that hung up has no foreground, so errors are ignored.
        tcsetpgrp(tty, group).ok();
        before.thread_set_mask().ok();
    }
}

/// Puts the group of this process into the foreground.
pub(crate) fn enter_foreground() {
    if let Ok(tty) = File::options().read(true).write(true).open("/dev/tty") {
        put_into_foreground(&tty, getpgrp());
    }
}
