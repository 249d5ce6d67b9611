//! The acts of an administrator: making a quorum, moving a quorum, and force-unlocking a resource.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    client::{
        broadcast::{collect, inspect_all, send_to_all},
        context::ClientContext,
    },
    error::{AdminError, ConfigError, Error, out_of_range},
    lock::{client::Client, force_unlock},
    node::{Answer, Init, NewNodes, Operation, Reconfigure, Register, Registration},
    quorum::{
        Quorum, QuorumBuilder,
        connecting::{ConnectStep, gather, is_lasting, refuse_same_server},
    },
    values::{Fingerprint, NodeError, NodeReplies, NodeReply, Refusal, Resource},
};

/// The largest number of rounds of a move. Each old node that returns to the old configuration during the move makes
/// one more round necessary.
const MOST_ROUNDS: usize = 3;

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
/// data. Without `init`, a node votes only after a quarantine of `max_ttl` and a little more. This call also admits
/// nodes of this configuration that are still in the quarantine that began with their first client.
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
/// * [`AdminError::NotNew`] if a node belongs to another quorum, or may have voted in this quorum. Nothing is changed.
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

/// Moves a quorum to other nodes or settings, such as the number of votes or `max_ttl`. The move takes one `max_ttl`, in
/// which no client acquires a lock of the quorum.
///
/// # Errors
///
/// * [`AdminError::Config`] if the settings of either builder are invalid, or if two addresses of one builder lead to
///   one server. The error is the same if nodes could not distinguish the two configurations. In this case, give the
///   new configuration a [`name`](QuorumBuilder::name) of its own.
/// * [`AdminError::Incomplete`] if the old nodes that did not answer could still be a quorum, or if a new node did not
///   answer. The old nodes that answered are closed. Repeat the call to continue the move.
///
/// # Cancel safety
///
/// Closed nodes stay closed. Repeat the call to continue the move.
pub async fn reconfigure(from: &QuorumBuilder, to: &QuorumBuilder) -> Result<(), AdminError> {
    let new = to.start_to_change()?;
    let old = from.start_to_change()?;
    move_nodes(&old, &new, &to.settings.name).await
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

/// Moves nodes from one configuration to another.
///
/// 1. The move closes old nodes until the remaining old nodes are no quorum.
/// 2. The move waits until every lease of the old configuration is over. If a node has returned to the old
///    configuration meanwhile, the move begins again.
/// 3. Empty new nodes become nodes of the quorum at once. These nodes cannot have forgotten votes, since no node votes
///    under the new configuration yet. If nodes already vote under the new configuration, after a repeated call, empty
///    nodes wait for the end of a quarantine.
/// 4. The move opens the remaining new nodes.
///
/// # Cancel safety
///
/// Closed nodes stay closed. Repeat the call to continue the move.
async fn move_nodes(old: &Client, new: &Client, new_name: &str) -> Result<(), AdminError> {
    let (before, after) = (&*old.context, &*new.context);
    let (from, to) = (fingerprint_of(before), fingerprint_of(after));
    if from == to {
        let is_same = addresses(before) == addresses(after);
        return if is_same { Ok(()) } else { Err(same_configuration(new_name).into()) };
    }
    if inspect_distinct(after).await?.iter().all(|answer| fingerprint_in(answer) == Some(&to)) {
        return Ok(());
    }
    let closed = to.closed_for();
    let longest = before.settings.parameters.quarantine.lasts.max(after.settings.parameters.quarantine.lasts);
    let mut rounds = 0;
    loop {
        close(before, &from, &to, &closed).await?;
        before.clock.sleep_until(before.now() + longest).await;
        let answers = inspect_distinct(before).await?;
        let is_open = |answer: &Answer| {
            has_answered(answer) && ![Some(&closed), Some(&to)].contains(&fingerprint_in(answer))
        };
        let silent = answers.iter().filter(|answer| !has_answered(answer)).count();
        rounds += 1;
        if !answers.iter().any(is_open) && is_minority(before, silent) {
            break;
        }
        if rounds == MOST_ROUNDS {
            return Err(incomplete(before, &answers));
        }
    }
    // A node that does not answer counts as open.
    let may_be_open = |answer: &Answer| !has_answered(answer) || fingerprint_in(answer) == Some(&to);
    let has_begun = inspect_distinct(after).await?.iter().any(may_be_open);
    let admit = if has_begun { register(after) } else { init_operation(after, false) };
    let made = ask_all_nodes(after, admit).await;
    let open = Reconfigure { from: closed, to };
    let opened = ask_all_nodes(after, Operation::Reconfigure(open)).await;
    let both: Vec<Answer> = opened.into_iter().zip(made).map(|(opened, made)| better(opened, made)).collect();
    every(after, &both)
}

/// Closes old nodes until the remaining old nodes are no quorum.
async fn close(
    before: &ClientContext,
    from: &Fingerprint,
    to: &Fingerprint,
    closed: &Fingerprint,
) -> Result<(), AdminError> {
    let close = Reconfigure { from: from.clone(), to: closed.clone() };
    let mut answers = ask_all_nodes(before, Operation::Reconfigure(close.clone())).await;
    if answers.iter().any(Answer::is_not_registered) {
        // A node without metadata restarted empty, and no client has registered since. With metadata, the node can be
        // closed like the other nodes.
        drop(ask_all_nodes(before, register(before)).await);
        answers = ask_all_nodes(before, Operation::Reconfigure(close)).await;
    }
    let is_open = |answer: &&Answer| match answer {
        Answer::Registered(_) => false,
        // A node of the new configuration was opened by an earlier call.
        Answer::WrongQuorum { fingerprint } => fingerprint != to,
        _ => true,
    };
    let open = answers.iter().filter(is_open).count();
    if is_minority(before, open) { Ok(()) } else { Err(incomplete(before, &answers)) }
}

/// Whether this number of nodes is no quorum.
fn is_minority(context: &ClientContext, nodes: usize) -> bool {
    nodes < context.settings.electorate.needed()
}

fn register(context: &ClientContext) -> Operation {
    Operation::Register(Register { new_nodes: NewNodes::Quarantine, time: context.clock.time_of_day() })
}

fn init_operation(context: &ClientContext, is_dry_run: bool) -> Operation {
    Operation::Init(Init { is_dry_run, time: context.clock.time_of_day() })
}

/// Returns the answer of every node to an `init` that changes nothing. Like a registration, this compares the clocks.
async fn dry_run(context: &ClientContext) -> Result<Vec<Answer>, AdminError> {
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
async fn inspect_started(context: &ClientContext) -> Result<Vec<Answer>, AdminError> {
    let resource = Resource::internal(*b"redquorum:init");
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

/// Returns the metadata of every node, or the error of the node. Refuses two addresses of one server.
async fn inspect_distinct(context: &ClientContext) -> Result<Vec<Answer>, AdminError> {
    let deadline = context.now() + context.settings.connect_timeout;
    let answers = inspect_all(context, &Resource::internal(*b"redquorum:init"), deadline).await;
    refuse_same_server(context, &answers)?;
    Ok(answers)
}

fn has_answered(answer: &Answer) -> bool {
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
fn is_done(answer: &Answer) -> bool {
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

async fn ask_all_nodes(context: &ClientContext, operation: Operation) -> Vec<Answer> {
    let deadline = context.now() + context.settings.connect_timeout;
    collect(context, send_to_all(context, operation, deadline), deadline).await
}

/// Returns the better of two answers of one node: an answer by which the node belongs to the quorum.
fn better(opened: Answer, made: Answer) -> Answer {
    if is_done(&made) { made } else { opened }
}

fn every(context: &ClientContext, answers: &[Answer]) -> Result<(), AdminError> {
    if answers.iter().all(is_done) { Ok(()) } else { Err(incomplete(context, answers)) }
}

fn incomplete(context: &ClientContext, answers: &[Answer]) -> AdminError {
    AdminError::Incomplete(context.replies(answers.iter().map(NodeReply::from)))
}

/// Returns the error for two configurations of different nodes with the same fingerprint. An old node that the move
/// does not reach would still accept clients of the old configuration.
fn same_configuration(name: &str) -> ConfigError {
    let expected = "a name of its own for the new configuration, because its other settings are those of the old one \
                    and its nodes are not";
    out_of_range("name", name, expected)
}

fn fingerprint_of(context: &ClientContext) -> Fingerprint {
    context.settings.parameters.fingerprint.clone()
}

fn addresses(context: &ClientContext) -> BTreeSet<Arc<str>> {
    context.nodes.iter().map(|node| Arc::clone(node.address())).collect()
}
