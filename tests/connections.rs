//! Tests of each way to reach a node, on real servers: databases, sockets, ACL users, Sentinel, Redis Cluster, TLS, and
//! servers that cannot be nodes or flood their clients.
//!
//! The servers run as processes, because they share files with the tests. All tests are one binary, so that
//! the dependencies are linked once.

#![allow(clippy::disallowed_methods, reason = "real servers need real time and free ports")]

mod connections {
    mod floods;
    mod floods_of_all_nodes;
    mod permissions;
    mod places;
    mod redis_cluster;
    mod refusals;
    mod secrets;
    mod sentinel;
    mod tls;
    mod told_reasons;

    use std::time::Duration;

    use redquorum::{
        Error, LockGuard, Quorum, QuorumBuilder, admin,
        error::{NodeError, NodeReplies, NodeReply},
    };

    /// The deadline of an effect that has to happen at once, on a machine under load.
    const SOON: Duration = Duration::from_secs(15);

    /// Makes a quorum of new nodes, and connects a client to the quorum.
    async fn init_and_connect(builder: QuorumBuilder) -> Quorum {
        admin::init(&builder).await.unwrap();
        builder.connect().await.unwrap()
    }

    /// Locks `r`, asserts that a second attempt is refused, and returns the guard.
    async fn assert_locks(quorum: &Quorum) -> LockGuard {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
        guard
    }

    /// Returns the replies of the nodes to a call that found no quorum.
    fn replies_of(error: Error) -> NodeReplies {
        let Error::NoQuorum(error) = error else { panic!("not a lack of quorum: {error}") };
        error.node_replies().clone()
    }

    /// Returns the error of a failed handshake; `None` for any other reply.
    fn refusal(reply: &NodeReply) -> Option<&NodeError> {
        match reply {
            NodeReply::Failed(NodeError::Handshake(error)) => Some(error),
            _ => None,
        }
    }
}
