//! `redquorum elect`: a command while leading.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, time::Duration};

use clap::{Args, ValueEnum};
use redquorum::{
    Quorum,
    election::{Election, Leadership},
};

use crate::{
    app::App,
    duration,
    exit::Exit,
    failure::Failure,
    name,
    narration::narrate,
    settings::Settings,
    supervise::{
        Job, JobEnd,
        orphans::Orphans,
        rule::{Marks, OnLoss, Rule},
        signals::Signals,
    },
    waiting::Waiting,
    what_to_run::WhatToRun,
};

/// How long after its end a command is not started again, so that one which fails at once is no
/// busy loop.
const REST: Duration = Duration::from_secs(1);

/// Run a command while leading
///
/// Campaigns until it leads, and then runs the command. When the leadership is lost, the command is
/// stopped and the campaign begins again; when the command ends by itself, the leadership is given
/// up and redquorum ends with its exit status. The command finds REDQUORUM_RESOURCE (the election's
/// name), REDQUORUM_TERM and, the same, REDQUORUM_FENCING_TOKEN in its environment.
#[derive(Args, Debug)]
pub(crate) struct Elect {
    /// The election
    name: OsString,
    /// What observers see of this candidate when it leads, such as its address
    #[arg(long)]
    value: OsString,
    /// How long the nodes keep a leader that they do not hear of [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How long to go on while no quorum of nodes can be asked, or connected [default: the ttl, or
    /// until the nodes vote again that are in quarantine, if that is later; the file's
    /// connect_timeout, or 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    quorum_timeout: Option<Duration>,
    /// What becomes of the command when the leadership is about to end
    #[arg(long, value_enum, value_name = "WHAT", default_value = "term")]
    on_loss: OnDeposition,
    /// With `--on-loss term`: from SIGTERM to SIGKILL [default: a sixth of the ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    kill_after: Option<Duration>,
    /// Campaign again also when the command has ended by itself
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    what: WhatToRun,
}

/// [`OnLoss`] for a leader: the command of one who was deposed cannot run on beside that of its own
/// next term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnDeposition {
    /// SIGTERM, and SIGKILL before the leadership ends
    Term,
    /// SIGKILL before the leadership ends
    Kill,
}

impl Elect {
    /// Leads, for as long and as often as it can.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let rule = self.rule(&settings)?;
        let builder = settings.builder_within(self.quorum_timeout);
        app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let mut orphans = Orphans::of_this_process()?;
            loop {
                let leadership = tokio::select! {
                    biased;
                    never = orphans.bury(None, None) => match never {},
                    signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                    leadership = self.campaign(quorum, app) => leadership?,
                };
                let ended = self.lead(leadership, rule.clone(), signals, app).await?;
                if ended.is_demanded || !(ended.is_stopped || self.restart) {
                    return Ok(ended.exit);
                }
                if !ended.is_stopped {
                    #[expect(clippy::disallowed_methods, reason = "no lease depends on it")]
                    let rest = tokio::time::sleep(REST);
                    tokio::select! {
                        biased;
                        never = orphans.bury(None, None) => match never {},
                        signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                        () = rest => {}
                    }
                }
            }
        })
        .await
    }

    fn rule(&self, settings: &Settings) -> Result<Rule, Failure> {
        let on_loss = match self.on_loss {
            OnDeposition::Term => OnLoss::Term,
            OnDeposition::Kill if self.kill_after.is_some() => {
                return Err(Failure::usage(
                    "--kill-after is for `--on-loss term`: otherwise there is no SIGTERM",
                ));
            }
            OnDeposition::Kill => OnLoss::Kill,
        };
        let ttl = self.ttl.unwrap_or(settings.effective.ttl);
        Marks::new(ttl, self.kill_after).map(|marks| Rule::new(on_loss, marks)).map_err(Failure::usage)
    }

    fn election(&self, quorum: &Quorum) -> Election {
        quorum.election(self.name.as_bytes()).options(super::lock_options(self.ttl, self.quorum_timeout))
    }

    async fn campaign(&self, quorum: &Quorum, app: &App) -> Result<Leadership, Failure> {
        let election = self.election(quorum);
        let waiting = Waiting::show(&app.messages, format!("campaigning for {}", self.shown()));
        let resources = std::slice::from_ref(&self.name);
        tokio::select! {
            biased;
            leadership = election.campaign(self.value.as_bytes()) => Ok(leadership?),
            never = narrate(&waiting, quorum, resources, true, &app.messages) => match never {},
        }
    }

    /// Runs the command under a leadership, and gives that up.
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
        let job = Job { command: &self.what.words(), variables, rule };
        let ended = match job.run(&leadership, signals, app).await {
            // Deposed before it began: as good as stopped.
            Err(Failure { exit: exit @ Exit::LeaseLost, .. }) => {
                JobEnd { exit, is_stopped: true, is_demanded: false }
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
