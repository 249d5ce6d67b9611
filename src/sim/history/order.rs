//! I2 and I3: leases that exclude each other have different tokens, and a lease has no smaller
//! token than a lease granted before its attempt began.

use std::collections::HashMap;

use super::{
    Rule,
    event::{AttemptId, Event},
    index::{AttemptRecord, IndexedEvent},
    violation::Violation,
};
use crate::values::{FencingToken, Resource};

/// The lease with the largest token of each resource.
#[derive(Default)]
pub(super) struct Largest<'h>(HashMap<&'h Resource, &'h AttemptRecord<'h>>);

impl<'h> Largest<'h> {
    /// Records a grant.
    pub(super) fn granted(&mut self, lease: &'h AttemptRecord<'h>) {
        self.granted_on(lease, lease.resources);
    }

    /// Records a grant for some resources of the lease.
    pub(super) fn granted_on(
        &mut self,
        lease: &'h AttemptRecord<'h>,
        resources: impl IntoIterator<Item = &'h Resource>,
    ) {
        for resource in resources {
            let largest = self.0.entry(resource).or_insert(lease);
            if token(lease) > token(largest) {
                *largest = lease;
            }
        }
    }

    /// Returns the leases with the largest tokens of these resources.
    pub(super) fn of(&self, resources: &'h [Resource]) -> Vec<(&'h Resource, &'h AttemptRecord<'h>)> {
        resources.iter().filter_map(|resource| Some((resource, *self.0.get(resource)?))).collect()
    }
}

pub(super) fn token(lease: &AttemptRecord<'_>) -> Option<FencingToken> {
    lease.granted.map(|granted| granted.token)
}

/// The first write lease and the first read lease on a resource with the same token.
#[derive(Default)]
struct First<'h> {
    writer: Option<&'h AttemptRecord<'h>>,
    reader: Option<&'h AttemptRecord<'h>>,
}

/// The granted tokens and their leases.
#[derive(Default)]
pub(super) struct Tokens<'h> {
    granted_tokens: HashMap<(&'h Resource, FencingToken), First<'h>>,
    largest: Largest<'h>,
    /// For each undecided attempt, the leases with the largest tokens of its resources that had been
    /// granted when the attempt began.
    largest_before: HashMap<AttemptId, Vec<(&'h Resource, &'h AttemptRecord<'h>)>>,
}

impl<'h> Tokens<'h> {
    fn granted(&mut self, lease: &'h AttemptRecord<'h>, token: FencingToken, found: &mut Vec<Violation>) {
        for (resource, earlier) in self.largest_before.remove(&lease.attempt).unwrap_or_default() {
            if let (Some(first), Some(second)) = (earlier.grant(), lease.grant())
                && first.token > second.token
            {
                found.push(Violation::FallingToken { resource: resource.clone(), first, second });
            }
        }
        for resource in lease.resources {
            let First { writer, reader } = self.granted_tokens.entry((resource, token)).or_default();
            let is_shared = lease.shares(resource);
            let first = writer.or(reader.filter(|_| !is_shared)).and_then(AttemptRecord::grant);
            if let (Some(first), Some(second)) = (first, lease.grant()) {
                found.push(Violation::RepeatedToken { resource: resource.clone(), first, second });
            }
            if is_shared { reader } else { writer }.get_or_insert(lease);
        }
        self.largest.granted(lease);
    }
}

impl<'h> Rule<'h> for Tokens<'h> {
    fn on_event(&mut self, indexed: &IndexedEvent<'h>, found: &mut Vec<Violation>) {
        match (indexed.event, indexed.record) {
            (Event::Began { attempt, .. }, Some(record)) => {
                self.largest_before.insert(*attempt, self.largest.of(record.resources));
            }
            (Event::Lost { attempt }, _) => drop(self.largest_before.remove(attempt)),
            (Event::Granted { token, .. }, Some(lease)) => self.granted(lease, *token, found),
            _ => {}
        }
    }
}
