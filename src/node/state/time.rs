//! A node's own time.

use std::{ops::Add, time::Duration};

use crate::node::ttl::whole_milliseconds;

/// A node's own time: milliseconds since the epoch by its own clock, which may step either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeTime(u64);

impl NodeTime {
    pub(crate) const fn from_epoch(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    pub(crate) const fn since_epoch(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Whole seconds since the epoch.
    pub(crate) const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Whether this end is over at `now`: at its very millisecond it is not yet.
    pub(crate) fn is_past(self, now: Self) -> bool {
        now > self
    }

    /// How long from `now` until this; zero if it is past.
    pub(crate) const fn remaining(self, now: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(now.0))
    }
}

impl Add<Duration> for NodeTime {
    type Output = Self;

    /// The end of a ttl that begins now.
    fn add(self, ttl: Duration) -> Self {
        Self(self.0.saturating_add(whole_milliseconds(ttl)))
    }
}
