//! The quorum parameters: what every request says about the quorum that it comes from.

use std::{sync::Arc, time::Duration};

use crate::values::Fingerprint;

/// The parameters of a quorum that its nodes have to know; they travel with every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuorumParameters {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) guard: RestartGuard,
    /// The longest ttl, and the ttl of a tombstone.
    pub(crate) max_ttl: Duration,
    /// The ttl of a fencing counter after its last use; at least `max_ttl`.
    pub(crate) counter_ttl: Duration,
    pub(crate) quarantine: QuarantineParameters,
    /// For how long newcomers let the waiters go first for what was unlocked: about as long as a
    /// wake may be on its way to the first in the queue, and its locks to the nodes.
    pub(crate) hand_over: Duration,
    /// The incarnation of the server that the connection has registered in; `None` before, and
    /// where no node is asked.
    pub(crate) incarnation: Option<Incarnation>,
}

/// Tells one incarnation of a server's data from another: its `run_id`, new with every start, and
/// its replication id, new with every promotion. `<run_id>/<replication id>`, or any text that
/// tells the incarnations of a node in memory apart.
pub(crate) type Incarnation = Arc<str>;

/// How long a node that may have forgotten votes stays out of them. By its own clock, so longer
/// than what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuarantineParameters {
    /// Until every lease is over that it may have forgotten.
    pub(crate) lasts: Duration,
    /// Until every attempt is decided that it may have voted in: then it counts for renewals again.
    pub(crate) renewals_after: Duration,
}

/// When a node is asked whether it may have forgotten votes.
///
/// A node that restarted without its last votes, was flushed, or is a promoted replica would let a
/// second lease in beside one that it has forgotten. So it must not vote until every lease that it
/// may have forgotten is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// On every connection (the default), and whenever its metadata is missing or not the one that
    /// the connection knows. What it does not see: a server that becomes a replica of *its own*
    /// replica and a master again under a connection that asks nothing meanwhile, and a proxy that
    /// goes on with a promoted replica on the same connection.
    #[default]
    PerConnection,
    /// In every call: for such proxies. The server spends some microseconds more on each call.
    PerVote,
    /// Never. For servers that keep every vote: standalone, with `appendonly yes`,
    /// `appendfsync always` and `aof-load-truncated no`. A replica that is promoted, or a restored
    /// backup, breaks exclusion unseen.
    Off,
}
