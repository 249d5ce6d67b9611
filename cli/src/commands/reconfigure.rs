//! `redquorum reconfigure`: moves a quorum to another configuration.
//!
//! ```text
//!   both files ──► question or --yes ──► check of every node ──► old nodes closed ──► wait ──► new nodes open
//!         │              └─ no: 83              └─ unfit: 69, 78
//!         └──── --give-up: old nodes open again
//! ```
//!
//! A signal ends the command at any time. If nodes may be closed, the command then reports both ways to go on.
//!
//! The wait lasts for the longer `max_ttl` of both files and a little more. After a failure, another call with the same
//! files continues from there.

use std::{cell::Cell, collections::BTreeSet, fmt, path::PathBuf, time::Duration};

use clap::Args;
use console::Term;
use nix::sys::signal::Signal;
use redquorum::{
    __command::{connectors, reconfigure_unless_done},
    QuorumBuilder, admin,
    error::{AdminError, NodeReply, Refusal},
};
use serde::Serialize;

use crate::{
    app::App,
    consent::{self, Consent},
    duration,
    exit::Exit,
    failure::Failure,
    node_remedy,
    settings::Settings,
    supervise::signals::Signals,
    table,
    waiting::WaitLine,
};

/// Move a quorum to other nodes or settings
///
/// Changes the settings that all clients have to share: nodes, votes needed, `max_ttl`,
/// `attempt_timeout`, `drift`. Each file is a complete configuration; --node and the environment are
/// not used. --ca, --cert and --key apply to a file without a table `[tls]`. Give the new
/// configuration its own `name`.
///
/// The command first shows the changes and asks for confirmation. Without a terminal, `--yes` is
/// required. Then the command asks every node, and changes nothing unless the move can succeed: all new
/// nodes have to answer, and must be empty or take part in this move.
///
/// The command closes the old nodes, waits until every lease has ended (the longer `max_ttl` and a
/// little more), and opens the new nodes. Meanwhile no lock can be acquired. If the command fails
/// or is interrupted, run it again to continue, or open the old nodes again with `--give-up`.
#[derive(Args, Debug)]
pub(crate) struct Reconfigure {
    /// A TOML file with the present configuration
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// A TOML file with the new configuration
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Give up an interrupted move: open the old nodes again
    ///
    /// Name the files of the move in the same order. The command acts at once, and fails if new nodes
    /// may vote already.
    #[arg(long)]
    give_up: bool,
}

/// The old or the new configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Configuration {
    /// The configuration in the metadata of the nodes.
    fingerprint: String,
    nodes: Vec<String>,
}

/// The move from one configuration to another, in questions, notices and results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Move {
    from: Configuration,
    to: Configuration,
    #[serde(skip)]
    outcome: Outcome,
}

/// The outcome, as the last line of the text output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Moved,
    /// The nodes belonged to the new configuration before.
    MovedBefore,
    /// Nodes cannot distinguish the two configurations.
    NothingToMove,
    GivenUp,
}

impl Reconfigure {
    /// Shows the changes, asks for confirmation, and moves the quorum.
    ///
    /// # Errors
    ///
    /// [`Exit::Usage`] without `--yes` and a terminal, [`Exit::Declined`] if the answer is no, [`Exit::Signal`] if a
    /// signal interrupts the move, or the failure of the move.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let (mut signals, may_have_changed) = (Signals::register()?, Cell::new(false));
        tokio::select! {
            biased;
            signal = signals.end(&app.messages) => match may_have_changed.get() {
                true => Err(interrupted(signal, self.give_up)),
                false => Ok(Exit::Signal(signal as u8)),
            },
            done = self.move_or_give_up(app, &may_have_changed) => done,
        }
    }

    /// Sets `may_have_changed` before the first request that may change a node.
    async fn move_or_give_up(&self, app: &App, may_have_changed: &Cell<bool>) -> Result<Exit, Failure> {
        if !app.general.nodes.is_empty() || app.general.config.is_some() {
            return Err(Failure::usage(
                "reconfigure takes its nodes from --from and --to: leave out --node and --config",
            ));
        }
        // A give-up needs no question, because an unsafe give-up fails.
        let consent = if self.give_up { Consent::Given } else { Consent::of(self.yes, "move the quorum")? };
        let (old, new) =
            (Settings::of_file(&self.from, &app.general)?, Settings::of_file(&self.to, &app.general)?);
        let (from, to) = (Configuration::of(&old.builder())?, Configuration::of(&new.builder())?);
        if self.give_up {
            may_have_changed.set(true);
            let given_up = admin::give_up_reconfigure(&old.builder(), &new.builder()).await;
            given_up.map_err(|error| explained(error, true))?;
            app.output.print(&Move { from, to, outcome: Outcome::GivenUp })?;
            return Ok(Exit::Success);
        }
        let is_same = from.fingerprint == to.fingerprint;
        let outcome = if is_same { Outcome::NothingToMove } else { Outcome::Moved };
        let change = Move { from, to, outcome };
        let longest = old.effective.max_ttl.max(new.effective.max_ttl);
        match consent {
            Consent::Given => app.messages.notice(&change.in_one_line()),
            Consent::Ask => {
                app.messages.flush();
                if !consent::ask(change.question(longest), "--yes").await? {
                    return Err(Failure::new(Exit::Declined, "nothing was changed: the answer was no"));
                }
            }
        }
        let message = format!("moving the quorum: no lock for about {}", duration::shown(longest));
        let waiting = WaitLine::show(&app.messages, message);
        may_have_changed.set(true);
        let moved = reconfigure_unless_done(&old.builder(), &new.builder()).await;
        drop(waiting);
        let is_moved = moved.map_err(|error| explained(error, false))?;
        let outcome = if is_moved || is_same { change.outcome } else { Outcome::MovedBefore };
        app.output.print(&Move { outcome, ..change })?;
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
    /// Returns every node of both configurations, in the order of the files, with its change.
    fn nodes(&self) -> Vec<(&str, &'static str)> {
        let (old, new): (BTreeSet<_>, BTreeSet<_>) =
            (self.from.nodes.iter().collect(), self.to.nodes.iter().collect());
        let before =
            self.from.nodes.iter().map(|node| (&**node, if new.contains(node) { "stays" } else { "leaves" }));
        let joining = self.to.nodes.iter().filter(|node| !old.contains(node)).map(|node| (&**node, "joins"));
        before.chain(joining).collect()
    }

    fn in_one_line(&self) -> String {
        let nodes: Vec<String> =
            self.nodes().iter().map(|(node, change)| format!("{node} {change}")).collect();
        let (from, to) = (&self.from.fingerprint, &self.to.fingerprint);
        format!("moving the quorum from ({from}) to ({to}): {}", nodes.join(", "))
    }

    fn question(&self, longest: Duration) -> String {
        let shown = self.shown(table::width_of(&Term::stderr()));
        let longest = duration::shown(longest);
        format!(
            "{shown}\nNo lock can be acquired for about {longest}. Clients with the old settings will not \
             acquire locks any more. Move the quorum?"
        )
    }

    fn shown(&self, width: Option<u16>) -> String {
        let mut table = table::table(&["node", "change"], width);
        for (node, change) in self.nodes() {
            table.add_row([node, change]);
        }
        let configurations = [("from", &self.from), ("to", &self.to)].map(|(which, configuration)| {
            table::wrapped(&format!("{which}: {}", configuration.fingerprint), width)
        });
        format!("{}\n{}", table.trim_fmt(), configurations.join("\n"))
    }
}

/// Returns the failure of a move, or of its give-up, that a signal has interrupted.
fn interrupted(signal: Signal, is_give_up: bool) -> Failure {
    let state = "the old nodes may be closed, so that no lock can be acquired";
    let message = if is_give_up {
        format!("{signal} interrupted the give-up, and {state}: run the same command again")
    } else {
        format!(
            "{signal} interrupted the move, and {state}: run the same command again to continue, or add --give-up, \
             which opens the old nodes again unless new nodes may vote already"
        )
    };
    Failure::new(Exit::Signal(signal as u8), message)
}

/// Adds the remedy to an error.
fn explained(error: AdminError, is_give_up: bool) -> Failure {
    let AdminError::Incomplete(replies) = &error else { return error.into() };
    let is_any = |is: fn(&Refusal) -> bool| {
        replies.iter().any(|(_, reply)| matches!(reply, NodeReply::Refused(refusal) if is(refusal)))
    };
    let mut remedies = node_remedy::for_failures(replies);
    if is_any(|refusal| matches!(refusal, Refusal::Quarantined { .. })) {
        remedies.push(
            "check the addresses of the nodes without metadata (new nodes need `redquorum init`, and nodes that lost \
             their data need a client with the old settings)",
        );
    }
    if is_any(|refusal| matches!(refusal, Refusal::WrongQuorum { .. })) {
        remedies.push(if is_give_up {
            "give up the other move too, or FLUSHALL a node that is left over from an old move"
        } else {
            "end the other move"
        });
    }
    let (outcome, repeat) = match (is_give_up, replies.done() > 0) {
        (true, true) => ("the nodes that are done are open again", "run the command again"),
        (true, false) => ("no node was opened", "run the command again"),
        (false, true) => (
            "the nodes that are done are closed or moved",
            "run the command again to continue, or open the old nodes again with --give-up",
        ),
        (false, false) => ("no node is closed", "run the command again"),
    };
    let remedy = match &remedies[..] {
        [] => repeat.to_owned(),
        remedies => format!("{}, and {repeat}", remedies.join(", ")),
    };
    let mut failure = Failure::from(error);
    failure.evidence.push(format!("{outcome}: {remedy}"));
    failure
}

impl Outcome {
    fn text(self) -> &'static str {
        match self {
            Self::Moved => "the quorum was moved: give all clients the new settings",
            Self::MovedBefore => {
                "nothing was moved: the nodes belong to the new configuration (--to) already; give all clients the new \
                 settings"
            }
            Self::NothingToMove => {
                "nothing was moved: every node belongs to the quorum, and nodes check none of the changed \
                 settings: give all clients the new settings"
            }
            Self::GivenUp => "the move was given up: every old node is open for the old settings",
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.shown(table::width()), self.outcome.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_lists_each_node_once_with_its_change() {
        let configuration = |nodes: &[&str]| Configuration {
            fingerprint: format!("nodes={}", nodes.len()),
            nodes: nodes.iter().map(ToString::to_string).collect(),
        };
        let change = Move {
            from: configuration(&["a:1", "b:1"]),
            to: configuration(&["b:1", "c:1", "d:1"]),
            outcome: Outcome::Moved,
        };
        assert_eq!(change.nodes(), [("a:1", "leaves"), ("b:1", "stays"), ("c:1", "joins"), ("d:1", "joins")]);
        let question = change.question(Duration::from_secs(60));
        for words in ["from: nodes=2", "to: nodes=3", "about 60.0s"] {
            assert!(question.contains(words), "{question}");
        }
    }
}
