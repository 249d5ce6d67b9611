//! Making a quorum, and remaking it: what an administrator decides.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    client::{
        asking::{ask_all, ask_operation, hear_all},
        environment::Environment,
    },
    error::AdmissionError,
    lock::client::Client,
    node::{Answer, Init, NewNodes, Operation, Reconfigure, Register, Registration},
    quorum::connecting::{Next, gather, is_lasting, refuse_same_server},
    values::{Fingerprint, NodeError, Refusal, Resource, Vote, Votes},
};

/// How often a move begins anew because an old node came back to its old configuration meanwhile.
const MOST_ROUNDS: usize = 3;

/// What [`QuorumBuilder::init_if_needed`](crate::QuorumBuilder::init_if_needed) has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Initialized {
    /// It has made a quorum of these nodes, all of which were new.
    Now,
    /// The nodes are this quorum already.
    Before {
        /// What each node said: [`Vote::Granted`] if it knows the quorum,
        /// [`Refusal::Quarantined`](crate::error::Refusal::Quarantined) if it knew nothing and
        /// joins after a quarantine, anything else if it could not be asked.
        votes: Votes,
    },
}

/// Makes a quorum of nodes none of which belongs to one.
///
/// # Cancel safety
///
/// Some nodes may be made already. They keep their metadata.
pub(super) async fn init(client: &Client) -> Result<(), AdmissionError> {
    let environment = &*client.environment;
    every_looked_at(environment, &look(environment).await?)?;
    let said = rehearse(environment).await?;
    refuse_known(environment, &said, None)?;
    every_looked_at(environment, &said)?;
    // What another one like this has made meanwhile is told with the rest: some nodes may have been
    // changed.
    every(environment, &ask_all_nodes(environment, init_operation(environment, false)).await)
}

/// Makes a quorum of nodes none of which belongs to one, unless they are this quorum already. Where
/// a single node knows the quorum, those that know nothing may have forgotten it: they are
/// registered, as by a client.
///
/// # Cancel safety
///
/// Some nodes may be made already. They keep their metadata.
pub(super) async fn init_if_needed(client: &Client) -> Result<Initialized, AdmissionError> {
    let environment = &*client.environment;
    let ours = fingerprint(environment);
    let looked = look(environment).await?;
    let said = rehearse(environment).await?;
    refuse_known(environment, &said, Some(&ours))?;
    if said.iter().any(is_known) {
        let joined = ask_all_nodes(environment, register(environment)).await;
        let votes = said
            .iter()
            .zip(&joined)
            .map(|(said, joined)| if is_known(said) { Vote::Granted } else { joining(joined) });
        return Ok(Initialized::Before { votes: environment.votes(votes) });
    }
    every_looked_at(environment, &looked)?;
    every_looked_at(environment, &said)?;
    let made = ask_all_nodes(environment, init_operation(environment, false)).await;
    // Another one like this may go on at the same time.
    let is_ours = |answer: &Answer| is_done(answer) || fingerprint_in(answer) == Some(&ours);
    if made.iter().all(is_ours) { Ok(Initialized::Now) } else { Err(incomplete(environment, &made)) }
}

/// Moves nodes from one configuration to another.
///
/// 1. So many old nodes are closed that the rest of them is no quorum.
/// 2. Every lease of the old configuration ends. If a node came back to it meanwhile, that begins
///    anew.
/// 3. New nodes that are empty are made: they can have forgotten nothing, as none votes under the
///    new configuration yet. When some do, after a call that was repeated, empty ones wait out a
///    quarantine.
/// 4. The others are opened.
///
/// # Cancel safety
///
/// Nodes that are closed stay closed; the same call again goes on from there.
pub(super) async fn reconfigure(old: &Client, new: &Client) -> Result<(), AdmissionError> {
    let (before, after) = (&*old.environment, &*new.environment);
    let (from, to) = (fingerprint(before), fingerprint(after));
    if from == to {
        let is_same = addresses(before) == addresses(after);
        return if is_same { Ok(()) } else { Err(AdmissionError::SameConfiguration { fingerprint: to }) };
    }
    if inspect_all(after).await?.iter().all(|answer| fingerprint_in(answer) == Some(&to)) {
        return Ok(());
    }
    let closed = to.closed_for();
    let longest = before.settings.parameters.quarantine.lasts.max(after.settings.parameters.quarantine.lasts);
    let mut rounds = 0;
    loop {
        close(before, &from, &to, &closed).await?;
        before.clock.sleep_until(before.now() + longest).await;
        let answers = inspect_all(before).await?;
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
    // One that is silent may be open.
    let may_be_open = |answer: &Answer| !has_answered(answer) || fingerprint_in(answer) == Some(&to);
    let has_begun = inspect_all(after).await?.iter().any(may_be_open);
    let admit = if has_begun { register(after) } else { init_operation(after, false) };
    let made = ask_all_nodes(after, admit).await;
    let open = Reconfigure { from: closed, to };
    let opened = ask_all_nodes(after, Operation::Reconfigure(open)).await;
    let both: Vec<Answer> = opened.into_iter().zip(made).map(|(opened, made)| better(opened, made)).collect();
    every(after, &both)
}

/// Closes old nodes until the others are too few to vote.
async fn close(
    before: &Environment,
    from: &Fingerprint,
    to: &Fingerprint,
    closed: &Fingerprint,
) -> Result<(), AdmissionError> {
    let close = Reconfigure { from: from.clone(), to: closed.clone() };
    let mut answers = ask_all_nodes(before, Operation::Reconfigure(close.clone())).await;
    if answers.iter().any(Answer::is_not_registered) {
        // They restarted empty, and no client has come since: with metadata they can be closed as
        // the others.
        drop(ask_all_nodes(before, register(before)).await);
        answers = ask_all_nodes(before, Operation::Reconfigure(close)).await;
    }
    let is_open = |answer: &&Answer| match answer {
        Answer::Registered(_) => false,
        // Opened by an earlier call.
        Answer::WrongQuorum { fingerprint } => fingerprint != to,
        _ => true,
    };
    let open = answers.iter().filter(is_open).count();
    if is_minority(before, open) { Ok(()) } else { Err(incomplete(before, &answers)) }
}

/// Whether so many nodes are no quorum.
fn is_minority(environment: &Environment, nodes: usize) -> bool {
    nodes < environment.settings.electorate.needed()
}

fn register(environment: &Environment) -> Operation {
    Operation::Register(Register { new_nodes: NewNodes::Quarantine, time: environment.clock.time_of_day() })
}

fn init_operation(environment: &Environment, is_rehearsal: bool) -> Operation {
    Operation::Init(Init { is_rehearsal, time: environment.clock.time_of_day() })
}

/// What every node would say to be made one of the quorum; nothing is changed. Clocks are compared,
/// as by a registration.
async fn rehearse(environment: &Environment) -> Result<Vec<Answer>, AdmissionError> {
    let answers = ask_all_nodes(environment, init_operation(environment, true)).await;
    for (node, answer) in environment.nodes.iter().zip(&answers) {
        if let Answer::Error(NodeError::ClockOff(by)) = answer {
            return Err(AdmissionError::ClockOff { node: Arc::clone(node.address()), by: *by });
        }
    }
    Ok(answers)
}

/// What every node knows about itself. Those that are about to start are waited for.
async fn look(environment: &Environment) -> Result<Vec<Answer>, AdmissionError> {
    let resource = Resource::internal(*b"redquorum:init");
    let answers = gather(environment, resource, |gathered| {
        let answers = &gathered.answers;
        match answers.iter().all(has_answered) {
            true => Next::Done,
            false if answers.iter().any(is_lasting) => gathered.end(),
            false => Next::Wait,
        }
    });
    let answers = answers.await;
    refuse_same_server(environment, &answers)?;
    Ok(answers)
}

/// Refuses to go on unless every node has answered. Nothing was asked of those that did but to be
/// looked at.
fn every_looked_at(environment: &Environment, answers: &[Answer]) -> Result<(), AdmissionError> {
    let is_fine = |answer: &Answer| has_answered(answer) || is_done(answer);
    if answers.iter().all(is_fine) {
        return Ok(());
    }
    let vote = |answer: &Answer| if is_fine(answer) { Vote::NotAsked } else { Vote::from(answer) };
    Err(AdmissionError::Incomplete { votes: environment.votes(answers.iter().map(vote)) })
}

/// What every node knows about itself, or why it does not say. They have to be different servers.
async fn inspect_all(environment: &Environment) -> Result<Vec<Answer>, AdmissionError> {
    let deadline = environment.now() + environment.settings.connect_timeout;
    let answers = ask_all(environment, &Resource::internal(*b"redquorum:init"), deadline).await;
    refuse_same_server(environment, &answers)?;
    Ok(answers)
}

fn has_answered(answer: &Answer) -> bool {
    matches!(answer, Answer::Inspected(_))
}

/// To which configuration a node says that it belongs.
fn fingerprint_in(answer: &Answer) -> Option<&Fingerprint> {
    match answer {
        Answer::Inspected(inspection) => inspection.fingerprint.as_ref(),
        Answer::AlreadyRegistered { fingerprint } => Some(fingerprint),
        _ => None,
    }
}

/// Whether a node that was to be made belongs to a quorum.
fn is_known(answer: &Answer) -> bool {
    matches!(answer, Answer::AlreadyRegistered { .. })
}

/// Whether a node is in.
fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Registered(_))
}

/// What the registration of a node that knew nothing amounts to.
fn joining(answer: &Answer) -> Vote {
    match answer {
        Answer::Registered(Registration { quarantine: Some(remaining), .. }) => {
            Vote::Refused(Refusal::Quarantined { remaining: Some(*remaining) })
        }
        other => Vote::from(other),
    }
}

/// Refuses nodes that belong to a quorum, unless it is the one that is allowed.
fn refuse_known(
    environment: &Environment,
    answers: &[Answer],
    allowed: Option<&Fingerprint>,
) -> Result<(), AdmissionError> {
    for (node, answer) in environment.nodes.iter().zip(answers) {
        if let Some(theirs) = fingerprint_in(answer).filter(|theirs| Some(*theirs) != allowed) {
            let (node, theirs) = (Arc::clone(node.address()), theirs.clone());
            return Err(AdmissionError::NotNew { node, theirs });
        }
    }
    Ok(())
}

async fn ask_all_nodes(environment: &Environment, operation: Operation) -> Vec<Answer> {
    let deadline = environment.now() + environment.settings.connect_timeout;
    hear_all(environment, ask_operation(environment, operation, deadline), deadline).await
}

/// The answer that says that a node is in, if one of the two does.
fn better(opened: Answer, made: Answer) -> Answer {
    if is_done(&made) { made } else { opened }
}

fn every(environment: &Environment, answers: &[Answer]) -> Result<(), AdmissionError> {
    if answers.iter().all(is_done) { Ok(()) } else { Err(incomplete(environment, answers)) }
}

fn incomplete(environment: &Environment, answers: &[Answer]) -> AdmissionError {
    AdmissionError::Incomplete { votes: environment.votes(answers.iter().map(Vote::from)) }
}

fn fingerprint(environment: &Environment) -> Fingerprint {
    environment.settings.parameters.fingerprint.clone()
}

fn addresses(environment: &Environment) -> BTreeSet<Arc<str>> {
    environment.nodes.iter().map(|node| Arc::clone(node.address())).collect()
}
