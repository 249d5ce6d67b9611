//! Errors of quorum administration.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{ClosedReason, ConfigError},
    values::{Fingerprint, NodeError, NodeReplies, NodeReply, Printable},
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
        "{node} has node metadata already ({metadata}), {}",
        unless_replaced(
            metadata,
            "so it is not new: `init` is for servers that were in no quorum before; a node that replaces another node votes \
         by itself after a quarantine, and `redquorum reconfigure` or `admin::reconfigure` moves a quorum to another \
         configuration"
        )
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
        "{node} belongs to neither of the two configurations, its node metadata is ({metadata}): {}",
        unless_replaced(
            metadata,
            "if the address is wrong, correct it; if another move closed the node, end that move or give it up; if the node \
         is left over from another quorum or an earlier move, FLUSHALL it"
        )
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
    /// A node cannot be replaced now, because another node did not answer, belongs to another quorum, or does not vote.
    #[error(
        "the node cannot be replaced now, because every other node has to answer and vote: {}; this call has \
         retired no node: start or repair these nodes, or wait for the end of their quarantines, and try again; if \
         several nodes are gone for good, move the quorum to new nodes (`redquorum reconfigure` or \
         `admin::reconfigure`)",
        .0.with_words(&[(NodeReply::NotAsked, "votes, or is the new server")])
    )]
    OthersNeeded(NodeReplies),
    /// The node that is to be replaced did not answer, so it could not be retired.
    #[error("{node} is to be replaced and {}", silence(error, *may_be_retired))]
    #[non_exhaustive]
    OldSilent {
        /// The address of the node.
        node: Arc<str>,
        /// The reason why the node did not answer.
        error: NodeError,
        /// Whether this call or an earlier one may have retired the node. If so, do not start a server at the address of
        /// the node: without the data of the retired node, or with older data, the server may vote beside the new server.
        may_be_retired: bool,
    },
    /// The node that is to be replaced answered with an error, so it is not gone.
    #[error(
        "{node} is to be replaced and answers with an error, so it is not gone: {error}; correct its url, user or \
         password, or what the server refuses (a full memory or disk refuses the mark of a retired node, too); or stop the server for good, and add `--old-is-gone` or call `Replacement::old_is_gone`"
    )]
    #[non_exhaustive]
    OldRefuses {
        /// The address of the node.
        node: Arc<str>,
        /// The error of the node.
        error: NodeError,
    },
    /// The server at the address of the node that is to be replaced has no node metadata.
    #[error(
        "{node} is to be replaced and has no node metadata: if the address leads to another server, correct it, because \
         the node may vote at another address; if this is the node, which has lost its data, add `--old-is-gone` or \
         call `Replacement::old_is_gone`"
    )]
    #[non_exhaustive]
    OldEmpty {
        /// The address of the node.
        node: Arc<str>,
    },
    /// Another replacement was begun, and has neither ended nor been abandoned.
    #[error(
        "the replacement of {old} by {node} runs or was interrupted: end it by the same call again (`redquorum replace` \
         or `admin::replace`, with {old} as the old node and {node} as the new server), or abandon it if {old} is not \
         retired (`redquorum replace --abandon` or `admin::abandon_replacement`, with the same two addresses)"
    )]
    #[non_exhaustive]
    UnfinishedReplacement {
        /// The address of the server.
        node: Arc<str>,
        /// The address of the node that the server is to stand in for.
        old: Arc<str>,
    },
    /// Another call has continued, ended or abandoned the same replacement during this call, which has therefore stopped.
    #[error(
        "another call has continued, ended or abandoned the replacement of {old} by {node} in the meantime, so this call \
         has stopped: run the same call again if the replacement is still wanted"
    )]
    #[non_exhaustive]
    ReplacementSuperseded {
        /// The address of the server.
        node: Arc<str>,
        /// The address of the node that the server is to stand in for.
        old: Arc<str>,
    },
    /// The old node is retired or gone, and the server that is to stand in for it did not take part.
    #[error(
        "{old} is retired or gone, and {node}, which is to stand in for it, did not take part: {}; start {node}, and try \
         again; if {node} is gone for good, replace {node} in turn: give the settings {node} in place of {old}, and \
         name {node} as the old node",
        .replies.with_words(&[(NodeReply::NotAsked, "not needed")])
    )]
    #[non_exhaustive]
    NewNeeded {
        /// The address of the server.
        node: Arc<str>,
        /// The address of the old node.
        old: Arc<str>,
        /// The replies of all nodes.
        replies: NodeReplies,
    },
    /// Another server stands in for the node already.
    #[error(
        "{node} was replaced by {by} before: to finish that replacement, name {by} as the new server; to replace \
         {by}, give the settings {by} in place of {node}, and name {by} as the old node; if {node} is to be the new \
         server, start it at another address"
    )]
    #[non_exhaustive]
    AlreadyReplaced {
        /// The address of the node.
        node: Arc<str>,
        /// The address of the server that stands in for the node.
        by: Arc<str>,
    },
    /// The settings do not name a server that stands in for a node, by the record of the other nodes.
    #[error(
        "{by} stands in for {node} since an earlier replacement, and the settings do not name {by}: give this call the \
         present nodes, by the addresses that the earlier replacement has named; if {by} was replaced without this \
         call since, no replacement is unfinished, and no other server stands in for a node that is gone, delete all \
         records on every other node (`HDEL redquorum:node replacements`; in a Redis Cluster, the tag of the node stands \
         before this key: `{{TAG}}redquorum:node`)"
    )]
    #[non_exhaustive]
    NotListed {
        /// The address of the node that was replaced.
        node: Arc<str>,
        /// The address of the server that stands in for the node.
        by: Arc<str>,
    },
    /// The server that is to stand in for a node is a replica.
    #[error(
        "{node} is to stand in for a node and is a read-only replica: name an empty master, or run `REPLICAOF NO ONE` and \
         `FLUSHALL` on this server"
    )]
    #[non_exhaustive]
    NewIsReplica {
        /// The address of the server.
        node: Arc<str>,
    },
    /// The clock of the server that is to stand in for a node differs by more than a second from the latest clock of
    /// the other nodes. Tokens begin at the clocks of nodes.
    #[error(
        "the clock of {node}, which is to stand in for a node, is {gap:?} {} the clock of {other}: expected at most 1s, \
         because tokens begin at the clocks of nodes; correct the wrong clock (step the clock of a node only while its \
         server is stopped or no locks are in use), and try again",
        order(.is_node_ahead)
    )]
    #[non_exhaustive]
    ClockDiffers {
        /// The address of the server.
        node: Arc<str>,
        /// The address of the node with the latest clock.
        other: Arc<str>,
        /// The difference, to within the round trip of the request.
        gap: Duration,
        /// Whether the clock of the server is the later clock.
        is_node_ahead: bool,
    },
    /// The server that is to stand in for a node was in a quorum before.
    #[error(
        "{node} is to stand in for a node and is not empty, its node metadata is ({metadata}): {}",
        unless_replaced(
            metadata,
            "if the address is wrong, correct it; if clients have the server in their lists, stop these clients; then \
         FLUSHALL it and try again"
        )
    )]
    #[non_exhaustive]
    NotEmpty {
        /// The address of the server.
        node: Arc<str>,
        /// The configuration in the server's metadata.
        metadata: Arc<str>,
    },
    /// The call ended because its client no longer works, for this reason. Changes that the call has made before stay.
    #[error("{0}")]
    Closed(ClosedReason),
    /// The settings, a server, or the combination of both configurations of a move is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Returns the remedy for a node with this fingerprint: another one if a replacement has closed the node, because a
/// replaced node that is flushed votes again.
fn unless_replaced(metadata: &str, remedy: &str) -> String {
    match (Fingerprint::replacement_in(metadata), Fingerprint::joining_in(metadata)) {
        (Some(new), _) => format!(
            "because it was replaced by {} in that quorum: if the address is right, name that server in its place; while any \
             client of that quorum has the old list of nodes, do not flush this server, and start no other server at its \
             address",
            Printable(new)
        ),
        (None, Some(old)) => format!(
            "because a replacement of {} has closed it: end that replacement and name another server here, or abandon it and \
             FLUSHALL this server",
            Printable(old)
        ),
        (None, None) => remedy.to_owned(),
    }
}

/// Returns the state and the remedy of an old node that did not answer, for this reason. A retired node is not to be
/// started, because the node may have lost the mark of its retirement.
fn silence(error: &NodeError, may_be_retired: bool) -> String {
    let is_gone = "if it is gone for good, so that nothing starts its server again or its address leads nowhere, add \
                   `--old-is-gone` or call `Replacement::old_is_gone`";
    if may_be_retired {
        format!(
            "may be retired already, and does not answer: {error}; {is_gone}; if its server was stopped, do not start it \
             again; if only the connection to it is broken, repair the connection, and try again"
        )
    } else {
        format!("was not retired: {error}; {is_gone}; otherwise start it, and try again")
    }
}

/// Returns the words for a clock that is ahead, or behind.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the error's `Display` passes references to fields")]
fn order(is_node_ahead: &bool) -> &'static str {
    if *is_node_ahead { "ahead of" } else { "behind" }
}
