//! The proof of a verification: no later lease had been granted at its start.

use std::{collections::HashMap, time::Duration};

use super::{
    Rule,
    event::{AttemptId, Event},
    index::{AttemptRecord, IndexedEvent},
    order::{Largest, token},
    violation::Violation,
};
use crate::values::Resource;

/// The verifications in progress, each with its start and with the leases of larger tokens that had
/// been granted at the start.
#[derive(Default)]
pub(super) struct Verifications<'h> {
    largest: Largest<'h>,
    /// The write leases with the largest tokens. Read leases do not affect the proof of a read
    /// lease.
    largest_written: Largest<'h>,
    begun: HashMap<AttemptId, (Duration, Vec<Later<'h>>)>,
}

/// A resource, with a lease whose token is larger than the token of the lease that is verified.
type Later<'h> = (&'h Resource, &'h AttemptRecord<'h>);

impl<'h> Rule<'h> for Verifications<'h> {
    fn on_event(&mut self, indexed: &IndexedEvent<'h>, found: &mut Vec<Violation>) {
        let Some(lease) = indexed.record else { return };
        match indexed.event {
            Event::Granted { .. } => {
                self.largest.granted(lease);
                let written = lease.resources.iter().filter(|resource| !lease.shares(resource));
                self.largest_written.granted_on(lease, written);
            }
            Event::Verifying { attempt } => {
                let mut later = self.largest.of(lease.resources);
                later.retain(|(resource, _)| !lease.shares(resource));
                let read = self.largest_written.of(lease.resources);
                later.extend(read.into_iter().filter(|(resource, _)| lease.shares(resource)));
                later.retain(|(_, other)| token(other) > token(lease));
                self.begun.insert(*attempt, (indexed.at, later));
            }
            Event::Proven { attempt } => {
                let Some((since, laters)) = self.begun.remove(attempt) else { return };
                for (resource, later) in laters {
                    if let (Some(lease), Some(later)) = (lease.grant(), later.grant()) {
                        let resource = resource.clone();
                        found.push(Violation::FalseProof { resource, lease, later, since, at: indexed.at });
                    }
                }
            }
            _ => {}
        }
    }
}
