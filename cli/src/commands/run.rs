//! `redquorum run`: runs a command under a lock.

use std::{
    ffi::OsString,
    future::pending,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use clap::Args;
use redquorum::{Quorum, Ticket, error::Error};

use crate::{
    app::App,
    commands::acquisition::{Acquisition, HeldLock, shown},
    duration::{self, GivenDuration},
    exit::Exit,
    failure::Failure,
    name, number,
    permit_count_report::PermitCountReport,
    settings::Settings,
    supervise::{
        Job, JobEnd, LeaseTrouble,
        rule::{Marks, OnLoss, Rule},
    },
    ticket_source,
    what_to_run::WhatToRun,
};

/// Run a command while holding a lock
///
/// Acquires the lock, runs the command in its own process group while renewing the lease, and unlocks
/// when the command has ended. The environment of the command has REDQUORUM_RESOURCE (the names, one
/// per line), REDQUORUM_FENCING_TOKEN, and the variables of the options of the quorum and of the
/// output. Signals are passed on to the command, and `run` ends with its exit status.
///
/// With -n, at most COUNT of these commands run at a time under the name, on all hosts together, each
/// in its own slot, counted from 0: REDQUORUM_SLOT. Tokens grow within a slot; tokens of two slots are
/// not comparable.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The name to lock; several names are locked together, all or none
    #[arg(required_unless_present = "ticket_from", value_name = "NAME")]
    names: Vec<OsString>,
    /// Redeem a ticket of `lock` instead of locking a NAME: a file, or `-` for the first line of standard
    /// input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "shared", "permits", "wait"])]
    ticket_from: Option<PathBuf>,
    /// Share the lock with other shared runs, instead of holding it alone
    #[arg(long)]
    shared: bool,
    /// Run up to COUNT commands at a time instead of one: 1 to 1024, the same number for all users of
    /// the name
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with = "shared")]
    #[arg(value_parser = permits, allow_negative_numbers = true)]
    permits: Option<u32>,
    /// The time for which the nodes keep the lock without a renewal [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    pub(crate) ttl: Option<GivenDuration>,
    /// The time for which NAME stays locked, from the start, even if the command ends earlier: so that hosts
    /// which start the same job a little later do not run it again; raises the ttl to this time [default: no
    /// minimum]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given, conflicts_with = "shared")]
    hold_at_least: Option<GivenDuration>,
    /// The time to wait for other holders; 0 makes one attempt [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    wait: Option<GivenDuration>,
    /// The exit status instead of 75 if other clients hold the lock until the end of the wait: 1 to 255
    #[arg(long, value_name = "STATUS", value_parser = number::within(1_u8..=255), allow_negative_numbers = true)]
    held_exit: Option<u8>,
    /// The time for which to retry while no quorum answers or can be connected [default: the ttl, or
    /// until nodes in quarantine vote again, if that is later; to connect, the file's connect_timeout,
    /// or 30s, or --wait if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    quorum_timeout: Option<GivenDuration>,
    /// The way to stop the command when the lease is about to end
    #[arg(long, value_enum, value_name = "WHAT", default_value = "term")]
    on_loss: OnLoss,
    /// The time from SIGTERM to SIGKILL, with `--on-loss term` [default: a sixth of the ttl]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    kill_after: Option<GivenDuration>,
    #[command(flatten)]
    what: WhatToRun,
}

/// Parses the number of permits. The error names `--wait 0`, because `flock -n` makes one attempt.
fn permits(text: &str) -> Result<u32, String> {
    number::within(1..=1024)(text).map_err(|error| {
        format!(
            "{error}: `-n COUNT` runs up to COUNT commands at a time, and `--wait 0` makes one attempt for a lock"
        )
    })
}

impl Run {
    /// Removes the values of variables that cannot be used with the names or options on the command line.
    pub(crate) fn leave_out_variables(&mut self, is_of_variable: impl Fn(&str) -> bool) {
        if self.names.len() > 1 && is_of_variable("permits") {
            self.permits = None;
        }
        if self.kill_after.is_some() && self.on_loss != OnLoss::Term {
            match (is_of_variable("on_loss"), is_of_variable("kill_after")) {
                (false, true) => self.kill_after = None,
                (true, false) => self.on_loss = OnLoss::Term,
                // Options that cannot be used together, and come from one source, are an error.
                (true, true) | (false, false) => {}
            }
        }
    }

    /// Acquires the lock, runs the command, and unlocks when the command has ended.
    ///
    /// # Errors
    ///
    /// The failure to acquire the lock, or the loss of the lease.
    pub(crate) async fn perform(mut self, app: &App) -> Result<Exit, Failure> {
        let ticket = self.ticket_from.as_deref().map(ticket_source::read).transpose()?;
        if let Some(ticket) = &ticket {
            let names = ticket.resources().iter().map(|name| OsString::from_vec(name.as_bytes().to_vec()));
            self.names = names.collect();
        }
        let performed = self
            .lock_and_run(ticket.as_ref(), app)
            .await
            .map_err(|failure| self.in_words_of_the_user(failure));
        performed.map_err(|failure| match (failure.exit, self.held_exit) {
            (Exit::Held, Some(status)) => Failure { exit: Exit::HeldAs(status), ..failure },
            _ => failure,
        })
    }

    /// Returns the failure with the times as the user wrote them, and the name of the semaphore in place of the resource
    /// of a slot.
    fn in_words_of_the_user(&self, failure: Failure) -> Failure {
        let failure = duration::shown_as_given(failure, "ttl", self.ttl.as_ref());
        let failure = duration::shown_as_given(failure, "hold_at_least", self.hold_at_least.as_ref());
        let (Some(permits), Some(name)) = (self.permits, self.names.first()) else { return failure };
        let name = name.as_bytes();
        let braced = |slot: u32| format!("redquorum:slot:{{{}}}:{slot}:", name::shown(name));
        let permit = format!("a permit of {}:", name::shown(name));
        let message =
            (0..permits).rev().fold(failure.message, |text, slot| text.replace(&braced(slot), &permit));
        Failure { message, ..failure }
    }

    async fn lock_and_run(&self, ticket: Option<&Ticket>, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let rule = self.rule(&settings)?;
        if let (Some(permits), [_, _, ..]) = (self.permits, &*self.names) {
            let names = self.names.len();
            return Err(Failure::usage(format!(
                "-n {permits} takes one name, the name of a semaphore, but {names} names are given"
            )));
        }
        // The connection must not take longer than a short --wait.
        let short_wait = self.wait.as_deref().filter(|wait| **wait < settings.effective.connect_timeout);
        let builder = settings.builder_within(self.quorum_timeout.as_deref().or(short_wait).copied());
        app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let permit_counts = self.permits.zip(self.names.first()).map(|(permits, name)| {
                PermitCountReport::new(quorum, name.as_bytes(), permits, &app.messages)
            });
            let acquired = tokio::select! {
                biased;
                signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
                acquired = self.acquire(ticket, quorum, permit_counts.as_ref(), app) => acquired,
            };
            permit_counts.iter().for_each(PermitCountReport::look);
            let guard = acquired?;
            let (variables, subject) = (self.variables(&guard), self.shown());
            let job = Job { command: &self.what.words(), subject, variables, rule };
            let reporting = async {
                match &permit_counts {
                    Some(report) => report.run().await,
                    None => pending().await,
                }
            };
            let ended = tokio::select! {
                biased;
                ended = job.run(guard.lease(), signals, app) => ended?,
                never = reporting => match never {},
            };
            let unlocked = self.unlock(guard, ended, app).await;
            // The nodes that have confirmed the unlock have answered the earlier request of the check.
            permit_counts.iter().for_each(PermitCountReport::look);
            unlocked
        })
        .await
    }

    fn rule(&self, settings: &Settings) -> Result<Rule, Failure> {
        if self.kill_after.is_some() && self.on_loss != OnLoss::Term {
            return Err(super::kill_after_without_term());
        }
        let ttl = self.ttl.clone().unwrap_or_else(|| settings.effective.ttl.into());
        let ttl = self.hold_at_least.clone().filter(|least| **least > *ttl).unwrap_or(ttl);
        let marks = Marks::new(&ttl, self.kill_after.as_ref());
        marks.map(|marks| Rule::new(self.on_loss, marks)).map_err(Failure::usage)
    }

    /// Acquires the lock, or redeems the ticket.
    async fn acquire(
        &self,
        ticket: Option<&Ticket>,
        quorum: &Quorum,
        permit_counts: Option<&PermitCountReport<'_>>,
        app: &App,
    ) -> Result<HeldLock, Failure> {
        let mut options = super::lock_options(self.ttl.as_ref(), self.quorum_timeout.as_ref());
        if let Some(time) = &self.hold_at_least {
            options = options.hold_at_least(**time);
        }
        if let Some(ticket) = ticket {
            let guard = quorum.redeem(ticket, options).await?;
            return guard.map(HeldLock::Lock).ok_or_else(|| self.spent());
        }
        let Self { names, shared, permits, wait, .. } = self;
        let (shared, permits, wait) = (*shared, *permits, wait.as_ref());
        let acquisition = Acquisition { names, shared, permits, wait, options, permit_counts };
        acquisition.acquire(quorum, app).await
    }

    /// Returns the failure for a ticket that cannot be redeemed any more.
    fn spent(&self) -> Failure {
        let message = format!(
            "the ticket of {} is spent: it was redeemed or released, or its time is over",
            self.shown()
        );
        Failure::new(Exit::Held, message)
    }

    /// Returns the variables for the command. Several names have one token, because they are locked by one lease.
    fn variables(&self, held: &HeldLock) -> Vec<(&'static str, OsString)> {
        let names: Vec<&[u8]> = self.names.iter().map(|name| name.as_bytes()).collect();
        let slot = match held {
            HeldLock::Lock(_) => None,
            HeldLock::Permit(permit) => Some(permit.slot()),
        };
        let token = held.lease().fencing_token().to_string().into();
        let names = OsString::from_vec(names.join(&b'\n'));
        let slot = slot.map(|slot| ("REDQUORUM_SLOT", slot.to_string().into()));
        [("REDQUORUM_RESOURCE", names), ("REDQUORUM_FENCING_TOKEN", token)].into_iter().chain(slot).collect()
    }

    async fn unlock(&self, guard: HeldLock, ended: JobEnd, app: &App) -> Result<Exit, Failure> {
        let unlocked = guard.unlock().await;
        if let Some(LeaseTrouble { cause, reasons }) = ended.stopped {
            let message = format!("the command was stopped, as {cause}: `redquorum doctor` checks the nodes");
            return Err(Failure { evidence: reasons, ..Failure::new(Exit::LeaseLost, message) });
        }
        match unlocked {
            Ok(replies) => {
                if let Some(notice) = super::unconfirmed(&self.shown(), &replies) {
                    app.messages.notice(&notice);
                }
                Ok(ended.exit)
            }
            // `Job::run` has reported the loss.
            Err(Error::LeaseLost(_)) if self.on_loss == OnLoss::Ignore => Ok(ended.exit),
            Err(Error::LeaseLost(lost)) => {
                Err(Failure::new(Exit::LeaseLost, format!("{lost}; the unlock detected the loss")))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn shown(&self) -> String {
        shown(&self.names)
    }
}
