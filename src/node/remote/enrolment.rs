//! What a connection says before any call.

use std::{sync::Arc, time::Duration};

use futures::future::poll_fn;

use crate::{
    clock::Clock,
    node::{
        Answer, Enrol, Entry, Fault,
        transport::{BatchId, Link, LinkEvent},
    },
};

/// How far the clocks of a node and of a client may be apart. Counters that were lost begin at the node's time: one that
/// is far behind would give tokens again that were given before.
const LARGEST_GAP: Duration = Duration::from_secs(3600);

/// No call of an outbox has this number.
const ENROLMENT: BatchId = BatchId(u64::MAX);

/// A connection that may send calls: its node knows of it, and has begun a quarantine if it has to.
pub(super) struct Enrolled(pub(super) Box<dyn Link>);

/// Enrols a connection.
pub(super) async fn enrol(
    mut link: Box<dyn Link>,
    enrol: Option<Enrol>,
    clock: &dyn Clock,
) -> Result<Enrolled, Fault> {
    let Some(enrol) = enrol else { return Ok(Enrolled(link)) };
    link.send(ENROLMENT, Arc::new([Entry::Enrol(enrol)]));
    let answer = match poll_fn(|context| link.poll_event(context)).await {
        LinkEvent::Answers { answers, .. } => answers.into_iter().next(),
        LinkEvent::Closed(fault) => return Err(fault),
        _ => None,
    };
    match answer {
        Some(Answer::Enrolled(enrolment)) => {
            let gap = enrolment.time.abs_diff(clock.time_of_day());
            if gap > LARGEST_GAP {
                return Err(Fault::ClockOff(gap));
            }
            tracing::debug!(run_id = ?enrolment.run_id, quarantine = ?enrolment.quarantine, "enrolled");
            Ok(Enrolled(link))
        }
        Some(Answer::Foreign { fingerprint }) => Err(Fault::OtherQuorum(fingerprint)),
        Some(Answer::Fault(fault)) => Err(fault),
        other => Err(Fault::Protocol(format!("not enrolled, but {other:?}").into())),
    }
}
