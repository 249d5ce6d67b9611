//! Connecting to a quorum: the collection of answers until a quorum of nodes has answered.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{attempt::HEDGE_SHARE, node_set::NodeSet},
    client::{
        broadcast::{add_inspect, send_inspect},
        context::ClientContext,
        fanout::FanoutEvent,
    },
    error::{ConfigError, Error, Goal, NoQuorum},
    node::{Answer, Incarnation, RestartGuard},
    values::{Fingerprint, NodeError, NodeReply, Resource},
};

/// The delay after which a failed node is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// The least time to wait for the remaining nodes after a quorum has answered.
const SHORTEST_GRACE: Duration = Duration::from_millis(50);

/// The answers that the nodes have given so far.
pub(super) struct ConnectProgress {
    /// The last answer of each node; `TimedOut` for a node that has not answered.
    pub(super) answers: Vec<Answer>,
    answered: NodeSet,
}

/// The next step of a client that gathers answers.
pub(super) enum ConnectStep {
    Wait,
    /// Wait a little longer for the remaining nodes.
    Grace,
    Done,
}

impl ConnectProgress {
    /// Whether every node has answered or failed.
    fn is_complete(&self) -> bool {
        self.answered.len() == self.answers.len()
    }

    /// Returns the next step if no quorum is possible. The wait for the remaining nodes is useful, because the error
    /// would report a node that is only slightly slower as silent.
    pub(super) fn end(&self) -> ConnectStep {
        if self.is_complete() { ConnectStep::Done } else { ConnectStep::Grace }
    }
}

/// Asks every node for its metadata, and asks a failed node again until the node answers. Ends at the step
/// [`Done`](ConnectStep::Done), or at the connect timeout.
pub(super) async fn gather(
    context: &ClientContext,
    resource: Resource,
    next: impl Fn(&ConnectProgress) -> ConnectStep,
) -> Vec<Answer> {
    let start = context.now();
    let deadline = start + context.settings.connect_timeout;
    let mut asked = send_inspect(context, &resource, deadline);
    let answers = vec![Answer::Error(NodeError::TimedOut); context.nodes.len()];
    let mut progress = ConnectProgress { answers, answered: NodeSet::EMPTY };
    let (mut failed, mut again_at, mut end_of_grace) = (NodeSet::EMPTY, None, None);
    loop {
        let now = context.now();
        match next(&progress) {
            ConnectStep::Done => break,
            ConnectStep::Grace if end_of_grace.is_none() => {
                end_of_grace = Some(now + grace(context, now.saturating_duration_since(start)))
            }
            ConnectStep::Grace | ConnectStep::Wait => {}
        }
        let until = [again_at, end_of_grace].into_iter().flatten().fold(deadline, std::cmp::min);
        if let FanoutEvent::Answer { node, answer, .. } = asked.next(&*context.clock, until).await {
            if !matches!(answer, Answer::Inspected(_)) {
                failed.insert(node);
                again_at = again_at.or_else(|| Some(context.now() + AGAIN));
            }
            progress.answered.insert(node);
            if let Some(slot) = progress.answers.get_mut(node) {
                *slot = answer;
            }
            continue;
        }
        let now = context.now();
        if deadline <= now || end_of_grace.is_some_and(|end| end <= now) {
            break;
        }
        again_at = None;
        for node in std::mem::replace(&mut failed, NodeSet::EMPTY).iter() {
            add_inspect(context, &mut asked, node, &resource, deadline);
        }
    }
    progress.answers
}

/// Returns the time to wait for the remaining nodes after a quorum has answered within `took`. The time is enough for
/// nodes that are as quick as the quorum, and short enough for a silent node.
fn grace(context: &ClientContext, took: Duration) -> Duration {
    let node_timeout = context.settings.node_timeout_for(context.settings.ttl);
    took.max(SHORTEST_GRACE).min(node_timeout / HEDGE_SHARE)
}

/// Waits until a quorum of different servers has answered, and refuses unfit nodes.
///
/// The call waits a little longer for the remaining nodes. An unfit node that connects later is refused by its
/// registration. Without a restart guard there is no registration, so the call waits for every node.
pub(crate) async fn wait_for_quorum(context: &ClientContext) -> Result<(), Error> {
    let resource = Resource::internal(*b"redquorum:connect");
    let answers = gather(context, resource, |progress| next(context, progress)).await;
    refuse_same_server(context, &answers)?;
    let misfits: Vec<_> =
        answers.iter().enumerate().map(|(node, answer)| misfit(context, node, answer)).collect();
    let needed = context.settings.electorate.needed();
    let has_quorum = fitting(context, &answers) >= needed;
    for misfit in misfits.into_iter().flatten() {
        // An unfit node stays unfit, so the call fails at once, unless the remaining nodes form a quorum.
        if !has_quorum {
            return Err(misfit.into());
        }
        tracing::warn!(%misfit, "node refused; remaining nodes form a quorum");
    }
    if has_quorum {
        return Ok(());
    }
    let replies = context.replies(answers.iter().map(NodeReply::from));
    Err(NoQuorum::new(Goal::Connect, replies).into())
}

fn next(context: &ClientContext, progress: &ConnectProgress) -> ConnectStep {
    let ConnectProgress { answers, .. } = progress;
    let electorate = context.settings.electorate;
    let is_misfit = |(node, answer): (usize, &Answer)| misfit(context, node, answer).is_some();
    if refuse_same_server(context, answers).is_err() {
        return ConnectStep::Done;
    }
    if fitting(context, answers) >= electorate.needed() {
        return match context.settings.parameters.guard {
            _ if progress.is_complete() => ConnectStep::Done,
            RestartGuard::Off => ConnectStep::Wait,
            RestartGuard::PerConnection | RestartGuard::PerVote => ConnectStep::Grace,
        };
    }
    let lasting = answers.iter().enumerate().filter(|node| is_lasting(node.1) || is_misfit(*node)).count();
    if lasting > electorate.spare() { progress.end() } else { ConnectStep::Wait }
}

/// Returns the number of fit nodes that have answered.
fn fitting(context: &ClientContext, answers: &[Answer]) -> usize {
    let fits = |(node, answer): &(usize, &Answer)| {
        matches!(answer, Answer::Inspected(_)) && misfit(context, *node, answer).is_none()
    };
    answers.iter().enumerate().filter(fits).count()
}

/// Whether a node failed for a lasting reason. A server that is starting refuses connections or loads its data. These
/// reasons are not lasting.
pub(super) fn is_lasting(answer: &Answer) -> bool {
    let Answer::Error(error) = answer else { return false };
    let error = if let NodeError::Handshake(error) = error { error } else { error };
    if let NodeError::Server(text) = error {
        return text.starts_with("ERR") && !text.contains("max number of clients");
    }
    matches!(
        error,
        NodeError::NoAuth(_)
            | NodeError::NoPermission(_)
            | NodeError::RunIdForbidden
            | NodeError::Tls(_)
            | NodeError::Protocol(_)
            | NodeError::ClusterMode
            | NodeError::SentinelMode
            | NodeError::ClockOff(_)
            | NodeError::WrongQuorum(_)
    )
}

/// Returns the error of an unfit node.
fn misfit(context: &ClientContext, node: usize, answer: &Answer) -> Option<ConfigError> {
    let node = Arc::clone(context.nodes.get(node)?.address());
    let ours = &context.settings.parameters.fingerprint;
    let wrong_quorum = |node, theirs: &Fingerprint| {
        Some(ConfigError::WrongQuorum { node, difference: ours.difference_from(theirs).into() })
    };
    match answer {
        // Without registration, nothing else compares the fingerprint.
        Answer::Inspected(inspection) => match &inspection.fingerprint {
            Some(theirs) if theirs != ours => wrong_quorum(node, theirs),
            _ => None,
        },
        Answer::Error(NodeError::Handshake(error)) => match &**error {
            NodeError::WrongQuorum(theirs) => wrong_quorum(node, &Fingerprint::new(theirs)),
            NodeError::RunIdForbidden
            | NodeError::ClockOff(_)
            | NodeError::ClusterMode
            | NodeError::SentinelMode => Some(ConfigError::Server { node, reason: NodeError::clone(error) }),
            _ => None,
        },
        _ => None,
    }
}

/// Returns an error if two addresses lead to one server.
pub(super) fn refuse_same_server(context: &ClientContext, answers: &[Answer]) -> Result<(), ConfigError> {
    let mut known: Vec<(&Arc<str>, &Incarnation)> = Vec::new();
    for (node, answer) in context.nodes.iter().zip(answers) {
        let second = node.address();
        let (first, incarnation) = match answer {
            Answer::Inspected(inspection) => {
                let Some(incarnation) = &inspection.incarnation else { continue };
                let Some((first, _)) = known.iter().find(|(_, other)| *other == incarnation) else {
                    known.push((second, incarnation));
                    continue;
                };
                (*first, incarnation)
            }
            Answer::Error(NodeError::Handshake(error)) => match &**error {
                NodeError::SameServer { other, incarnation } => (other, incarnation),
                _ => continue,
            },
            _ => continue,
        };
        // The error names both addresses in the order of the configuration.
        let place = |address: &Arc<str>| context.nodes.iter().position(|node| node.address() == address);
        let (first, second) = if place(first) < place(second) { (first, second) } else { (second, first) };
        let reason =
            NodeError::SameServer { other: Arc::clone(second), incarnation: Arc::clone(incarnation) };
        return Err(ConfigError::Server { node: Arc::clone(first), reason });
    }
    Ok(())
}
