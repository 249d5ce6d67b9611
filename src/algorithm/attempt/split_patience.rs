//! The time for silent nodes while votes are split.

use std::time::Duration;

use super::AttemptConfig;

/// The time for silent nodes while votes are split: a quorum has answered and part of it has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitPatience {
    /// A hedge, doubled for each of these consecutive attempts of the waiter that split the votes: at last, the votes of
    /// nodes are counted whose answers always take longer than a hedge.
    AfterSplits(u32),
    /// A node timeout, because no other attempt follows.
    NodeTimeout,
}

impl SplitPatience {
    pub(super) fn time(self, config: &AttemptConfig) -> Duration {
        match self {
            Self::AfterSplits(splits) => {
                config.hedge().saturating_mul(1 << splits.min(16)).min(config.node_timeout)
            }
            Self::NodeTimeout => config.node_timeout,
        }
    }
}
