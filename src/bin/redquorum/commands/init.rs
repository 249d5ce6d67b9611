//! `redquorum init`: makes a quorum of new nodes.

use std::fmt;

use clap::Args;
use redquorum::{AdmissionError, Vote, Votes};
use serde::Serialize;

use crate::{app::App, exit::Exit, failure::Failure, table::table};

/// Make a quorum of new nodes
///
/// An administrator's act, once, before the first client connects: it tells new nodes from nodes that have lost everything,
/// which no client can. All nodes have to be up, and none may belong to a quorum; otherwise nothing is changed. Without it,
/// new nodes vote for nobody at first, for `max_ttl` and a little more.
#[derive(Args, Debug)]
pub(crate) struct Init {}

/// What has been done.
#[derive(Debug, Serialize)]
struct Made {
    /// The quorum's configuration, as the nodes keep it now.
    fingerprint: String,
    /// The nodes, all of which vote from now on.
    nodes: Vec<String>,
}

impl Init {
    /// Makes the quorum.
    ///
    /// # Errors
    ///
    /// Why it was not made, and what has become of each node.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let builder = app.settings()?.builder();
        let made = Made {
            fingerprint: builder.fingerprint()?.to_string(),
            nodes: builder.connectors()?.iter().map(|node| node.address().to_owned()).collect(),
        };
        builder.init().await.map_err(explained)?;
        app.output.print(&made)?;
        Ok(Exit::Success)
    }
}

/// The error, with what has become of the nodes.
fn explained(error: AdmissionError) -> Failure {
    let nodes = match &error {
        AdmissionError::Incomplete { votes } => incomplete(votes),
        AdmissionError::NotNew { .. } => "no node was changed".to_owned(),
        _ => return error.into(),
    };
    let failure = Failure::from(error);
    Failure::new(failure.exit, format!("{}; {nodes}", failure.message))
}

/// What has become of each node if not all took part: made or not, whatever they said.
fn incomplete(votes: &Votes) -> String {
    let made: Vec<&str> =
        votes.iter().filter(|(_, vote)| **vote == Vote::Granted).map(|(node, _)| node).collect();
    if made.is_empty() {
        return "no node was changed: bring up those that did not answer, and call it again".to_owned();
    }
    format!(
        "made are {}: start clients, and the others join after a quarantine when they are up",
        made.join(", ")
    )
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(&["node", "admitted"]);
        for node in &self.nodes {
            table.add_row([node, "new: it votes from now on"]);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        write!(f, "a quorum was made: {}", self.fingerprint)
    }
}
