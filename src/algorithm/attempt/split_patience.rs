//! The time for which an attempt waits for more votes while votes are split.

use std::time::Duration;

use super::AttemptConfig;

/// The time for which an attempt waits for nodes without an answer while votes are split, that is, when a quorum has
/// answered and some nodes have refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitPatience {
    /// A hedge, because another attempt follows.
    Hedge,
    /// A node timeout, because no other attempt follows.
    NodeTimeout,
}

impl SplitPatience {
    pub(super) fn time(self, config: &AttemptConfig) -> Duration {
        match self {
            Self::Hedge => config.shortest_hedge(),
            Self::NodeTimeout => config.node_timeout,
        }
    }
}
