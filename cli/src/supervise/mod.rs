//! Running a command for as long as a lease lasts, and not longer.
//!
//! [`Rule`](rule::Rule) decides when the command has to end; what is here performs. Nothing in the
//! loop waits for anything but time, the command and signals: a slow terminal or disk must not put
//! a signal off.

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
    /// What it finds in its environment beside our own.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    pub(crate) rule: Rule,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobEnd {
    pub(crate) exit: Exit,
    /// It was told to end because of its lease.
    pub(crate) is_stopped: bool,
    /// We were told to end, by SIGTERM or SIGINT, and have passed that on.
    pub(crate) is_demanded: bool,
}

impl Job<'_> {
    /// Runs the command and returns when it has ended. If its lease is about to end, it is stopped
    /// before, as the rule says.
    ///
    /// # Errors
    ///
    /// [`Exit::LeaseLost`] if so little is left of the lease that it is not even started;
    /// [`Exit::Internal`] if no process can be.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the command running, without anybody who stops it: not to be dropped.
    pub(crate) async fn run(
        self,
        lease: &Lease,
        signals: &mut Signals,
        app: &App,
    ) -> Result<JobEnd, Failure> {
        let Self { command, variables, mut rule } = self;
        // We may have been stopped or suspended since the lease was had.
        if rule.at(lease.remaining()).is_some() {
            return Err(Failure::new(Exit::LeaseLost, "the lease was over before the command was started"));
        }
        let terminal = Terminal::of_job();
        let is_foreground = terminal.as_ref().is_some_and(Terminal::is_lent);
        let mut orphans = Orphans::of_this_process()?;
        let mut guardian = Guardian::start()?;
        let mut child = Child::spawn(command, &variables, is_foreground, app.general.json)?;
        if let Err(failure) = guardian.guard(child.group()) {
            // Nobody would end it any more.
            child.signal(Signal::SIGKILL);
            while let Ok(ChildChange::Stopped(_)) = child.changed().await {}
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
                change = child.changed() => match (change, &terminal) {
                    (Ok(ChildChange::Ended(exit)), _) => break Ok(exit),
                    (Err(failure), _) => break Err(failure),
                    (Ok(ChildChange::Stopped(by)), Some(terminal)) => terminal.stopped(child.group(), by),
                    // Nobody waits for a job to stop: it may be continued at any time, and the
                    // lease is kept for it.
                    (Ok(ChildChange::Stopped(_)), None) => {}
                },
                never = orphans.bury(Some(group), Some(&mut guardian)) => match never {},
                signal = signals.next() => {
                    is_demanded |= signals::demands_end(signal);
                    if signal == Signal::SIGCONT {
                        // Whatever the lease has come to while all stood still goes first.
                        if let Some(step) = rule.at(lease.remaining()) {
                            perform(step, &child, lease.remaining(), app);
                        }
                        if let Some(terminal) = &terminal {
                            terminal.lend(child.group());
                        }
                    }
                    child.signal(signal);
                    if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
                        // One that is stopped would not hear it.
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
            // Others are going to have the lock: whatever the command has left behind in its group
            // must not work on.
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
            // One that is stopped would not hear it.
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
        RuleStep::Tell => app.messages.notice("the lease is lost: the command runs on without it"),
    }
}

async fn expiring(lease: &Lease, mark: Option<Duration>) {
    match mark {
        Some(mark) => lease.expiring_within(mark).await,
        None => std::future::pending().await,
    }
}
