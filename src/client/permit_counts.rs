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
    checks: Mutex<BTreeMap<(Resource, u32), Check>>,
}

#[derive(Clone, Copy, Debug)]
struct Check {
    due_at: Instant,
    /// A different number, which another client has counted.
    other: Option<u32>,
}

impl PermitCounts {
    /// Whether a check is due. If true, the next check is due after the interval.
    pub(crate) fn is_due(&self, semaphore: &Resource, permits: u32, now: Instant) -> bool {
        let mut checks = lock(&self.checks);
        let due_at = now + INTERVAL;
        if let Some(check) = checks.get_mut(&(semaphore.clone(), permits)) {
            let is_due = check.due_at <= now;
            check.due_at = if is_due { due_at } else { check.due_at };
            return is_due;
        }
        if checks.len() >= MAX_SEMAPHORES {
            // A mismatch stays, because it is reported only once.
            checks.retain(|_, check| check.other.is_some() || check.due_at > now);
        }
        if checks.len() >= MAX_SEMAPHORES {
            return false;
        }
        checks.insert((semaphore.clone(), permits), Check { due_at, other: None });
        true
    }

    /// Records the number of another client. Returns whether this is the first different number.
    pub(crate) fn counted_elsewhere(&self, semaphore: &Resource, permits: u32, other: u32) -> bool {
        let mut checks = lock(&self.checks);
        let Some(check) = checks.get_mut(&(semaphore.clone(), permits)) else { return false };
        other != permits && check.other.replace(other).is_none()
    }

    /// Returns the number of another client, if a check has found a different number.
    pub(crate) fn mismatch(&self, semaphore: &Resource, permits: u32) -> Option<u32> {
        lock(&self.checks).get(&(semaphore.clone(), permits))?.other
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
    fn a_client_remembers_a_bounded_number_of_semaphores() {
        let counts = PermitCounts::default();
        assert!((0..MAX_SEMAPHORES).all(|number| counts.is_due(&name(number), 1, at(0))));
        assert!(counts.counted_elsewhere(&name(0), 1, 2));
        assert!(!counts.is_due(&name(MAX_SEMAPHORES), 1, at(59)));
        assert!(counts.is_due(&name(MAX_SEMAPHORES), 1, at(60)), "checks that are due make room");
        assert_eq!(counts.mismatch(&name(0), 1), Some(2));
    }
}
