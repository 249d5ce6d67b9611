//! The settings of an attempt.

use std::time::Duration;

use crate::algorithm::{tally::Electorate, validity::Validity};

/// The number of hedges in a node timeout.
pub(crate) const HEDGE_SHARE: u32 = 8;

/// The settings of every attempt of a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptConfig {
    pub(crate) electorate: Electorate,
    pub(crate) validity: Validity,
    pub(crate) ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
}

impl AttemptConfig {
    /// Returns the hedge: the time after which an attempt asks the next node, or stops waiting for a node without an
    /// answer.
    pub(crate) fn hedge(&self) -> Duration {
        self.node_timeout / HEDGE_SHARE
    }
}
