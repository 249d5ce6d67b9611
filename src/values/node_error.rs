//! Why a node gave no vote.

use std::{sync::Arc, time::Duration};

use crate::values::{Fingerprint, Printable};

/// Why a node gave no vote. An error is never evidence that a resource is held, nor that it is
/// free.
///
/// The texts in it are as somebody else wrote them, and `Display` escapes what does not print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No connection: refused, reset, or an unknown host.
    #[error("unreachable: {}", Printable(.0))]
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
    #[error("authentication failed: {}", Printable(.0))]
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
    #[error("permission missing: {}", Printable(.0))]
    NoPermission(Arc<str>),
    /// The ACL user may not call `INFO`, from which the restart guard knows one incarnation of a
    /// server from another.
    #[error("the user may not call INFO, which the restart guard needs (`+info`)")]
    RunIdForbidden,
    /// The ACL user may not call `SCAN`, with which a node lists what is locked.
    #[error("the user may not call SCAN, with which locks are listed (`ACL SETUSER USER +scan`)")]
    ScanForbidden,
    /// The node belongs to a quorum that is configured otherwise: this is that quorum's
    /// configuration.
    #[error("the node belongs to another quorum ({0})")]
    OtherQuorum(Fingerprint),
    /// The address leads to a server to which this client is connected by another one: it has one
    /// vote.
    #[error("the same server as {}", Printable(.other))]
    SameServer {
        /// The other address.
        other: Arc<str>,
        /// What gave it away.
        incarnation: Arc<str>,
    },
    /// The server is part of a Redis Cluster: a system that moves keys and promotes replicas, and
    /// would be one vote at most.
    #[error(
        "the server is part of a Redis Cluster, which moves keys and promotes replicas and so cannot \
         vote: expected a standalone master (`cluster-enabled no`)"
    )]
    ClusterMode,
    /// The server is a Sentinel, which keeps no keys.
    #[error(
        "the server is a Sentinel, which keeps no keys: redis+sentinel://HOST:PORT/NAME would lead \
         to the master that it watches under that name"
    )]
    SentinelMode,
    /// No Sentinel could name the master of the set that the node is: this is what each of them
    /// said.
    #[error("no Sentinel names a master: {}", Printable(.0))]
    NoMaster(Arc<str>),
    /// TLS came to nothing: mostly, one side does not trust the other's certificate.
    #[error("TLS failed: {}", Printable(.0))]
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
    #[error("the fencing counter cannot be used: {}", Printable(.0))]
    Counter(Arc<str>),
    /// Not asked: the server sent more than so many bytes without completing an answer or a notice
    /// that was asked for. The connection was closed, and the next one is opened after a delay that
    /// grows to 30 s.
    #[error(
        "the server sent more than {most} bytes without completing an answer or a notice that was asked for"
    )]
    Flooded {
        /// The most bytes that were allowed.
        most: usize,
    },
    /// The node sent what the protocol does not allow.
    #[error("protocol error: {}", Printable(.0))]
    Protocol(Arc<str>),
    /// Any other error of the server, in a script that has ended.
    #[error("server error: {}", Printable(.0))]
    Server(Arc<str>),
    /// Any other error instead of all answers to a call: a proxy says such things too, and may have
    /// passed the call on.
    #[error("the whole call failed: {}", Printable(.0))]
    CallFailed(Arc<str>),
}

impl NodeError {
    /// Whether the node certainly never saw the call, so that nothing has to be taken back there.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Handshake(_) | Self::Unresponsive | Self::Overloaded | Self::Closed
        )
    }

    /// Whether the node will say the same whenever it is asked again. Of all other errors the cause
    /// may pass.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(
            self,
            Self::WrongType
                | Self::NoPermission(_)
                | Self::ScanForbidden
                | Self::NoAuth(_)
                | Self::Counter(_)
        )
    }

    /// Whether the node has sent what it must not, so that it is dialled less and less often.
    pub(crate) fn is_violation(&self) -> bool {
        matches!(self, Self::Flooded { .. } | Self::Protocol(_))
    }

    /// Whether somebody at the other end said this.
    pub(crate) fn is_answer(&self) -> bool {
        !self.is_unsent() && !matches!(self, Self::TimedOut | Self::Disconnected)
    }

    /// Whether the call was sent and may be executed yet: it was not answered, or with an error
    /// that is not known to be the node's own. A proxy that says such a thing may have passed the
    /// call on.
    pub(crate) fn may_land_yet(&self) -> bool {
        matches!(self, Self::TimedOut | Self::Disconnected | Self::CallFailed(_) | Self::Protocol(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a key, the answer of a proxy, a host that a Sentinel names.
    #[test]
    fn what_others_wrote_is_shown_on_one_line_without_control_characters() {
        let planted = || Arc::from("it's\n\u{1b}[2J\u{202e}");
        for error in [
            NodeError::Unreachable(planted()),
            NodeError::NoAuth(planted()),
            NodeError::NoPermission(planted()),
            NodeError::SameServer { other: planted(), incarnation: planted() },
            NodeError::NoMaster(planted()),
            NodeError::Tls(planted()),
            NodeError::Counter(planted()),
            NodeError::Protocol(planted()),
            NodeError::Server(planted()),
            NodeError::CallFailed(planted()),
            NodeError::Handshake(Arc::new(NodeError::Server(planted()))),
            NodeError::OtherQuorum(Fingerprint::new(&planted())),
        ] {
            let shown = error.to_string();
            assert!(shown.contains("it's\\n\\u{1b}[2J\\u{202e}"), "{shown:?}");
            assert!(!shown.contains(|char: char| char == '\u{202e}' || char.is_control()), "{shown:?}");
        }
    }
}
