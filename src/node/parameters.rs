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

/// The guard against nodes that may have forgotten votes.
///
/// A node that restarted without its last votes, was flushed, or is a promoted replica could grant a second lease
/// beside a lease that the node has forgotten. So the node begins a quarantine: it gives no votes until every lease
/// that it may have forgotten has ended. The variants are the times at which a client finds out that a node may have
/// forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// At each new connection (the default), and at each call that finds the metadata of the node missing, or of
    /// another incarnation than the connection.
    ///
    /// This guard does not see a server that becomes a replica of *its own* replica and a master again while the
    /// connection sends nothing, nor a proxy that goes on with a promoted replica on the same connection.
    #[default]
    PerConnection,
    /// At every call: for proxies that may change the server under a connection. Each call costs the server some
    /// microseconds more.
    PerVote,
    /// Never: for servers that keep every vote, which are standalone, with `appendonly yes`, `appendfsync always` and
    /// `aof-load-truncated no`. If a replica is promoted or a backup is restored, exclusion is broken unseen.
    Off,
}
