//! A line of text for each event, fault and violation.

use std::{fmt, time::Duration};

use super::{Timeline, sentence};
use crate::sim::{
    history::{IndexStep, IndexedEvent},
    millis::Millis,
};

/// A line of the text.
struct TimelineLine {
    at: Duration,
    subject: String,
    text: String,
}

/// Writes time, subject and text of each line, in the order of time. At one instant, events come
/// before faults, and faults before violations.
pub(super) fn write(timeline: &Timeline<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut lines = lines(timeline);
    lines.sort_by_key(|line| line.at);
    let widest = lines.iter().map(|line| line.subject.chars().count()).max().unwrap_or(0);
    for TimelineLine { at, subject, text } in &lines {
        writeln!(f, "{:>12}  {subject:<widest$}  {text}", Millis(*at))?;
    }
    Ok(())
}

fn lines(timeline: &Timeline<'_>) -> Vec<TimelineLine> {
    let steps = timeline.index.steps().filter_map(|step| match step {
        IndexStep::Malformed(_) => None,
        IndexStep::Event(IndexedEvent { at, process, event, record, .. }) => {
            sentence::of(event, record).map(|text| TimelineLine { at, subject: process_name(process), text })
        }
    });
    let faults = timeline.faults.iter();
    let faults = faults.map(|fault| TimelineLine {
        at: fault.from,
        subject: fault.lane.clone(),
        text: fault.sentence(),
    });
    let violations = timeline.violations.iter().map(|violation| TimelineLine {
        at: violation.at(),
        subject: process_name(violation.process()),
        text: format!("! {violation}"),
    });
    steps.chain(faults).chain(violations).collect()
}

/// Returns the name of a process in a timeline, such as `c0`.
pub(super) fn process_name(process: usize) -> String {
    format!("c{process}")
}
