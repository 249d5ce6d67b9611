//! The lanes of a picture. A lane has the rows of one process, node or path, or of the violations.

use std::collections::BTreeMap;

use super::{
    Timeline,
    axis::Axis,
    fault::{self, TimelineFault},
    lines::process_name,
    row::{Bar, BarLabel, TimelineRow},
    sentence,
};
use crate::{
    sim::{history::AttemptRecord, millis::Millis},
    values::Resource,
};

/// Colours that colour-blind readers can distinguish, by Okabe and Ito.
const COLOURS: [&str; 6] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#999933"];
const FAULT: &str = "#6B7280";
pub(super) const BROKEN: &str = "#C00020";

/// A name with its rows of bars.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) rows: Vec<TimelineRow>,
    /// The positions at which promises were broken.
    pub(super) broken: Vec<f64>,
}

/// The colour of each resource.
pub(super) type Palette<'a> = BTreeMap<&'a Resource, &'static str>;

pub(super) fn palette<'a>(timeline: &'a Timeline<'_>) -> Palette<'a> {
    let mut palette: Palette<'a> =
        timeline.index.iter().flat_map(|record| record.resources).map(|resource| (resource, "")).collect();
    for (slot, colour) in palette.values_mut().zip(COLOURS.into_iter().cycle()) {
        *slot = colour;
    }
    palette
}

/// Returns the lanes from top to bottom: the violations with their numbers, the processes, and the
/// nodes, processes and paths with faults.
pub(super) fn lanes(timeline: &Timeline<'_>, palette: &Palette<'_>, axis: &Axis) -> Vec<Lane> {
    let violations = (!timeline.violations.is_empty()).then(|| violations_lane(timeline, axis));
    let processes = timeline.processes.iter().map(|process| {
        let attempts = timeline.index.iter().filter(|record| record.process == *process);
        let broken = timeline.violations.iter().filter(|violation| violation.process() == *process);
        Lane {
            name: process_name(*process),
            rows: TimelineRow::pack(attempts.map(|record| lease_bar(record, palette, axis)).collect()),
            broken: broken.map(|violation| axis.x(violation.at())).collect(),
        }
    });
    let faults = fault::by_lane(&timeline.faults).into_iter().map(|(name, faults)| Lane {
        name: name.to_owned(),
        rows: TimelineRow::pack(faults.into_iter().map(|fault| fault_bar(fault, axis)).collect()),
        broken: Vec::new(),
    });
    violations.into_iter().chain(processes).chain(faults).collect()
}

fn violations_lane(timeline: &Timeline<'_>, axis: &Axis) -> Lane {
    let bars = timeline.violations.iter().enumerate().map(|(index, violation)| {
        let from = axis.x(violation.at());
        Bar {
            from,
            until: from + 3.0,
            solid: Some(from),
            colours: vec![BROKEN],
            label: BarLabel::Number((index + 1).to_string()),
            title: violation.to_string(),
            announced: None,
            is_cut: false,
        }
    });
    Lane { name: "violations".to_owned(), rows: TimelineRow::pack(bars.collect()), broken: Vec::new() }
}

fn lease_bar(record: &AttemptRecord<'_>, palette: &Palette<'_>, axis: &Axis) -> Bar {
    let ended = record.ended.map(|ended| ended.at);
    let over = if record.granted.is_some() { ended } else { record.lost };
    let (token, title) = match record.grant() {
        Some(grant) => (grant.token.to_string(), format!("{}: {grant}", sentence::subject(record))),
        None => (String::new(), format!("{}: not granted", sentence::subject(record))),
    };
    let from = axis.x(record.began);
    Bar {
        from,
        until: over.map_or_else(|| axis.right(), |over| axis.x(over)).max(from + 1.5),
        solid: record.granted.map(|granted| axis.x(granted.at)),
        colours: record.resources.iter().filter_map(|resource| palette.get(resource).copied()).collect(),
        label: BarLabel::Number(token),
        title,
        announced: record.announced.map(|announced| axis.x(announced.at)),
        is_cut: record.ended.is_some_and(|ended| !ended.is_unlocked),
    }
}

fn fault_bar(fault: &TimelineFault, axis: &Axis) -> Bar {
    let from = axis.x(fault.from);
    Bar {
        from,
        until: axis.x(fault.until).max(from + 3.0),
        solid: Some(from),
        colours: vec![FAULT],
        label: BarLabel::Words(fault.text.clone()),
        title: format!("{} at {} ms: {}", fault.lane, Millis(fault.from), fault.sentence()),
        announced: None,
        is_cut: false,
    }
}
