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
    use redquorum_tests::{Server, eventually};

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

    /// Returns the reply of the first node to a lock of another, free resource. The address of the node has this end.
    async fn reply_of_first_node(quorum: &Quorum, address_end: &str) -> NodeReply {
        let guard = quorum.red_lock("free").try_lock().await.unwrap().unwrap();
        let reply = |guard: &LockGuard| {
            let replies = guard.node_replies();
            let (node, reply) = replies.iter().next().unwrap();
            assert!(node.ends_with(address_end), "the node has another address: {node}");
            reply.clone()
        };
        eventually(SOON, "the first node has answered", async || reply(&guard) != NodeReply::Pending).await;
        reply(&guard)
    }

    /// Asserts that renewals count on a promoted server only from the end of the quarantine on, because the old master
    /// may still answer some clients.
    async fn assert_renewals_count_after_quarantine(server: &Server, key: &str) {
        // The value of the key is the time from which renewals count on the node.
        let renewals_from: u64 = server.query(redis::cmd("GET").arg(key)).await;
        let (seconds, micros): (u64, u64) = server.query(&redis::cmd("TIME")).await;
        let remaining: u64 = server.query(redis::cmd("PTTL").arg(key)).await;
        let end = seconds * 1000 + micros / 1000 + remaining;
        assert!(renewals_from + 100 >= end, "{renewals_from} is before {end}");
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
