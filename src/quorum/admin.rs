//! The calls of an administrator: the creation of a quorum, its fingerprint, and force-unlocks. Moves are in
//! `moving.rs`, which uses the requests and checks at the end of this file. Lists are in `listing.rs`.

use std::sync::Arc;

use crate::{
    client::{
        broadcast::{collect, send_to_all},
        context::ClientContext,
    },
    error::{AdminError, ClosedReason, ConfigError, Error},
    lock::{client::Client, force_unlock},
    node::{Answer, Init, NewNodes, Operation, Register, Registration, names},
    process::Forked,
    quorum::{
        Quorum, QuorumBuilder,
        connecting::{
            ConnectStep, administrator_grace, client_clock_off, gather, is_lasting, refuse_same_server,
            reply_after,
        },
    },
    values::{Fingerprint, NodeError, NodeReplies, NodeReply, Refusal, Resource},
};

/// The outcome of [`init_if_needed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitOutcome {
    /// The call has created the quorum, because all nodes were new.
    Created,
    /// The quorum existed before the call. The reply of a node is `Done` if the node belonged to the quorum before, and
    /// still accepts registrations. The reply is `Refused` with `Quarantined` if the node had no metadata and joins
    /// after a quarantine. Any other reply means that the node does not take part, such as a replica that has the
    /// metadata of its master. Fewer nodes than a quorum may take part.
    AlreadyDone(NodeReplies),
}

/// Makes a new quorum of these nodes. An administrator calls this function once. No node may have been in a quorum
/// before. Every node has to answer within the connect timeout. The nodes may still be starting at the time of the
/// call.
///
/// The call declares these nodes to be new, because no client can distinguish a new node from a node that has lost its
/// data. Without `init`, a node votes only after a quarantine of slightly more than `max_ttl`. If a node is still in
/// the quarantine that began with its first client, this call also admits the node, even if that client had another
/// configuration. The node has voted for no client yet, unless clients use
/// [`RestartGuard::Off`](crate::RestartGuard::Off).
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redquorum::{Quorum, admin};
///
/// let settings = Quorum::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
/// admin::init(&settings).await?; // once
/// let quorum = settings.connect().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// * [`AdminError::NotNew`] if a node belongs to a quorum, or may have voted in one. Nothing is changed.
/// * [`AdminError::Config`] if the settings are invalid, if the clock of a node is off by more than an hour, if a server
///   cannot be a node (a Sentinel, a server that does not fit its url, a server without `INFO`), or if two addresses lead
///   to one server or to one Redis Cluster. Nothing is changed.
/// * [`AdminError::Incomplete`] if a node did not answer. Usually nothing is changed, because the call inspects all
///   nodes before it admits any. If a node failed after the inspection, or if another `init` ran at the same time, the
///   nodes whose reply is `Done` are admitted.
/// * [`AdminError::Closed`] if the tokio runtime ends during the call. Admitted nodes stay admitted.
///
/// # Cancel safety
///
/// Admitted nodes stay admitted, and another `init` refuses these nodes. Call [`init_if_needed`] instead.
pub async fn init(quorum: &QuorumBuilder) -> Result<(), AdminError> {
    init_with(&*quorum.start_to_change()?).await
}

pub(super) async fn init_with(client: &Client) -> Result<(), AdminError> {
    while_open(client, init_nodes(&client.context)).await
}

async fn init_nodes(context: &ClientContext) -> Result<(), AdminError> {
    ensure_answered(context, &inspect_started(context).await?)?;
    let answers = dry_run(context).await?;
    refuse_known(context, &answers, None)?;
    ensure_answered(context, &answers)?;
    // From this request on, nodes change. The reply of a node that another `init` has admitted in the meantime is a
    // refusal.
    ensure_done(context, &ask_all_nodes(context, init_operation(context)).await)
}

/// Makes a quorum like [`init`], unless the nodes are this quorum already. The call is for jobs that run repeatedly,
/// such as a deployment.
///
/// If at least one node belongs to the quorum, nodes without metadata may have lost their metadata. These nodes are
/// registered, and vote after a quarantine.
///
/// **Do not call this function at every start of a service.** If no node has metadata, the call cannot distinguish
/// nodes that have lost their data from new nodes. This happens if the only node, or all nodes at the same time, have
/// lost their data. Then the nodes vote at once, although they may have forgotten leases.
///
/// # Errors
///
/// As [`init`], with two differences: [`AdminError::NotNew`] is only for nodes of another quorum, and
/// [`AdminError::Incomplete`] is returned only if no node belongs to this quorum.
///
/// # Cancel safety
///
/// Admitted nodes stay admitted, and registered nodes stay registered. Repeat the call.
pub async fn init_if_needed(quorum: &QuorumBuilder) -> Result<InitOutcome, AdminError> {
    init_if_needed_with(&*quorum.start_to_change()?).await
}

/// Makes a quorum like [`init_if_needed`].
pub(super) async fn init_if_needed_with(client: &Client) -> Result<InitOutcome, AdminError> {
    while_open(client, init_nodes_if_needed(&client.context)).await
}

async fn init_nodes_if_needed(context: &ClientContext) -> Result<InitOutcome, AdminError> {
    let ours = fingerprint_of(context);
    let inspected = inspect_started(context).await?;
    let answers = dry_run(context).await?;
    refuse_known(context, &answers, Some(&ours))?;
    if answers.iter().any(was_registered) {
        // A registration cannot change a node of another configuration, even in its first quarantine, so the call
        // fails.
        refuse_known(context, &inspected, Some(&ours))?;
        let joined = ask_all_nodes(context, register(context)).await;
        let replies = answers.iter().zip(&joined).map(|(answer, joined)| match joined {
            Answer::Registered(_) if was_registered(answer) => NodeReply::Done,
            joined => reply_of_joined(context, joined),
        });
        return Ok(InitOutcome::AlreadyDone(context.replies(replies)));
    }
    ensure_answered(context, &inspected)?;
    ensure_answered(context, &answers)?;
    let made = ask_all_nodes(context, init_operation(context)).await;
    // A node that has joined this quorum in the meantime counts as done, because another `init_if_needed` may run at
    // the same time.
    let is_ours = |answer: &Answer| is_done(answer) || fingerprint_in(answer) == Some(&ours);
    if made.iter().all(is_ours) { Ok(InitOutcome::Created) } else { Err(incomplete(context, &made)) }
}

/// Force-unlocks a resource: deletes the lease of any holder, on every node that answers.
///
/// An operator calls this function if a holder is known to have stopped and its ttl is too long to wait for. The holder
/// is not asked. If the holder still works, two clients use the resource at the same time, and only their tokens
/// distinguish the two.
///
/// From then on, the nodes refuse renewals of the lease. The nodes also notify the client of the holder. This client
/// renews the lease at once, so that the holder receives the loss within a round trip. Exceptions:
///
/// * **If the notice is lost**, the client receives the loss at its next renewal, a third of the ttl after the last
///   renewal. Without renewal, the client receives the loss at the end of the lease.
/// * **If the resource has more than 128 readers**, a reader may be renewed by nodes that were unreachable, or had lost
///   the reader's key.
///
/// # Errors
///
/// [`Error::NoQuorum`] if fewer nodes than a quorum confirmed within a node timeout. The resource may still be locked.
/// [`Error::Config`], [`Error::Closed`].
///
/// # Cancel safety
///
/// The first poll submits the deletion to all nodes, and the nodes execute it even if the future is dropped. The
/// tombstones are submitted later, after the nodes have named their leases. Nodes without the key need a tombstone to
/// refuse renewals.
pub async fn force_unlock(quorum: &Quorum, resource: impl AsRef<[u8]>) -> Result<NodeReplies, Error> {
    let request = quorum.request(resource);
    let context = request.context();
    context.in_process(async { force_unlock::force_unlock(context, &request.checked()?).await }).await
}

/// Returns a client for the calls of an administrator, without the wait for a quorum: a call reaches the nodes that
/// answer.
///
/// # Errors
///
/// [`Error::Config`] if the settings are invalid.
#[cfg(feature = "__command")]
pub fn unconnected(quorum: &QuorumBuilder) -> Result<Quorum, Error> {
    Ok(Quorum::new(quorum.start_to_change()?))
}

/// Returns the fingerprint of a quorum: one line with the settings that a client must share, or else nodes refuse the
/// client.
///
/// # Errors
///
/// [`ConfigError`] if the settings are invalid.
pub fn fingerprint(quorum: &QuorumBuilder) -> Result<String, ConfigError> {
    Ok(quorum.checked()?.parameters.fingerprint.as_str().to_owned())
}

/// Runs the work of a call with this client. If the client is closed before or during the work, or the process is a
/// forked copy, the call returns an error at once.
pub(super) async fn while_open<T>(
    client: &Client,
    work: impl Future<Output = Result<T, AdminError>> + Send,
) -> Result<T, AdminError> {
    let context = &*client.context;
    let closed = || AdminError::Closed(context.closed_reason().unwrap_or(ClosedReason::Forked));
    let working = async {
        tokio::select! {
            biased;
            () = context.closed() => Err(closed()),
            worked = work => worked,
        }
    };
    context.unless_forked(working).await.unwrap_or_else(|Forked| Err(closed()))
}

/// Returns the operation by which nodes without metadata join the quorum after a quarantine.
pub(super) fn register(context: &ClientContext) -> Operation {
    Operation::Register(Register { new_nodes: NewNodes::Quarantine, time: context.clock.time_of_day() })
}

/// Returns the operation by which new nodes join the quorum at once.
pub(super) fn init_operation(context: &ClientContext) -> Operation {
    Operation::Init(Init { is_dry_run: false, time: context.clock.time_of_day() })
}

/// Returns the answer of every node to an `init` that changes nothing. Returns an error if the clock of a node differs
/// too much from the client's clock.
pub(super) async fn dry_run(context: &ClientContext) -> Result<Vec<Answer>, AdminError> {
    let dry_run = Operation::Init(Init { is_dry_run: true, time: context.clock.time_of_day() });
    let answers = ask_all_nodes(context, dry_run).await;
    client_clock_off(context, &answers)?;
    for (node, answer) in context.nodes.iter().zip(&answers) {
        if let Answer::Error(reason @ NodeError::ClockOff { .. }) = answer {
            let (node, reason) = (Arc::clone(node.address()), reason.clone());
            return Err(ConfigError::Server { node, reason }.into());
        }
    }
    Ok(answers)
}

/// Returns the answer of every node to an inspection of its metadata. Waits for nodes that are starting.
pub(super) async fn inspect_started(context: &ClientContext) -> Result<Vec<Answer>, AdminError> {
    let resource = Resource::internal(names::INIT.as_bytes());
    let answers = gather(context, resource, |progress| {
        let answers = &progress.answers;
        match answers.iter().all(has_answered) || refuse_same_server(context, answers).is_err() {
            true => ConnectStep::Done,
            false if answers.iter().any(is_lasting) => progress.step_before_end(administrator_grace(context)),
            false => ConnectStep::Wait,
        }
    });
    let (answers, _) = answers.await;
    refuse_same_server(context, &answers)?;
    Ok(answers)
}

/// Returns an error unless every node has answered. In the error, the reply of a node that answered is `NotAsked`,
/// because the call has changed nothing there. A server that can never be a node is an error of the settings, as of a
/// connect.
fn ensure_answered(context: &ClientContext, answers: &[Answer]) -> Result<(), AdminError> {
    for (node, answer) in context.nodes.iter().zip(answers) {
        if let Some(reason) = unfit_server(answer) {
            let (node, reason) = (Arc::clone(node.address()), reason.clone());
            return Err(ConfigError::Server { node, reason }.into());
        }
    }
    let is_fine = |answer: &Answer| has_answered(answer) || is_done(answer);
    if answers.iter().all(is_fine) {
        return Ok(());
    }
    let reply =
        |answer: &Answer| if is_fine(answer) { NodeReply::NotAsked } else { reply_of(context, answer) };
    Err(AdminError::Incomplete(context.replies(answers.iter().map(reply))))
}

/// Returns the error of a server that cannot be a node, whatever the settings of its user are.
fn unfit_server(answer: &Answer) -> Option<&NodeError> {
    let Answer::Error(error) = answer else { return None };
    let error = if let NodeError::Handshake(error) = error { error } else { error };
    let is_unfit = matches!(
        error,
        NodeError::ClusterMode
            | NodeError::StandaloneMode
            | NodeError::SentinelMode
            | NodeError::RunIdForbidden
            | NodeError::InfoMissing
    );
    is_unfit.then_some(error)
}

pub(super) fn has_answered(answer: &Answer) -> bool {
    matches!(answer, Answer::Inspected(_))
}

/// Returns the configuration that a node belongs to, according to its answer.
fn fingerprint_in(answer: &Answer) -> Option<&Fingerprint> {
    match answer {
        Answer::Inspected(inspection) => inspection.fingerprint.as_ref(),
        Answer::AlreadyRegistered { fingerprint } => Some(fingerprint),
        _ => None,
    }
}

/// Whether the node belonged to a quorum before the `init`.
fn was_registered(answer: &Answer) -> bool {
    matches!(answer, Answer::AlreadyRegistered { .. })
}

/// Whether the node has executed a registration, an `init` or a step of a move.
pub(super) fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Registered(_))
}

/// Returns the reply of a node that had no metadata or does not accept its registration, according to the answer to the
/// registration.
fn reply_of_joined(context: &ClientContext, answer: &Answer) -> NodeReply {
    match answer {
        Answer::Registered(Registration { quarantine: Some(remaining), .. }) => {
            NodeReply::Refused(Refusal::Quarantined { remaining: Some(*remaining) })
        }
        other => reply_of(context, other),
    }
}

/// Returns the reply of a node to a call of an administrator. The call waits for a node that does not answer until the
/// connect timeout, or for the [`administrator_grace`], which is at least a node timeout.
pub(super) fn reply_of(context: &ClientContext, answer: &Answer) -> NodeReply {
    reply_after(context, context.settings.connect_timeout, answer)
}

/// Returns an error if a node belongs to a quorum, except the quorum with the `allowed` fingerprint.
fn refuse_known(
    context: &ClientContext,
    answers: &[Answer],
    allowed: Option<&Fingerprint>,
) -> Result<(), AdminError> {
    for (node, answer) in context.nodes.iter().zip(answers) {
        if let Some(theirs) = fingerprint_in(answer).filter(|theirs| Some(*theirs) != allowed) {
            let (node, metadata) = (Arc::clone(node.address()), theirs.to_string().into());
            return Err(AdminError::NotNew { node, metadata });
        }
    }
    Ok(())
}

/// Sends an operation to all nodes, and returns the answers that arrive within the connect timeout.
pub(super) async fn ask_all_nodes(context: &ClientContext, operation: Operation) -> Vec<Answer> {
    let deadline = context.now() + context.settings.connect_timeout;
    collect(context, send_to_all(context, operation, deadline), deadline).await
}

/// Returns an error unless every node has executed the operation.
pub(super) fn ensure_done(context: &ClientContext, answers: &[Answer]) -> Result<(), AdminError> {
    if answers.iter().all(is_done) { Ok(()) } else { Err(incomplete(context, answers)) }
}

fn incomplete(context: &ClientContext, answers: &[Answer]) -> AdminError {
    AdminError::Incomplete(context.replies(answers.iter().map(|answer| reply_of(context, answer))))
}

pub(super) fn fingerprint_of(context: &ClientContext) -> Fingerprint {
    context.settings.parameters.fingerprint.clone()
}
