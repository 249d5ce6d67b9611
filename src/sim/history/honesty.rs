//! Honesty: a lease is shown as valid only between its grant and its end, and the loss of a lease is announced
//! no later than its end.

use std::time::Duration;

use super::{
    Rule,
    event::Event,
    index::{AttemptRecord, IndexedEvent},
    violation::Violation,
};

/// The rule of honesty. `grace` is the time by which an announcement may be late.
///
/// * **A loss is announced more than once:** only the first announcement counts, because a task
///   that starts to wait after the loss receives a late announcement.
/// * **A loss is never announced:** this is no violation, because perhaps no task waited for the
///   loss, or the process was paused.
/// * **A check and the end have the same time:** the order of the entries decides, because many
///   events of a simulation have the same time.
pub(super) struct Honesty {
    grace: Duration,
}

impl Honesty {
    pub(super) const fn within(grace: Duration) -> Self {
        Self { grace }
    }

    /// Returns a violation if a check found the lease valid before its grant or after its end.
    fn untimely_validity(indexed: &IndexedEvent<'_>, record: &AttemptRecord<'_>) -> Option<Violation> {
        let AttemptRecord { attempt, process, granted, ended, .. } = *record;
        if granted.is_none_or(|granted| granted.entry > indexed.entry) {
            return Some(Violation::EarlyValidity { attempt, process, at: indexed.at });
        }
        let is_over = ended.is_some_and(|ended| ended.entry < indexed.entry);
        is_over.then_some(Violation::LateValidity { lease: record.grant()?, at: indexed.at })
    }

    /// Returns a violation if the first announcement of a loss was late.
    fn late_loss(&self, indexed: &IndexedEvent<'_>, record: &AttemptRecord<'_>) -> Option<Violation> {
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
            Event::Checked { is_valid: true, .. } => Self::untimely_validity(indexed, record),
            Event::Announced { .. } => self.late_loss(indexed, record),
            _ => None,
        });
    }
}
