//! The acts of an administrator: making a quorum, and force-unlocking a resource.

use std::sync::Arc;

use crate::{
    client::{
        broadcast::{collect, send_to_all},
        context::ClientContext,
    },
    error::{AdminError, ConfigError, Error},
    lock::{client::Client, force_unlock},
    node::{Answer, Init, NewNodes, Operation, Register, Registration, names},
    quorum::{
        Quorum, QuorumBuilder,
        connecting::{ConnectStep, gather, is_lasting, refuse_same_server},
    },
    values::{Fingerprint, NodeError, NodeReplies, NodeReply, Refusal, Resource},
};

/// The outcome of [`init_if_needed`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitOutcome {
    /// A new quorum of these nodes, all of which were new.
    Created,
    /// The existing quorum of these nodes. The reply of a node is `Done` if the node belonged to the quorum before. The
    /// reply is `Refused` with `Quarantined` if the node had no metadata and joins after a quarantine. Any other reply
    /// means that the node gave no answer.
    AlreadyDone(NodeReplies),
}

/// Makes a new quorum of these nodes. An administrator calls this once. No node may have been in a quorum before. Every
/// node has to answer within the connect timeout, so the nodes may be starting at the time of the call.
///
/// The call declares these nodes to be new, because no client can distinguish a new node from a node that has lost its
/// data. Without `init`, a node votes only after a quarantine of `max_ttl` and a little more. If nodes are still in the
/// quarantine that began with their first client, this call admits them, too, even if that client had another
/// configuration: such a node has voted for no client, unless clients use [`RestartGuard::Off`](crate::RestartGuard::Off).
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
/// * [`AdminError::Config`] if the settings are invalid, if the clock of a node is off by more than an hour, or if two
///   addresses lead to one server. Nothing is changed.
/// * [`AdminError::Incomplete`] if a node did not answer. The call inspects all nodes before it admits any. Nodes are
///   admitted despite this error, according to their replies, only if a node failed after the inspection, or if another
///   `init` ran at the same time.
///
/// # Cancel safety
///
/// Admitted nodes stay admitted. Repeat the call.
pub async fn init(quorum: &QuorumBuilder) -> Result<(), AdminError> {
    init_with(&*quorum.start_to_change()?).await
}

pub(super) async fn init_with(client: &Client) -> Result<(), AdminError> {
    let context = &*client.context;
    every_answered(context, &inspect_started(context).await?)?;
    let answers = dry_run(context).await?;
    refuse_known(context, &answers, None)?;
    every_answered(context, &answers)?;
    // From here on, nodes may have changed, so an error also reports nodes that another `init` has admitted.
    every(context, &ask_all_nodes(context, init_operation(context, false)).await)
}

/// Makes a quorum like [`init`], unless the nodes are this quorum already. This is for jobs that run repeatedly, such
/// as a deployment.
///
/// If at least one node belongs to the quorum, nodes without metadata may have lost their metadata. These nodes are
/// registered, and vote after a quarantine.
///
/// **Do not call this at every start of a service.** If no node has metadata, nothing distinguishes nodes that have
/// lost their data from new nodes. This happens if there is only one node, or if all nodes have lost their data at
/// once. Then the nodes vote at once, although they may have forgotten leases.
///
/// # Errors
///
/// As [`init`], but [`AdminError::NotNew`] only for nodes of another quorum, and [`AdminError::Incomplete`] only if no
/// node belongs to this quorum.
///
/// # Cancel safety
///
/// Admitted nodes stay admitted, and registered nodes stay registered. Repeat the call.
pub async fn init_if_needed(quorum: &QuorumBuilder) -> Result<InitOutcome, AdminError> {
    init_if_needed_with(&*quorum.start_to_change()?).await
}

/// Makes a quorum of new nodes, unless the nodes are this quorum already. If at least one node belongs to the quorum,
/// nodes without metadata may have lost their metadata, and are registered as by a client.
pub(super) async fn init_if_needed_with(client: &Client) -> Result<InitOutcome, AdminError> {
    let context = &*client.context;
    let ours = fingerprint_of(context);
    let inspected = inspect_started(context).await?;
    let answers = dry_run(context).await?;
    refuse_known(context, &answers, Some(&ours))?;
    if answers.iter().any(is_known) {
        // A registration does not take over a node of another configuration, even in its first quarantine.
        refuse_known(context, &inspected, Some(&ours))?;
        let joined = ask_all_nodes(context, register(context)).await;
        let replies = answers
            .iter()
            .zip(&joined)
            .map(|(answer, joined)| if is_known(answer) { NodeReply::Done } else { joining(joined) });
        return Ok(InitOutcome::AlreadyDone(context.replies(replies)));
    }
    every_answered(context, &inspected)?;
    every_answered(context, &answers)?;
    let made = ask_all_nodes(context, init_operation(context, false)).await;
    // A node of this quorum counts as done, because another `init_if_needed` may run at the same time.
    let is_ours = |answer: &Answer| is_done(answer) || fingerprint_in(answer) == Some(&ours);
    if made.iter().all(is_ours) { Ok(InitOutcome::Created) } else { Err(incomplete(context, &made)) }
}

/// Force-unlocks a resource: deletes the lease of any holder, on every node that answers.
///
/// An operator calls this if a holder is known to have stopped and its ttl is too long to wait for. The holder is not
/// asked. If the holder still works, two clients use the resource at the same time, and only their tokens distinguish
/// them.
///
/// From then on, the nodes refuse renewals of the lease. The nodes also notify the client of the holder. This client
/// renews the lease at once, so that the holder receives the loss within a round trip. Exceptions:
///
/// * **If the notice is lost**, the client receives the loss at its next renewal, a third of the ttl after the last
///   renewal. Without renewal, the client receives the loss at the end of the lease.
/// * **If the resource has more than 128 readers**, a reader may be renewed by nodes that were unreachable, or had lost
///   its key.
///
/// # Errors
///
/// [`Error::NoQuorum`] if fewer nodes than a quorum confirmed within a node timeout. The resource may still be locked.
/// [`Error::Config`], [`Error::Closed`].
///
/// # Cancel safety
///
/// From the first poll on, the deletion is on its way to all nodes, even if the future is dropped. The tombstones, by
/// which nodes without the key refuse renewals, are sent later, after the nodes have named their leases.
pub async fn force_unlock(quorum: &Quorum, resource: impl AsRef<[u8]>) -> Result<NodeReplies, Error> {
    let request = quorum.request(resource);
    let context = request.context();
    context.in_process(async { force_unlock::force_unlock(context, &request.checked()?).await }).await
}

/// Returns the fingerprint: the settings by which nodes refuse clients of another quorum, as one line.
///
/// # Errors
///
/// [`ConfigError`] if the settings cannot work.
pub fn fingerprint(quorum: &QuorumBuilder) -> Result<String, ConfigError> {
    Ok(quorum.checked()?.parameters.fingerprint.as_str().to_owned())
}

pub(super) fn register(context: &ClientContext) -> Operation {
    Operation::Register(Register { new_nodes: NewNodes::Quarantine, time: context.clock.time_of_day() })
}

pub(super) fn init_operation(context: &ClientContext, is_dry_run: bool) -> Operation {
    Operation::Init(Init { is_dry_run, time: context.clock.time_of_day() })
}

/// Returns the answer of every node to an `init` that changes nothing. Like a registration, this compares the clocks.
pub(super) async fn dry_run(context: &ClientContext) -> Result<Vec<Answer>, AdminError> {
    let answers = ask_all_nodes(context, init_operation(context, true)).await;
    for (node, answer) in context.nodes.iter().zip(&answers) {
        if let Answer::Error(NodeError::ClockOff(by)) = answer {
            let (node, reason) = (Arc::clone(node.address()), NodeError::ClockOff(*by));
            return Err(ConfigError::Server { node, reason }.into());
        }
    }
    Ok(answers)
}

/// Returns the metadata of every node, and waits for nodes that are about to start.
pub(super) async fn inspect_started(context: &ClientContext) -> Result<Vec<Answer>, AdminError> {
    let resource = Resource::internal(names::INIT.as_bytes());
    let answers = gather(context, resource, |progress| {
        let answers = &progress.answers;
        match answers.iter().all(has_answered) {
            true => ConnectStep::Done,
            false if answers.iter().any(is_lasting) => progress.end(),
            false => ConnectStep::Wait,
        }
    });
    let answers = answers.await;
    refuse_same_server(context, &answers)?;
    Ok(answers)
}

/// Returns an error unless every node has answered. In the error, the reply of a node that answered is `NotAsked`,
/// because only an inspection was sent to the node.
fn every_answered(context: &ClientContext, answers: &[Answer]) -> Result<(), AdminError> {
    let is_fine = |answer: &Answer| has_answered(answer) || is_done(answer);
    if answers.iter().all(is_fine) {
        return Ok(());
    }
    let reply = |answer: &Answer| if is_fine(answer) { NodeReply::NotAsked } else { NodeReply::from(answer) };
    Err(AdminError::Incomplete(context.replies(answers.iter().map(reply))))
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
fn is_known(answer: &Answer) -> bool {
    matches!(answer, Answer::AlreadyRegistered { .. })
}

/// Whether the node belongs to the quorum now.
pub(super) fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Registered(_))
}

/// Returns the reply of a node that had no metadata, according to the answer to its registration.
fn joining(answer: &Answer) -> NodeReply {
    match answer {
        Answer::Registered(Registration { quarantine: Some(remaining), .. }) => {
            NodeReply::Refused(Refusal::Quarantined { remaining: Some(*remaining) })
        }
        other => NodeReply::from(other),
    }
}

/// Returns an error if a node belongs to a quorum other than the allowed one.
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

pub(super) async fn ask_all_nodes(context: &ClientContext, operation: Operation) -> Vec<Answer> {
    let deadline = context.now() + context.settings.connect_timeout;
    collect(context, send_to_all(context, operation, deadline), deadline).await
}

pub(super) fn every(context: &ClientContext, answers: &[Answer]) -> Result<(), AdminError> {
    if answers.iter().all(is_done) { Ok(()) } else { Err(incomplete(context, answers)) }
}

fn incomplete(context: &ClientContext, answers: &[Answer]) -> AdminError {
    AdminError::Incomplete(context.replies(answers.iter().map(NodeReply::from)))
}

pub(super) fn fingerprint_of(context: &ClientContext) -> Fingerprint {
    context.settings.parameters.fingerprint.clone()
}
