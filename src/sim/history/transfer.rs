//! The part of I1 about transfers: no write lease is granted between another write lease and the
//! lease that replaces it, by a downgrade or by a ticket.

use std::collections::HashMap;

use super::{
    Rule,
    event::{AttemptId, Event},
    index::{AttemptRecord, IndexedEvent},
    violation::Violation,
};
use crate::values::Resource;

/// All write leases of each resource, in the order of their grants.
#[derive(Default)]
pub(super) struct Writers<'h>(HashMap<&'h Resource, Vec<&'h AttemptRecord<'h>>>);

impl<'h> Rule<'h> for Writers<'h> {
    fn on_event(&mut self, indexed: &IndexedEvent<'h>, found: &mut Vec<Violation>) {
        let Some(lease) = indexed.record else { return };
        match indexed.event {
            Event::Granted { .. } => {
                for resource in lease.resources.iter().filter(|resource| !lease.shares(resource)) {
                    self.0.entry(resource).or_default().push(lease);
                }
            }
            Event::Downgraded { from, .. } | Event::Redeemed { from, .. } => {
                let resources = lease.resources.iter();
                found.extend(resources.filter_map(|resource| self.interruption(resource, *from, lease)));
            }
            _ => {}
        }
    }
}

impl Writers<'_> {
    /// Returns the last write lease that was granted between the write lease `from` and the lease
    /// `to`, as a violation.
    fn interruption(
        &self,
        resource: &Resource,
        from: AttemptId,
        to: &AttemptRecord<'_>,
    ) -> Option<Violation> {
        let entry = |lease: &AttemptRecord<'_>| lease.granted.map(|granted| granted.entry);
        let writers = self.0.get(resource)?;
        let before = writers.get(..writers.partition_point(|writer| entry(writer) < entry(to)))?;
        let replaced = before.iter().rposition(|writer| writer.attempt == from)?;
        let writer = before.get(replaced + 1..)?.last()?.grant()?;
        let (from, to) = (before.get(replaced)?.grant()?, to.grant()?);
        Some(Violation::Interrupted { resource: resource.clone(), from, to, writer })
    }
}
