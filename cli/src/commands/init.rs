//! `redquorum init`: initialises new nodes as a quorum.

use std::{collections::BTreeMap, fmt, time::Duration};

use clap::Args;
use futures::future::join_all;
use redquorum::{
    __command::{NodeConnector, connectors},
    admin::{self, InitOutcome},
    error::{AdminError, ConfigError, NodeReplies, NodeReply, Refusal},
};
use serde::Serialize;

use crate::{
    app::App,
    connect::NodeConnection,
    consent,
    counted::counted,
    doctor::gather::metadata,
    duration,
    exit::Exit,
    failure::Failure,
    node_remedy,
    shortage::{NOT_EVERY_NODE, ShortageReporter},
    table,
    wait_report::report_connecting,
};

/// The time limit of each answer before the question. If a node does not answer in time, there is no question, and
/// `init` reports the node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Initialise new nodes as a quorum
///
/// An administrator runs this command once, because a client cannot distinguish new nodes from
/// nodes that lost their data. All nodes have to be up, and no node may have been in a quorum
/// before; otherwise nothing is changed. Without `init`, new nodes first abstain for `max_ttl` and
/// a little more.
///
/// With --if-needed, a quorum that is initialised already is a success if at least a quorum of its
/// nodes takes part; otherwise the exit status is 69. Use this option in a
/// deployment job, not at the start of each service: a single node, or nodes that all lost their
/// data at once, look like new nodes, and would vote beside leases that are still held.
///
/// On a terminal, the command asks before it admits nodes that are in quarantine already, unless --yes
/// is given. A client has registered with these nodes, which may have restarted or may have been
/// flushed while a lease is held.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// Succeed without a change if the nodes are this quorum already; nodes without metadata join after
    /// a quarantine
    #[arg(long)]
    if_needed: bool,
    /// Admit nodes in quarantine without a question
    #[arg(short, long)]
    yes: bool,
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
        if !self.yes && consent::has_terminal() {
            confirm(&nodes).await?;
        }
        let init = async {
            if self.if_needed {
                return admin::init_if_needed(&builder).await;
            }
            admin::init(&builder).await.map(|()| InitOutcome::Created)
        };
        let mut reporter = ShortageReporter::default();
        let outcome = tokio::select! {
            biased;
            outcome = init => outcome
                .map_err(|error| reporter.mark_reported(explained(error, &output.fingerprint)))?,
            // Both forms of `init` wait for all nodes, not for a quorum.
            never = report_connecting(
                &nodes,
                nodes.len(),
                NOT_EVERY_NODE,
                &mut reporter,
                &app.messages,
            ) => match never {},
        };
        if let InitOutcome::AlreadyDone(replies) = outcome {
            ensure_quorum(&replies)?;
            output.was_made = false;
            let absent = replies.iter().filter(|(_, reply)| **reply != NodeReply::Done);
            output.absent = absent.map(|(node, reply)| (node.to_owned(), reply.to_string())).collect();
        }
        app.output.print(&output)?;
        Ok(Exit::Success)
    }
}

/// Asks the user whether to admit new nodes that are in quarantine already. Returns without a question if no node is in
/// quarantine, or if `init` would change nothing in any case.
///
/// # Errors
///
/// [`Exit::Declined`] if the answer is no.
async fn confirm(nodes: &[NodeConnector]) -> Result<(), Failure> {
    let quarantines = join_all(nodes.iter().map(quarantine_of_new_node)).await;
    // `init` changes nothing if a node is not new or does not answer.
    let Some(quarantines) = quarantines.into_iter().collect::<Option<Vec<Duration>>>() else { return Ok(()) };
    let quarantined = quarantines.iter().filter(|rest| !rest.is_zero()).count();
    let Some(longest) = quarantines.iter().max().filter(|rest| !rest.is_zero()) else { return Ok(()) };
    let verb = if quarantined == 1 { "is" } else { "are" };
    let question = format!(
        "{quarantined} of {} {verb} in quarantine, because the nodes restarted, failed over, were flushed, or are \
         new.\nIf a client has ever locked here, its lease may still be held, and after `init` a second client could get the same \
         lock. The quarantine ends in {}.\nInitialise the nodes, because no client has ever locked here?",
        counted(nodes.len(), "node"),
        duration::shown(*longest)
    );
    if consent::ask(question, "--yes").await? {
        return Ok(());
    }
    let message =
        format!("no node was changed: the nodes vote in {} without `init`", duration::shown(*longest));
    Err(Failure::new(Exit::Declined, message))
}

/// Returns the remaining quarantine of a new node, which is zero without a quarantine. Returns `None` if the node is
/// not new or does not answer.
async fn quarantine_of_new_node(node: &NodeConnector) -> Option<Duration> {
    let mut connection = NodeConnection::open(node, ANSWER_TIMEOUT).await.ok()?;
    let is_new = metadata::is_new(&mut connection).await.ok()?.ok()?;
    let quarantine = metadata::quarantine(&mut connection).await.ok()?.ok()?;
    is_new.then(|| quarantine.unwrap_or_default())
}

/// Returns a failure if fewer nodes of an existing quorum than a quorum take part. A node that joins after a quarantine
/// takes part, too.
fn ensure_quorum(replies: &NodeReplies) -> Result<(), Failure> {
    let takes_part = |reply: &NodeReply| {
        matches!(reply, NodeReply::Done | NodeReply::Refused(Refusal::Quarantined { remaining: Some(_), .. }))
    };
    let (absent, present): (Vec<_>, Vec<_>) = replies.iter().partition(|(_, reply)| !takes_part(reply));
    if present.len() >= replies.needed() {
        return Ok(());
    }
    let nodes = counted(absent.len() + present.len(), "node");
    let message = format!(
        "the quorum exists already, but of its {nodes} only {} can vote, {} needed: correct the other nodes, and run \
         `init` again",
        present.len(),
        replies.needed()
    );
    let evidence = absent.into_iter().map(|(node, reply)| format!("{node}: {reply}")).collect();
    Err(Failure { evidence, ..Failure::new(Exit::NoQuorum, message) })
}

/// Returns the failure for an error, with the state of the nodes and the remedy.
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
    let mut failure = Failure::from(error);
    failure.evidence.push(nodes);
    failure
}

/// Returns the state of the nodes and the remedy, after an `init` that some nodes did not confirm.
fn incomplete(replies: &NodeReplies) -> String {
    let initialised: Vec<&str> =
        replies.iter().filter(|(_, reply)| **reply == NodeReply::Done).map(|(node, _)| node).collect();
    if initialised.is_empty() {
        let remedies = node_remedy::for_failures(replies).join(", ");
        return format!("no node was changed: {remedies}, and run `init` again");
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
