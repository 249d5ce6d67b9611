//! What can happen at a time to a machine, or to the network.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::sim::Direction;

/// What can happen to a machine or to the network between two of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Fault {
    /// A process stands still while its clock counts on: a garbage collector, a blocked executor,
    /// `SIGSTOP`, or a suspended machine with a clock that counts suspends.
    Pause {
        /// Which process.
        process: usize,
        /// For how long.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
    /// A process stands still, and its clock with it: a virtual machine that is paused without
    /// knowing.
    Freeze {
        /// Which process.
        process: usize,
        /// For how long.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
    /// A process is killed. It does not come back.
    Kill {
        /// Which process.
        process: usize,
    },
    /// A node goes down, breaking its connections, and comes up again as another run of the server.
    Crash {
        /// Which node.
        node: usize,
        /// For how long it is down.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
        /// What it remembers afterwards.
        memory: Memory,
    },
    /// A node takes what it is sent, and does nothing with it until this is over.
    Hang {
        /// Which node.
        node: usize,
        /// For how long.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
    /// A node takes longer for every call.
    Slow {
        /// Which node.
        node: usize,
        /// For how long.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
        /// By how much, for each call.
        #[serde(with = "crate::sim::micros")]
        by: Duration,
    },
    /// A node is far away: messages to it and from it take longer, and it does as much as ever.
    Far {
        /// Which node.
        node: usize,
        /// For how long.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
        /// By how much, one way.
        #[serde(with = "crate::sim::micros")]
        by: Duration,
    },
    /// All data of a node is deleted under living connections.
    Flush {
        /// Which node.
        node: usize,
    },
    /// The locks of a node are evicted, and nothing else.
    Evict {
        /// Which node.
        node: usize,
    },
    /// A node's clock is stepped, by so many milliseconds.
    Step {
        /// Which node.
        node: usize,
        /// Forward, or back if negative.
        by: i64,
    },
    /// Nothing gets through between a process and a node. What is sent meanwhile arrives afterwards,
    /// as the network keeps trying.
    Partition {
        /// Which process.
        process: usize,
        /// Which node.
        node: usize,
        /// Which way.
        way: PartitionDirection,
        /// For how long.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
}

/// What a node remembers when it comes up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Memory {
    /// Everything, as with `appendfsync always`.
    Kept,
    /// Nothing.
    Lost,
    /// What it knew so long ago: a snapshot, a lagging replica that was promoted.
    AsOf(#[serde(with = "crate::sim::micros")] Duration),
}

/// The direction, or both, of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PartitionDirection {
    /// From the process to the node.
    Requests,
    /// From the node to the process.
    Replies,
    /// Both.
    Both,
}

impl Fault {
    /// How long it lasts: zero for what happens in an instant, [`Duration::MAX`] for what never
    /// ends.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        match self {
            Self::Pause { lasts, .. }
            | Self::Freeze { lasts, .. }
            | Self::Crash { lasts, .. }
            | Self::Hang { lasts, .. }
            | Self::Slow { lasts, .. }
            | Self::Far { lasts, .. }
            | Self::Partition { lasts, .. } => *lasts,
            Self::Kill { .. } | Self::Flush { .. } | Self::Evict { .. } | Self::Step { .. } => Duration::ZERO,
        }
    }

    /// Whether it is over before it begins. A crash never is: even if it takes no time, what comes
    /// up again is another run of the server.
    pub(crate) fn has_no_effect(&self) -> bool {
        match self {
            Self::Pause { lasts, .. }
            | Self::Freeze { lasts, .. }
            | Self::Hang { lasts, .. }
            | Self::Slow { lasts, .. }
            | Self::Far { lasts, .. }
            | Self::Partition { lasts, .. } => lasts.is_zero(),
            Self::Crash { .. }
            | Self::Kill { .. }
            | Self::Flush { .. }
            | Self::Evict { .. }
            | Self::Step { .. } => false,
        }
    }

    /// Whom it happens to.
    pub(crate) fn lane(&self) -> String {
        match self {
            Self::Pause { process, .. } | Self::Freeze { process, .. } | Self::Kill { process } => {
                format!("process {process}")
            }
            Self::Crash { node, .. }
            | Self::Hang { node, .. }
            | Self::Slow { node, .. }
            | Self::Far { node, .. }
            | Self::Flush { node }
            | Self::Evict { node }
            | Self::Step { node, .. } => format!("node {node}"),
            Self::Partition { process, node, .. } => format!("process {process} - node {node}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause { .. } => f.write_str("paused"),
            Self::Freeze { .. } => f.write_str("frozen, with its clock"),
            Self::Kill { .. } => f.write_str("killed"),
            Self::Crash { memory: Memory::Kept, .. } => f.write_str("down"),
            Self::Crash { memory: Memory::Lost, .. } => f.write_str("down, forgets all"),
            Self::Crash { memory: Memory::AsOf(ago), .. } => write!(f, "down, goes back by {ago:?}"),
            Self::Hang { .. } => f.write_str("hangs"),
            Self::Slow { by, .. } => write!(f, "slower by {by:?}"),
            Self::Far { by, .. } => write!(f, "farther by {by:?}"),
            Self::Flush { .. } => f.write_str("flushed"),
            Self::Evict { .. } => f.write_str("evicts its locks"),
            Self::Step { by, .. } => write!(f, "clock stepped by {by} ms"),
            Self::Partition { way: PartitionDirection::Requests, .. } => f.write_str("no requests"),
            Self::Partition { way: PartitionDirection::Replies, .. } => f.write_str("no replies"),
            Self::Partition { way: PartitionDirection::Both, .. } => f.write_str("cut off"),
        }
    }
}

impl PartitionDirection {
    pub(crate) fn covers(self, direction: Direction) -> bool {
        match self {
            Self::Requests => direction == Direction::Request,
            Self::Replies => direction == Direction::Reply,
            Self::Both => true,
        }
    }
}
