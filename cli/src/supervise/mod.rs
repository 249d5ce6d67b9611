//! The supervision of a command that must not outlive its lease.
//!
//! ```text
//!   time left of the lease ──► Rule ──► SIGTERM, SIGKILL or a notice
//!   signals to redquorum ─────────────► passed on to the command's group
//!   the command ended ────────────────► exit status; after a SIGTERM or SIGKILL of the rule, the
//!                                       rest of the group is killed
//!   the command stopped (Ctrl-Z) ─────► the whole job stops
//!   redquorum died ───────────────────► the guardian kills the group
//! ```
//!
//! [`Rule`] decides, and [`Job`] performs. The loop waits for time, the command and signals
//! only, because a slow terminal or disk must not delay a signal.

use std::{ffi::OsString, time::Duration};

use nix::sys::signal::Signal;
use redquorum::Lease;

use self::{
    child::{Child, ChildChange},
    guardian::Guardian,
    orphans::Orphans,
    rule::{Rule, RuleStep},
    signals::Signals,
    terminal::Terminal,
};
use crate::{app::App, exit::Exit, failure::Failure};

mod child;
pub(crate) mod exec_child;
pub(crate) mod guardian;
pub(crate) mod orphans;
pub(crate) mod rule;
pub(crate) mod signals;
mod terminal;

/// A command to be run under a lease.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) command: &'a [OsString],
    /// The variables that are added to the environment.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    pub(crate) rule: Rule,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobEnd {
    pub(crate) exit: Exit,
    /// Whether the rule sent SIGTERM or SIGKILL for the lease.
    pub(crate) is_stopped: bool,
    /// Whether redquorum received SIGTERM or SIGINT, and passed the signal on.
    pub(crate) is_demanded: bool,
}

impl Job<'_> {
    /// Runs the command and returns when it has ended. If the lease is about to end, the rule stops the
    /// command before.
    ///
    /// # Errors
    ///
    /// [`Exit::LeaseLost`] if the lease ends too soon to start the command; [`Exit::Internal`] if no
    /// process can be started.
    ///
    /// # Cancel safety
    ///
    /// The future must not be dropped: the command would run on without supervision.
    pub(crate) async fn run(
        self,
        lease: &Lease,
        signals: &mut Signals,
        app: &App,
    ) -> Result<JobEnd, Failure> {
        let Self { command, variables, mut rule } = self;
        // This process may have been stopped or suspended since the lock was acquired.
        if rule.at(lease.remaining()).is_some() {
            let message = "the lease ended before the command was started, as this process or its machine was \
                           stopped or slow: run it again";
            return Err(Failure::new(Exit::LeaseLost, message));
        }
        let terminal = Terminal::of_job();
        let is_foreground = terminal.as_ref().is_some_and(Terminal::is_lent);
        let mut orphans = Orphans::of_this_process()?;
        let mut guardian = Guardian::start()?;
        let mut child = Child::spawn(command, &variables, is_foreground, app.general.json)?;
        if let Err(failure) = guardian.guard(child.group()) {
            // The command must not run without a guardian.
            child.signal(Signal::SIGKILL);
            while let Ok(ChildChange::Stopped(_)) = child.next_change().await {}
            if let Some(terminal) = &terminal {
                terminal.take_back(child.group());
            }
            return Err(failure);
        }
        let (mut is_demanded, group) = (false, child.group());
        let ended = loop {
            if let Some(step) = rule.at(lease.remaining()) {
                perform(step, &child, lease.remaining(), app);
            }
            tokio::select! {
                biased;
                () = expiring(lease, rule.mark()) => {}
                change = child.next_change() => match (change, &terminal) {
                    (Ok(ChildChange::Ended(exit)), _) => break Ok(exit),
                    (Err(failure), _) => break Err(failure),
                    (Ok(ChildChange::Stopped(by)), Some(terminal)) => terminal.on_stopped(child.group(), by),
                    // Without a terminal there is no shell that waits for a stopped job. The lease is
                    // renewed until the command continues.
                    (Ok(ChildChange::Stopped(_)), None) => {}
                },
                never = orphans.reap(Some(group), Some(&mut guardian)) => match never {},
                signal = signals.next() => {
                    is_demanded |= signals::demands_end(signal);
                    if signal == Signal::SIGCONT {
                        // The lease may have ended during the stop, and is checked before the command
                        // continues.
                        if let Some(step) = rule.at(lease.remaining()) {
                            perform(step, &child, lease.remaining(), app);
                        }
                        if let Some(terminal) = &terminal {
                            terminal.lend(child.group());
                        }
                    }
                    child.signal(signal);
                    if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
                        // A stopped process handles the signal only after SIGCONT.
                        child.signal(Signal::SIGCONT);
                    }
                }
            }
        };
        if let Some(terminal) = &terminal {
            terminal.take_back(child.group());
        }
        let is_stopped = rule.has_intervened();
        if is_stopped {
            // Another client may soon hold the lock, so the rest of the command's group must not run on.
            child.signal(Signal::SIGKILL);
        }
        let exit = ended?;
        guardian.dismiss();
        Ok(JobEnd { exit, is_stopped, is_demanded })
    }
}

fn perform(step: RuleStep, child: &Child, left: Duration, app: &App) {
    match step {
        RuleStep::Term => {
            child.signal(Signal::SIGTERM);
            // A stopped process handles SIGTERM only after SIGCONT.
            child.signal(Signal::SIGCONT);
            app.messages.notice(&format!("the lease ends in {left:.1?} and is not renewed: SIGTERM"));
        }
        RuleStep::Kill => {
            child.signal(Signal::SIGKILL);
            let message = if left.is_zero() {
                "the lease is lost: SIGKILL".to_owned()
            } else {
                format!("the lease ends in {left:.1?} and is not renewed: SIGKILL")
            };
            app.messages.notice(&message);
        }
        RuleStep::Report => app.messages.notice("the lease is lost: the command runs on without it"),
    }
}

async fn expiring(lease: &Lease, mark: Option<Duration>) {
    match mark {
        Some(mark) => lease.expiring_within(mark).await,
        None => std::future::pending().await,
    }
}
