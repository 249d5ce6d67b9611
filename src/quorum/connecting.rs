//! Finding out whether there is a quorum.

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

/// How soon a node that cannot be asked is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// How long the others are waited for at least when a quorum is there.
const SHORTEST_GRACE: Duration = Duration::from_millis(50);

/// What every node has said so far.
pub(super) struct Gathered {
    /// The last answer of each; none within the time for those that have not been heard.
    pub(super) answers: Vec<Answer>,
    heard: NodeSet,
}

/// What a client that gathers answers does next.
pub(super) enum Next {
    Wait,
    /// Waits a little longer for the others.
    Grace,
    Done,
}

impl Gathered {
    /// Whether every node has answered or failed.
    fn is_complete(&self) -> bool {
        self.heard.len() == self.answers.len()
    }

    /// What is next where there is no hope: nodes that answer as quickly as those that were heard
    /// are heard, or they would be told as silent.
    pub(super) fn end(&self) -> Next {
        if self.is_complete() { Next::Done } else { Next::Grace }
    }
}

/// Asks every node what it knows about itself, and those that fail again until they answer. Ends
/// when `next` says so, or when the connect timeout is over.
pub(super) async fn gather(
    context: &ClientContext,
    resource: Resource,
    next: impl Fn(&Gathered) -> Next,
) -> Vec<Answer> {
    let start = context.now();
    let deadline = start + context.settings.connect_timeout;
    let mut asked = send_inspect(context, &resource, deadline);
    let answers = vec![Answer::Error(NodeError::TimedOut); context.nodes.len()];
    let mut gathered = Gathered { answers, heard: NodeSet::EMPTY };
    let (mut failed, mut again_at, mut end_of_grace) = (NodeSet::EMPTY, None, None);
    loop {
        let now = context.now();
        match next(&gathered) {
            Next::Done => break,
            Next::Grace if end_of_grace.is_none() => {
                end_of_grace = Some(now + grace(context, now.saturating_duration_since(start)))
            }
            Next::Grace | Next::Wait => {}
        }
        let until = [again_at, end_of_grace].into_iter().flatten().fold(deadline, std::cmp::min);
        if let FanoutEvent::Answer { node, answer, .. } = asked.next(&*context.clock, until).await {
            if !matches!(answer, Answer::Inspected(_)) {
                failed.insert(node);
                again_at = again_at.or_else(|| Some(context.now() + AGAIN));
            }
            gathered.heard.insert(node);
            if let Some(slot) = gathered.answers.get_mut(node) {
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
    gathered.answers
}

/// How much longer the others are waited for when a quorum has answered after so long: a node that
/// is as quick is heard, and a silent one costs little.
fn grace(context: &ClientContext, took: Duration) -> Duration {
    let node_timeout = context.settings.node_timeout_for(context.settings.ttl);
    took.max(SHORTEST_GRACE).min(node_timeout / HEDGE_SHARE)
}

/// Waits until a quorum of different servers has answered, and refuses what can be none.
///
/// The other nodes are given a little longer. A node that connects later registers, which refuses
/// what does not fit; where no node registers nothing would, so every node is waited for.
pub(crate) async fn wait_for_quorum(context: &ClientContext) -> Result<(), Error> {
    let resource = Resource::internal(*b"redquorum:connect");
    let answers = gather(context, resource, |gathered| next(context, gathered)).await;
    refuse_same_server(context, &answers)?;
    let misfits: Vec<_> =
        answers.iter().enumerate().map(|(node, answer)| misfit(context, node, answer)).collect();
    let needed = context.settings.electorate.needed();
    let has_quorum = fitting(context, &answers) >= needed;
    for misfit in misfits.into_iter().flatten() {
        // What does not pass by itself is better said at once, unless the others can do without.
        if !has_quorum {
            return Err(misfit.into());
        }
        tracing::warn!(%misfit, "a node is refused; the others are a quorum");
    }
    if has_quorum {
        return Ok(());
    }
    let replies = context.replies(answers.iter().map(NodeReply::from));
    Err(NoQuorum::new(Goal::Connect, replies).into())
}

fn next(context: &ClientContext, gathered: &Gathered) -> Next {
    let Gathered { answers, .. } = gathered;
    let electorate = context.settings.electorate;
    let is_misfit = |(node, answer): (usize, &Answer)| misfit(context, node, answer).is_some();
    if refuse_same_server(context, answers).is_err() {
        return Next::Done;
    }
    if fitting(context, answers) >= electorate.needed() {
        return match context.settings.parameters.guard {
            _ if gathered.is_complete() => Next::Done,
            RestartGuard::Off => Next::Wait,
            RestartGuard::PerConnection | RestartGuard::PerVote => Next::Grace,
        };
    }
    let lasting = answers.iter().enumerate().filter(|node| is_lasting(node.1) || is_misfit(*node)).count();
    if lasting > electorate.spare() { gathered.end() } else { Next::Wait }
}

/// How many nodes have answered and fit.
fn fitting(context: &ClientContext, answers: &[Answer]) -> usize {
    let fits = |(node, answer): &(usize, &Answer)| {
        matches!(answer, Answer::Inspected(_)) && misfit(context, *node, answer).is_none()
    };
    answers.iter().enumerate().filter(fits).count()
}

/// Whether a node was not asked for a reason that does not pass by itself. A server that is still
/// starting refuses connections, or loads its data.
pub(super) fn is_lasting(answer: &Answer) -> bool {
    let Answer::Error(error) = answer else { return false };
    let error = if let NodeError::Handshake(error) = error { error } else { error };
    if let NodeError::Server(said) = error {
        return said.starts_with("ERR") && !said.contains("max number of clients");
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

/// What is wrong with a node, if something is that does not pass by itself.
fn misfit(context: &ClientContext, node: usize, answer: &Answer) -> Option<ConfigError> {
    let node = Arc::clone(context.nodes.get(node)?.address());
    let ours = &context.settings.parameters.fingerprint;
    let wrong_quorum = |node, theirs: &Fingerprint| {
        Some(ConfigError::WrongQuorum { node, difference: ours.beside(theirs).into() })
    };
    match answer {
        // Where connections do not register, nobody has looked at it yet.
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

/// Refuses two addresses that lead to one server.
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
        // Named in the order in which they were given, not in the order in which they connected.
        let place = |address: &Arc<str>| context.nodes.iter().position(|node| node.address() == address);
        let (first, second) = if place(first) < place(second) { (first, second) } else { (second, first) };
        let reason =
            NodeError::SameServer { other: Arc::clone(second), incarnation: Arc::clone(incarnation) };
        return Err(ConfigError::Server { node: Arc::clone(first), reason });
    }
    Ok(())
}
