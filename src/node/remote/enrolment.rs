//! What a connection says before any call.

use std::{sync::Arc, time::Duration};

use futures::future::poll_fn;

use crate::{
    clock::Clock,
    node::{
        Answer, Enrol, Entry, Fault, Run,
        transport::{BatchId, Link, LinkEvent},
    },
};

/// How far the clocks of a node and of a client may be apart. Counters that were lost begin at the node's time: one that
/// is far behind would give tokens again that were given before.
const LARGEST_GAP: Duration = Duration::from_secs(3600);

/// No call of an outbox has this number.
pub(super) const ENROLMENT: BatchId = BatchId(u64::MAX);

/// A connection that may send calls: its node knows of it, and has begun a quarantine if it has to.
pub(super) struct Enrolled {
    pub(super) link: Box<dyn Link>,
    /// The run of the server that it leads to; `None` where nobody asks.
    pub(super) run: Option<Run>,
    /// Whether it has been asked again, and has not answered yet.
    pub(super) is_asked: bool,
}

/// Enrols a new connection.
pub(super) async fn enrol(
    mut link: Box<dyn Link>,
    enrol: Option<Enrol>,
    clock: &dyn Clock,
) -> Result<Enrolled, Fault> {
    let Some(enrol) = enrol else { return Ok(Enrolled { link, run: None, is_asked: false }) };
    send(&mut *link, enrol);
    match poll_fn(|context| link.poll_event(context)).await {
        LinkEvent::Answers { answers, .. } => {
            let run = hear(&mut *link, answers, clock)?;
            Ok(Enrolled { link, run, is_asked: false })
        }
        LinkEvent::Closed(fault) => Err(fault),
        other => Err(Fault::Protocol(format!("not enrolled, but {other:?}").into())),
    }
}

impl Enrolled {
    /// Enrols again, over the same connection: the node has lost its record, or its script, and may be another one.
    pub(super) fn enrol_again(&mut self, enrol: Option<&Enrol>) {
        if let Some(enrol) = enrol.filter(|_| !self.is_asked) {
            self.is_asked = true;
            send(&mut *self.link, enrol.clone());
        }
    }

    /// Takes the node's answer. A fault if the connection is of no use any more: calls under way mean another server.
    pub(super) fn hear_again(&mut self, answers: Vec<Answer>, clock: &dyn Clock) -> Result<(), Fault> {
        self.is_asked = false;
        if hear(&mut *self.link, answers, clock)? == self.run {
            return Ok(());
        }
        Err(Fault::Unreachable("another server answers on this connection".into()))
    }
}

fn send(link: &mut dyn Link, enrol: Enrol) {
    link.send(ENROLMENT, Arc::new([Entry::Enrol(enrol)]));
}

/// Takes the node's answer: the run that it is in.
fn hear(link: &mut dyn Link, answers: Vec<Answer>, clock: &dyn Clock) -> Result<Option<Run>, Fault> {
    match answers.into_iter().next() {
        Some(Answer::Enrolled(enrolment)) => {
            let gap = enrolment.time.abs_diff(clock.time_of_day());
            if gap > LARGEST_GAP {
                return Err(Fault::ClockOff(gap));
            }
            tracing::debug!(run = ?enrolment.run, quarantine = ?enrolment.quarantine, "enrolled");
            link.enrolled(enrolment.run.clone());
            Ok(enrolment.run)
        }
        Some(Answer::Foreign { fingerprint }) => Err(Fault::OtherQuorum(fingerprint)),
        Some(Answer::Fault(fault)) => Err(fault),
        other => Err(Fault::Protocol(format!("not enrolled, but {other:?}").into())),
    }
}

/// Whether a replica speaks, which takes over the data of its master, whatever it voted before: the connection is of no use.
pub(super) fn is_replica(answers: &[Answer]) -> bool {
    answers.contains(&Answer::Fault(Fault::ReadOnly))
}
