//! The supervision of the command that `run` or `elect` runs. The command must not outlive its lease.
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
//! [`Rule`] decides, and [`Job::run`] performs. The loop of `run` waits only for time, the command and signals. The
//! loop must not wait for a terminal or a disk, because a slow terminal or disk would delay a signal.

use std::{ffi::OsString, time::Duration};

use nix::sys::signal::Signal;
use redquorum::Lease;

use self::{
    child::{Child, ChildChange},
    guardian::Guardian,
    orphans::Orphans,
    renewal_report::{RenewalReporter, node_reasons, trouble, with_reasons},
    rule::{Rule, RuleStep},
    signals::Signals,
    terminal::Terminal,
};
use crate::{app::App, exit::Exit, failure::Failure};

mod child;
pub(crate) mod exec_child;
pub(crate) mod guardian;
pub(crate) mod orphans;
mod renewal_report;
pub(crate) mod rule;
pub(crate) mod signals;
mod terminal;

/// A command to be run under a lease.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) command: &'a [OsString],
    /// The name of the lock in reports.
    pub(crate) subject: String,
    /// The variables that are added to the environment.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    pub(crate) rule: Rule,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobEnd {
    pub(crate) exit: Exit,
    /// The state of the lease at the first SIGTERM or SIGKILL of the rule; `None` if the rule sent no signal.
    pub(crate) stopped: Option<LeaseTrouble>,
    /// Whether redquorum received SIGTERM or SIGINT, and passed the signal on.
    pub(crate) is_demanded: bool,
}

/// The reason why a command is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTrouble {
    /// The loss or the missing renewal, as a clause for a report after the end of the command.
    pub(crate) cause: String,
    /// The replies of the nodes that have not renewed the lease, as `node: reason`.
    pub(crate) reasons: Vec<String>,
}

impl Job<'_> {
    /// Runs the command, and returns when the command has ended. If the lease is about to end, the rule ends the
    /// command before the lease.
    ///
    /// # Errors
    ///
    /// [`Exit::LeaseLost`] if the lease ends too soon to start the command; [`Exit::Internal`] if no
    /// process can be started.
    ///
    /// # Cancel safety
    ///
    /// The future must not be dropped, because the command would continue without supervision.
    pub(crate) async fn run(
        self,
        lease: &Lease,
        signals: &mut Signals,
        app: &App,
    ) -> Result<JobEnd, Failure> {
        let Self { command, subject, variables, mut rule } = self;
        // This process may have been stopped or suspended since the lock was acquired.
        if rule.at(lease.remaining()).is_some() {
            let message = "the lease ended before the command was started, as this process or its machine was \
                           stopped or slow: run it again";
            return Err(Failure::new(Exit::LeaseLost, message));
        }
        let terminal = Terminal::of_job();
        let is_foreground = terminal.as_ref().is_some_and(Terminal::is_lendable);
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
        let mut reporter = RenewalReporter::new(&subject, rule.warning());
        let mut stopped = None;
        let ended = loop {
            if let Some(step) = rule.at(lease.remaining()) {
                let trouble = perform(step, &child, lease, &subject, app);
                stopped.get_or_insert(trouble);
            }
            tokio::select! {
                biased;
                () = expiring(lease, rule.mark()) => {}
                () = reporter.due(lease), if rule.mark().is_some() && !rule.has_intervened() => {
                    if let Some(message) = reporter.report(lease) {
                        app.messages.notice(&message);
                    }
                }
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
                            let trouble = perform(step, &child, lease, &subject, app);
                            stopped.get_or_insert(trouble);
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
        let stopped = stopped.filter(|_| rule.has_intervened());
        if stopped.is_some() {
            // Another client may soon hold the lock, so the remaining processes of the group must not continue.
            child.signal(Signal::SIGKILL);
        }
        let exit = ended?;
        guardian.dismiss();
        Ok(JobEnd { exit, stopped, is_demanded })
    }
}

/// Performs a step of the rule, and reports the step with its reasons.
fn perform(step: RuleStep, child: &Child, lease: &Lease, subject: &str, app: &App) -> LeaseTrouble {
    match step {
        RuleStep::Term => {
            child.signal(Signal::SIGTERM);
            // A stopped process handles SIGTERM only after SIGCONT.
            child.signal(Signal::SIGCONT);
        }
        RuleStep::Kill => child.signal(Signal::SIGKILL),
        RuleStep::Report => {}
    }
    let act = match step {
        RuleStep::Term => "SIGTERM",
        RuleStep::Kill => "SIGKILL",
        RuleStep::Report => "the command continues without the lease",
    };
    let (now, cause) = trouble(lease, subject);
    let trouble = LeaseTrouble { cause, reasons: node_reasons(lease) };
    app.messages.notice(&with_reasons(format!("{now}: {act}"), &trouble.reasons));
    trouble
}

/// Waits until at most `mark` of the validity is left. Without a mark, waits forever.
async fn expiring(lease: &Lease, mark: Option<Duration>) {
    match mark {
        Some(mark) => lease.expiring_within(mark).await,
        None => std::future::pending().await,
    }
}
