//! The validity of one lease, from its grant over its renewals to its end. The driver of an attempt creates the times
//! of a lease, and `lease/` extends and reads these times.

use std::time::Duration;

use crate::{
    algorithm::validity::Validity,
    clock::Instant,
    mutation::{self, Mutation},
};

/// The divisor of the ttl in the time for which the watchdog waits for the answer to a renewal. Two renewals of this
/// length fit between the first renewal and the end of the validity.
const RENEWAL_TIMEOUT_SHARE: u32 = 4;

/// Returns the time for which the watchdog waits for the answer of a node to a renewal.
///
/// A busy node executes each renewal that it has received, and answers late. If the watchdog repeated the renewal after
/// a node timeout, each answer would come after the end of its call, until the lease is lost.
pub(crate) fn renewal_timeout(ttl: Duration, node_timeout: Duration) -> Duration {
    let timeout = node_timeout.max(ttl / RENEWAL_TIMEOUT_SHARE);
    mutation::altered(Mutation::ImpatientRenewals, timeout, |_| node_timeout)
}

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
    /// survives two renewals that fail at once, and one that times out.
    pub(crate) fn renewal_due(&self) -> Instant {
        self.renewed_at + self.renewal_interval()
    }

    /// Returns the time of the first renewal, which comes after this part of the renewal interval.
    pub(crate) fn first_renewal_due(&self, offset: RenewalOffset) -> Instant {
        self.renewed_at + offset.of_interval(self.renewal_interval())
    }

    fn renewal_interval(&self) -> Duration {
        self.ttl / 3
    }

    fn end_of(&self, start: Instant) -> Instant {
        let end = self.validity.valid_until(start, self.ttl);
        self.hold_until.map_or(end, |hold_until| end.min(hold_until))
    }
}

/// The part of the renewal interval between the start of an attempt and the first renewal of its lease. Later renewals
/// follow after whole intervals.
///
/// If thousands of clients lock at the same time, such as after a deployment, their leases would otherwise be renewed
/// in the same second of each interval, for as long as the leases last. All leases of a client have the same offset, so
/// that leases of one client that begin together are still renewed in one call to each node.
///
/// # Invariants
///
/// 1. The offset is at most one, so that a first renewal is never later than a third of the ttl.
/// 2. The offset of a client is at least [`LEAST`](Self::LEAST), so that the lease of a short task has no renewal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RenewalOffset(f64);

impl RenewalOffset {
    /// A whole interval, as between later renewals.
    pub(crate) const WHOLE: Self = Self(1.0);

    /// The least random offset.
    const LEAST: f64 = 0.25;

    /// Returns the offset of a client. `random` is at least 0 and below 1.
    pub(crate) fn of_client(random: f64) -> Self {
        Self(Self::LEAST + (1.0 - Self::LEAST) * random)
    }

    /// Returns the offset as a part of this renewal interval.
    pub(crate) fn of_interval(self, interval: Duration) -> Duration {
        interval.mul_f64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::break_rule;

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
    fn two_renewals_of_the_longest_duration_end_within_the_validity() {
        let (ttl, node_timeout) = (Duration::from_secs(30), Duration::from_secs(1));
        assert_eq!(renewal_timeout(ttl, node_timeout), Duration::from_millis(7_500));
        assert_eq!(renewal_timeout(ttl, ttl / 2), ttl / 2, "a longer node timeout of the program");
        let validity = Validity::with_drift(0.01).unwrap();
        let lease = LeaseTime::granted(at(0), ttl, validity, HoldLimits::default());
        let second = lease.renewal_due() + renewal_timeout(ttl, node_timeout) + ttl / 12;
        assert!(second + renewal_timeout(ttl, node_timeout) < lease.valid_until());
        let _broken = break_rule(Some(Mutation::ImpatientRenewals));
        assert_eq!(renewal_timeout(ttl, node_timeout), node_timeout);
    }

    #[test]
    fn a_renewal_that_started_earlier_never_shortens_a_lease() {
        let mut lease = lease(None);
        assert!(lease.renew(at(500), at(510)));
        assert!(lease.renew(at(400), at(520)));
        assert_eq!(lease.valid_until(), at(1498));
    }

    #[test]
    fn the_first_renewal_comes_after_a_quarter_to_all_of_the_renewal_interval() {
        let lease = lease(None);
        assert_eq!(lease.first_renewal_due(RenewalOffset::WHOLE), lease.renewal_due());
        let interval = Duration::from_secs(1) / 3;
        let share = |random| {
            let due = lease.first_renewal_due(RenewalOffset::of_client(random));
            due.saturating_duration_since(at(0)).div_duration_f64(interval)
        };
        for (random, expected) in [(0.0, 0.25), (0.5, 0.625), (0.999_999, 1.0)] {
            assert!((share(random) - expected).abs() < 1e-5, "{random}: {}", share(random));
        }
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

    #[test]
    fn the_rest_of_hold_at_most_ends_with_the_limit_in_spite_of_renewals() {
        let mut limited = lease(Some(Duration::from_millis(1500)));
        assert_eq!(limited.ttl(), Duration::from_secs(1));
        assert!(limited.renew(at(900), at(910)));
        assert_eq!(limited.hold_left(at(1400)), Some(Duration::from_millis(100)));
        assert_eq!(limited.hold_left(at(1600)), Some(Duration::ZERO));
        assert_eq!(lease(None).hold_left(at(0)), None);
    }
}
