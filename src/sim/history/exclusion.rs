//! I1: two leases on one resource never overlap.

use std::{collections::HashMap, time::Duration};

use super::{
    Rule,
    event::Event,
    index::{AttemptRecord, IndexedEvent},
    violation::Violation,
};
use crate::values::Resource;

/// The leases of each resource that may be held still, the last granted on top.
///
/// A lease holds from its grant to its end, the end itself excluded. Grants come in the order of
/// time, so a lease that is over when another is granted matters to none that follows. Each is put
/// here once per resource and taken away once.
#[derive(Default)]
pub(super) struct ActiveLeases<'h>(HashMap<&'h Resource, Vec<&'h AttemptRecord<'h>>>);

impl<'h> Rule<'h> for ActiveLeases<'h> {
    fn see(&mut self, seen: &IndexedEvent<'h>, found: &mut Vec<Violation>) {
        let (Event::Granted { .. }, Some(lease)) = (seen.event, seen.record) else { return };
        if is_over(lease, seen.at) {
            return;
        }
        for resource in lease.resources {
            let held = self.0.entry(resource).or_default();
            while held.pop_if(|other| is_over(other, seen.at)).is_some() {}
            let overlapping = held.last().and_then(|other| other.grant());
            if let (Some(first), Some(second)) = (overlapping, lease.grant()) {
                found.push(Violation::Overlap { resource: resource.clone(), first, second });
            }
            held.push(lease);
        }
    }
}

fn is_over(lease: &AttemptRecord<'_>, at: Duration) -> bool {
    lease.ended.is_some_and(|ended| ended.at <= at)
}
