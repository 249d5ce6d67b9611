//! The health of a quorum: the nodes that vote.

use std::time::Duration;

use crate::lock::tests::{client, server};
use crate::{MemoryCluster, node::memory::Behaviour, values::NodeError};

#[tokio::test(start_paused = true)]
async fn a_quorum_is_healthy_while_enough_nodes_vote() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let health = quorum.health().await;
    assert_eq!((health.voting(), health.needed(), health.has_quorum()), (5, 3, true));
    assert_eq!(health.to_string(), "5 of 5 nodes vote, 3 have to");
    assert_eq!(start.elapsed(), Duration::ZERO);
    server(&cluster, 0).behave(Behaviour::Hanging);
    server(&cluster, 1).behave(Behaviour::Failing(NodeError::Busy));
    assert!(quorum.health().await.has_quorum());
    assert_eq!(start.elapsed(), Duration::from_secs(1), "the query takes a node timeout");
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::Disconnected));
    let health = quorum.health().await;
    assert_eq!((health.voting(), health.has_quorum()), (2, false));
    let text = health.to_string();
    assert!(text.starts_with("2 of 5 nodes vote, 3 have to; memory:"), "{text}");
    assert_eq!(text.matches("; memory:").count(), 3, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_have_lost_votes_does_not_count_as_voting() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    assert!(quorum.health().await.has_quorum());
    for node in 0..2 {
        server(&cluster, node).forget();
    }
    let health = quorum.health().await;
    assert_eq!((health.voting(), health.has_quorum()), (1, false), "{health}");
}
