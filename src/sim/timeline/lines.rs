//! A line for each thing that happened.

use std::{fmt, time::Duration};

use super::{Timeline, sentence};
use crate::sim::{
    history::{IndexStep, IndexedEvent},
    millis::Millis,
};

struct TimelineLine {
    at: Duration,
    who: String,
    text: String,
}

/// Writes when, who and what, in the order of time; at one instant what happened, then faults, then
/// violations.
pub(super) fn write(timeline: &Timeline<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut lines = lines(timeline);
    lines.sort_by_key(|line| line.at);
    let widest = lines.iter().map(|line| line.who.chars().count()).max().unwrap_or(0);
    for TimelineLine { at, who, text } in &lines {
        writeln!(f, "{:>12}  {who:<widest$}  {text}", Millis(*at))?;
    }
    Ok(())
}

fn lines(timeline: &Timeline<'_>) -> Vec<TimelineLine> {
    let steps = timeline.index.steps().filter_map(|step| match step {
        IndexStep::Malformed(_) => None,
        IndexStep::Event(IndexedEvent { at, process, event, record, .. }) => {
            sentence::of(event, record).map(|text| TimelineLine { at, who: process_name(process), text })
        }
    });
    let faults = timeline.faults.iter();
    let faults =
        faults.map(|fault| TimelineLine { at: fault.from, who: fault.lane.clone(), text: fault.sentence() });
    let violations = timeline.violations.iter().map(|violation| TimelineLine {
        at: violation.at(),
        who: process_name(violation.process()),
        text: format!("! {violation}"),
    });
    steps.chain(faults).chain(violations).collect()
}

pub(super) fn process_name(process: usize) -> String {
    format!("c{process}")
}
