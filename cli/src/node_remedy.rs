//! The remedy for nodes that did not take part in a call of an administrator, by their replies. Pure.

use redquorum::error::{NodeError, NodeReplies, NodeReply};

/// Returns the remedies for the nodes that did not answer, and for the nodes that answered with an error. If no node
/// failed, returns the remedy for the nodes that were not waited for; the list is empty if there is none.
pub(crate) fn for_failures(replies: &NodeReplies) -> Vec<&'static str> {
    let errors = || {
        replies.iter().filter_map(|(_, reply)| match reply {
            NodeReply::Failed(error) => Some(error),
            _ => None,
        })
    };
    let silent =
        errors().any(is_silence).then_some("start the nodes that did not answer, or correct their addresses");
    let refusing =
        errors().any(|error| !is_silence(error)).then_some("correct the errors that nodes answered with");
    let is_pending = replies.iter().any(|(_, reply)| *reply == NodeReply::Pending);
    let hurried = (errors().next().is_none() && is_pending)
        .then_some("give the nodes more time to answer by a longer connect_timeout");
    silent.into_iter().chain(refusing).chain(hurried).collect()
}

/// Whether the error means that the server did not answer.
pub(crate) fn is_silence(error: &NodeError) -> bool {
    match error {
        NodeError::Handshake(error) => is_silence(error),
        NodeError::Unreachable(_)
        | NodeError::TimedOut
        | NodeError::DialTimedOut(_)
        | NodeError::Unresponsive
        | NodeError::Overloaded
        | NodeError::Disconnected => true,
        _ => false,
    }
}
