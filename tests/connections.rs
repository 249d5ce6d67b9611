//! Every way to reach a node, against real servers: one binary, so that what they need is linked
//! once. The servers run as processes, since they share files with the tests.

#![allow(clippy::disallowed_methods, reason = "real servers need real time, and ports that nobody has")]

mod connections {
    mod floods;
    mod permissions;
    mod places;
    mod refusals;
    mod sentinel;
    mod tls;

    use std::time::Duration;

    use redquorum::{
        Error, LockGuard, Quorum, QuorumBuilder, admin,
        error::{NodeError, NodeReplies, NodeReply},
    };

    /// Far longer than anything here takes on a machine under load.
    const SOON: Duration = Duration::from_secs(15);

    /// Makes a quorum, and connects to it.
    async fn made(builder: QuorumBuilder) -> Quorum {
        admin::init(&builder).await.unwrap();
        builder.connect().await.unwrap()
    }

    /// Asserts that a quorum locks, and returns the guard.
    async fn works(quorum: &Quorum) -> LockGuard {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
        guard
    }

    /// The replies of the nodes to a call that found no quorum.
    fn replies_of(error: Error) -> NodeReplies {
        let Error::NoQuorum(error) = error else { panic!("not a lack of quorum: {error}") };
        error.node_replies().clone()
    }

    /// The error of a failed handshake.
    fn refusal(reply: &NodeReply) -> Option<&NodeError> {
        match reply {
            NodeReply::Failed(NodeError::Handshake(error)) => Some(error),
            _ => None,
        }
    }
}
