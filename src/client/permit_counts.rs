//! The checks of one client whether all clients count the same number of permits for a semaphore.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use crate::{clock::Instant, mutex::lock, values::Resource};

/// The time between two checks of a semaphore by one client. The checks are rare, so they cost less than an argument in
/// each request.
const INTERVAL: Duration = Duration::from_secs(60);

/// The time for which nodes keep the number of the last check. The time covers several intervals, because a client
/// checks only when it acquires a permit.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(600);

/// The largest number of semaphores that a client remembers. If there are more, the client checks only some of them.
const MAX_SEMAPHORES: usize = 1024;

/// The checks of the semaphores of one client, by the name and the number of permits.
#[derive(Debug, Default)]
pub(crate) struct PermitCounts {
    checks: Mutex<Checks>,
}

#[derive(Debug, Default)]
struct Checks {
    by_number: BTreeMap<(Resource, u32), Check>,
    /// The time until which no check makes room for another semaphore.
    full_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Check {
    due_at: Instant,
    /// A different number, which another client has counted, by the last check.
    other: Option<u32>,
    /// Whether a different number was reported.
    is_reported: bool,
}

impl PermitCounts {
    /// Whether a check is due. If true, the next check is due after the interval.
    pub(crate) fn is_due(&self, semaphore: &Resource, permits: u32, now: Instant) -> bool {
        let mut checks = lock(&self.checks);
        let due_at = now + INTERVAL;
        if let Some(check) = checks.by_number.get_mut(&(semaphore.clone(), permits)) {
            let is_due = check.due_at <= now;
            check.due_at = if is_due { due_at } else { check.due_at };
            return is_due;
        }
        if !checks.has_room(now) {
            return false;
        }
        let check = Check { due_at, other: None, is_reported: false };
        checks.by_number.insert((semaphore.clone(), permits), check);
        true
    }

    /// Records the number of another client. Returns whether this is the first different number.
    pub(crate) fn counted_elsewhere(&self, semaphore: &Resource, permits: u32, other: u32) -> bool {
        let mut checks = lock(&self.checks);
        let check = checks.by_number.get_mut(&(semaphore.clone(), permits));
        let Some(check) = check.filter(|_| other != permits) else { return false };
        check.other = Some(other);
        !std::mem::replace(&mut check.is_reported, true)
    }

    /// Records that a check has found no other number.
    pub(crate) fn counted_equally(&self, semaphore: &Resource, permits: u32) {
        if let Some(check) = lock(&self.checks).by_number.get_mut(&(semaphore.clone(), permits)) {
            check.other = None;
        }
    }

    /// Returns the number of another client, if the last check has found a different number.
    pub(crate) fn mismatch(&self, semaphore: &Resource, permits: u32) -> Option<u32> {
        lock(&self.checks).by_number.get(&(semaphore.clone(), permits))?.other
    }
}

impl Checks {
    /// Whether there is room for another semaphore. Checks that are due make room. A check that has reported a different
    /// number stays for longer, because it is reported only once.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.by_number.len() < MAX_SEMAPHORES {
            return true;
        }
        if self.full_until.is_some_and(|until| until > now) {
            return false;
        }
        self.by_number.retain(|_, check| check.is_reported || check.due_at > now);
        if self.by_number.len() < MAX_SEMAPHORES {
            return true;
        }
        let oldest = self.by_number.iter().min_by_key(|(_, check)| check.due_at);
        let Some((oldest, due_at)) = oldest.map(|(number, check)| (number.clone(), check.due_at)) else {
            return true;
        };
        if due_at > now {
            self.full_until = Some(due_at);
            return false;
        }
        self.by_number.remove(&oldest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    fn name(number: usize) -> Resource {
        Resource::new(format!("gpu {number}")).unwrap()
    }

    #[test]
    fn a_check_is_due_once_in_each_interval() {
        let counts = PermitCounts::default();
        let due = |permits, seconds| counts.is_due(&name(0), permits, at(seconds));
        assert_eq!([due(4, 0), due(4, 59), due(4, 60), due(4, 61)], [true, false, true, false]);
        assert!(due(5, 61), "another number is another check");
    }

    #[test]
    fn only_the_first_different_number_is_reported() {
        let counts = PermitCounts::default();
        assert!(counts.is_due(&name(0), 4, at(0)));
        let counted = |other| counts.counted_elsewhere(&name(0), 4, other);
        assert_eq!([counted(4), counted(5), counted(5), counted(6)], [false, true, false, false]);
        assert_eq!((counts.mismatch(&name(0), 4), counts.mismatch(&name(0), 5)), (Some(6), None));
    }

    #[test]
    fn equal_numbers_end_a_mismatch_and_a_later_difference_is_not_reported_again() {
        let counts = PermitCounts::default();
        assert!(counts.is_due(&name(0), 4, at(0)));
        assert!(counts.counted_elsewhere(&name(0), 4, 5));
        counts.counted_equally(&name(0), 4);
        assert_eq!(counts.mismatch(&name(0), 4), None);
        assert!(!counts.counted_elsewhere(&name(0), 4, 5));
        assert_eq!(counts.mismatch(&name(0), 4), Some(5));
    }

    #[test]
    fn a_client_remembers_a_bounded_number_of_semaphores() {
        let counts = PermitCounts::default();
        assert!((0..MAX_SEMAPHORES).all(|number| counts.is_due(&name(number), 1, at(0))));
        assert!(counts.counted_elsewhere(&name(0), 1, 2));
        assert!(!counts.is_due(&name(MAX_SEMAPHORES), 1, at(59)));
        assert!(counts.is_due(&name(MAX_SEMAPHORES), 1, at(60)), "checks that are due make room");
        assert_eq!(counts.mismatch(&name(0), 1), Some(2));
    }

    #[test]
    fn the_oldest_different_number_makes_room_if_all_numbers_differ() {
        let counts = PermitCounts::default();
        for number in 0..MAX_SEMAPHORES {
            assert!(counts.is_due(&name(number), 1, at(u64::from(number > 0))));
            assert!(counts.counted_elsewhere(&name(number), 1, 2));
        }
        assert!(!counts.is_due(&name(MAX_SEMAPHORES), 1, at(59)), "no check is due");
        assert!(counts.is_due(&name(MAX_SEMAPHORES), 1, at(60)));
        assert_eq!([0, 1].map(|number| counts.mismatch(&name(number), 1)), [None, Some(2)]);
        assert!(!counts.is_due(&name(0), 1, at(60)), "the other checks are due a second later");
        assert!(counts.is_due(&name(0), 1, at(61)));
    }
}
