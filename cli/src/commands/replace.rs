//! `redquorum replace`: replaces one node by a new server, while clients hold and acquire locks.
//!
//! ```text
//!   check of every node ──► old node retired ──► new server registered ──► quarantine ──► list for the clients
//!     │      └─ unfit: 69, 78
//!     └──── old node silent: question or --old-is-gone ──► new server registered ──► ...
//! ```
//!
//! A signal ends the command at any time. The same command continues the replacement.

use std::{cell::Cell, fmt};

use clap::Args;
use nix::sys::signal::Signal;
use redquorum::{
    admin::{self, Abandoned, Replaced, Replacement},
    error::{AdminError, ConfigError, NodeReply},
};
use serde::Serialize;

use crate::{
    app::App, consent, duration, exit::Exit, failure::Failure, node_remedy, settings::Settings,
    supervise::signals::Signals, waiting::WaitLine,
};

/// Replace a node by a new server while locks are in use
///
/// The nodes of the settings are those of the running clients. Every other node has to answer and
/// vote, and the new server must have no node metadata. The old node is retired, so that it never votes again.
/// Then the new server joins. It votes after a quarantine (`max_ttl` and a little more), and the
/// command prints the list of nodes that the clients are to get. Running clients go on with the
/// other nodes until they are restarted.
///
/// An old node that does not answer must be gone for good: nothing starts its server again, or its
/// address leads nowhere, and no other server was put in its place. On a terminal, the command asks.
/// Otherwise it requires `--old-is-gone`.
///
/// Afterwards, stop the old server for good, at once: nothing may answer at its address until every
/// client has the new list. Replace one node at a time.
///
/// If the command fails or is interrupted, run it again to continue. If it cannot succeed and the old
/// node is not retired yet, `--abandon` ends it.
#[derive(Args, Debug)]
pub(crate) struct Replace {
    /// The URL of the node that leaves
    #[arg(long, value_name = "URL")]
    old: String,
    /// The URL of the empty server that takes its place
    #[arg(long, value_name = "URL")]
    new: String,
    /// Replace the old node although it does not answer, because it is gone for good
    ///
    /// If the old node votes again later, or another server was put in its place before, two clients can
    /// hold one lock. An old node that has lost its data needs this option, too.
    #[arg(long)]
    old_is_gone: bool,
    /// Abandon a replacement that has not retired the old node
    ///
    /// The old node stays in the quorum, and another replacement can begin. The command acts at once. It fails
    /// if the old node is retired: then run the command without this option, to finish the replacement.
    #[arg(long)]
    abandon: bool,
}

/// The output of `replace --abandon`.
#[derive(Debug, Serialize)]
struct AbandonOutput {
    /// The address of the node that stays.
    old: String,
    /// The address of the server that was to take its place.
    new: String,
    /// The nodes that may still have the replacement on record, and their replies.
    missed: Vec<String>,
    /// Whether a node had recorded the replacement, or the new server was closed for it.
    was_begun: bool,
    /// Another replacement that was begun, if a node has recorded one.
    unfinished: Option<UnfinishedOutput>,
}

/// A replacement that was begun, and has neither ended nor been abandoned.
#[derive(Debug, Serialize)]
struct UnfinishedOutput {
    /// The address of the old node.
    old: String,
    /// The address of the new server.
    new: String,
}

/// The output of `replace`.
#[derive(Debug, Serialize)]
struct ReplaceOutput {
    /// The address of the old node.
    old: String,
    /// The address of the new server.
    new: String,
    /// The nodes for the clients, with `***@` in place of user and password.
    nodes: Vec<String>,
}

impl Replace {
    /// Replaces the node and prints the new list of nodes.
    ///
    /// # Errors
    ///
    /// [`Exit::Declined`] if the user answers that the old node may come back, [`Exit::Signal`] if a signal interrupts
    /// the replacement, or the failure of the replacement.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let (mut signals, may_have_changed) = (Signals::register()?, Cell::new(false));
        tokio::select! {
            biased;
            signal = signals.end(&app.messages) => match may_have_changed.get() {
                true => Err(interrupted(signal)),
                false => Ok(Exit::Signal(signal as u8)),
            },
            replaced = self.replace(app, &may_have_changed) => replaced,
        }
    }

    /// Replaces the node, or abandons the replacement. Sets `may_have_changed` before the first request that may change a node.
    async fn replace(&self, app: &App, may_have_changed: &Cell<bool>) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let replacement = Replacement::new(&self.old, &self.new);
        let replacement = if self.old_is_gone { replacement.old_is_gone() } else { replacement };
        may_have_changed.set(true);
        if self.abandon {
            return self.abandon(app, &settings, &replacement).await;
        }
        let replaced = match wait_for(app, &settings, &replacement).await {
            Err(AdminError::OldSilent { node, error, may_be_retired, .. })
                if !self.old_is_gone && consent::has_terminal() =>
            {
                app.messages.flush();
                let question = format!(
                    "{node} is to be replaced and does not answer:\n{error}.\n\
                     If its server starts again, or another server was put in its place\n\
                     before, two clients can hold one lock. Is the server gone for good, so\n\
                     that nothing starts it again or its address leads nowhere, and is this\n\
                     its only replacement?"
                );
                if !consent::ask(question, "--old-is-gone").await? {
                    let message = if may_be_retired {
                        format!(
                            "{node} may be retired already: do not start it again, and run the command again when it is \
                             gone for good or answers"
                        )
                    } else {
                        format!("{node} was not replaced: start it, and run the command again")
                    };
                    return Err(Failure::new(Exit::Declined, message));
                }
                wait_for(app, &settings, &replacement.old_is_gone()).await
            }
            replaced => replaced,
        };
        let Replaced { old, new, nodes, .. } = replaced.map_err(explained)?;
        app.output.print(&ReplaceOutput { old: old.to_string(), new: new.to_string(), nodes })?;
        Ok(Exit::Success)
    }
}

impl Replace {
    /// Abandons the replacement, and prints the nodes that did not answer. If nothing was begun, the addresses may be wrong,
    /// so another replacement that was begun is an error.
    async fn abandon(
        &self,
        app: &App,
        settings: &Settings,
        replacement: &Replacement,
    ) -> Result<Exit, Failure> {
        let abandoned = admin::abandon_replacement(&settings.builder(), replacement).await;
        let Abandoned { old, new, replies, was_begun, unfinished, .. } = abandoned.map_err(not_abandoned)?;
        let is_missed = |reply: &NodeReply| !matches!(reply, NodeReply::Done | NodeReply::NotAsked);
        let missed = replies.iter().filter(|(_, reply)| is_missed(reply));
        let missed: Vec<String> = missed.map(|(node, reply)| format!("{node}: {reply}")).collect();
        let exit = match (missed.is_empty(), was_begun || unfinished.is_none()) {
            (false, _) => Exit::NoQuorum,
            (true, true) => Exit::Success,
            (true, false) => Exit::Config,
        };
        let unfinished =
            unfinished.map(|(old, new)| UnfinishedOutput { old: old.to_string(), new: new.to_string() });
        let (old, new) = (old.to_string(), new.to_string());
        app.output.print(&AbandonOutput { old, new, missed, was_begun, unfinished })?;
        Ok(exit)
    }
}

/// Replaces the node, and shows the wait for the new server.
async fn wait_for(app: &App, settings: &Settings, replacement: &Replacement) -> Result<Replaced, AdminError> {
    let lasts = duration::shown(settings.effective.max_ttl);
    let message =
        format!("replacing the node: the new server votes about {lasts} after the end of the old one");
    let waiting = WaitLine::show(&app.messages, message);
    let replaced = admin::replace(&settings.builder(), replacement).await;
    drop(waiting);
    replaced
}

/// Returns the failure of a replacement that a signal has interrupted.
fn interrupted(signal: Signal) -> Failure {
    let message = format!(
        "{signal} interrupted the replacement: run the same command again to continue or to check it"
    );
    Failure::new(Exit::Signal(signal as u8), message)
}

/// Adds the remedy to the error of a replacement that cannot be abandoned.
fn not_abandoned(error: AdminError) -> Failure {
    let is_replaced = matches!(error, AdminError::AlreadyReplaced { .. });
    let failure = explained(error);
    if !is_replaced {
        return failure;
    }
    Failure { message: format!("{}; run the command without `--abandon`", failure.message), ..failure }
}

/// Adds the remedy to an error, and names an argument of the call as the option of the command.
fn explained(error: AdminError) -> Failure {
    if names_an_argument(&error) {
        let failure = Failure::from(error);
        return Failure { message: format!("--{}", failure.message), ..failure };
    }
    let AdminError::Incomplete(replies) = &error else { return error.into() };
    let mut remedies = node_remedy::for_failures(replies);
    remedies.push("run the same command again");
    let remedy = remedies.join(", and ");
    let failure = Failure::from(error);
    Failure { message: format!("{}; {remedy}", failure.message), ..failure }
}

/// Whether the text of the error begins with the name of an argument of `replace`.
fn names_an_argument(error: &AdminError) -> bool {
    let AdminError::Config(error) = error else { return false };
    match error {
        ConfigError::OutOfRange { setting, .. } => matches!(*setting, "old" | "new"),
        ConfigError::Url { url, .. } => url.starts_with("old, ") || url.starts_with("new, "),
        _ => false,
    }
}

impl fmt::Display for AbandonOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { old, new, missed, was_begun, unfinished } = self;
        match was_begun {
            true => write!(f, "the replacement of {old} by {new} is abandoned")?,
            false => write!(f, "no node has recorded a replacement of {old} by {new}")?,
        }
        if !missed.is_empty() {
            let words =
                if *was_begun { ", except on these nodes" } else { ", but these nodes showed no record" };
            writeln!(f, "{words}:")?;
            for node in missed {
                writeln!(f, "  {node}")?;
            }
            f.write_str("run the same command again when they answer")?;
        }
        match unfinished {
            Some(UnfinishedOutput { old, new }) => {
                write!(f, "\nanother replacement was begun: of {old} by {new}")
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for ReplaceOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { old, new, .. } = self;
        writeln!(f, "{old} was replaced by {new}, which votes")?;
        // Each line fits into a terminal of 80 columns.
        writeln!(f, "now stop the old server for good: nothing may answer at its address while a")?;
        writeln!(f, "client has the old list; then restart the clients one by one with these nodes:")?;
        f.write_str(&self.nodes.join("\n"))
    }
}
