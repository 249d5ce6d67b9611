//! What a connection says before any call.

use std::sync::Arc;

use futures::future::poll_fn;

use crate::{
    clock::Clock,
    node::{
        Answer, Enrol, Entry, Fault, NewNodes, Run,
        remote::census::{Seat, Taken},
        transport::{BatchId, Link, LinkEvent},
    },
};

/// No call of an outbox has this number.
pub(super) const ENROLMENT: BatchId = BatchId(u64::MAX);

/// A connection that may send calls: its node knows of it, and has begun a quarantine if it has to.
pub(super) struct Enrolled {
    pub(super) link: Box<dyn Link>,
    /// The run of the server that it leads to; `None` where nobody asks.
    pub(super) run: Option<Run>,
    /// Whether the node has said that it must not vote; `None` until it has enrolled.
    pub(super) is_quarantined: Option<bool>,
    /// Whether it has been asked again, and has not answered yet.
    is_asked: bool,
    /// Which node it is, for the traces.
    node: Arc<str>,
    /// Keeps other connections of this client from the same server.
    taken: Option<Taken>,
}

/// Enrols a new connection, and sees to it that the node keeps the script.
pub(super) async fn enrol(
    mut link: Box<dyn Link>,
    new_nodes: Option<NewNodes>,
    seat: &Seat,
    clock: &dyn Clock,
) -> Result<Enrolled, Fault> {
    if let Some(new_nodes) = new_nodes {
        send(&mut *link, new_nodes, clock);
    }
    link.load();
    let is_asked = new_nodes.is_some();
    let node = Arc::clone(&seat.address);
    let mut enrolled = Enrolled { link, run: None, is_quarantined: None, is_asked, node, taken: None };
    let mut is_loaded = false;
    while enrolled.is_asked || !is_loaded {
        match poll_fn(|context| enrolled.link.poll_event(context)).await {
            LinkEvent::Answers { batch: ENROLMENT, answers } => {
                enrolled.is_asked = false;
                let (run, is_quarantined) = hear(&mut *enrolled.link, &enrolled.node, answers)?;
                enrolled.is_quarantined = Some(is_quarantined);
                if enrolled.taken.is_none() {
                    enrolled.taken = run.as_ref().map(|run| seat.take(run)).transpose()?;
                }
                enrolled.run = run;
            }
            LinkEvent::Loaded => is_loaded = true,
            LinkEvent::Closed(fault) => return Err(fault),
            other => return Err(Fault::Protocol(format!("not enrolled, but {other:?}").into())),
        }
    }
    Ok(enrolled)
}

impl Enrolled {
    /// Enrols again, over the same connection: the node has lost its record, or its script, and may
    /// be another one.
    pub(super) fn enrol_again(&mut self, new_nodes: Option<NewNodes>, clock: &dyn Clock) {
        if let Some(new_nodes) = new_nodes.filter(|_| !self.is_asked) {
            self.is_asked = true;
            send(&mut *self.link, new_nodes, clock);
        }
    }

    /// Takes the node's answer. A fault if the connection is of no use any more: calls under way
    /// mean another server.
    pub(super) fn hear_again(&mut self, answers: Vec<Answer>) -> Result<(), Fault> {
        self.is_asked = false;
        let (run, is_quarantined) = hear(&mut *self.link, &self.node, answers)?;
        self.is_quarantined = Some(is_quarantined);
        if run == self.run {
            return Ok(());
        }
        Err(Fault::Unreachable("another server answers on this connection".into()))
    }
}

fn send(link: &mut dyn Link, new_nodes: NewNodes, clock: &dyn Clock) {
    let enrol = Enrol { new_nodes, time: clock.time_of_day() };
    link.send(ENROLMENT, Arc::new([Entry::Enrol(enrol)]));
}

/// Takes the node's answer: the run that it is in, and whether in quarantine.
fn hear(link: &mut dyn Link, node: &str, answers: Vec<Answer>) -> Result<(Option<Run>, bool), Fault> {
    match answers.into_iter().next() {
        Some(Answer::Enrolled(enrolment)) => {
            tracing::debug!(%node, run = ?enrolment.run, quarantine = ?enrolment.quarantine, "enrolled");
            link.enrolled(enrolment.run.clone());
            Ok((enrolment.run, enrolment.quarantine.is_some()))
        }
        Some(Answer::Foreign { fingerprint }) => Err(Fault::OtherQuorum(fingerprint)),
        Some(Answer::Fault(fault)) => Err(fault),
        other => Err(Fault::Protocol(format!("not enrolled, but {other:?}").into())),
    }
}

/// Whether a replica speaks, which takes over the data of its master, whatever it voted before: the
/// connection is of no use.
pub(super) fn is_replica(answers: &[Answer]) -> bool {
    answers.contains(&Answer::Fault(Fault::ReadOnly))
}
