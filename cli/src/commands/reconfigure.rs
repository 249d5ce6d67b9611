//! `redquorum reconfigure`: moves a quorum to another configuration.

use std::{collections::BTreeSet, fmt, path::PathBuf, time::Duration};

use clap::Args;
use console::Term;
use redquorum::{__command::connectors, QuorumBuilder, admin, error::AdminError};
use serde::Serialize;

use crate::{
    app::App,
    consent::{self, Consent},
    duration,
    exit::Exit,
    failure::Failure,
    settings::Settings,
    table,
    waiting::Waiting,
};

/// Move a quorum to other nodes or settings
///
/// For what all clients have to agree on: nodes, votes needed, `max_ttl`, `attempt_timeout`, `drift`.
/// Each of the two files says the whole of a configuration, and neither --node nor the environment
/// says anything, but that --ca, --cert and --key are for a file without a table `[tls]`; give the new
/// one a `name` of its own. It closes old nodes, waits until every lease
/// is over, the longer `max_ttl` of the two and a little more, and opens the new ones. No lock can be
/// had meanwhile. If it fails, or is ended, the same command goes on from there. Shows what changes,
/// and asks; where there is no terminal to ask on, it wants `--yes`.
#[derive(Args, Debug)]
pub(crate) struct Reconfigure {
    /// A TOML file with the present configuration
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// A TOML file with the new configuration
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// One of the two configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Configuration {
    /// As nodes keep it.
    fingerprint: String,
    nodes: Vec<String>,
}

/// What changes, or has been changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Move {
    from: Configuration,
    to: Configuration,
}

impl Reconfigure {
    /// Shows what changes, asks, and does it.
    ///
    /// # Errors
    ///
    /// [`Exit::Usage`] if there is nobody to ask, [`Exit::Declined`] if the answer is no; why it was
    /// not done, or not to its end.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        if !app.general.nodes.is_empty() || app.general.config.is_some() {
            return Err(Failure::usage("the nodes are those of --from and --to: give no --node or --config"));
        }
        let consent = Consent::of(self.yes, "move the quorum")?;
        let (old, new) =
            (Settings::of_file(&self.from, &app.general)?, Settings::of_file(&self.to, &app.general)?);
        let change =
            Move { from: Configuration::of(&old.builder())?, to: Configuration::of(&new.builder())? };
        let longest = old.effective.max_ttl.max(new.effective.max_ttl);
        match consent {
            Consent::Given => app.messages.notice(&change.in_one_line()),
            Consent::Ask => {
                app.messages.flush();
                if !consent::ask(change.question(longest)).await? {
                    return Err(Failure::new(Exit::Declined, "nothing was changed"));
                }
            }
        }
        let message = format!("moving the quorum: no lock for about {}", duration::shown(longest));
        let waiting = Waiting::show(&app.messages, message);
        let moved = admin::reconfigure(&old.builder(), &new.builder()).await;
        drop(waiting);
        moved.map_err(explained)?;
        app.output.print(&change)?;
        Ok(Exit::Success)
    }
}

impl Configuration {
    fn of(builder: &QuorumBuilder) -> Result<Self, Failure> {
        let nodes = connectors(builder)?.iter().map(|node| node.address().to_owned()).collect();
        Ok(Self { fingerprint: admin::fingerprint(builder)?, nodes })
    }
}

impl Move {
    /// Every node of either, in the order of the files, with what becomes of it.
    fn nodes(&self) -> Vec<(&str, &'static str)> {
        let (old, new): (BTreeSet<_>, BTreeSet<_>) =
            (self.from.nodes.iter().collect(), self.to.nodes.iter().collect());
        let before =
            self.from.nodes.iter().map(|node| (&**node, if new.contains(node) { "stays" } else { "leaves" }));
        let joining = self.to.nodes.iter().filter(|node| !old.contains(node)).map(|node| (&**node, "joins"));
        before.chain(joining).collect()
    }

    fn in_one_line(&self) -> String {
        let nodes: Vec<String> = self.nodes().iter().map(|(node, what)| format!("{node} {what}")).collect();
        let (from, to) = (&self.from.fingerprint, &self.to.fingerprint);
        format!("moving the quorum from ({from}) to ({to}): {}", nodes.join(", "))
    }

    fn question(&self, longest: Duration) -> String {
        let shown = self.shown(table::width_of(&Term::stderr()));
        let longest = duration::shown(longest);
        format!(
            "{shown}\nNo lock can be had for about {longest}, and clients with the old settings none any \
             more. Move the quorum?"
        )
    }

    fn shown(&self, width: Option<u16>) -> String {
        let mut table = table::table(&["node", "change"], width);
        for (node, what) in self.nodes() {
            table.add_row([node, what]);
        }
        let configurations = [("from", &self.from), ("to", &self.to)].map(|(which, configuration)| {
            table::wrapped(&format!("{which}: {}", configuration.fingerprint), width)
        });
        format!("{}\n{}", table.trim_fmt(), configurations.join("\n"))
    }
}

/// The error, with what to do about it.
fn explained(error: AdminError) -> Failure {
    let is_incomplete = matches!(error, AdminError::Incomplete(_));
    let failure = Failure::from(error);
    if !is_incomplete {
        return failure;
    }
    let message = format!("{}; bring up the others and call it again: it goes on from here", failure.message);
    Failure { message, ..failure }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nthe quorum was moved: give all clients the new settings", self.shown(table::width()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_told_once_with_what_becomes_of_it() {
        let configuration = |nodes: &[&str]| Configuration {
            fingerprint: format!("nodes={}", nodes.len()),
            nodes: nodes.iter().map(ToString::to_string).collect(),
        };
        let change = Move { from: configuration(&["a:1", "b:1"]), to: configuration(&["b:1", "c:1", "d:1"]) };
        assert_eq!(change.nodes(), [("a:1", "leaves"), ("b:1", "stays"), ("c:1", "joins"), ("d:1", "joins")]);
        let question = change.question(Duration::from_secs(60));
        for words in ["from: nodes=2", "to: nodes=3", "about 60.0s"] {
            assert!(question.contains(words), "{question}");
        }
    }
}
