//! Errors of quorum administration.

use std::sync::Arc;

use crate::{
    error::ConfigError,
    values::{NodeReplies, NodeReply},
};

/// The reason why quorum administration failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Nodes that are needed did not take part. Nodes whose reply is `Done` keep the changes, and another
    /// call with the same arguments continues from there.
    #[error(
        "not every node that is needed took part: {}",
        .0.with_words(&NodeReply::NotAsked, "answers, and was not changed")
    )]
    Incomplete(NodeReplies),
    /// A node belongs to a quorum, or may have voted in a quorum.
    #[error(
        "{node} has node metadata already ({metadata}), so it is not new: `init` is for servers that \
         were in no quorum before; a node that replaces another votes by itself after a quarantine, \
         and `redquorum reconfigure` or `admin::reconfigure` moves a quorum to another configuration"
    )]
    #[non_exhaustive]
    NotNew {
        /// The node's address.
        node: Arc<str>,
        /// The configuration in its metadata.
        metadata: Arc<str>,
    },
    /// The settings, the servers, or the combination of both configurations cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
}
