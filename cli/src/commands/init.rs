//! `redquorum init`: makes a quorum of new nodes.

use std::{collections::BTreeMap, fmt};

use clap::Args;
use redquorum::{
    __command::connectors,
    admin::{self, InitOutcome},
    error::{AdminError, ConfigError, NodeReplies, NodeReply},
};
use serde::Serialize;

use crate::{app::App, exit::Exit, failure::Failure, narration::narrate_connecting, shortage::Teller, table};

/// Make a quorum of new nodes
///
/// An administrator's act, once: it tells new nodes from nodes that have lost everything, which no
/// client can. All nodes have to be up, and none may have been in a quorum before; otherwise
/// nothing is changed. Without it, new nodes vote for nobody at first, for `max_ttl` and a little
/// more.
///
/// With --if-needed, nodes that are this quorum already are a success. That is for a deployment
/// job, not for the start of each service: if there is one node, or if all have lost their data at
/// once, nothing tells them from new ones, and they would vote beside leases that are still held.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// Do nothing if the nodes are this quorum already; those that know nothing join after a
    /// quarantine
    #[arg(long)]
    if_needed: bool,
}

/// The output of `init`.
#[derive(Debug, Serialize)]
struct InitOutput {
    /// The quorum's configuration, as the nodes keep it now.
    fingerprint: String,
    /// The nodes of the quorum.
    nodes: Vec<String>,
    /// Whether it was made by this call, so that all of them vote from now on.
    was_made: bool,
    /// What each of the nodes said that does not vote as it knew nothing, or could not be asked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    absent: BTreeMap<String, String>,
}

impl Init {
    /// Makes the quorum.
    ///
    /// # Errors
    ///
    /// Why it was not made, and what has become of each node.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let builder = app.settings()?.builder();
        let nodes = connectors(&builder)?;
        let mut made = InitOutput {
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
        let mut teller = Teller::default();
        let outcome = tokio::select! {
            biased;
            outcome = init => outcome.map_err(|error| explained(error, &made.fingerprint))?,
            // Either waits for all of them.
            never = narrate_connecting(&nodes, nodes.len(), &mut teller, &app.messages) => match never {},
        };
        if let InitOutcome::AlreadyDone(replies) = outcome {
            made.was_made = false;
            let absent = replies.iter().filter(|(_, reply)| **reply != NodeReply::Done);
            made.absent = absent.map(|(node, reply)| (node.to_owned(), reply.to_string())).collect();
        }
        app.output.print(&made)?;
        Ok(Exit::Success)
    }
}

/// The error, with what has become of the nodes, or what to do with those of this configuration.
fn explained(error: AdminError, ours: &str) -> Failure {
    let nodes = match &error {
        AdminError::Incomplete(replies) => incomplete(replies),
        AdminError::NotNew { metadata, .. } if **metadata == *ours => {
            "no node was changed: with --if-needed, nodes that are this quorum already are a success"
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

/// What has become of each node if not all took part: made or not, whatever they said.
fn incomplete(replies: &NodeReplies) -> String {
    let made: Vec<&str> =
        replies.iter().filter(|(_, reply)| **reply == NodeReply::Done).map(|(node, _)| node).collect();
    if made.is_empty() {
        return "no node was changed: bring up those that did not answer, and call it again".to_owned();
    }
    format!(
        "made are {}: start clients, and the others join after a quarantine when they are up",
        made.join(", ")
    )
}

impl fmt::Display for InitOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table::table(&["node", "admitted"], table::width());
        for node in &self.nodes {
            let state = if self.was_made { "new: it votes from now on" } else { "it knows the quorum" };
            table.add_row([node.as_str(), self.absent.get(node).map_or(state, String::as_str)]);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        let outcome = if self.was_made { "a quorum was made" } else { "the quorum was made before" };
        write!(f, "{outcome}: {}", self.fingerprint)
    }
}
