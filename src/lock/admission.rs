//! Making a quorum, and remaking it: what an administrator decides.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    error::{AdmissionError, ConfigError},
    lock::{
        core::{Client, Core},
        inspection::{ask_all, ask_entry, hear_all},
    },
    node::{Answer, Enrol, Entry, Fingerprint, Reconfigure},
    resource::Resource,
    vote::Vote,
};

/// Makes a quorum of nodes none of which belongs to one.
///
/// # Cancel safety
///
/// Some nodes may be made already. They keep their record.
pub(super) async fn init(client: &Client) -> Result<(), AdmissionError> {
    let core = &client.core;
    refuse_known(core, &look(core).await?)?;
    let made = ask_all_nodes(core, Entry::Init).await;
    refuse_known(core, &made)?;
    every(core, &made)
}

/// Moves nodes from one configuration to another.
///
/// 1. So many old nodes are closed that the rest of them is no quorum.
/// 2. Every lease of the old configuration ends.
/// 3. The new nodes are opened under the new configuration.
///
/// # Cancel safety
///
/// Nodes that are closed stay closed; the same call again goes on from there.
pub(super) async fn reconfigure(old: &Client, new: &Client) -> Result<(), AdmissionError> {
    let (before, after) = (&old.core, &new.core);
    let (from, to) = (fingerprint(before), fingerprint(after));
    if from == to {
        let is_same = addresses(before) == addresses(after);
        return if is_same { Ok(()) } else { Err(AdmissionError::SameConfiguration { fingerprint: to }) };
    }
    let closed = to.closed_for();
    close(before, &from, &to, &closed).await?;
    let longest = before.settings.terms.quarantine.lasts.max(after.settings.terms.quarantine.lasts);
    before.clock.sleep_until(before.now() + longest).await;
    let open = Reconfigure { from: closed, to };
    let opened = ask_all_nodes(after, Entry::Reconfigure(open)).await;
    // Those without a record are new: whoever they replace cannot have a quorum any more.
    let made = ask_all_nodes(after, Entry::Init).await;
    let both: Vec<Answer> = opened.into_iter().zip(made).map(|(opened, made)| better(opened, made)).collect();
    every(after, &both)
}

/// Closes old nodes until the others are too few to vote.
async fn close(
    before: &Core,
    from: &Fingerprint,
    to: &Fingerprint,
    closed: &Fingerprint,
) -> Result<(), AdmissionError> {
    let close = Reconfigure { from: from.clone(), to: closed.clone() };
    let mut answers = ask_all_nodes(before, Entry::Reconfigure(close.clone())).await;
    if answers.iter().any(Answer::is_not_enrolled) {
        // They restarted empty, and no client has come since: with a record they can be closed as the others.
        drop(ask_all_nodes(before, Entry::Enrol(Enrol { admits_new: false })).await);
        answers = ask_all_nodes(before, Entry::Reconfigure(close)).await;
    }
    let is_closed = |answer: &&Answer| match answer {
        Answer::Enrolled(_) => true,
        // Opened by an earlier call.
        Answer::Foreign { fingerprint } => fingerprint == to,
        _ => false,
    };
    let electorate = before.settings.electorate;
    let left = electorate.nodes() - answers.iter().filter(is_closed).count();
    if left < electorate.needed() { Ok(()) } else { Err(incomplete(before, &answers)) }
}

/// What every node knows about itself.
async fn look(core: &Core) -> Result<Vec<Answer>, AdmissionError> {
    let probe = Resource::new("redquorum:init").map_err(AdmissionError::Config)?;
    let answers = ask_all(core, &probe, core.now() + core.settings.connect_timeout).await;
    let mut servers = BTreeSet::new();
    for (node, answer) in core.nodes.iter().zip(&answers) {
        let Answer::Inspected(inspection) = answer else { return Err(incomplete(core, &answers)) };
        if inspection.run.as_ref().is_some_and(|run| !servers.insert(Arc::clone(run))) {
            let address = Arc::clone(node.address());
            return Err(AdmissionError::Config(ConfigError::DuplicateNode { address }));
        }
    }
    Ok(answers)
}

fn refuse_known(core: &Core, answers: &[Answer]) -> Result<(), AdmissionError> {
    for (node, answer) in core.nodes.iter().zip(answers) {
        let theirs = match answer {
            Answer::Inspected(inspection) => inspection.fingerprint.clone(),
            Answer::Known { fingerprint } => Some(fingerprint.clone()),
            _ => None,
        };
        if let Some(theirs) = theirs {
            return Err(AdmissionError::NotNew { node: Arc::clone(node.address()), theirs });
        }
    }
    Ok(())
}

async fn ask_all_nodes(core: &Core, entry: Entry) -> Vec<Answer> {
    let deadline = core.now() + core.settings.connect_timeout;
    hear_all(core, ask_entry(core, entry, deadline), deadline).await
}

/// The answer that says that a node is in, if one of the two does.
fn better(opened: Answer, made: Answer) -> Answer {
    if matches!(made, Answer::Enrolled(_)) { made } else { opened }
}

fn every(core: &Core, answers: &[Answer]) -> Result<(), AdmissionError> {
    let is_done = answers.iter().all(|answer| matches!(answer, Answer::Enrolled(_)));
    if is_done { Ok(()) } else { Err(incomplete(core, answers)) }
}

fn incomplete(core: &Core, answers: &[Answer]) -> AdmissionError {
    AdmissionError::Incomplete { votes: core.votes(answers.iter().map(Vote::of)) }
}

fn fingerprint(core: &Core) -> Fingerprint {
    core.settings.terms.fingerprint.clone()
}

fn addresses(core: &Core) -> BTreeSet<Arc<str>> {
    core.nodes.iter().map(|node| Arc::clone(node.address())).collect()
}
