//! What one lock adds to its quorum's settings.

use std::time::Duration;

use crate::{
    algorithm::queueing::{Pacing, Queueing},
    config::{
        RetryPolicy,
        quorum::{CheckedQuorum, check_node_timeout, check_ttl},
    },
    error::ConfigError,
};

/// What was asked of a lock, unchecked; what is `None` follows from the quorum.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockSettings {
    pub(crate) ttl: Option<Duration>,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) patience: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) is_fixed: bool,
}

/// Settings of a lock that can work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedLock {
    pub(crate) ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) patience: Duration,
    /// Whether it was set; otherwise nodes that have told for how long they will not vote are
    /// waited for.
    pub(crate) is_patience_set: bool,
    pub(crate) pacing: Pacing,
    /// How long the entry of a waiter is kept that is not heard of.
    pub(crate) entry_ttl: Duration,
    /// Whether the watchdog renews the lease.
    pub(crate) is_renewed: bool,
}

impl LockSettings {
    pub(crate) fn check(&self, quorum: &CheckedQuorum) -> Result<CheckedLock, ConfigError> {
        let ttl = self.ttl.unwrap_or(quorum.ttl);
        check_ttl(ttl, quorum.max_ttl, quorum.validity)?;
        let node_timeout = self.node_timeout.unwrap_or_else(|| quorum.node_timeout_for(ttl));
        check_node_timeout(node_timeout, ttl)?;
        if let Some(given) = self.max_hold.filter(Duration::is_zero) {
            return Err(ConfigError::MaxHold { given });
        }
        let pacing = self.retry.check()?;
        Ok(CheckedLock {
            ttl,
            node_timeout,
            max_hold: self.max_hold,
            patience: self.patience.unwrap_or(ttl),
            is_patience_set: self.patience.is_some(),
            pacing,
            entry_ttl: Queueing::entry_ttl(pacing, quorum.max_ttl),
            is_renewed: !self.is_fixed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::QuorumSettings;

    #[test]
    fn a_lock_takes_what_it_does_not_set_from_its_quorum() {
        let quorum = QuorumSettings::default().check(3).unwrap();
        let lock = LockSettings { ttl: Some(Duration::from_secs(5)), ..LockSettings::default() };
        let lock = lock.check(&quorum).unwrap();
        assert_eq!(lock.node_timeout, Duration::from_millis(500));
        assert_eq!(lock.patience, Duration::from_secs(5));
        assert!(lock.is_renewed);
    }

    #[test]
    fn a_node_timeout_of_the_quorum_that_does_not_fit_the_ttl_of_a_lock_is_refused() {
        let quorum =
            QuorumSettings { node_timeout: Some(Duration::from_millis(800)), ..QuorumSettings::default() };
        let quorum = quorum.check(3).unwrap();
        let ttl = Duration::from_millis(500);
        let lock = LockSettings { ttl: Some(ttl), ..LockSettings::default() };
        assert_eq!(
            lock.check(&quorum).unwrap_err(),
            ConfigError::NodeTimeout { given: Duration::from_millis(800), ttl }
        );
    }

    #[test]
    fn a_delay_of_zero_is_refused() {
        let quorum = QuorumSettings::default().check(3).unwrap();
        let refused = |retry| {
            let lock = LockSettings { retry, ..LockSettings::default() };
            lock.check(&quorum).unwrap_err()
        };
        let least = Duration::from_millis(1);
        assert_eq!(
            refused(RetryPolicy::default().floor(Duration::ZERO)),
            ConfigError::RetryFloor { given: Duration::ZERO, least }
        );
        for retry in [
            RetryPolicy::default().polls(Duration::ZERO, Duration::from_secs(1)),
            RetryPolicy::default().polls(Duration::from_secs(2), Duration::from_secs(1)),
        ] {
            assert!(matches!(refused(retry), ConfigError::Retry { .. }), "{retry:?}");
        }
    }
}
