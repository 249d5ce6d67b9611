//! The wait of a new client for its nodes, and the refusal of unfit nodes. Administration uses the same collection of
//! answers.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{attempt::HEDGE_SHARE, node_set::NodeSet},
    client::{
        broadcast::add_inspect,
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
    },
    clock::Instant,
    error::{ConfigError, Error, Goal, NoQuorum},
    node::{
        Abstention, Answer, Incarnation, InspectAnswer, Registration, RestartGuard, names,
        remote::dial_patience,
    },
    values::{Fingerprint, NodeError, NodeReply, Refusal, Resource},
};

/// The delay after which a failed node is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The least time to wait for the remaining nodes after the result is certain, unless an eighth of the node timeout is
/// shorter.
const SHORTEST_GRACE: Duration = Duration::from_millis(50);

/// The time without a quorum after which a warning names the reply of each node.
const WARN_AFTER: Duration = Duration::from_secs(1);

/// The answers of the nodes until now.
pub(super) struct ConnectProgress {
    /// The last answer of each node; `TimedOut` for a node that has not answered.
    pub(super) answers: Vec<Answer>,
    /// The nodes that have answered or failed.
    answered: NodeSet,
    /// The time since the first request.
    took: Duration,
}

/// The next step of a client that collects answers.
pub(super) enum ConnectStep {
    /// Wait for more answers, until the connect timeout.
    Wait,
    /// Wait for the remaining nodes for this time, counted from the first step of this kind.
    Grace(Duration),
    Done,
}

impl ConnectProgress {
    /// Whether every node has answered or failed.
    fn is_complete(&self) -> bool {
        self.answered.len() == self.answers.len()
    }

    /// Returns the next step if the result is certain: the client waits for the remaining nodes for the grace.
    pub(super) fn step_before_end(&self, grace: Duration) -> ConnectStep {
        if self.is_complete() { ConnectStep::Done } else { ConnectStep::Grace(grace) }
    }
}

/// Asks every node for its metadata, and asks a failed node again until the node answers. Returns the last answers, and
/// the time that this took, at the step [`Done`](ConnectStep::Done), at the end of the [grace](ConnectStep::Grace), or
/// at the connect timeout.
pub(super) async fn gather(
    context: &ClientContext,
    resource: Resource,
    next_step: impl Fn(&ConnectProgress) -> ConnectStep,
) -> (Vec<Answer>, Duration) {
    let start = context.now();
    let deadline = start + context.settings.connect_timeout;
    let mut fanout = Fanout::new();
    for node in 0..context.nodes.len() {
        ask(context, &mut fanout, node, &resource, deadline);
    }
    let answers = vec![Answer::Error(NodeError::TimedOut); context.nodes.len()];
    let mut progress = ConnectProgress { answers, answered: NodeSet::EMPTY, took: Duration::ZERO };
    let (mut failed, mut retry_at, mut end_of_grace) = (NodeSet::EMPTY, None, None);
    let mut warn_at = Some(start + WARN_AFTER);
    loop {
        let now = context.now();
        progress.took = now.saturating_duration_since(start);
        match next_step(&progress) {
            ConnectStep::Done => break,
            ConnectStep::Grace(grace) => end_of_grace = end_of_grace.or(Some(now + grace)),
            ConnectStep::Wait => {}
        }
        if warn_at.is_some_and(|at| at <= now) {
            warn_at = None;
            warn_without_quorum(context, &progress);
        }
        let until = [retry_at, end_of_grace, warn_at].into_iter().flatten().fold(deadline, std::cmp::min);
        if let FanoutEvent::Answer { node, answer, .. } = fanout.next(&*context.clock, until).await {
            if !is_metadata(&answer) {
                failed.insert(node);
                retry_at = retry_at.or_else(|| Some(context.now() + RETRY_DELAY));
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
        if retry_at.is_none_or(|at| now < at) {
            continue;
        }
        retry_at = None;
        for node in std::mem::replace(&mut failed, NodeSet::EMPTY).iter() {
            ask(context, &mut fanout, node, &resource, deadline);
        }
    }
    (progress.answers, context.now().saturating_duration_since(start))
}

/// Returns the reply of a node, for which the client waited at least this time. A node without an answer has timed out
/// only after a wait of a node timeout. After a shorter wait, the node is pending, because it may only be slow.
pub(super) fn reply_after(context: &ClientContext, waited: Duration, answer: &Answer) -> NodeReply {
    match NodeReply::from(answer) {
        NodeReply::Failed(NodeError::TimedOut) if waited < node_timeout(context) => NodeReply::Pending,
        reply => reply,
    }
}

fn node_timeout(context: &ClientContext) -> Duration {
    context.settings.node_timeout_for(context.settings.ttl)
}

/// Asks a node for its metadata: by the registration of the connection, or else by an inspection. A failed node answers
/// with the result of the next dial.
fn ask(
    context: &ClientContext,
    fanout: &mut Fanout<()>,
    node: usize,
    resource: &Resource,
    deadline: Instant,
) {
    match context.nodes.get(node).and_then(|node| node.registration()) {
        Some(reply) => fanout.add(node, (), reply),
        None => add_inspect(context, fanout, node, resource, deadline),
    }
}

/// Whether an answer has the metadata of a node.
fn is_metadata(answer: &Answer) -> bool {
    matches!(answer, Answer::Inspected(_) | Answer::Registered(_))
}

/// Warns that no quorum answers yet. Does nothing if a quorum has answered, and the client only waits for the remaining
/// nodes.
fn warn_without_quorum(context: &ClientContext, progress: &ConnectProgress) {
    let answered = progress.answers.iter().filter(|answer| is_metadata(answer)).count();
    if answered < context.settings.electorate.needed() {
        let reply = |answer: &Answer| reply_after(context, progress.took, answer);
        let replies = context.replies(progress.answers.iter().map(reply));
        let words = [(NodeReply::Done, "answers"), (NodeReply::Pending, "no answer yet")];
        let nodes = replies.with_words(&words);
        tracing::warn!(%nodes, "connecting: no quorum answers yet");
    }
}

/// Warns that locks will wait if no quorum of the connected nodes votes. A read-only client needs no votes.
fn warn_without_votes(context: &ClientContext, answers: &[Answer], waited: Duration) {
    let abstention = |answer: &Answer| match answer {
        Answer::Inspected(inspection) => inspection.abstention.map(Refusal::from),
        Answer::Registered(registration) => {
            registration.quarantine.map(|remaining| Abstention::Quarantined(remaining).into())
        }
        _ => None,
    };
    let reply = |answer: &Answer| {
        abstention(answer).map_or_else(|| reply_after(context, waited, answer), NodeReply::Refused)
    };
    let replies = context.replies(answers.iter().map(reply));
    if !replies.has_quorum() && !context.settings.is_read_only() {
        let shortage = NoQuorum::new(Goal::Vote, replies);
        tracing::warn!(%shortage, "connected, but no quorum votes: locks wait");
    }
}

/// Returns the time for which a client that connects waits for the remaining nodes, if the result was certain after
/// `took`. The time is long enough for nodes that are as quick as the first nodes, and short enough to wait for a silent
/// node.
fn grace(context: &ClientContext, took: Duration) -> Duration {
    took.max(SHORTEST_GRACE).min(node_timeout(context) / HEDGE_SHARE)
}

/// Returns the time for which a call of an administrator waits for the remaining nodes, if a failure is certain: the
/// time for one step of a dial, which is at least a node timeout. After this time, the error has the reason of every
/// node, so that the administrator need not repeat the call for each faulty node. Also, a move continues with the slow
/// nodes if the nodes that failed are few.
pub(super) fn administrator_grace(context: &ClientContext) -> Duration {
    dial_patience(node_timeout(context))
}

/// Waits until a quorum of different servers has answered, and refuses unfit nodes.
///
/// The call waits for the remaining nodes for the [`grace`]. An unfit node that connects later is refused by its
/// registration. Without a restart guard there is no registration, so the call waits for every node, until the connect
/// timeout.
pub(crate) async fn wait_for_quorum(context: &ClientContext) -> Result<(), Error> {
    let resource = Resource::internal(names::CONNECT.as_bytes());
    let (answers, waited) = gather(context, resource, |progress| next_step(context, progress)).await;
    refuse_same_server(context, &answers)?;
    let misfits: Vec<_> =
        answers.iter().enumerate().map(|(node, answer)| misfit(context, node, answer)).collect();
    let needed = context.settings.electorate.needed();
    let has_quorum = count_fit(context, &answers) >= needed;
    client_clock_off(context, &answers)?;
    for (misfit, answer) in misfits.into_iter().zip(&answers) {
        let Some(misfit) = misfit else { continue };
        // An unfit node stays unfit, so the call fails at once, unless the remaining nodes form a quorum.
        if !has_quorum {
            return Err(misfit.into());
        }
        // The connection of a replaced node has warned.
        if !matches!(answer, Answer::Error(error) if error.replaced_by().is_some()) {
            tracing::warn!(%misfit, "node refused; remaining nodes form a quorum");
        }
    }
    if has_quorum {
        warn_without_votes(context, &answers, waited);
        return Ok(());
    }
    let replies = context.replies(answers.iter().map(|answer| reply_after(context, waited, answer)));
    Err(NoQuorum::new(Goal::Connect, replies).into())
}

/// Returns the next step of a client that connects.
fn next_step(context: &ClientContext, progress: &ConnectProgress) -> ConnectStep {
    let ConnectProgress { answers, took, .. } = progress;
    let electorate = context.settings.electorate;
    let is_unfit = |(node, answer): (usize, &Answer)| misfit(context, node, answer).is_some();
    if refuse_same_server(context, answers).is_err() {
        return ConnectStep::Done;
    }
    if count_fit(context, answers) >= electorate.needed() {
        return match context.settings.parameters.guard {
            RestartGuard::Off if progress.is_complete() => ConnectStep::Done,
            RestartGuard::Off => ConnectStep::Wait,
            RestartGuard::PerConnection | RestartGuard::PerVote => {
                progress.step_before_end(grace(context, *took))
            }
        };
    }
    let fails = |numbered: &(usize, &Answer)| is_lasting(numbered.1) || is_unfit(*numbered);
    let lasting = answers.iter().enumerate().filter(fails).count();
    if lasting > electorate.spare() {
        progress.step_before_end(grace(context, *took))
    } else {
        ConnectStep::Wait
    }
}

/// Returns the number of fit nodes that have answered.
fn count_fit(context: &ClientContext, answers: &[Answer]) -> usize {
    let fits =
        |(node, answer): &(usize, &Answer)| is_metadata(answer) && misfit(context, *node, answer).is_none();
    answers.iter().enumerate().filter(fits).count()
}

/// Whether a node failed for a lasting reason, such as a wrong password. A server that is starting refuses connections
/// or loads its data. These reasons are not lasting.
pub(super) fn is_lasting(answer: &Answer) -> bool {
    let Answer::Error(error) = answer else { return false };
    let error = if let NodeError::Handshake(error) = error { error } else { error };
    if let NodeError::Server(text) = error {
        let is_passing = text.contains("max number of clients");
        return (text.starts_with("ERR") || text.starts_with("DENIED")) && !is_passing;
    }
    matches!(
        error,
        NodeError::NoAuth(_)
            | NodeError::NoPermission(_)
            | NodeError::RunIdForbidden
            | NodeError::InfoMissing
            | NodeError::Tls(_)
            | NodeError::Protocol(_)
            | NodeError::ClusterMode
            | NodeError::StandaloneMode
            | NodeError::SentinelMode
            | NodeError::ClockOff { .. }
            | NodeError::WrongQuorum(_)
    )
}

/// Returns the error of an unfit node; `None` if the answer does not show that the node is unfit.
fn misfit(context: &ClientContext, node: usize, answer: &Answer) -> Option<ConfigError> {
    let node = Arc::clone(context.nodes.get(node)?.address());
    let ours = &context.settings.parameters.fingerprint;
    let wrong_quorum = |node, theirs: &Fingerprint| {
        Some(ConfigError::WrongQuorum { node, difference: ours.difference_from(theirs).into() })
    };
    match answer {
        // Without a restart guard there is no registration, and only this check compares the fingerprints. A
        // registration compares the fingerprints itself.
        Answer::Inspected(inspection) => match &inspection.fingerprint {
            Some(theirs) if theirs != ours => wrong_quorum(node, theirs),
            _ => None,
        },
        Answer::Error(NodeError::Handshake(error)) => match &**error {
            NodeError::WrongQuorum(theirs) => wrong_quorum(node, &Fingerprint::new(theirs)),
            NodeError::RunIdForbidden
            | NodeError::InfoMissing
            | NodeError::ClockOff { .. }
            | NodeError::ClusterMode
            | NodeError::StandaloneMode
            | NodeError::SentinelMode => Some(ConfigError::Server { node, reason: NodeError::clone(error) }),
            _ => None,
        },
        _ => None,
    }
}

/// Returns an error if the clocks of all nodes that answered differ from the client's clock in the same direction, and
/// these nodes are a quorum. Then the client's clock is wrong, and not the clock of one node.
pub(super) fn client_clock_off(context: &ClientContext, answers: &[Answer]) -> Result<(), ConfigError> {
    let mut gaps: Vec<(Duration, bool)> = Vec::new();
    for answer in answers {
        let error = match answer {
            Answer::Error(NodeError::Handshake(error)) => &**error,
            Answer::Error(error) => error,
            _ => return Ok(()),
        };
        match error {
            NodeError::ClockOff { gap, is_node_ahead } => gaps.push((*gap, *is_node_ahead)),
            error if error.is_answer() => return Ok(()),
            _ => {}
        }
    }
    let Some((gap, is_node_ahead)) = gaps.iter().min().copied() else { return Ok(()) };
    let is_shared = gaps.iter().all(|(_, is_ahead)| *is_ahead == is_node_ahead);
    if is_shared && gaps.len() >= context.settings.electorate.needed().max(2) {
        return Err(ConfigError::ClientClockOff { gap, is_client_ahead: !is_node_ahead });
    }
    Ok(())
}

/// Returns an error if two addresses lead to one server, or to one cluster.
pub(super) fn refuse_same_server(context: &ClientContext, answers: &[Answer]) -> Result<(), ConfigError> {
    let mut known: Vec<(&Arc<str>, &Incarnation)> = Vec::new();
    for (node, answer) in context.nodes.iter().zip(answers) {
        let second = node.address();
        let (first, incarnation) = match answer {
            Answer::Inspected(InspectAnswer { incarnation, .. })
            | Answer::Registered(Registration { incarnation, .. }) => {
                let Some(incarnation) = incarnation else { continue };
                let Some((first, _)) = known.iter().find(|(_, other)| *other == incarnation) else {
                    known.push((second, incarnation));
                    continue;
                };
                (*first, incarnation)
            }
            Answer::Error(NodeError::Handshake(error)) => match &**error {
                NodeError::SameServer { other, incarnation } => (other, incarnation),
                NodeError::SameCluster { .. } => {
                    return Err(ConfigError::Server {
                        node: Arc::clone(second),
                        reason: NodeError::clone(error),
                    });
                }
                _ => continue,
            },
            _ => continue,
        };
        // The error names both addresses in the order of the configuration.
        let position = |address: &Arc<str>| context.nodes.iter().position(|node| node.address() == address);
        let (first, second) =
            if position(first) < position(second) { (first, second) } else { (second, first) };
        let reason =
            NodeError::SameServer { other: Arc::clone(second), incarnation: Arc::clone(incarnation) };
        return Err(ConfigError::Server { node: Arc::clone(first), reason });
    }
    Ok(())
}
