//! Why there is no quorum to begin with.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{ConfigError, counted},
    values::{Fingerprint, Votes},
};

/// Why a quorum could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The settings cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Fewer nodes than a quorum answered.
    #[error("no quorum could be connected: {} needed; {votes}", counted(*needed, "node"))]
    NoQuorum {
        /// How many nodes would have been enough.
        needed: usize,
        /// What each node said.
        votes: Votes,
    },
    /// The user may not call `INFO`, without which the restart guard cannot tell one incarnation of
    /// a server from another.
    #[error(
        "the user of {node} may not call INFO, which the restart guard needs: allow it (`ACL SETUSER \
         ... +info`), or set RestartGuard::Off if the servers keep every vote"
    )]
    RunIdForbidden {
        /// The node's address.
        node: Arc<str>,
    },
    /// A node's clock and the client's are further apart than an hour.
    #[error(
        "the clocks of {node} and of this client are {by:?} apart: set them right, an hour is the \
         most that may be"
    )]
    ClockOff {
        /// The node's address.
        node: Arc<str>,
        /// How far they are apart.
        by: Duration,
    },
    /// A node belongs to a quorum that is configured otherwise: all clients must agree on name,
    /// nodes, votes needed, `max_ttl`, attempt timeout, drift and the version of the protocol. As
    /// with the two before, it is an error only where the other nodes are no quorum; otherwise the
    /// node is left out, with a warning.
    #[error(
        "{node} belongs to another quorum: {}; give all clients the same settings; a quorum is moved \
         to others by `redquorum reconfigure` or `QuorumBuilder::reconfigure`",
        ours.beside(theirs)
    )]
    OtherQuorum {
        /// The node's address.
        node: Arc<str>,
        /// The configuration of this client.
        ours: Fingerprint,
        /// The configuration in the node's metadata.
        theirs: Fingerprint,
    },
    /// A node is part of a Redis Cluster, which moves keys and promotes replicas. As with those
    /// before, an error only where the other nodes are no quorum.
    #[error(
        "{node} is part of a Redis Cluster, which moves keys and promotes replicas, and so cannot \
         vote: name standalone masters (`cluster-enabled no`)"
    )]
    ClusterMode {
        /// The node's address.
        node: Arc<str>,
    },
    /// A node's address leads to a Sentinel. As with those before, an error only where the other
    /// nodes are no quorum.
    #[error(
        "{node} is a Sentinel, which keeps no keys: name the master that it watches, as \
         redis+sentinel://{node}/NAME, or the address of a master"
    )]
    SentinelMode {
        /// The node's address.
        node: Arc<str>,
    },
    /// One server answers at two addresses.
    #[error(transparent)]
    SameServer(#[from] SameServer),
}

/// One server answers at two addresses and would have two votes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{first} and {second} are the same server (run_id {run_id}): each server has one vote, name it once")]
#[non_exhaustive]
pub struct SameServer {
    /// One of its addresses.
    pub first: Arc<str>,
    /// The other.
    pub second: Arc<str>,
    /// What gave it away.
    pub run_id: Arc<str>,
}
