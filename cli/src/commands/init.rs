//! `redquorum init`: initialises new nodes as a quorum.

use std::{collections::BTreeMap, fmt};

use clap::Args;
use redquorum::{
    __command::connectors,
    admin::{self, InitOutcome},
    error::{AdminError, ConfigError, NodeReplies, NodeReply},
};
use serde::Serialize;

use crate::{
    app::App, exit::Exit, failure::Failure, shortage::ShortageReporter, table, wait_report::report_connecting,
};

/// Initialise new nodes as a quorum
///
/// An administrator runs this command once, because a client cannot distinguish new nodes from
/// nodes that lost their data. All nodes have to be up, and no node may have been in a quorum
/// before; otherwise nothing is changed. Without `init`, new nodes first abstain for `max_ttl` and
/// a little more.
///
/// With --if-needed, a quorum that is initialised already is a success. Use this option in a
/// deployment job, not at the start of each service: a single node, or nodes that all lost their
/// data at once, look like new nodes, and would vote beside leases that are still held.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// Succeed without a change if the nodes are this quorum already; nodes without metadata join after
    /// a quarantine
    #[arg(long)]
    if_needed: bool,
}

/// The output of `init`.
#[derive(Debug, Serialize)]
struct InitOutput {
    /// The quorum's configuration in the metadata of the nodes.
    fingerprint: String,
    /// The nodes of the quorum.
    nodes: Vec<String>,
    /// Whether this call initialised the quorum, so that all nodes vote from now on.
    was_made: bool,
    /// The nodes that do not vote, because they have no metadata or did not answer, with their replies.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    absent: BTreeMap<String, String>,
}

impl Init {
    /// Initialises the quorum and prints its nodes.
    ///
    /// # Errors
    ///
    /// The failure, with the state of each node.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let builder = app.settings()?.builder();
        let nodes = connectors(&builder)?;
        let mut output = InitOutput {
            fingerprint: admin::fingerprint(&builder)?,
            nodes: nodes.iter().map(|node| node.address().to_owned()).collect(),
            was_made: true,
            absent: BTreeMap::new(),
        };
        let init = async {
            if self.if_needed {
                return admin::init_if_needed(&builder).await;
            }
            admin::init(&builder).await.map(|()| InitOutcome::Created)
        };
        let mut reporter = ShortageReporter::default();
        let outcome = tokio::select! {
            biased;
            outcome = init => outcome.map_err(|error| explained(error, &output.fingerprint))?,
            // Both forms of `init` wait for all nodes, not for a quorum.
            never = report_connecting(&nodes, nodes.len(), &mut reporter, &app.messages) => match never {},
        };
        if let InitOutcome::AlreadyDone(replies) = outcome {
            output.was_made = false;
            let absent = replies.iter().filter(|(_, reply)| **reply != NodeReply::Done);
            output.absent = absent.map(|(node, reply)| (node.to_owned(), reply.to_string())).collect();
        }
        app.output.print(&output)?;
        Ok(Exit::Success)
    }
}

/// Adds to an error the state of the nodes and the remedy.
fn explained(error: AdminError, ours: &str) -> Failure {
    let nodes = match &error {
        AdminError::Incomplete(replies) => incomplete(replies),
        AdminError::NotNew { metadata, .. } if **metadata == *ours => {
            "no node was changed: with --if-needed, a quorum that is initialised already is a success"
                .to_owned()
        }
        AdminError::NotNew { .. } | AdminError::Config(ConfigError::Server { .. }) => {
            "no node was changed".to_owned()
        }
        _ => return error.into(),
    };
    let failure = Failure::from(error);
    Failure::new(failure.exit, format!("{}; {nodes}", failure.message))
}

/// Returns the state of the nodes and the remedy, after an `init` that some nodes did not confirm.
fn incomplete(replies: &NodeReplies) -> String {
    let initialised: Vec<&str> =
        replies.iter().filter(|(_, reply)| **reply == NodeReply::Done).map(|(node, _)| node).collect();
    if initialised.is_empty() {
        return "no node was changed: start the nodes that did not answer, and run `init` again".to_owned();
    }
    format!(
        "initialised: {}; start clients, and the other nodes join after a quarantine once they are up",
        initialised.join(", ")
    )
}

impl fmt::Display for InitOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table::table(&["node", "admitted"], table::width());
        for node in &self.nodes {
            let state = if self.was_made { "new: votes from now on" } else { "initialised before" };
            table.add_row([node.as_str(), self.absent.get(node).map_or(state, String::as_str)]);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        let outcome = if self.was_made { "quorum initialised" } else { "the quorum exists already" };
        write!(f, "{outcome}: {}", self.fingerprint)
    }
}
