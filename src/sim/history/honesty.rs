//! A lease looks valid only between its grant and its end, and its loss is announced no later than
//! its end.

use std::time::Duration;

use super::{
    Rule,
    event::Event,
    index::{AttemptRecord, IndexedEvent},
    violation::Violation,
};

/// How late a loss may be announced.
///
/// Only the first announcement counts: a task that waits for a loss that is known hears of it late.
/// A process that announces nothing, because nobody waited for the loss or the process stood still,
/// is excused.
///
/// Whether a look was after the end is decided by the order of the entries, not by their times:
/// much happens at one instant of a simulation.
pub(super) struct Honesty {
    grace: Duration,
}

impl Honesty {
    pub(super) const fn within(grace: Duration) -> Self {
        Self { grace }
    }

    fn looked(indexed: &IndexedEvent<'_>, record: &AttemptRecord<'_>) -> Option<Violation> {
        let AttemptRecord { attempt, process, granted, ended, .. } = *record;
        if granted.is_none_or(|granted| granted.entry > indexed.entry) {
            return Some(Violation::EarlyLook { attempt, process, at: indexed.at });
        }
        let is_over = ended.is_some_and(|ended| ended.entry < indexed.entry);
        is_over.then_some(Violation::LateLook { lease: record.grant()?, at: indexed.at })
    }

    fn announced(&self, indexed: &IndexedEvent<'_>, record: &AttemptRecord<'_>) -> Option<Violation> {
        let ended = record.ended.filter(|ended| !ended.is_unlocked)?;
        let is_first = record.announced.is_some_and(|announced| announced.entry == indexed.entry);
        let is_late = is_first && indexed.at > ended.at.saturating_add(self.grace);
        is_late.then_some(Violation::LateLoss { lease: record.grant()?, at: indexed.at })
    }
}

impl Rule<'_> for Honesty {
    fn on_event(&mut self, indexed: &IndexedEvent<'_>, found: &mut Vec<Violation>) {
        let Some(record) = indexed.record else { return };
        found.extend(match indexed.event {
            Event::Looked { is_valid: true, .. } => Self::looked(indexed, record),
            Event::Announced { .. } => self.announced(indexed, record),
            _ => None,
        });
    }
}
