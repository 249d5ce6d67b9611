//! Who may read from the terminal.

use std::{
    fs::File,
    io::{IsTerminal, stdin, stdout},
};

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal, killpg},
    unistd::{Pid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp},
};

/// The terminal in whose foreground this process was started, as a job of a shell.
///
/// The command has a process group of its own, and only the foreground group may read from a
/// terminal. So where standard input and output are the terminal, the command's group is put there,
/// and what is typed (Ctrl-C, Ctrl-Z) goes to it directly. In a pipeline the terminal stays with
/// those whom the shell gave it to: a pager behind the command reads from it too.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    own_group: Pid,
    is_lent: bool,
}

impl Terminal {
    /// `None` in the background, and where there is no terminal.
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

    /// Lends the terminal to the command again, if the shell has given it back to us.
    pub(crate) fn lend(&self, group: Pid) {
        if self.is_lent && tcgetpgrp(&self.tty) == Ok(self.own_group) {
            put_into_foreground(&self.tty, group);
        }
    }

    /// Takes the terminal back from the command, unless somebody else has it by now.
    pub(crate) fn take_back(&self, group: Pid) {
        if self.is_lent && tcgetpgrp(&self.tty) == Ok(group) {
            put_into_foreground(&self.tty, self.own_group);
        }
    }

    /// Does to the whole job what has been done to the command: stops this process, and those that
    /// the shell has started with it, and returns when somebody continues it.
    ///
    /// Where there is nobody who would, a Ctrl-Z is undone: the system has none in a group without
    /// a shell that waits for it, but takes us for the shell of the command. A process that was
    /// stopped in any other way waits for the one that has stopped it.
    pub(crate) fn stopped(&self, group: Pid, by: Signal) {
        if !self.has_shell() {
            if by == Signal::SIGTSTP {
                self.lend(group);
                killpg(group, Signal::SIGCONT).ok();
            }
            return;
        }
        self.take_back(group);
        // Not SIGTSTP: our own handler would get it, and a script that waits for us has to be
        // stopped as well.
        killpg(self.own_group, Signal::SIGSTOP).ok();
    }

    /// Whether somebody waits for this job to stop: a shell with job control, which is in our
    /// session and gives each job a group of its own. The first group of a session is no job, and a
    /// parent in another session (or none, as process 1 has) is no shell of ours.
    fn has_shell(&self) -> bool {
        let Ok(session) = getsid(None) else { return false };
        let parent = getppid();
        // 0: a parent that cannot be seen from here; asked of it, the system would tell of
        // ourselves.
        self.own_group != session && parent.as_raw() != 0 && getsid(Some(parent)) == Ok(session)
    }
}

/// Puts a process group into the foreground of its terminal, from wherever this process is.
///
/// From the background that is answered with SIGTTOU, which stops a process, unless it is blocked.
fn put_into_foreground(tty: &File, group: Pid) {
    let mut ttou = SigSet::empty();
    ttou.add(Signal::SIGTTOU);
    if let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) {
        // Somebody may have hung up meanwhile; then there is no foreground either.
        tcsetpgrp(tty, group).ok();
        before.thread_set_mask().ok();
    }
}

/// Puts the group of this process into the foreground.
pub(crate) fn come_into_foreground() {
    if let Ok(tty) = File::options().read(true).write(true).open("/dev/tty") {
        put_into_foreground(&tty, getpgrp());
    }
}
