//! Errors of quorum administration.

use std::sync::Arc;

use crate::{
    error::{ClosedReason, ConfigError},
    values::{NodeReplies, NodeReply},
};

/// The reason why quorum administration failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Nodes that are needed did not take part. Nodes whose reply is `Done` keep the changes. Another call with the
    /// same arguments continues with the remaining nodes. After a partial `init`, call
    /// [`init_if_needed`](crate::admin::init_if_needed) instead.
    #[error(
        "not every node that is needed took part: {}",
        .0.with_words(&[(NodeReply::NotAsked, "answers, and was not changed")])
    )]
    Incomplete(NodeReplies),
    /// A node belongs to a quorum, or may have voted in a quorum.
    #[error(
        "{node} has node metadata already ({metadata}), so it is not new: `init` is for servers that \
         were in no quorum before; a node that replaces another node votes by itself after a quarantine, \
         and `redquorum reconfigure` or `admin::reconfigure` moves a quorum to another configuration"
    )]
    #[non_exhaustive]
    NotNew {
        /// The node's address.
        node: Arc<str>,
        /// The configuration in the node's metadata.
        metadata: Arc<str>,
    },
    /// A node belongs to neither configuration of a move, so the move cannot include the node.
    #[error(
        "{node} belongs to neither of the two configurations, its node metadata is ({metadata}): if the address is \
         wrong, correct it; if another move closed the node, end that move or give it up; if the node is left over \
         from another quorum or an earlier move, FLUSHALL it"
    )]
    #[non_exhaustive]
    OtherQuorum {
        /// The node's address.
        node: Arc<str>,
        /// The configuration in the node's metadata.
        metadata: Arc<str>,
    },
    /// A move can no longer be given up, because nodes may vote under the new configuration.
    #[error(
        "the move can no longer be given up, because nodes may vote under the new configuration: {node} has the node \
         metadata ({metadata}); end the move, and then move the quorum back"
    )]
    #[non_exhaustive]
    TooLate {
        /// The address of an old node that is closed for good, or belongs to the new configuration.
        node: Arc<str>,
        /// The configuration in the node's metadata.
        metadata: Arc<str>,
    },
    /// The call ended because its client no longer works, for this reason. Changes that the call has made before stay.
    #[error("{0}")]
    Closed(ClosedReason),
    /// The settings, a server, or the combination of both configurations of a move is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}
