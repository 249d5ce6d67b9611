//! I1: two leases on one resource never overlap, unless both leases only read the resource. The part about
//! transfers is in `transfer`.

use std::{collections::HashMap, time::Duration};

use super::{
    Rule,
    event::Event,
    index::{AttemptRecord, IndexedEvent},
    violation::Violation,
};
use crate::values::Resource;

/// The leases of each resource that may still be held.
#[derive(Default)]
pub(super) struct ActiveLeases<'h>(HashMap<&'h Resource, Active<'h>>);

/// The write leases and the read leases of one resource, each a stack with the last granted lease
/// on top.
///
/// A lease is held from its grant until just before its end. Grants are checked in the order of time.
/// Therefore a lease on top that has ended by the time of a grant overlaps with no later lease, and is
/// removed. Each lease is added and removed at most once per resource, so the time of the check is linear.
#[derive(Default)]
struct Active<'h> {
    writers: Vec<&'h AttemptRecord<'h>>,
    readers: Vec<&'h AttemptRecord<'h>>,
}

impl<'h> Rule<'h> for ActiveLeases<'h> {
    fn on_event(&mut self, indexed: &IndexedEvent<'h>, found: &mut Vec<Violation>) {
        let (Event::Granted { .. }, Some(lease)) = (indexed.event, indexed.record) else { return };
        if is_over(lease, indexed.at) {
            return;
        }
        for resource in lease.resources {
            let Active { writers, readers } = self.0.entry(resource).or_default();
            let is_shared = lease.shares(resource);
            let (writer, reader) = (last_held(writers, indexed.at), last_held(readers, indexed.at));
            let conflicting = writer.into_iter().chain(reader.filter(|_| !is_shared));
            let last = conflicting.max_by_key(|other| other.granted.map(|granted| granted.entry));
            if let (Some(first), Some(second)) = (last.and_then(AttemptRecord::grant), lease.grant()) {
                found.push(Violation::Overlap { resource: resource.clone(), first, second });
            }
            if is_shared { readers } else { writers }.push(lease);
        }
    }
}

/// Returns the last granted lease that is still held, after removing the ended leases above.
fn last_held<'h>(leases: &mut Vec<&'h AttemptRecord<'h>>, at: Duration) -> Option<&'h AttemptRecord<'h>> {
    while leases.pop_if(|lease| is_over(lease, at)).is_some() {}
    leases.last().copied()
}

fn is_over(lease: &AttemptRecord<'_>, at: Duration) -> bool {
    lease.ended.is_some_and(|ended| ended.at <= at)
}
