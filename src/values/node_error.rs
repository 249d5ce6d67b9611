//! The reasons why a node gave no vote, from the client, the network or the server.

use std::{sync::Arc, time::Duration};

use crate::values::Printable;

/// The error of a node that gave no vote. An error is never evidence that a resource is held, nor that it is
/// free.
///
/// The texts come from the server, a proxy or the operating system. `Display` escapes characters that do not print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The request was not sent, because there is no connection: refused, reset, or an unknown host.
    #[error("unreachable: {}", Printable(.0))]
    Unreachable(Arc<str>),
    /// The request was not sent, because the server was reached and then refused the connection, for this reason.
    #[error("the connection cannot be used: {0}")]
    Handshake(Arc<Self>),
    /// The request was sent, and no answer arrived within the node timeout.
    #[error("no answer within the node timeout")]
    TimedOut,
    /// The request was not sent, because the node has not answered an earlier call within the node timeout.
    #[error("not asked: the node is not answering")]
    Unresponsive,
    /// The request was not sent, because too many calls of this client wait for the node.
    #[error("not asked: too many calls are waiting for the node")]
    Overloaded,
    /// The request was sent, and the connection broke before the answer arrived. The node may have executed
    /// the request.
    #[error("the connection broke before the answer came")]
    Disconnected,
    /// The request was not sent, because the client is closed.
    #[error("the client is closed")]
    Closed,
    /// `WRONGTYPE`: the key of the resource, or of its counter, holds something that is no lock or counter.
    #[error(
        "the key holds something that is not a lock (WRONGTYPE): name another resource, or delete the key"
    )]
    WrongType,
    /// `NOAUTH` or `WRONGPASS`: the server requires credentials, or other credentials.
    #[error("authentication failed: {}", Printable(.0))]
    NoAuth(Arc<str>),
    /// The provider of credentials failed, and has not returned credentials before.
    #[error("no credentials: {}", Printable(.0))]
    NoCredentials(Arc<str>),
    /// `READONLY`: the node is a replica.
    #[error("the node is a read-only replica (READONLY): name its master, or promote it")]
    ReadOnly,
    /// `OOM`: the node is out of memory. A node must not evict keys, so the node refuses writes.
    #[error("the node is out of memory (OOM): raise its maxmemory")]
    OutOfMemory,
    /// `LOADING`: the node is reading its data set from disk.
    #[error("the node is loading its data (LOADING)")]
    Loading,
    /// `NOPERM`: the ACL user of the client lacks a permission.
    #[error("permission missing: {}", Printable(.0))]
    NoPermission(Arc<str>),
    /// The ACL user may not call `INFO`, by which the restart guard distinguishes the incarnations of a
    /// server.
    #[error(
        "the user may not call INFO, which the restart guard needs: allow it (`ACL SETUSER ... +info`), or set \
         RestartGuard::Off if the servers keep every vote"
    )]
    RunIdForbidden,
    /// The ACL user may not call `SCAN`, by which a node lists its locks.
    #[error("the user may not call SCAN, with which locks are listed (`ACL SETUSER USER +scan`)")]
    ScanForbidden,
    /// The node belongs to a quorum with other settings. The text is the fingerprint of that quorum.
    #[error("the node belongs to another quorum ({})", Printable(.0))]
    WrongQuorum(Arc<str>),
    /// The address leads to a server to which this client is connected by another address. Each server has
    /// one vote.
    #[error(
        "the same server as {} (run_id {}): each server has one vote, name it once",
        Printable(.other),
        Printable(run_id(.incarnation))
    )]
    #[non_exhaustive]
    SameServer {
        /// The other address.
        other: Arc<str>,
        /// The incarnation of the server, the same at both addresses.
        incarnation: Arc<str>,
    },
    /// The server is part of a Redis Cluster, which moves keys and promotes replicas, and so cannot vote.
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
    /// No Sentinel could name the master of the node's set. The text has the reply of each Sentinel.
    #[error("no Sentinel names a master: {}", Printable(.0))]
    NoMaster(Arc<str>),
    /// TLS failed: usually, one side does not trust the certificate of the other side.
    #[error("TLS failed: {}", Printable(.0))]
    Tls(Arc<str>),
    /// The clocks of the node and of the client are more than an hour apart. The value is the difference.
    #[error(
        "the clocks of the node and of this client are {0:?} apart: set them right, at most an hour apart"
    )]
    ClockOff(Duration),
    /// `MISCONF`: the node refuses writes because it cannot persist them.
    #[error("the node cannot persist writes (MISCONF): its log names the cause, such as a full disk")]
    CannotPersist,
    /// `BUSY`: the node is running a long script, of any of its users.
    #[error("the node is busy with a long script (BUSY)")]
    Busy,
    /// The fencing counter is used up or unreadable. The text is its value.
    #[error("the fencing counter cannot be used: {}", Printable(.0))]
    InvalidCounter(Arc<str>),
    /// The server sent or announced more than `most` bytes, or a reply of more than `most_values` values, without
    /// completing an expected answer or notice. The connection was closed, and the next connection is opened after a
    /// delay that grows to 1 s.
    #[error(
        "the server sent or announced more than {most} bytes or {most_values} values without completing an answer or \
         a notice that was asked for"
    )]
    #[non_exhaustive]
    ReadLimit {
        /// The largest number of bytes that was allowed.
        most: usize,
        /// The largest number of values that was allowed in one reply, such as the elements of a list.
        most_values: usize,
    },
    /// The node violated the protocol.
    #[error("protocol error: {}", Printable(.0))]
    Protocol(Arc<str>),
    /// Another error of the server, in a script that has ended.
    #[error("server error: {}", Printable(.0))]
    Server(Arc<str>),
    /// Another error in place of all answers to a call. The error may come from a proxy, which may have forwarded the
    /// call.
    #[error("the whole call failed: {}", Printable(.0))]
    CallFailed(Arc<str>),
}

/// Returns the part of an incarnation that `INFO` calls `run_id`.
fn run_id(incarnation: &str) -> &str {
    incarnation.split('/').next().unwrap_or_default()
}

impl NodeError {
    /// Whether the node certainly never received the call, so that no rollback is needed there.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Handshake(_)
                | Self::Unresponsive
                | Self::Overloaded
                | Self::Closed
                | Self::NoCredentials(_)
        )
    }

    /// Whether the node answers each retry with the same error, unless the data or the settings of the server are
    /// changed. After any other error, a retry may succeed.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(
            self,
            Self::WrongType
                | Self::NoPermission(_)
                | Self::ScanForbidden
                | Self::NoAuth(_)
                | Self::InvalidCounter(_)
        )
    }

    /// Whether the node violated the protocol, after which no call shortens the delay before the next dial.
    pub(crate) fn is_violation(&self) -> bool {
        matches!(self, Self::ReadLimit { .. } | Self::Protocol(_))
    }

    /// Whether the error is an answer of the server or of a proxy, or follows from their answers.
    pub(crate) fn is_answer(&self) -> bool {
        !self.is_unsent() && !matches!(self, Self::TimedOut | Self::Disconnected)
    }

    /// Whether the call was sent and may still be executed: there was no answer, or the error may come from a proxy,
    /// which may have forwarded the call.
    pub(crate) fn may_land_yet(&self) -> bool {
        matches!(self, Self::TimedOut | Self::Disconnected | Self::CallFailed(_) | Self::Protocol(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The foreign texts represent the value of a key, the answer of a proxy, or a host that a Sentinel names.
    #[test]
    fn external_texts_are_shown_on_one_line_without_control_characters() {
        let foreign = || Arc::from("it's\n\u{1b}[2J\u{202e}");
        for error in [
            NodeError::Unreachable(foreign()),
            NodeError::NoAuth(foreign()),
            NodeError::NoCredentials(foreign()),
            NodeError::NoPermission(foreign()),
            NodeError::SameServer { other: foreign(), incarnation: foreign() },
            NodeError::NoMaster(foreign()),
            NodeError::Tls(foreign()),
            NodeError::InvalidCounter(foreign()),
            NodeError::Protocol(foreign()),
            NodeError::Server(foreign()),
            NodeError::CallFailed(foreign()),
            NodeError::Handshake(Arc::new(NodeError::Server(foreign()))),
            NodeError::WrongQuorum(foreign()),
        ] {
            let text = error.to_string();
            assert!(text.contains("it's\\n\\u{1b}[2J\\u{202e}"), "{text:?}");
            assert!(!text.contains(|char: char| char == '\u{202e}' || char.is_control()), "{text:?}");
        }
    }
}
