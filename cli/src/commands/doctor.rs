//! `redquorum doctor`: is this a sound quorum?

use std::time::Duration;

use clap::Args;

use crate::{
    app::App,
    doctor::{
        finding::Level,
        gather::gather,
        judge::judge,
        report::{NOTE, Summary},
    },
    duration,
    exit::Exit,
    failure::Failure,
    waiting::Waiting,
};

/// Find out whether the nodes are a sound quorum
///
/// Checks each node, and all of them together, and prints a line for each warning and failure: what
/// was found, and what to do. It asks on connections of its own, registers nowhere, and tries what
/// locks do with names of its own, which are deleted again. What the user may not ask for is a
/// warning, "cannot tell". Ends with 81 if anything fails.
///
/// It says nothing of single locks: `inspect` shows who has one, and `force-unlock` ends it. A key that
/// is deleted by hand comes back with its holder's next renewal.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print a line for each check that found nothing wrong, too
    #[arg(long)]
    all: bool,
    /// Take warnings for failures
    #[arg(long)]
    strict: bool,
    /// How long to watch whether the clocks of nodes run as they should; the longer, the more
    /// exactly; 0 does not
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1s")]
    watch: Duration,
}

impl Doctor {
    /// Asks, judges, and prints.
    ///
    /// # Errors
    ///
    /// Settings that cannot work. That nodes fail is no error.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let waiting = Waiting::show(&app.messages, "asking the nodes".to_owned());
        let facts = gather(&settings, self.watch).await?;
        drop(waiting);
        let findings = judge(&facts);
        for finding in findings.iter().filter(|finding| self.all || finding.level > Level::Ok) {
            app.output.print(finding)?;
        }
        if !app.general.json {
            app.output.print(&NOTE)?;
        }
        let summary = Summary::of(facts.nodes.len(), &findings, self.strict);
        app.output.print(&summary)?;
        Ok(if summary.is_sound { Exit::Success } else { Exit::Unsound })
    }
}
