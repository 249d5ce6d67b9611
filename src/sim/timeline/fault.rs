//! The faults of a timeline.

use std::time::Duration;

use crate::sim::millis::Millis;

/// A fault of a node, a process or the network.
#[derive(Clone, Debug)]
pub(super) struct TimelineFault {
    pub(super) from: Duration,
    pub(super) until: Duration,
    pub(super) lane: String,
    pub(super) text: String,
}

impl TimelineFault {
    /// Returns the text of the fault, with its end. An instantaneous fault has only the text, and a fault
    /// without an end has "from now on".
    pub(super) fn sentence(&self) -> String {
        let Self { from, until, text, .. } = self;
        match *until {
            Duration::MAX => format!("{text}, from now on"),
            until if until == *from => text.clone(),
            until => format!("{text}, until {} ms", Millis(until)),
        }
    }
}

/// Returns the faults of each lane, in the order of the first fault of each lane.
pub(super) fn by_lane(faults: &[TimelineFault]) -> Vec<(&str, Vec<&TimelineFault>)> {
    let mut lanes: Vec<(&str, Vec<&TimelineFault>)> = Vec::new();
    for fault in faults {
        match lanes.iter_mut().find(|(lane, _)| *lane == fault.lane) {
            Some((_, lane)) => lane.push(fault),
            None => lanes.push((&fault.lane, vec![fault])),
        }
    }
    lanes
}
