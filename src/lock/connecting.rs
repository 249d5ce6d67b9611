//! Finding out whether there is a quorum.

use std::sync::Arc;

use crate::{
    error::{ConnectError, SameServer},
    lock::{core::Core, inspection::ask_all},
    node::{Answer, Fault, Run},
    resource::Resource,
    vote::Vote,
};

/// Waits until every node has answered or failed, and refuses anything that is no quorum of different servers.
pub(crate) async fn wait_for_quorum(core: &Core) -> Result<(), ConnectError> {
    let deadline = core.now() + core.settings.connect_timeout;
    let answers = ask_all(core, &Resource::internal(*b"redquorum:connect"), deadline).await;
    refuse_same_server(core, &answers)?;
    let misfits: Vec<_> =
        answers.iter().enumerate().map(|(node, answer)| misfit(core, node, answer)).collect();
    let fits = |(answer, misfit): &(&Answer, &Option<ConnectError>)| {
        matches!(answer, Answer::Inspected(_)) && misfit.is_none()
    };
    let needed = core.settings.electorate.needed();
    let has_quorum = answers.iter().zip(&misfits).filter(fits).count() >= needed;
    for misfit in misfits.into_iter().flatten() {
        // What does not pass by itself is better said at once, unless the others can do without.
        if !has_quorum {
            return Err(misfit);
        }
        tracing::warn!(%misfit, "a node is refused; the others are a quorum");
    }
    if has_quorum {
        return Ok(());
    }
    Err(ConnectError::NoQuorum { needed, votes: core.votes(answers.iter().map(Vote::of)) })
}

/// What is wrong with a node, if something is that does not pass by itself.
fn misfit(core: &Core, node: usize, answer: &Answer) -> Option<ConnectError> {
    let node = Arc::clone(core.nodes.get(node)?.address());
    let ours = &core.settings.terms.fingerprint;
    let other_quorum = |node, theirs: &_| {
        let (ours, theirs) = (ours.clone(), Clone::clone(theirs));
        Some(ConnectError::OtherQuorum { node, ours, theirs })
    };
    match answer {
        // Where connections do not enrol, nobody has looked at it yet.
        Answer::Inspected(inspection) => match &inspection.fingerprint {
            Some(theirs) if theirs != ours => other_quorum(node, theirs),
            _ => None,
        },
        Answer::Fault(Fault::Handshake(fault)) => match &**fault {
            Fault::RunIdForbidden => Some(ConnectError::RunIdForbidden { node }),
            Fault::ClockOff(by) => Some(ConnectError::ClockOff { node, by: *by }),
            Fault::OtherQuorum(theirs) => other_quorum(node, theirs),
            Fault::ClusterMode => Some(ConnectError::ClusterMode { node }),
            Fault::SentinelMode => Some(ConnectError::SentinelMode { node }),
            _ => None,
        },
        _ => None,
    }
}

/// Refuses two addresses that lead to one server.
pub(super) fn refuse_same_server(core: &Core, answers: &[Answer]) -> Result<(), SameServer> {
    let mut known: Vec<(&Arc<str>, &Run)> = Vec::new();
    for (node, answer) in core.nodes.iter().zip(answers) {
        let second = node.address();
        let (first, run) = match answer {
            Answer::Inspected(inspection) => {
                let Some(run) = &inspection.run else { continue };
                let Some((first, _)) = known.iter().find(|(_, other)| *other == run) else {
                    known.push((second, run));
                    continue;
                };
                (*first, run)
            }
            Answer::Fault(Fault::Handshake(fault)) => match &**fault {
                Fault::SameServer { other, run } => (other, run),
                _ => continue,
            },
            _ => continue,
        };
        // Named in the order in which they were given, whoever connected first.
        let place = |address: &Arc<str>| core.nodes.iter().position(|node| node.address() == address);
        let (first, second) = if place(first) < place(second) { (first, second) } else { (second, first) };
        return Err(SameServer { first: Arc::clone(first), second: Arc::clone(second), run_id: run_id(run) });
    }
    Ok(())
}

/// What `INFO` calls `run_id`.
fn run_id(run: &Run) -> Arc<str> {
    run.split('/').next().unwrap_or_default().into()
}
