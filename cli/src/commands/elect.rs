//! `redquorum elect`: runs a command while leading.
//!
//! ```text
//!   campaign ──► lead: run the command ──┬─ stopped for the lease ────────────────► campaign
//!      ▲                                 ├─ ended by itself, --restart ── pause ──► campaign
//!      │ SIGHUP, SIGINT,                 ├─ ended by itself ──────────────────────► exit
//!      └ SIGQUIT, SIGTERM: exit          └─ SIGINT or SIGTERM passed on ──────────► exit
//! ```

use std::{ffi::OsString, os::unix::ffi::OsStrExt, time::Duration};

use clap::{Args, ValueEnum};
use redquorum::{
    Quorum,
    election::{Election, Leadership},
};

use crate::{
    app::App,
    duration::{self, GivenDuration},
    exit::Exit,
    failure::Failure,
    name,
    settings::Settings,
    shortage::ShortageReporter,
    supervise::{
        Job, JobEnd, LeaseTrouble,
        orphans::Orphans,
        rule::{Marks, OnLoss, Rule},
        signals::Signals,
    },
    wait_report::report_wait,
    waiting::WaitLine,
    what_to_run::WhatToRun,
};

/// The pause before a command that ended by itself is started again. The pause prevents a busy loop if
/// the command fails at once.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Run a command while leading
///
/// Campaigns until this process leads, and then runs the command. If the leadership is lost, the
/// command is stopped and the campaign starts again. If the command ends by itself, redquorum
/// resigns and ends with the same exit status. The environment of the command has
/// REDQUORUM_RESOURCE (the name of the election), and REDQUORUM_TERM and REDQUORUM_FENCING_TOKEN
/// with the same number.
#[derive(Args, Debug)]
pub(crate) struct Elect {
    /// The name of the election
    name: OsString,
    /// The value that observers of this leader receive, such as its address
    #[arg(long)]
    value: OsString,
    /// The time for which the nodes keep a leader without a renewal [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    pub(crate) ttl: Option<GivenDuration>,
    /// The time for which to retry while no quorum answers or can be connected [default: the ttl, or
    /// until nodes in quarantine vote again, if that is later; to connect, the file's connect_timeout,
    /// or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    quorum_timeout: Option<GivenDuration>,
    /// The way to stop the command when the leadership is about to end
    #[arg(long, value_enum, value_name = "WHAT", default_value = "term")]
    on_loss: OnLeadershipLoss,
    /// The time from SIGTERM to SIGKILL, with `--on-loss term` [default: a sixth of the ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    kill_after: Option<GivenDuration>,
    /// Also campaign again after the command has ended by itself
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    what: WhatToRun,
}

/// The way to stop a command when its leadership is about to end. [`OnLoss::Ignore`] is left out, because the command
/// of a past term must not run beside the command of the next term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLeadershipLoss {
    /// SIGTERM, and SIGKILL before the leadership ends
    Term,
    /// SIGKILL before the leadership ends
    Kill,
}

impl Elect {
    /// Removes the value of a variable that cannot be used with an option on the command line.
    pub(crate) fn leave_out_variables(&mut self, is_of_variable: impl Fn(&str) -> bool) {
        if self.kill_after.is_some() && self.on_loss != OnLeadershipLoss::Term {
            match (is_of_variable("on_loss"), is_of_variable("kill_after")) {
                (false, true) => self.kill_after = None,
                (true, false) => self.on_loss = OnLeadershipLoss::Term,
                // Options that cannot be used together, and come from one source, are an error.
                (true, true) | (false, false) => {}
            }
        }
    }

    /// Campaigns and leads, again after each loss, and with `--restart` also after each end of the command.
    ///
    /// # Errors
    ///
    /// The failure to connect, to campaign, or to run the command.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let rule = self.rule(&settings)?;
        let builder = settings.builder_within(self.quorum_timeout.as_deref().copied());
        app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let mut orphans = Orphans::of_this_process()?;
            loop {
                let leadership = tokio::select! {
                    biased;
                    never = orphans.reap(None, None) => match never {},
                    signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                    leadership = self.campaign(quorum, app) => leadership?,
                };
                let ended = self.lead(leadership, rule.clone(), signals, app).await?;
                let is_stopped = ended.stopped.is_some();
                if ended.is_demanded || !(is_stopped || self.restart) {
                    return Ok(ended.exit);
                }
                if !is_stopped {
                    let end = ended.exit.end_of_command();
                    app.messages.notice(&format!("{end}: campaigning again in {RESTART_PAUSE:?}"));
                    #[expect(clippy::disallowed_methods, reason = "no lease depends on this pause")]
                    let pause = tokio::time::sleep(RESTART_PAUSE);
                    tokio::select! {
                        biased;
                        never = orphans.reap(None, None) => match never {},
                        signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                        () = pause => {}
                    }
                }
            }
        })
        .await
    }

    fn rule(&self, settings: &Settings) -> Result<Rule, Failure> {
        let on_loss = match self.on_loss {
            OnLeadershipLoss::Term => OnLoss::Term,
            OnLeadershipLoss::Kill if self.kill_after.is_some() => {
                return Err(super::kill_after_without_term());
            }
            OnLeadershipLoss::Kill => OnLoss::Kill,
        };
        let ttl = self.ttl.clone().unwrap_or_else(|| settings.effective.ttl.into());
        let marks = Marks::new(&ttl, self.kill_after.as_ref());
        marks.map(|marks| Rule::new(on_loss, marks)).map_err(Failure::usage)
    }

    fn election(&self, quorum: &Quorum) -> Election {
        let options = super::lock_options(self.ttl.as_ref(), self.quorum_timeout.as_ref());
        quorum.election(self.name.as_bytes()).options(options)
    }

    async fn campaign(&self, quorum: &Quorum, app: &App) -> Result<Leadership, Failure> {
        let election = self.election(quorum);
        let waiting = WaitLine::show(&app.messages, format!("campaigning for {}", self.shown()));
        let resources = std::slice::from_ref(&self.name);
        let mut reporter = ShortageReporter::default();
        tokio::select! {
            biased;
            leadership = election.campaign(self.value.as_bytes()) => leadership
                .map_err(|error| reporter.mark_reported(error.into()))
                .map_err(|failure| duration::shown_as_given(failure, "ttl", self.ttl.as_ref())),
            never = report_wait(&waiting, quorum, resources, true, &mut reporter, &app.messages) => match never {},
        }
    }

    /// Runs the command under a leadership, and resigns.
    async fn lead(
        &self,
        leadership: Leadership,
        rule: Rule,
        signals: &mut Signals,
        app: &App,
    ) -> Result<JobEnd, Failure> {
        let term: OsString = leadership.term().to_string().into();
        let variables = vec![
            ("REDQUORUM_RESOURCE", self.name.clone()),
            ("REDQUORUM_FENCING_TOKEN", term.clone()),
            ("REDQUORUM_TERM", term.clone()),
        ];
        app.messages.notice(&format!("leading {} with term {}", self.shown(), term.display()));
        let job = Job { command: &self.what.words(), subject: self.shown(), variables, rule };
        let ended = match job.run(&leadership, signals, app).await {
            // A leadership that ended before the command started counts as a stopped command.
            Err(failure) if failure.exit == Exit::LeaseLost => {
                app.messages.notice(&failure.in_one_line());
                let stopped = Some(LeaseTrouble { cause: failure.message, reasons: failure.evidence });
                JobEnd { exit: failure.exit, stopped, is_demanded: false }
            }
            ended => ended?,
        };
        let notice = match leadership.resign().await {
            Ok(replies) => super::unconfirmed(&self.shown(), &replies),
            Err(error) => Some(error.to_string()),
        };
        if let Some(notice) = notice {
            app.messages.notice(&notice);
        }
        Ok(ended)
    }

    fn shown(&self) -> String {
        name::shown(self.name.as_bytes())
    }
}
