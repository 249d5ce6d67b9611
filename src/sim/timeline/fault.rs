//! Faults beside a history.

use std::time::Duration;

use crate::sim::millis::Millis;

/// What was done to a node, a process or the network.
#[derive(Clone, Debug)]
pub(super) struct TimelineFault {
    pub(super) from: Duration,
    pub(super) until: Duration,
    pub(super) lane: String,
    pub(super) text: String,
}

impl TimelineFault {
    /// With its end, if it lasts and has one.
    pub(super) fn sentence(&self) -> String {
        let Self { from, until, text, .. } = self;
        match *until {
            Duration::MAX => format!("{text}, from now on"),
            until if until == *from => text.clone(),
            until => format!("{text}, until {} ms", Millis(until)),
        }
    }
}

/// The faults of each lane, the lanes in the order in which they are named first.
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
