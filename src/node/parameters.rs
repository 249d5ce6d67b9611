//! The quorum parameters, which every request carries.

use std::{sync::Arc, time::Duration};

use crate::values::Fingerprint;

/// The parameters of a quorum that its nodes need, and that every call carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuorumParameters {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) guard: RestartGuard,
    /// The longest ttl, and the ttl of a tombstone.
    pub(crate) max_ttl: Duration,
    /// The ttl of a fencing counter after its last use; at least `max_ttl`.
    pub(crate) counter_ttl: Duration,
    pub(crate) quarantine: QuarantineParameters,
    /// The hand-over: the time for which newcomers yield to waiters after a release. In about this time, a wake
    /// reaches the first waiter, and the lock of this waiter reaches the nodes.
    pub(crate) hand_over: Duration,
    /// The incarnation in which the connection has registered; `None` before the registration, and in the parameters
    /// of a client, which belong to no connection.
    pub(crate) incarnation: Option<Incarnation>,
}

/// The identity of one incarnation of a server's data.
///
/// For a server: `<run_id>/<replication id>`. The `run_id` is new with every start, the replication id with
/// every promotion. For an in-memory node: any text that is different for each incarnation.
pub(crate) type Incarnation = Arc<str>;

/// The times of a quarantine, by the node's clock. Each time includes the drift, because the clock of the node may be
/// faster than the clocks of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuarantineParameters {
    /// The time until every lease that the node may have forgotten has ended.
    pub(crate) lasts: Duration,
    /// The time until every attempt is decided in which the node may have voted. From then on, a renewal counts as
    /// a vote.
    pub(crate) renewals_after: Duration,
}

/// The guard against nodes that may have forgotten votes.
///
/// A node that restarted without its last votes, was flushed, or is a promoted replica could grant a second lease
/// beside a lease that the node has forgotten. Therefore the node begins a quarantine, and gives no votes until every
/// lease that the node may have forgotten has ended. The variants say when a client checks whether a node may have
/// forgotten votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A check at each new connection (the default), and at each call that finds the metadata of the node missing, or
    /// of another incarnation than the connection.
    ///
    /// This guard does not detect a server that becomes a replica of *its own* replica and a master again while the
    /// connection sends nothing, nor a proxy that continues with a promoted replica on the same connection. In a Redis
    /// Cluster, the first case ends the connection.
    #[default]
    PerConnection,
    /// A check at every call, for proxies that may change the server behind a connection. Each call costs the server
    /// some microseconds more.
    PerVote,
    /// No check, for servers that keep every vote: standalone servers with `appendonly yes`, `appendfsync always` and
    /// `aof-load-truncated no`. If a replica is promoted or a backup is restored, two clients may hold a resource
    /// at once, without any error.
    Off,
}
