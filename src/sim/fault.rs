//! The timed faults of machines and of the network between them.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::sim::Direction;

/// A fault of a machine, or of the network between two machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Fault {
    /// A pause of a process during which its clock continues: a garbage collection, a blocked
    /// executor, `SIGSTOP`, or the suspend of a machine whose clock counts the time of suspends.
    Pause {
        /// The index of the process.
        process: usize,
        /// The duration of the fault.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
    /// A pause of a process and of its clock: the pause of a virtual machine whose clock does not count
    /// the pause.
    Freeze {
        /// The index of the process.
        process: usize,
        /// The duration of the fault.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
    /// The death of a process, without a restart.
    Kill {
        /// The index of the process.
        process: usize,
    },
    /// A crash of a node. The connections break. After the fault, the node starts as a new incarnation
    /// of the server.
    Crash {
        /// The index of the node.
        node: usize,
        /// The time for which the node is down.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
        /// The data that the node has after the restart.
        memory: Memory,
    },
    /// A hang of a node. The node accepts messages, but executes the messages only after the fault.
    Hang {
        /// The index of the node.
        node: usize,
        /// The duration of the fault.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
    /// A slow node. Each message takes longer, in addition to the
    /// [processing time](crate::sim::ProcessingTime), and the node executes one message at a time.
    Slow {
        /// The index of the node.
        node: usize,
        /// The duration of the fault.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
        /// The additional time of each message.
        #[serde(with = "crate::sim::micros")]
        by: Duration,
    },
    /// A distant node. Messages in both directions take longer, and the throughput of the node does not
    /// change.
    Far {
        /// The index of the node.
        node: usize,
        /// The duration of the fault.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
        /// The additional time of a message, one way.
        #[serde(with = "crate::sim::micros")]
        by: Duration,
    },
    /// The deletion of all data of a node, in the same incarnation. The connections persist.
    Flush {
        /// The index of the node.
        node: usize,
    },
    /// The eviction of the locks of a node, and of no other key.
    Evict {
        /// The index of the node.
        node: usize,
    },
    /// A step of a node's clock, in milliseconds.
    Step {
        /// The index of the node.
        node: usize,
        /// The size of the step; a negative step is backward.
        by: i64,
    },
    /// An interrupted path between a process and a node. Messages sent during the fault are retransmitted
    /// by the network, and arrive after the fault.
    Partition {
        /// The index of the process.
        process: usize,
        /// The index of the node.
        node: usize,
        /// The interrupted direction.
        way: PartitionDirection,
        /// The duration of the fault.
        #[serde(with = "crate::sim::micros")]
        lasts: Duration,
    },
}

/// The data that a node has after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Memory {
    /// All data, as with `appendfsync always`.
    Kept,
    /// No data.
    Lost,
    /// The data from this long before the crash, as after the load of a snapshot, or the promotion
    /// of a replica that lagged.
    AsOf(#[serde(with = "crate::sim::micros")] Duration),
}

/// The direction, or both directions, in which a partition holds messages back.
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
    /// Returns the duration of the fault: zero for an instantaneous fault, and [`Duration::MAX`] for a
    /// fault without an end.
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

    /// Whether the fault has no effect, because its duration is zero. An instantaneous fault always has
    /// an effect. A crash with a duration of zero has an effect, too, because a new incarnation of the
    /// server starts.
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

    /// Returns the name of the lane of a timeline that shows the fault: a process, a node, or a path
    /// between a process and a node.
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
