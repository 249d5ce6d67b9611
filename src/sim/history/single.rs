//! Rules that a single entry can break: I5, I7 and I8.

use super::{Rule, event::Event, index::IndexedEvent, violation::Violation};

/// I5: no node keeps a key of an attempt that is over.
pub(super) struct Residue;

impl Rule<'_> for Residue {
    fn on_event(&mut self, indexed: &IndexedEvent<'_>, found: &mut Vec<Violation>) {
        if let Event::Residue { attempt, node } = *indexed.event {
            let process = indexed.record.map_or(indexed.process, |record| record.process);
            found.push(Violation::Residue { attempt, process, node, at: indexed.at });
        }
    }
}

/// I7: no process waits for ever.
pub(super) struct Liveness;

impl Rule<'_> for Liveness {
    fn on_event(&mut self, indexed: &IndexedEvent<'_>, found: &mut Vec<Violation>) {
        if matches!(indexed.event, Event::Stalled) {
            found.push(Violation::Stalled { process: indexed.process, at: indexed.at });
        }
    }
}

/// I8: a re-entry into a lease returns the token of the lease.
pub(super) struct Reentry;

impl Rule<'_> for Reentry {
    fn on_event(&mut self, indexed: &IndexedEvent<'_>, found: &mut Vec<Violation>) {
        let Event::Reentered { token: shown, .. } = *indexed.event else { return };
        let lease = indexed.record.and_then(|record| record.grant());
        found.extend(lease.filter(|lease| lease.token != shown).map(|lease| Violation::OtherToken {
            lease,
            shown,
            at: indexed.at,
        }));
    }
}
