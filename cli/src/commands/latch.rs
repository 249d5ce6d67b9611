//! `redquorum latch`: arrives at, waits for, opens or shows a latch.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use clap::{Args, ValueEnum};
use redquorum::{__command::arrival_ids, Quorum, error::Error, inspection::Inspection};

use crate::{
    app::App,
    consent::{self, Consent},
    counted::counted,
    duration::{self, GivenDuration},
    exit::Exit,
    failure::Failure,
    latch_view::{LatchByNode, LatchView, MAX_NAMED},
    name, number,
    shortage::ShortageReporter,
    wait_report::report_latch_wait,
    waiting::WaitLine,
};

/// Arrive at, wait for, open or show a latch
///
/// A latch opens after COUNT arrivals, in any processes on any hosts, and stays open. Use a new name for
/// each occasion, such as `migration:42`. An arrival outlives its process.
///
/// `arrive` prints the arrivals and does not wait. `wait` ends when the latch is open. `show` prints the
/// arrivals on each node.
#[derive(Args, Debug)]
pub(crate) struct Latch {
    /// The name of the latch
    name: OsString,
    #[arg(value_enum, value_name = "ACTION")]
    action: Action,
    /// The number of arrivals that opens the latch: 1 to 1024, the same number for all users of the name;
    /// `show` needs no number
    #[arg(long, value_name = "COUNT", value_parser = number::within(1_u32..=1024), allow_negative_numbers = true)]
    #[arg(required_if_eq_any([("action", "arrive"), ("action", "wait"), ("action", "open")]))]
    count: Option<u32>,
    /// Arrive under this id, 1 to 48 bytes: an id counts once, so a job that is started again can arrive
    /// again [default: a new id]
    #[arg(long, value_name = "ID")]
    id: Option<OsString>,
    /// The time to wait until the latch is open, with `wait`; 0 checks once [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    wait: Option<GivenDuration>,
    /// The time for which the nodes keep the latch after its last use: 1s to 30d [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    retention: Option<GivenDuration>,
    /// Do not ask for confirmation, with `open`
    #[arg(short, long)]
    yes: bool,
}

/// The action on a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Record an arrival
    Arrive,
    /// Wait until the latch is open; if the latch stays closed until the end of --wait, the exit status
    /// is 82
    Wait,
    /// Open the latch although arrivals are missing, after a question
    Open,
    /// Show the arrivals on each node
    Show,
}

impl Latch {
    /// Removes the values of variables that cannot be used with the action.
    pub(crate) fn leave_out_variables(&mut self, is_of_variable: impl Fn(&str) -> bool) {
        if self.action != Action::Wait && is_of_variable("wait") {
            self.wait = None;
        }
        if self.action != Action::Arrive && is_of_variable("id") {
            self.id = None;
        }
        if self.action == Action::Show && is_of_variable("retention") {
            self.retention = None;
        }
        // A different number is an error of `show`, and hides the arrivals. A variable is meant for the other actions.
        if self.action == Action::Show && is_of_variable("count") {
            self.count = None;
        }
    }

    /// Performs the action, and prints the latch.
    ///
    /// # Errors
    ///
    /// [`Exit::LatchClosed`] if the latch is closed at the end of the wait, [`Exit::Declined`] if the answer to the
    /// question of `open` is no, [`Exit::NoQuorum`], and invalid arguments.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        self.check_options()?;
        let settings = app.settings()?;
        // The connection must not take longer than a short --wait.
        let short_wait =
            self.wait.as_deref().copied().filter(|wait| *wait < settings.effective.connect_timeout);
        let builder = settings.builder_within(short_wait);
        if self.action == Action::Show {
            return app
                .with_quorum_of(&settings, builder.read_only(), async |quorum| self.show(quorum, app).await)
                .await;
        }
        app.with_quorum_of(&settings, builder, async |quorum| {
            let latch = self.latch(quorum);
            match self.action {
                Action::Arrive => match &self.id {
                    Some(id) => latch.arrive_as(id.as_bytes()).await?,
                    None => latch.arrive().await?,
                },
                Action::Wait => self.wait(quorum, &latch, app).await?,
                Action::Open | Action::Show => self.open(quorum, &latch, app).await?,
            }
            let is_open = self.action != Action::Arrive;
            // The act is done, so an inspection without a quorum is no failure.
            let view = match quorum.inspect(self.name.as_bytes()).await {
                Ok(found) => self.view(quorum, &found).await,
                Err(_) => LatchView::unknown(self.name.as_bytes(), self.count, is_open),
            };
            app.output.print(&view)?;
            Ok(Exit::Success)
        })
        .await
        .map_err(|failure| duration::shown_as_given(failure, "retention", self.retention.as_ref()))
    }

    /// Refuses options that the action does not use.
    fn check_options(&self) -> Result<(), Failure> {
        let unused = [
            (self.wait.is_some() && self.action != Action::Wait, "--wait", "`wait`"),
            (self.id.is_some() && self.action != Action::Arrive, "--id", "`arrive`"),
            (
                self.retention.is_some() && self.action == Action::Show,
                "--retention",
                "`arrive`, `wait` and `open`",
            ),
            (self.yes && self.action != Action::Open, "--yes", "`open`"),
        ];
        match unused.into_iter().find(|(is_unused, ..)| *is_unused) {
            Some((_, option, actions)) => {
                Err(Failure::usage(format!("{option} is an option of {actions} only")))
            }
            None => Ok(()),
        }
    }

    fn latch(&self, quorum: &Quorum) -> redquorum::Latch {
        // `show` without a number does not call this latch.
        self.latch_with(quorum, self.count.unwrap_or(1))
    }

    fn latch_with(&self, quorum: &Quorum, count: u32) -> redquorum::Latch {
        let latch = quorum.latch(self.name.as_bytes(), count);
        match &self.retention {
            Some(retention) => latch.retention(**retention),
            None => latch,
        }
    }

    /// Returns the view of the inspected latch. If the inspection does not name all arrivals, the nodes are queried for
    /// their ids.
    async fn view(&self, quorum: &Quorum, found: &Inspection) -> LatchView {
        let view = LatchView::of_inspection(self.name.as_bytes(), self.count, found);
        let Some(count) = view.count_if_unnamed() else { return view };
        match arrival_ids(&self.latch_with(quorum, count)).await {
            Ok(Some(ids)) => view.with_arrivals(&ids),
            // The latch has opened meanwhile, or no quorum has answered. The view has what the inspection shows.
            Ok(None) | Err(_) => view,
        }
    }

    async fn wait(&self, quorum: &Quorum, latch: &redquorum::Latch, app: &App) -> Result<(), Failure> {
        let line = WaitLine::show(&app.messages, format!("waiting for latch {}", self.shown()));
        let waiting = async {
            match &self.wait {
                None => Ok(latch.wait().await?),
                Some(wait) if wait.is_zero() && latch.arrivals().await? < self.count.unwrap_or(1) => {
                    Err(self.closed(quorum, "--wait 0 checks once, and a longer --wait waits").await)
                }
                // The latch is open, so the wait ends within some round trips.
                Some(wait) if wait.is_zero() => Ok(latch.wait().await?),
                Some(wait) if latch.wait_for(**wait).await? => Ok(()),
                Some(wait) => {
                    Err(self.closed(quorum, &format!("it did not open within --wait {wait}")).await)
                }
            }
        };
        let mut reporter = ShortageReporter::default();
        let reporting = report_latch_wait(&line, quorum, self.name.as_bytes(), &mut reporter, &app.messages);
        tokio::select! {
            biased;
            waited = waiting => waited.map_err(|failure| reporter.mark_reported(failure)),
            never = reporting => match never {},
        }
    }

    /// Returns the failure of a wait whose latch stayed closed, with the arrivals as evidence.
    async fn closed(&self, quorum: &Quorum, reason: &str) -> Failure {
        let view = match quorum.inspect(self.name.as_bytes()).await {
            Ok(found) => self.view(quorum, &found).await,
            Err(_) => LatchView::unknown(self.name.as_bytes(), self.count, false),
        };
        let message = format!("latch {} is closed ({}): {reason}", self.shown(), view.arrivals());
        Failure {
            evidence: view.names(MAX_NAMED).into_iter().collect(),
            ..Failure::new(Exit::LatchClosed, message)
        }
    }

    /// Opens the latch. If arrivals are missing, the user has to confirm.
    async fn open(&self, quorum: &Quorum, latch: &redquorum::Latch, app: &App) -> Result<(), Failure> {
        let found = quorum.inspect(self.name.as_bytes()).await?;
        let view = self.view(quorum, &found).await;
        if view.missing() > 0 && Consent::of(self.yes, "open the latch")? == Consent::Ask {
            // A wrong number is an error before the question.
            latch.arrivals().await?;
            app.messages.flush();
            let missing = counted(view.missing() as usize, "arrival");
            let names = view.names(MAX_NAMED).map(|names| format!("{names}\n")).unwrap_or_default();
            if !consent::ask(format!("{names}open latch {} without {missing}?", self.shown()), "--yes")
                .await?
            {
                return Err(Failure::new(Exit::Declined, "nothing was opened: the answer was no"));
            }
        }
        Ok(latch.open().await?)
    }

    async fn show(&self, quorum: &Quorum, app: &App) -> Result<Exit, Failure> {
        if self.count.is_some() {
            // The call returns an error if nodes have recorded a different number.
            self.latch(quorum).arrivals().await?;
        }
        let found =
            quorum.inspect(self.name.as_bytes()).await.map_err(|error: Error| Failure::from(error))?;
        let view = self.view(quorum, &found).await;
        app.output.print(&LatchByNode::new(view, found))?;
        Ok(Exit::Success)
    }

    fn shown(&self) -> String {
        name::shown(self.name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn latch(action: Action) -> Latch {
        let (name, count) = ("l".into(), Some(5));
        Latch { name, action, count, id: None, wait: None, retention: None, yes: false }
    }

    #[test]
    fn options_of_another_action_are_refused() {
        let (wait, id) = (Some(GivenDuration::from(Duration::from_secs(1))), Some("job".into()));
        for (given, option) in [
            (Latch { wait: wait.clone(), ..latch(Action::Arrive) }, Some("--wait")),
            (Latch { wait: wait.clone(), ..latch(Action::Wait) }, None),
            (Latch { id: id.clone(), ..latch(Action::Wait) }, Some("--id")),
            (Latch { id, ..latch(Action::Arrive) }, None),
            (Latch { retention: wait, ..latch(Action::Show) }, Some("--retention")),
            (Latch { yes: true, ..latch(Action::Arrive) }, Some("--yes")),
            (Latch { yes: true, ..latch(Action::Open) }, None),
        ] {
            let refused = given.check_options().err().map(|failure| failure.message);
            assert_eq!(refused.is_some(), option.is_some(), "{refused:?}");
            assert!(refused.is_none_or(|text| text.starts_with(option.unwrap_or_default())));
        }
    }

    #[test]
    fn variables_of_options_of_another_action_are_ignored() {
        let (wait, id) = (Some(GivenDuration::from(Duration::from_secs(1))), Some("job".into()));
        let mut given = Latch { wait: wait.clone(), id, retention: wait, ..latch(Action::Show) };
        given.leave_out_variables(|_| true);
        assert_eq!(given.check_options().map_err(|failure| failure.message), Ok(()));
        assert_eq!(given.count, None, "`show` needs no number");
        let mut given = latch(Action::Show);
        given.leave_out_variables(|_| false);
        assert_eq!(given.count, Some(5), "a number in the arguments is compared");
    }
}
