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
/// The command has its own process group, and only the foreground group may read from a terminal. If
/// standard input and output are the terminal, the command's group becomes the foreground group, and
/// receives typed keys (Ctrl-C, Ctrl-Z) directly. In a pipeline the foreground stays unchanged, because
/// a pager behind the command reads from the terminal, too.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    own_group: Pid,
    is_lent: bool,
}

impl Terminal {
    /// Returns the terminal; `None` in the background, or without a terminal.
    pub(crate) fn of_job() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let own_group = getpgrp();
        let is_foreground = tcgetpgrp(&tty) == Ok(own_group);
        let is_lent = stdin().is_terminal() && stdout().is_terminal();
        is_foreground.then_some(Self { tty, own_group, is_lent })
    }

    /// Whether the command gets the terminal for as long as it runs.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Lends the terminal to the command again, if this process has the foreground.
    pub(crate) fn lend(&self, group: Pid) {
        if self.is_lent && tcgetpgrp(&self.tty) == Ok(self.own_group) {
            put_into_foreground(&self.tty, group);
        }
    }

    /// Takes the terminal back, if the command has the foreground.
    pub(crate) fn take_back(&self, group: Pid) {
        if self.is_lent && tcgetpgrp(&self.tty) == Ok(group) {
            put_into_foreground(&self.tty, self.own_group);
        }
    }

    /// Stops the whole job after a stop of the command: this process, and the processes that the shell
    /// started with it. Returns when the job is continued.
    ///
    /// Without a shell to continue the job, a Ctrl-Z is undone. The system ignores Ctrl-Z in a group
    /// without a waiting shell, but takes this process for the shell of the command. A command that
    /// was stopped in another way waits for the process that stopped it.
    pub(crate) fn on_stopped(&self, group: Pid, by: Signal) {
        if !self.has_shell() {
            if by == Signal::SIGTSTP {
                self.lend(group);
                killpg(group, Signal::SIGCONT).ok();
            }
            return;
        }
        self.take_back(group);
        // SIGSTOP, because the own handler would receive SIGTSTP. The whole group, because a script
        // that waits for this process has to stop as well.
        killpg(self.own_group, Signal::SIGSTOP).ok();
    }

    /// Whether a shell with job control waits for this job. Such a shell is in the same session and
    /// gives each job its own group. The first group of a session is no job, and a parent in another
    /// session (or none, as for process 1) is no shell of this job.
    fn has_shell(&self) -> bool {
        let Ok(session) = getsid(None) else { return false };
        let parent = getppid();
        // 0 is a parent outside of this process namespace; `getsid` of 0 is the own session.
        self.own_group != session && parent.as_raw() != 0 && getsid(Some(parent)) == Ok(session)
    }
}

/// Puts a process group into the foreground of its terminal, from the foreground or background.
///
/// SIGTTOU is blocked meanwhile, because the system would stop a background process with that signal.
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
