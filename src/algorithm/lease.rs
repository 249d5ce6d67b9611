//! The validity of one lease, from its grant over its renewals to its end. The driver of an attempt creates the times
//! of a lease, and `lease/` extends and reads these times.

use std::time::Duration;

use crate::{algorithm::validity::Validity, clock::Instant};

/// The end of the validity of one lease, which renewals extend.
///
/// # Invariants
///
/// 1. `valid_until` never decreases.
/// 2. A lease that has ended never becomes valid again, because another client may have held the resource since.
/// 3. `valid_until` never passes the start plus `hold_at_most`.
#[derive(Clone, Debug)]
pub(crate) struct LeaseTime {
    ttl: Duration,
    validity: Validity,
    valid_until: Instant,
    /// The start of the round from which the validity counts.
    renewed_at: Instant,
    hold_until: Option<Instant>,
    /// The time until which the nodes keep the resources of an exclusive lease, even if the lease ends before.
    taken_until: Option<Instant>,
}

/// The limits of the time for which a lease holds its resources, counted from the start of its attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldLimits {
    /// The minimum hold: the resources stay taken for this time, however early the lease ends.
    pub(crate) at_least: Option<Duration>,
    /// The time after which the lease ends in spite of renewals.
    pub(crate) at_most: Option<Duration>,
}

impl LeaseTime {
    /// Creates the times of a lease whose attempt began at `start`.
    pub(crate) fn granted(start: Instant, ttl: Duration, validity: Validity, limits: HoldLimits) -> Self {
        let hold_until = limits.at_most.map(|at_most| start + at_most);
        let taken_until = limits.at_least.map(|at_least| start + at_least);
        let mut lease =
            Self { ttl, validity, valid_until: start, renewed_at: start, hold_until, taken_until };
        lease.valid_until = lease.end_of(start);
        lease
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn valid_until(&self) -> Instant {
        self.valid_until
    }

    /// Returns the time from `now` until `hold_at_most` ends the lease; `None` without this limit.
    pub(crate) fn hold_left(&self, now: Instant) -> Option<Duration> {
        self.hold_until.map(|end| end.saturating_duration_since(now))
    }

    /// Returns the rest of the minimum hold at `now`, by the fastest clock of a node; `None` if the minimum hold is
    /// over.
    ///
    /// The ttl is at least the minimum hold, so the key of each grant ends no earlier. Therefore an unlock only has to
    /// shorten the ttls of keys to the rest, and a holder that dies keeps the resources for the minimum hold, too.
    pub(crate) fn rest(&self, now: Instant) -> Option<Duration> {
        let left = self.taken_until?.saturating_duration_since(now);
        (!left.is_zero()).then(|| self.validity.seen_by_any(left))
    }

    /// Returns the start of the round from which the validity counts.
    pub(crate) fn renewed_at(&self) -> Instant {
        self.renewed_at
    }

    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        now < self.valid_until
    }

    /// Whether `hold_at_most` ends the lease, so that no renewal extends it.
    pub(crate) fn is_at_hold_limit(&self) -> bool {
        self.hold_until.is_some_and(|hold_until| hold_until <= self.valid_until)
    }

    /// Handles a renewal that started at `start` and has a quorum at `now`. Returns whether the renewal counts. The
    /// renewal counts only inside the old validity (invariant 2).
    pub(crate) fn renew(&mut self, start: Instant, now: Instant) -> bool {
        if !self.is_valid(now) {
            return false;
        }
        self.renewed_at = self.renewed_at.max(start);
        self.valid_until = self.valid_until.max(self.end_of(start));
        true
    }

    /// Returns the latest expiry of a key that a node wrote or renewed at `at`, for any clock rate within the drift.
    pub(crate) fn latest_key_expiry(&self, at: Instant) -> Instant {
        at + self.validity.seen_by_any(self.ttl)
    }

    /// Returns the time of the next renewal: a third of the ttl after the start of the last renewal. Therefore a lease
    /// survives two failed renewals.
    pub(crate) fn renewal_due(&self) -> Instant {
        self.renewed_at + self.ttl / 3
    }

    fn end_of(&self, start: Instant) -> Instant {
        let end = self.validity.valid_until(start, self.ttl);
        self.hold_until.map_or(end, |hold_until| end.min(hold_until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn lease(at_most: Option<Duration>) -> LeaseTime {
        let limits = HoldLimits { at_least: Some(Duration::from_millis(400)), at_most };
        LeaseTime::granted(at(0), Duration::from_secs(1), Validity::with_drift(0.0).unwrap(), limits)
    }

    #[test]
    fn a_renewal_counts_from_its_start_and_must_end_within_the_old_validity() {
        let mut lease = lease(None);
        assert_eq!(lease.valid_until(), at(998));
        assert_eq!(lease.renewal_due().saturating_duration_since(at(0)), Duration::from_secs(1) / 3);
        assert!(lease.renew(at(300), at(997)));
        assert_eq!(lease.valid_until(), at(1298));
        assert!(!lease.renew(at(1290), at(1298)), "the renewal ended at the end of the validity");
        assert_eq!(lease.valid_until(), at(1298));
    }

    #[test]
    fn a_renewal_that_started_earlier_never_shortens_a_lease() {
        let mut lease = lease(None);
        assert!(lease.renew(at(500), at(510)));
        assert!(lease.renew(at(400), at(520)));
        assert_eq!(lease.valid_until(), at(1498));
    }

    #[test]
    fn the_rest_of_a_minimum_hold_counts_from_the_start_in_spite_of_renewals() {
        let mut lease = lease(None);
        assert_eq!(lease.rest(at(0)), Some(Duration::from_millis(402)));
        assert!(lease.renew(at(300), at(301)));
        assert_eq!(lease.rest(at(399)), Some(Duration::from_millis(3)));
        assert_eq!(lease.rest(at(400)), None);
    }

    #[test]
    fn hold_at_most_ends_a_renewed_lease() {
        let mut lease = lease(Some(Duration::from_millis(1500)));
        assert!(!lease.is_at_hold_limit());
        assert!(lease.renew(at(900), at(910)));
        assert_eq!(lease.valid_until(), at(1500));
        assert!(lease.is_at_hold_limit());
    }
}
