//! The clock of a node.

use std::{ops::Add, time::Duration};

use crate::node::ttl::whole_milliseconds;

/// The time of a node: milliseconds since the epoch by its own clock, which may step in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeTime(u64);

impl NodeTime {
    pub(crate) const fn from_epoch(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    pub(crate) const fn since_epoch(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Returns the whole seconds since the epoch.
    pub(crate) const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Whether this end has passed at `now`: only from the millisecond after the end on, as in Redis.
    pub(crate) fn is_past(self, now: Self) -> bool {
        now > self
    }

    /// Returns the time from `now` until this time; zero if it has passed.
    pub(crate) const fn remaining(self, now: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(now.0))
    }
}

impl Add<Duration> for NodeTime {
    type Output = Self;

    /// Returns the end of a ttl that begins at this time.
    fn add(self, ttl: Duration) -> Self {
        Self(self.0.saturating_add(whole_milliseconds(ttl)))
    }
}
