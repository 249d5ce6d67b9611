//! Whether the nodes vote, as a service tells it.

use std::time::Duration;

use crate::lock::tests::{client, server};
use crate::{MemoryCluster, node::memory::Behaviour, values::NodeError};

#[tokio::test(start_paused = true)]
async fn a_quorum_is_healthy_as_long_as_enough_nodes_vote() {
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
    assert_eq!(start.elapsed(), Duration::from_secs(1), "a node timeout");
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::Disconnected));
    let health = quorum.health().await;
    assert_eq!((health.voting(), health.has_quorum()), (2, false));
    let shown = health.to_string();
    assert!(shown.starts_with("2 of 5 nodes vote, 3 have to; memory:"), "{shown}");
    assert_eq!(shown.matches("; memory:").count(), 3, "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_have_forgotten_votes_is_not_counted() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    assert!(quorum.health().await.has_quorum());
    for node in 0..2 {
        server(&cluster, node).forget();
    }
    let health = quorum.health().await;
    assert_eq!((health.voting(), health.has_quorum()), (1, false), "{health}");
}
