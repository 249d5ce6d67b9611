//! Finding out whether there is a quorum.

use std::sync::Arc;

use crate::{
    error::ConnectError,
    lock::{core::Core, inspection::ask_all},
    node::{Answer, Fault, Run},
    resource::Resource,
    vote::Vote,
};

/// Waits until every node has answered or failed, and refuses anything that is no quorum of different servers.
pub(crate) async fn wait_for_quorum(core: &Core) -> Result<(), ConnectError> {
    let deadline = core.now() + core.settings.connect_timeout;
    let probe = Resource::new("redquorum:connect").map_err(ConnectError::Config)?;
    let answers = ask_all(core, &probe, deadline).await;
    refuse_misfits(core, &answers)?;
    refuse_same_server(core, &answers)?;
    let answered = answers.iter().filter(|answer| matches!(answer, Answer::Inspected(_))).count();
    let needed = core.settings.electorate.needed();
    if answered >= needed {
        return Ok(());
    }
    Err(ConnectError::NoQuorum { needed, votes: core.votes(answers.iter().map(Vote::of)) })
}

/// What is wrong with a node and does not pass by itself is better said at once.
fn refuse_misfits(core: &Core, answers: &[Answer]) -> Result<(), ConnectError> {
    for (node, answer) in core.nodes.iter().zip(answers) {
        let Answer::Fault(Fault::Handshake(fault)) = answer else { continue };
        let node = Arc::clone(node.address());
        match &**fault {
            Fault::RunIdForbidden => return Err(ConnectError::RunIdForbidden { node }),
            Fault::ClockOff(by) => return Err(ConnectError::ClockOff { node, by: *by }),
            Fault::OtherQuorum(theirs) => {
                let (ours, theirs) = (core.settings.terms.fingerprint.clone(), theirs.clone());
                return Err(ConnectError::OtherQuorum { node, ours, theirs });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Two addresses of one server would give it two votes.
fn refuse_same_server(core: &Core, answers: &[Answer]) -> Result<(), ConnectError> {
    let mut known: Vec<(&Arc<str>, &Run)> = Vec::new();
    for (node, answer) in core.nodes.iter().zip(answers) {
        let Answer::Inspected(inspection) = answer else { continue };
        let Some(run) = &inspection.run else { continue };
        if let Some((first, _)) = known.iter().find(|(_, other)| *other == run) {
            let (first, second) = (Arc::clone(first), Arc::clone(node.address()));
            return Err(ConnectError::SameServer { first, second, run_id: run_id(run) });
        }
        known.push((node.address(), run));
    }
    Ok(())
}

/// What `INFO` calls `run_id`.
fn run_id(run: &Run) -> Arc<str> {
    run.split('/').next().unwrap_or_default().into()
}
