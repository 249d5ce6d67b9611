//! The replies and the remaining keys of an unlock, if nodes answer with errors.

use std::time::Duration;

use super::{all_behave, client, server};
use crate::{
    LockOptions, MemoryCluster,
    error::NodeError,
    node::{Operation, Tombstone, memory::Behaviour},
};

/// As a proxy says it that may have passed the call on all the same, or that garbles the answer.
fn errors_that_are_no_answer() -> [NodeError; 2] {
    [NodeError::CallFailed("ERR upstream failure".into()), NodeError::Protocol("half an answer".into())]
}

/// Returns the tombstones of the unlocks at a node.
fn left(cluster: &MemoryCluster, node: usize) -> Vec<Tombstone> {
    let unlocks = server(cluster, node).take_log().into_iter().filter_map(|entry| match entry {
        Operation::Unlock(unlock) => Some(unlock.tombstone),
        _ => None,
    });
    unlocks.collect()
}

#[tokio::test(start_paused = true)]
async fn the_rollback_of_a_lock_that_a_proxy_may_deliver_yet_leaves_a_tombstone() {
    for node_error in errors_that_are_no_answer() {
        let cluster = MemoryCluster::new(4);
        server(&cluster, 1).behave(Behaviour::Failing(NodeError::OutOfMemory));
        // The last answer that the attempt receives, which decides its loss.
        server(&cluster, 2).behave(Behaviour::Failing(node_error.clone()));
        drop(client(&cluster).red_lock("r").try_lock().await.unwrap_err());
        assert_eq!(left(&cluster, 2), [Tombstone::IfMissing], "{node_error}");
        for node in [0, 1] {
            assert_eq!(left(&cluster, node), [Tombstone::Never], "the node itself has answered");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_unlock_of_a_lease_leaves_a_tombstone_where_a_proxy_may_deliver_its_lock_yet() {
    for node_error in errors_that_are_no_answer() {
        let cluster = MemoryCluster::new(3);
        server(&cluster, 0).behave(Behaviour::Failing(node_error.clone()));
        let guard = client(&cluster).red_lock("r").lock().await.unwrap();
        guard.unlock().await.unwrap();
        assert_eq!(left(&cluster, 0), [Tombstone::IfMissing], "{node_error}");
        assert_eq!(left(&cluster, 1), [Tombstone::Never]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_unlock_of_a_lease_leaves_a_tombstone_where_a_proxy_may_deliver_its_renewal_yet() {
    for node_error in errors_that_are_no_answer() {
        let cluster = MemoryCluster::new(3);
        let guard = client(&cluster)
            .red_lock("r")
            .options(LockOptions::new().ttl(Duration::from_secs(9)))
            .lock()
            .await
            .unwrap();
        server(&cluster, 0).behave(Behaviour::Failing(node_error.clone()));
        guard.renew().await.unwrap();
        all_behave(&cluster, &Behaviour::Granting);
        guard.unlock().await.unwrap();
        assert_eq!(left(&cluster, 0), [Tombstone::Always], "{node_error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_no_quorum_confirms_shows_the_answer_of_each_node() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").lock().await.unwrap();
    server(&cluster, 0)
        .behave(Behaviour::Failing(NodeError::Server("NOREPLICAS Not enough good replicas".into())));
    server(&cluster, 1).behave(Behaviour::Hanging);
    let replies = guard.unlock().await.unwrap();
    assert!(!replies.has_quorum());
    assert_eq!(
        replies.to_string(),
        "memory:0: server error: NOREPLICAS Not enough good replicas; memory:1: no answer within the node \
         timeout; memory:2: done"
    );
}
