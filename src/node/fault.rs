//! Why a node gave no vote.

use std::{sync::Arc, time::Duration};

use crate::node::terms::Fingerprint;

/// Why a node gave no vote. A fault is never evidence that a resource is held, nor that it is free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No connection: refused, reset, or an unknown host.
    #[error("unreachable: {0}")]
    Unreachable(Arc<str>),
    /// Not asked: the server was reached, but refused to be talked to, for this reason.
    #[error("the connection cannot be used: {0}")]
    Handshake(Arc<Self>),
    /// Asked, but not answered within the node timeout.
    #[error("no answer within the node timeout")]
    TimedOut,
    /// Not asked: the node has left an earlier call unanswered for longer than the node timeout.
    #[error("not asked: the node is not answering")]
    Unresponsive,
    /// Not asked: too many calls of this client are waiting for the node.
    #[error("not asked: too many calls are waiting for the node")]
    Overloaded,
    /// Asked, but the connection broke before the answer came: it may have been executed.
    #[error("the connection broke before the answer came")]
    Disconnected,
    /// Not asked: the quorum was shut down.
    #[error("the quorum was shut down")]
    Closed,
    /// `WRONGTYPE`: the resource's key, or its counter, holds something that is no lock.
    #[error("the key holds something that is not a lock (WRONGTYPE)")]
    WrongType,
    /// `NOAUTH` or `WRONGPASS`: the server wants (other) credentials.
    #[error("authentication failed: {0}")]
    NoAuth(Arc<str>),
    /// `READONLY`: the node is a replica.
    #[error("the node is a read-only replica (READONLY)")]
    ReadOnly,
    /// `OOM`: the node is out of memory and must not evict.
    #[error("the node is out of memory (OOM)")]
    OutOfMemory,
    /// `LOADING`: the node is reading its data set from disk.
    #[error("the node is loading its data (LOADING)")]
    Loading,
    /// `NOPERM`: the ACL user lacks a permission.
    #[error("permission missing: {0}")]
    NoPermission(Arc<str>),
    /// The ACL user may not call `INFO`, from which the restart guard knows one run of a server from another.
    #[error("the user may not call INFO, which the restart guard needs (`+info`)")]
    RunIdForbidden,
    /// The node belongs to a quorum that is configured otherwise: this is that quorum's configuration.
    #[error("the node belongs to another quorum ({0})")]
    OtherQuorum(Fingerprint),
    /// The address leads to a server to which this client is connected by another one: it has one vote.
    #[error("the same server as {other}")]
    SameServer {
        /// The other address.
        other: Arc<str>,
        /// What gave it away.
        run: Arc<str>,
    },
    /// The server is part of a Redis Cluster: a system that moves keys and promotes replicas, and would be one vote at most.
    #[error(
        "the server is part of a Redis Cluster, which moves keys and promotes replicas and so cannot vote: a standalone \
         master would be right (`cluster-enabled no`)"
    )]
    ClusterMode,
    /// The server is a Sentinel, which keeps no keys.
    #[error(
        "the server is a Sentinel, which keeps no keys: redis+sentinel://HOST:PORT/NAME would lead to the master that it \
         watches under that name"
    )]
    SentinelMode,
    /// No Sentinel could name the master of the set that the node is: this is what each of them said.
    #[error("no Sentinel names a master: {0}")]
    NoMaster(Arc<str>),
    /// TLS came to nothing: mostly, one side does not trust the other's certificate.
    #[error("TLS failed: {0}")]
    Tls(Arc<str>),
    /// The node's clock and the client's are further apart than an hour, by so much.
    #[error("the clocks of node and client are {0:?} apart")]
    ClockOff(Duration),
    /// `MISCONF`: the node refuses writes because it cannot persist them.
    #[error("the node cannot persist writes (MISCONF)")]
    CannotPersist,
    /// `BUSY`: the node is running somebody's long script.
    #[error("the node is busy with a long script (BUSY)")]
    Busy,
    /// The fencing counter is used up or unreadable: the value stands here.
    #[error("the fencing counter cannot be used: {0}")]
    Counter(Arc<str>),
    /// The node sent what the protocol does not allow.
    #[error("protocol error: {0}")]
    Protocol(Arc<str>),
    /// Any other error reply of the server.
    #[error("server error: {0}")]
    Server(Arc<str>),
}

impl Fault {
    /// Whether the node certainly never saw the call, so that nothing has to be taken back there.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Handshake(_) | Self::Unresponsive | Self::Overloaded | Self::Closed
        )
    }

    /// Whether the node refused for the state that it is in, which may pass: the same call may be executed a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Busy | Self::Loading | Self::ReadOnly | Self::CannotPersist | Self::OutOfMemory)
    }

    /// Whether the node itself said this, so that nothing of the call is under way any more.
    pub(crate) fn is_answer(&self) -> bool {
        !self.is_unsent() && !matches!(self, Self::TimedOut | Self::Disconnected)
    }
}
