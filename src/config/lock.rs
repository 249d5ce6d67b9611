//! The settings of one lock, and their check.

use std::time::Duration;

use crate::{
    algorithm::{
        attempt::{AttemptConfig, HEDGE_SHARE},
        lease::HoldLimits,
        outage::QuorumWait,
        waiter_schedule::Pacing,
    },
    clock::Instant,
    config::quorum::{CheckedQuorum, check_node_timeout, check_ttl},
    error::{ConfigError, duration_out_of_range},
    mutation::{Mutation, altered},
};

/// The delay before a waiter's first attempt without a notice.
const FIRST_POLL: Duration = Duration::from_millis(500);

/// The default of [`LockOptions::poll_interval`], and its bounds. Below the lower bound, polls would be a busy loop.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(5);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The least delay after an attempt that fails without a quorum. The delay doubles with each failure, up to the delay
/// before the first poll.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// The checked settings of a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedLock {
    /// The settings of the lock's attempts, such as the ttl.
    pub(crate) attempt: AttemptConfig,
    pub(crate) limits: HoldLimits,
    pub(crate) quorum_timeout: Duration,
    /// Whether the program has set the quorum timeout. If not, a call also waits for nodes that have reported the end
    /// of their quarantine.
    pub(crate) is_quorum_timeout_set: bool,
    pub(crate) pacing: Pacing,
    /// The time after which a node deletes the queue entry of a waiter, counted from the last request of the waiter.
    pub(crate) entry_ttl: Duration,
    /// Whether the watchdog renews the lease.
    pub(crate) is_renewed: bool,
}

impl CheckedLock {
    /// Returns the wait for a quorum, for a call that began at `start`.
    pub(crate) fn quorum_wait(&self, start: Instant) -> QuorumWait {
        QuorumWait {
            start,
            timeout: self.quorum_timeout,
            waits_for_quarantine: !self.is_quorum_timeout_set,
            node_timeout: self.attempt.node_timeout,
        }
    }
}

/// The settings of a lock, semaphore or election. Settings that are not set come from the quorum.
///
/// All setters are `const`, so a program can define its options as a constant. The method `options` of a lock, such as
/// [`RedLock::options`](crate::RedLock::options), *replaces* all options of the lock. The first call of the lock checks
/// the settings, and fails with [`Error::Config`](crate::Error::Config) if the settings are invalid.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redquorum::LockOptions;
///
/// const REPORT: LockOptions =
///     LockOptions::new().ttl(Duration::from_secs(10)).hold_at_most(Duration::from_secs(60));
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let guard = quorum.red_lock("report").options(REPORT).lock().await?;
/// assert!(guard.remaining() <= Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
// Not `Copy`: a later option may have a type that is not `Copy`, and the removal of `Copy` would break programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a lock is given them"]
pub struct LockOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) hold_at_least: Option<Duration>,
    pub(crate) hold_at_most: Option<Duration>,
    pub(crate) quorum_timeout: Option<Duration>,
    first_poll: Option<Duration>,
    longest_poll: Option<Duration>,
    pub(crate) without_renewal: bool,
}

impl LockOptions {
    /// Returns options that leave every setting to the quorum.
    pub const fn new() -> Self {
        Self {
            ttl: None,
            node_timeout: None,
            hold_at_least: None,
            hold_at_most: None,
            quorum_timeout: None,
            first_poll: None,
            longest_poll: None,
            without_renewal: false,
        }
    }

    /// Sets the time after which nodes delete the lock without a renewal (default: the quorum's, 30 s). After a crash,
    /// the lock blocks other clients for at most this time. If the network or a quorum of nodes fails for longer, the
    /// lease is lost.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Lets the lease end with its validity (default: the lease is renewed at a third of the ttl, and for the first time
    /// up to a quarter of the ttl earlier, until its guard is unlocked or dropped). The campaigns of an election and
    /// `observe` refuse this option with [`Error::Config`](crate::Error::Config) (`Unsupported`).
    pub const fn without_renewal(mut self) -> Self {
        self.without_renewal = true;
        self
    }

    /// Ends the lease after this time, in spite of renewals (default: no limit). Without a limit, a lease is renewed
    /// forever if a hung task keeps its guard.
    pub const fn hold_at_most(mut self, time: Duration) -> Self {
        self.hold_at_most = Some(time);
        self
    }

    /// Keeps the resource taken for at least this time from the start of the lease, however early the lease ends
    /// (default: no minimum). The option is for a job that several hosts start at nearly the same time, and that only
    /// one of them may run.
    ///
    /// The minimum hold is *not* a minimum validity: the lease ends at its unlock, drop or loss as usual, and after
    /// that, nobody holds the resource for the rest of the time, not even this client. A crash of the holder changes
    /// nothing, because the ttl is at least the minimum hold: a shorter [`ttl`](Self::ttl) is raised to this time, and
    /// a minimum hold above the quorum's `max_ttl` is refused. The price is that the lock of a crashed holder blocks
    /// other clients for this time, too. Only a [force-unlock](crate::admin::force_unlock) ends a minimum hold early.
    /// An attempt that fails leaves nothing behind. A [downgrade](crate::LockGuard::downgrade) ends the minimum hold,
    /// and so does [`into_ticket`](crate::LockGuard::into_ticket), also if it fails.
    ///
    /// Waiters of the resource receive no notice of the earlier end. They attempt at the end of the ttl that they know
    /// of, or at their next [poll](Self::poll_interval), so the first waiter may come some seconds after the end of the
    /// minimum hold.
    ///
    /// Readers, the reads of a group, [`MultiLock::across`](crate::MultiLock::across),
    /// [`Semaphore::acquire_many`](crate::Semaphore::acquire_many) and elections refuse this option with
    /// [`Error::Config`](crate::Error::Config) (`Unsupported`).
    pub const fn hold_at_least(mut self, time: Duration) -> Self {
        self.hold_at_least = Some(time);
        self
    }

    /// Sets the time to wait for the answer of one node (default: the quorum's, a tenth of the ttl and at
    /// most 1 s). A call waits only for votes that can change its outcome. If the time is too short, slow
    /// nodes cause errors. A node that leaves a call unanswered for the node timeout of the *quorum* gets no new calls
    /// until its next answer, independently of the timeout set here.
    pub const fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// Sets the time after which a waiting call fails if no quorum is available (default: one ttl, or until nodes leave
    /// a quarantine whose end they have reported, if that is later). While another client holds the resource, a call
    /// waits without a limit. With `Duration::MAX`, a call never fails for lack of a quorum, such as in a loop that
    /// campaigns until the process ends. Each call has its own timeout, even if the call waits behind another call of
    /// the process with a longer quorum timeout.
    pub const fn quorum_timeout(mut self, timeout: Duration) -> Self {
        self.quorum_timeout = Some(timeout);
        self
    }

    /// Sets the longest time that a waiter sleeps without a notice of a node (default: 5 s; 1 ms to a day). A waiter
    /// makes its first attempt without a notice after 500 ms. The delays to the next attempts double up to this time,
    /// each with a jitter of 50 %. For the third waiter of a queue, the limit is a fifth of this time, and the limit
    /// grows up to this time for later waiters. With a shorter time, each waiter sends the nodes more commands. With a
    /// longer time, a waiter whose notice was lost waits longer. A waiter for any of more than three slots or resources
    /// also queries all of them once in this time. A node keeps the queue entry of a waiter for twice this time, and at
    /// most for `max_ttl`.
    pub const fn poll_interval(mut self, longest: Duration) -> Self {
        self.longest_poll = Some(longest);
        self
    }

    /// Sets the delay before the first attempt without a notice, in place of 500 ms.
    #[cfg(test)]
    pub(crate) const fn first_poll(mut self, first: Duration) -> Self {
        self.first_poll = Some(first);
        self
    }

    pub(crate) fn check(&self, quorum: &CheckedQuorum) -> Result<CheckedLock, ConfigError> {
        if let Some(given) = self.hold_at_least.filter(|time| time.is_zero() || *time > quorum.max_ttl) {
            let expected = format!("a time above zero, and at most the max_ttl of {:?}", quorum.max_ttl);
            return Err(duration_out_of_range("hold_at_least", given, expected));
        }
        // The keys of a holder that dies also have to last for the minimum hold.
        let least_ttl = altered(Mutation::TtlBelowMinimumHold, self.hold_at_least, |_| None);
        let ttl = self.ttl.unwrap_or(quorum.ttl).max(least_ttl.unwrap_or_default());
        check_ttl(ttl, quorum.max_ttl, quorum.validity)?;
        let node_timeout = self.node_timeout.unwrap_or_else(|| quorum.node_timeout_for(ttl));
        check_node_timeout(node_timeout, ttl)?;
        if let Some(given) = self.hold_at_most.filter(Duration::is_zero) {
            return Err(duration_out_of_range("hold_at_most", given, "a time above zero"));
        }
        let pacing = self.check_pacing()?;
        let attempt = AttemptConfig {
            electorate: quorum.electorate,
            validity: quorum.validity,
            ttl,
            node_timeout,
            attempt_timeout: quorum.attempt_timeout,
            vote_timeout: node_timeout,
            hedge: node_timeout / HEDGE_SHARE,
        };
        Ok(CheckedLock {
            attempt,
            limits: HoldLimits { at_least: self.hold_at_least, at_most: self.hold_at_most },
            quorum_timeout: self.quorum_timeout.unwrap_or(ttl),
            is_quorum_timeout_set: self.quorum_timeout.is_some(),
            pacing,
            entry_ttl: pacing.entry_ttl(quorum.max_ttl),
            is_renewed: !self.without_renewal,
        })
    }

    fn check_pacing(&self) -> Result<Pacing, ConfigError> {
        let longest_poll = self.longest_poll.unwrap_or(DEFAULT_POLL_INTERVAL);
        if !(MIN_POLL_INTERVAL..=MAX_POLL_INTERVAL).contains(&longest_poll) {
            let expected = format!("{MIN_POLL_INTERVAL:?} to {MAX_POLL_INTERVAL:?}");
            return Err(duration_out_of_range("poll_interval", longest_poll, expected));
        }
        let first_poll = self.first_poll.unwrap_or(FIRST_POLL).min(longest_poll);
        Ok(Pacing { first_poll, longest_poll, floor: RETRY_DELAY, ceiling: first_poll })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::QuorumSettings;

    #[test]
    fn unset_timeouts_of_a_lock_derive_from_its_ttl() {
        let quorum = QuorumSettings::default().check(3).unwrap();
        let lock = LockOptions::new().ttl(Duration::from_secs(5));
        let lock = lock.check(&quorum).unwrap();
        assert_eq!(lock.attempt.node_timeout, Duration::from_millis(500));
        assert_eq!(lock.quorum_timeout, Duration::from_secs(5));
        assert!(lock.is_renewed);
    }

    #[test]
    fn a_node_timeout_above_the_ttl_of_a_lock_is_refused() {
        let quorum =
            QuorumSettings { node_timeout: Some(Duration::from_millis(800)), ..QuorumSettings::default() };
        let quorum = quorum.check(3).unwrap();
        let ttl = Duration::from_millis(500);
        let lock = LockOptions::new().ttl(ttl);
        let refused = lock.check(&quorum).unwrap_err().to_string();
        assert_eq!(refused, "node_timeout is 800ms: expected a time above zero and below the ttl of 500ms");
    }

    #[test]
    fn a_minimum_hold_raises_the_ttl_up_to_the_longest_ttl() {
        let quorum = QuorumSettings::default().check(3).unwrap();
        let ttl = |options: LockOptions| options.check(&quorum).map(|lock| lock.attempt.ttl);
        let seconds = Duration::from_secs;
        assert_eq!(ttl(LockOptions::new().hold_at_least(seconds(20))).unwrap(), quorum.ttl);
        assert_eq!(ttl(LockOptions::new().hold_at_least(seconds(50))).unwrap(), seconds(50));
        assert_eq!(ttl(LockOptions::new().ttl(seconds(5)).hold_at_least(seconds(50))).unwrap(), seconds(50));
        for time in [Duration::ZERO, seconds(61)] {
            let refused = ttl(LockOptions::new().hold_at_least(time)).unwrap_err();
            assert!(matches!(refused, ConfigError::OutOfRange { setting: "hold_at_least", .. }), "{refused}");
        }
    }

    #[test]
    fn a_poll_interval_out_of_range_is_refused() {
        let quorum = QuorumSettings::default().check(3).unwrap();
        for interval in [Duration::ZERO, Duration::from_secs(24 * 3600 + 1)] {
            let refused = LockOptions::new().poll_interval(interval).check(&quorum).unwrap_err();
            assert!(matches!(refused, ConfigError::OutOfRange { setting: "poll_interval", .. }), "{refused}");
        }
        let shortest = LockOptions::new().poll_interval(Duration::from_millis(1)).check(&quorum).unwrap();
        assert_eq!(shortest.pacing.first_poll, Duration::from_millis(1));
    }
}
