//! Histories of leases and stores, and the check of their promises.
//!
//! A [`History`] lists the events of leases and stores, from a simulation or from another source
//! with one clock for all processes. [`History::check`] returns the violations of a set of promises.
//!
//! ```
//! use std::time::Duration;
//! use redquorum::{FencingToken, Resource, sim::{Promises, history::{AttemptId, Event, History}}};
//!
//! let mut history = History::new();
//! for (number, at) in [(1, 0), (2, 5)] {
//!     let (attempt, token) = (AttemptId::new(number), FencingToken::try_from(40 + number)?);
//!     let (began, granted) = (Duration::from_millis(at), Duration::from_millis(at + 1));
//!     let resources = vec![Resource::new("a")?];
//!     history.note(began, 0, Event::Began { attempt, resources, shared: vec![] });
//!     history.note(granted, 0, Event::Granted { attempt, token });
//! }
//! // Neither lease ever ended.
//! let violations = history.check(&Promises::ALL).unwrap_err();
//! assert!(violations.to_string().contains("overlap"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
mod evidence;
mod exclusion;
mod honesty;
mod index;
mod order;
pub(super) mod promise;
mod proof;
mod single;
mod transfer;
mod updates;
mod violation;
mod violations;

#[cfg(test)]
mod tests;

use std::time::Duration;

use self::promise::{Promise, Promises};

pub(crate) use self::index::{AttemptRecord, HistoryIndex, IndexStep, IndexedEvent};
pub use self::{
    event::{AttemptId, Entry, Event},
    evidence::{Access, Grant},
    violation::Violation,
    violations::Violations,
};

/// The events of the leases and the stores of a quorum, in order.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
}

impl History {
    /// Creates an empty history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records an event. If `at` is earlier than the last recorded event, [`check`](Self::check) reports
    /// a malformed entry.
    pub fn note(&mut self, at: Duration, process: usize, event: Event) {
        self.entries.push(Entry { at, process, event });
    }

    /// Returns all entries, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Checks the history against these promises.
    ///
    /// The time of a check grows linearly with the number of entries and of their resources, because an
    /// entry is compared with a summary of the earlier entries. Only a transfer is compared with the
    /// write leases that were granted since the start of its own write lease.
    ///
    /// # Errors
    ///
    /// All violations, in the order of the entries that show them. If a lease overlaps
    /// with several leases, each resource is reported once, with the last of these leases. An impossible entry, such as
    /// a grant without an attempt, is [`Violation::Malformed`] and otherwise ignored. An entry with
    /// an earlier time than its predecessor is also malformed, and counts at the time of its
    /// predecessor.
    pub fn check(&self, promises: &Promises) -> Result<(), Violations> {
        let index = HistoryIndex::of(self);
        let mut rules: Vec<(Promise, Box<dyn Rule<'_> + '_>)> = vec![
            (Promise::Exclusion, Box::new(exclusion::ActiveLeases::default())),
            (Promise::Exclusion, Box::new(transfer::Writers::default())),
            (Promise::Order, Box::new(order::Tokens::default())),
            (Promise::Register, Box::new(updates::Registers::default())),
            (Promise::Residue, Box::new(single::Residue)),
            (Promise::Liveness, Box::new(single::Liveness)),
            (Promise::Reentry, Box::new(single::Reentry)),
            (Promise::Honesty, Box::new(honesty::Honesty::within(promises.grace()))),
            (Promise::Proof, Box::new(proof::Verifications::default())),
        ];
        rules.retain(|(promise, _)| promises.contains(*promise));

        let mut found = Vec::new();
        for step in index.steps() {
            match step {
                IndexStep::Malformed(violation) => found.push(violation.clone()),
                IndexStep::Event(indexed) => {
                    rules.iter_mut().for_each(|(_, rule)| rule.on_event(&indexed, &mut found))
                }
            }
        }
        if found.is_empty() { Ok(()) } else { Err(Violations::new(found)) }
    }
}

/// A rule of one promise, applied to one event after the other.
trait Rule<'h> {
    /// Adds the violations that this event shows.
    fn on_event(&mut self, indexed: &IndexedEvent<'h>, found: &mut Vec<Violation>);
}
