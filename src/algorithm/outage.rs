//! The time at which a call gives up because no quorum answers. `acquire/shared_outage.rs` shares an outage between
//! calls.

use std::time::Duration;

use crate::{
    algorithm::{attempt::FailureReason, failed_attempt::FailedAttempt},
    clock::Instant,
};

/// The time for which one call waits for a quorum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuorumWait {
    /// The start of the call.
    pub(crate) start: Instant,
    /// The quorum timeout of the call.
    pub(crate) timeout: Duration,
    /// Whether the call also waits for the reported end of quarantines, if that is later than the timeout.
    pub(crate) waits_for_quarantine: bool,
    /// The time within which a node may answer an attempt of the call.
    pub(crate) node_timeout: Duration,
}

/// A period in which no attempt in a local queue had a quorum.
///
/// The call with the local turn makes the attempts. Each call gives up at the end of its own quorum timeout.
#[derive(Clone, Debug)]
pub(crate) struct Outage {
    /// The start of the first attempt of the outage.
    since: Instant,
    last: FailedAttempt,
    /// The time up to which the last attempt shows that no quorum answers: the end of the attempt, or its
    /// beginning if the client stood still during the attempt.
    seen_at: Instant,
    /// The time at which enough nodes for a quorum are out of quarantine, as the answers to the last attempt report.
    quarantined_until: Option<Instant>,
    /// The time since which a call needs the result of one more attempt.
    wanted_since: Option<Instant>,
}

/// The next step of a call that waits behind another call of its client, and therefore makes no attempt.
#[derive(Clone, Debug)]
pub(crate) enum OutageStep {
    /// A wait for the end of the next attempt, at most until this time.
    WaitUntil(Instant),
    /// A request to the call with the local turn to make an attempt, and a wait for its end, at most until this time.
    WantAttempt(Instant),
    /// The end of the call without a quorum, with the last attempt as the evidence.
    GiveUp(FailedAttempt),
}

impl Outage {
    /// Returns the outage after a failed attempt that began at `begun`; `None` if the attempt had a quorum.
    pub(crate) fn after(
        earlier: Option<Self>,
        failed: &FailedAttempt,
        begun: Instant,
        now: Instant,
        quarantined_until: Option<Instant>,
    ) -> Option<Self> {
        match failed.reason {
            FailureReason::Contended => None,
            FailureReason::NoQuorum | FailureReason::Expired => Some(Self {
                since: earlier.map_or(begun, |earlier| earlier.since),
                last: failed.clone(),
                seen_at: if failed.has_stood_still { begun } else { now },
                quarantined_until,
                wanted_since: None,
            }),
        }
    }

    /// Returns the time at which the quorum timeout of a call is over. The first attempt that fails at this time or
    /// later ends the call.
    pub(crate) fn deadline(&self, wait: &QuorumWait) -> Instant {
        let end = self.since.max(wait.start) + wait.timeout;
        let until = self.quarantined_until.filter(|_| wait.waits_for_quarantine);
        until.map_or(end, |until| until.max(end))
    }

    /// Whether the last attempt ends a call: at its end, the quorum timeout of the call was over.
    pub(crate) fn ends(&self, wait: &QuorumWait) -> bool {
        self.deadline(wait) <= self.seen_at
    }

    /// Returns the next step of a call that makes no attempt itself. At its deadline, the call requests one more
    /// attempt unless an attempt has ended since, because nodes may have come back since an older attempt. The call
    /// with the local turn makes that attempt with other settings. Therefore this call waits for the attempt for at
    /// most its own node timeout, and then gives up.
    pub(crate) fn step(&mut self, wait: &QuorumWait, now: Instant) -> OutageStep {
        let deadline = self.deadline(wait);
        if now < deadline && !self.ends(wait) {
            return OutageStep::WaitUntil(deadline);
        }
        // The wait counts from the request of the attempt, because the process may have stood still at the deadline.
        let end = *self.wanted_since.get_or_insert(now) + wait.node_timeout;
        if self.ends(wait) || end <= now {
            return OutageStep::GiveUp(self.last.clone());
        }
        OutageStep::WantAttempt(end)
    }

    /// Returns the present duration of the outage.
    pub(crate) fn lasts(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    pub(crate) fn last_attempt(&self) -> &FailedAttempt {
        &self.last
    }

    /// Whether a call needs the result of an attempt now, so that the call with the local turn does not wait longer.
    pub(crate) fn is_attempt_wanted(&self) -> bool {
        self.wanted_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::values::NodeReplies;

    const TIMEOUT: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    fn failed(reason: FailureReason) -> FailedAttempt {
        let replies = NodeReplies::new(Arc::from([]), Vec::new(), 0);
        FailedAttempt {
            reason,
            replies,
            hint: 0,
            took: Duration::ZERO,
            has_stood_still: false,
            is_overloaded: false,
            deferral: None,
            refused: None,
        }
    }

    fn wait(start: u64) -> QuorumWait {
        let node_timeout = Duration::from_secs(1);
        QuorumWait { start: at(start), timeout: TIMEOUT, waits_for_quarantine: true, node_timeout }
    }

    /// Returns the outage after attempts without a quorum that began and ended at these times, in seconds.
    fn outage(attempts: &[u64], quarantined_until: Option<u64>) -> Outage {
        let after = |earlier, second: &u64| {
            let failed = failed(FailureReason::NoQuorum);
            Outage::after(earlier, &failed, at(*second), at(*second), quarantined_until.map(at))
        };
        attempts.iter().fold(None, after).unwrap()
    }

    #[test]
    fn the_quorum_timeout_of_a_call_starts_with_the_call_or_the_outage() {
        let outage = outage(&[10, 11, 12], None);
        assert_eq!(outage.deadline(&wait(0)), at(10) + TIMEOUT);
        assert_eq!(outage.deadline(&wait(11)), at(11) + TIMEOUT);
    }

    #[test]
    fn an_attempt_with_a_quorum_ends_an_outage() {
        let contended = failed(FailureReason::Contended);
        let ended = Outage::after(Some(outage(&[10], None)), &contended, at(20), at(20), None);
        assert!(ended.is_none());
        let next = Outage::after(ended, &failed(FailureReason::Expired), at(30), at(31), None).unwrap();
        assert_eq!(next.deadline(&wait(0)), at(30) + TIMEOUT);
    }

    #[test]
    fn a_call_waits_for_quarantines_unless_its_quorum_timeout_was_set() {
        let outage = outage(&[10], Some(60));
        assert_eq!(outage.deadline(&wait(0)), at(60));
        let is_set = QuorumWait { waits_for_quarantine: false, ..wait(0) };
        assert_eq!(outage.deadline(&is_set), at(10) + TIMEOUT);
    }

    #[test]
    fn a_call_gives_up_after_an_attempt_at_its_deadline() {
        let mut early = outage(&[10, 11], None);
        assert!(matches!(early.step(&wait(0), at(11)), OutageStep::WaitUntil(until) if until == at(12)));
        assert!(!early.is_attempt_wanted());
        assert!(matches!(early.step(&wait(0), at(12)), OutageStep::WantAttempt(until) if until == at(13)));
        assert!(early.is_attempt_wanted());
        let second_failure = failed(FailureReason::NoQuorum);
        let mut late = Outage::after(Some(early), &second_failure, at(12), at(13), None).unwrap();
        assert!(!late.is_attempt_wanted());
        assert!(matches!(late.step(&wait(0), at(13)), OutageStep::GiveUp(_)));
        assert!(matches!(late.step(&wait(12), at(13)), OutageStep::WaitUntil(until) if until == at(14)));
    }

    #[test]
    fn a_call_waits_a_node_timeout_for_the_attempt_of_another_call() {
        let mut outage = outage(&[10, 11], None);
        assert!(matches!(outage.step(&wait(0), at(12)), OutageStep::WantAttempt(_)));
        assert!(matches!(outage.step(&wait(0), at(13)), OutageStep::GiveUp(_)));
    }

    #[test]
    fn a_client_that_stood_still_gives_up_after_one_more_attempt() {
        let stood_still = FailedAttempt { has_stood_still: true, ..failed(FailureReason::Expired) };
        let mut outage = Outage::after(None, &stood_still, at(10), at(40), None).unwrap();
        assert!(!outage.ends(&wait(0)));
        assert!(matches!(outage.step(&wait(0), at(40)), OutageStep::WantAttempt(until) if until == at(41)));
        let again = failed(FailureReason::NoQuorum);
        let outage = Outage::after(Some(outage), &again, at(40), at(41), None).unwrap();
        assert!(outage.ends(&wait(0)));
    }

    #[test]
    fn a_call_with_the_longest_quorum_timeout_never_gives_up() {
        let endless = QuorumWait { timeout: Duration::MAX, ..wait(5) };
        let mut outage = outage(&[10, 1 << 40], Some(1 << 41));
        let largest_instant = Instant::from_origin(Duration::MAX);
        assert_eq!(outage.deadline(&endless), largest_instant);
        let step = outage.step(&endless, at(1 << 42));
        assert!(matches!(step, OutageStep::WaitUntil(until) if until == largest_instant), "{step:?}");
    }

    #[test]
    fn an_outage_lasts_from_the_start_of_its_first_attempt() {
        assert_eq!(outage(&[10, 12], None).lasts(at(15)), Duration::from_secs(5));
    }
}
