//! What one lock adds to its quorum's settings.

use std::time::Duration;

use crate::{
    algorithm::{
        attempt::Rules,
        outage::QuorumWait,
        queueing::{Pacing, Queueing},
    },
    clock::Instant,
    config::quorum::{CheckedQuorum, check_longest, check_node_timeout, check_ttl},
    error::ConfigError,
};

const POLLS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

const RETRY_DELAY: Duration = Duration::from_millis(5);

const LEAST_DELAY: Duration = Duration::from_millis(1);

const LONGEST_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Settings of a lock that can work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedLock {
    /// What its attempts go by: the ttl, among others.
    pub(crate) rules: Rules,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) quorum_timeout: Duration,
    /// Whether it was set; otherwise nodes that have told for how long they will not vote are
    /// waited for.
    pub(crate) is_quorum_timeout_set: bool,
    pub(crate) pacing: Pacing,
    /// How long the entry of a waiter is kept that is not heard of.
    pub(crate) entry_ttl: Duration,
    /// Whether the watchdog renews the lease.
    pub(crate) is_renewed: bool,
}

impl CheckedLock {
    /// How long a call that began at `start` waits for a quorum.
    pub(crate) fn quorum_wait(&self, start: Instant) -> QuorumWait {
        QuorumWait {
            start,
            timeout: self.quorum_timeout,
            waits_for_quarantine: !self.is_quorum_timeout_set,
            node_timeout: self.rules.node_timeout,
        }
    }
}

/// How a lock is taken, kept and waited for: the settings of [`RedLock`](crate::RedLock),
/// [`MultiLock`](crate::MultiLock), [`Semaphore`](crate::Semaphore) and their like, and
/// [`Election`](crate::Election). What is not set follows from the quorum.
///
/// They are checked at the first use of the lock, which fails with
/// [`LockError::Config`](crate::error::LockError::Config) if they cannot work.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redquorum::LockOptions;
///
/// let options = LockOptions::new().ttl(Duration::from_secs(10)).max_hold(Duration::from_secs(60));
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let guard = quorum.red_lock("report").options(options).lock().await?;
/// assert!(guard.remaining() <= Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a lock is given them"]
pub struct LockOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) quorum_timeout: Option<Duration>,
    polls: Option<(Duration, Duration)>,
    retry_delay: Option<Duration>,
    pub(crate) is_fixed: bool,
}

impl LockOptions {
    /// Those of the quorum, and the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// These, and where nothing is set here, the others. Renewal can be switched off by either, and
    /// on by neither.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            ttl: self.ttl.or(others.ttl),
            node_timeout: self.node_timeout.or(others.node_timeout),
            max_hold: self.max_hold.or(others.max_hold),
            quorum_timeout: self.quorum_timeout.or(others.quorum_timeout),
            polls: self.polls.or(others.polls),
            retry_delay: self.retry_delay.or(others.retry_delay),
            is_fixed: self.is_fixed || others.is_fixed,
        }
    }

    /// How long a node keeps the lock without a renewal (default: the quorum's, 30 s). A crashed
    /// holder blocks others for this long; a longer pause of the network or of a node costs the
    /// lease.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Leaves the lease to its ttl: it is not renewed and ends on time (default: renewed at a third
    /// of its ttl for as long as the guard lives). An election renews in any case.
    pub fn without_renewal(mut self) -> Self {
        self.is_fixed = true;
        self
    }

    /// The longest that a lease lasts however often it is renewed (default: no limit). Without it,
    /// a guard that a hung task keeps alive is renewed for ever.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// How long one node's answer is waited for (default: a tenth of the ttl, at most 1 s; or the
    /// quorum's). Only a deciding vote is ever waited for. Too short makes errors of slow nodes. A
    /// node that leaves a call unanswered for the *quorum's* node timeout gets no new ones until it
    /// answers, whatever is set here.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = Some(node_timeout);
        self
    }

    /// How long `lock` and `campaign` go on while no quorum can be asked (default: one ttl, or
    /// until the nodes vote again that are in quarantine and have told for how long, if that is
    /// later). While others hold the resource, a call waits without limit. Each call counts its own
    /// time, also behind a more patient call of its process.
    pub fn quorum_timeout(mut self, timeout: Duration) -> Self {
        self.quorum_timeout = Some(timeout);
        self
    }

    /// How often a waiter asks although nothing woke it: first after `first` (default 500 ms),
    /// then each time after twice as long, up to `longest` (default 5 s, at most a day), all with
    /// a jitter of 50 %. Who waits for one of more than three resources asks after `longest`
    /// alone, and after `first` takes its turn to [look out](crate::Semaphore) for all of them.
    /// Shorter costs every waiter more commands; longer delays a waiter whose notice was lost. A
    /// node keeps a waiter's entry for twice the longest poll after the waiter last asked, and at
    /// most for `max_ttl`.
    pub fn polls(mut self, first: Duration, longest: Duration) -> Self {
        self.polls = Some((first, longest));
        self
    }

    /// The least delay between attempts that fail (default 5 ms, at most a day). It doubles with
    /// every failure, up to the first poll.
    pub fn retry_delay(mut self, least: Duration) -> Self {
        self.retry_delay = Some(least);
        self
    }

    pub(crate) fn check(&self, quorum: &CheckedQuorum) -> Result<CheckedLock, ConfigError> {
        let ttl = self.ttl.unwrap_or(quorum.ttl);
        check_ttl(ttl, quorum.max_ttl, quorum.validity)?;
        let node_timeout = self.node_timeout.unwrap_or_else(|| quorum.node_timeout_for(ttl));
        check_node_timeout(node_timeout, ttl)?;
        if let Some(given) = self.max_hold.filter(Duration::is_zero) {
            return Err(ConfigError::MaxHold { given });
        }
        let pacing = self.check_pacing()?;
        let rules = Rules {
            electorate: quorum.electorate,
            validity: quorum.validity,
            ttl,
            node_timeout,
            attempt_timeout: quorum.attempt_timeout,
        };
        Ok(CheckedLock {
            rules,
            max_hold: self.max_hold,
            quorum_timeout: self.quorum_timeout.unwrap_or(ttl),
            is_quorum_timeout_set: self.quorum_timeout.is_some(),
            pacing,
            entry_ttl: Queueing::entry_ttl(pacing, quorum.max_ttl),
            is_renewed: !self.is_fixed,
        })
    }

    pub(crate) fn check_pacing(&self) -> Result<Pacing, ConfigError> {
        let (first_poll, longest_poll) = self.polls.unwrap_or(POLLS);
        let floor = self.retry_delay.unwrap_or(RETRY_DELAY);
        let least = LEAST_DELAY;
        if floor < least {
            return Err(ConfigError::RetryDelay { given: floor, least });
        }
        check_longest("retry delay", floor, LONGEST_DELAY)?;
        check_longest("poll", longest_poll, LONGEST_DELAY)?;
        if first_poll < least || longest_poll < first_poll {
            return Err(ConfigError::Polls { first: first_poll, longest: longest_poll, least });
        }
        Ok(Pacing { first_poll, longest_poll, floor, ceiling: first_poll })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::QuorumSettings;

    #[test]
    fn a_lock_takes_what_it_does_not_set_from_its_quorum() {
        let quorum = QuorumSettings::default().check(3).unwrap();
        let lock = LockOptions::new().ttl(Duration::from_secs(5));
        let lock = lock.check(&quorum).unwrap();
        assert_eq!(lock.rules.node_timeout, Duration::from_millis(500));
        assert_eq!(lock.quorum_timeout, Duration::from_secs(5));
        assert!(lock.is_renewed);
    }

    #[test]
    fn a_node_timeout_of_the_quorum_that_does_not_fit_the_ttl_of_a_lock_is_refused() {
        let quorum =
            QuorumSettings { node_timeout: Some(Duration::from_millis(800)), ..QuorumSettings::default() };
        let quorum = quorum.check(3).unwrap();
        let ttl = Duration::from_millis(500);
        let lock = LockOptions::new().ttl(ttl);
        assert_eq!(
            lock.check(&quorum).unwrap_err(),
            ConfigError::NodeTimeout { given: Duration::from_millis(800), ttl }
        );
    }

    #[test]
    fn options_add_to_those_before_and_go_before_them() {
        let second = Duration::from_secs(1);
        let before = LockOptions::new().ttl(second).without_renewal().polls(second, second);
        let all = LockOptions::new().ttl(2 * second).quorum_timeout(second).or(before);
        assert_eq!(all, before.ttl(2 * second).quorum_timeout(second));
        assert_eq!(LockOptions::new().or(all), all);
    }

    #[test]
    fn a_delay_of_zero_is_refused() {
        let quorum = QuorumSettings::default().check(3).unwrap();
        let refused = |options: LockOptions| options.check(&quorum).unwrap_err();
        let least = Duration::from_millis(1);
        assert_eq!(
            refused(LockOptions::new().retry_delay(Duration::ZERO)),
            ConfigError::RetryDelay { given: Duration::ZERO, least }
        );
        for polls in [
            LockOptions::new().polls(Duration::ZERO, Duration::from_secs(1)),
            LockOptions::new().polls(Duration::from_secs(2), Duration::from_secs(1)),
        ] {
            assert!(matches!(refused(polls), ConfigError::Polls { .. }), "{polls:?}");
        }
    }
}
