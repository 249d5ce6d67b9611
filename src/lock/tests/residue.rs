//! Unlocks that nodes do not confirm: their tombstones, and the replies that `unlock` returns.

use std::time::Duration;

use super::{NONE, all_behave, client, locked_nodes, pass, server};
use crate::{
    LockOptions, MemoryCluster,
    error::NodeError,
    node::{Operation, Tombstone, memory::Behaviour},
};

/// Returns errors after which the node may still execute the request: an error of a proxy, which may have forwarded the
/// request, and an answer that cannot be parsed.
fn inconclusive_errors() -> [NodeError; 2] {
    [NodeError::CallFailed("ERR upstream failure".into()), NodeError::Protocol("half an answer".into())]
}

/// Returns the tombstone settings of the unlocks that a node has received since the last call of this function.
fn take_tombstones(cluster: &MemoryCluster, node: usize) -> Vec<Tombstone> {
    let unlocks = server(cluster, node).take_log().into_iter().filter_map(|entry| match entry {
        Operation::Unlock(unlock) => Some(unlock.tombstone),
        _ => None,
    });
    unlocks.collect()
}

#[tokio::test(start_paused = true)]
async fn a_rollback_leaves_a_tombstone_if_a_proxy_may_still_deliver_the_lock() {
    for node_error in inconclusive_errors() {
        let cluster = MemoryCluster::new(4);
        server(&cluster, 1).behave(Behaviour::Failing(NodeError::OutOfMemory));
        // Node 2 gives the last answer, which decides the failure of the attempt.
        server(&cluster, 2).behave(Behaviour::Failing(node_error.clone()));
        drop(client(&cluster).red_lock("r").try_lock().await.unwrap_err());
        assert_eq!(take_tombstones(&cluster, 2), [Tombstone::IfMissing], "{node_error}");
        for node in [0, 1] {
            assert_eq!(
                take_tombstones(&cluster, node),
                [Tombstone::Never],
                "node {node} has answered, so no late lock can arrive there"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_leaves_a_tombstone_if_a_proxy_may_still_deliver_the_lock() {
    for node_error in inconclusive_errors() {
        let cluster = MemoryCluster::new(3);
        server(&cluster, 0).behave(Behaviour::Failing(node_error.clone()));
        let guard = client(&cluster).red_lock("r").lock().await.unwrap();
        guard.unlock().await.unwrap();
        assert_eq!(take_tombstones(&cluster, 0), [Tombstone::IfMissing], "{node_error}");
        assert_eq!(take_tombstones(&cluster, 1), [Tombstone::Never]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_leaves_a_tombstone_if_a_proxy_may_still_deliver_a_renewal() {
    for node_error in inconclusive_errors() {
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
        assert_eq!(take_tombstones(&cluster, 0), [Tombstone::Always], "{node_error}");
    }
}

/// The keys stay for the rest of the minimum hold, and a request that arrives later would extend their ttls.
#[tokio::test(start_paused = true)]
async fn an_unlock_within_a_minimum_hold_leaves_a_tombstone() {
    let (cluster, minimum) = (MemoryCluster::new(3), Duration::from_secs(10));
    for (held, tombstone) in [(minimum / 2, Tombstone::Always), (minimum, Tombstone::Never)] {
        let options = LockOptions::new().hold_at_least(minimum).without_renewal();
        let guard = client(&cluster).red_lock("r").options(options).lock().await.unwrap();
        pass(held).await;
        guard.unlock().await.unwrap();
        for node in 0..3 {
            assert_eq!(take_tombstones(&cluster, node), [tombstone], "node {node} after {held:?}");
        }
        pass(minimum).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_without_a_quorum_returns_the_reply_of_each_node() {
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

/// The attempt reads the answers in the order of the nodes, until two nodes have granted. So the attempt has read the
/// error of each of these nodes.
#[tokio::test(start_paused = true)]
async fn a_node_to_which_the_lock_was_not_sent_receives_no_unlock() {
    for unreachable in [0, 1] {
        let cluster = MemoryCluster::new(3);
        server(&cluster, unreachable).behave(Behaviour::Failing(NodeError::Unreachable("refused".into())));
        let guard = client(&cluster).red_lock("r").lock().await.unwrap();
        all_behave(&cluster, &Behaviour::Granting);
        guard.unlock().await.unwrap();
        for node in 0..3 {
            let unlocks = if node == unreachable { vec![] } else { vec![Tombstone::Never] };
            assert_eq!(take_tombstones(&cluster, node), unlocks, "node {node}");
        }
    }
}

/// The node executes the renewal late, and writes the key.
#[tokio::test(start_paused = true)]
async fn a_node_to_which_only_a_renewal_was_sent_receives_the_unlock() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 0).behave(Behaviour::Failing(NodeError::Unreachable("refused".into())));
    let guard = client(&cluster).red_lock("r").lock().await.unwrap();
    server(&cluster, 0).behave(Behaviour::Hanging);
    guard.renew().await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
    server(&cluster, 0).thaw();
    assert_eq!(locked_nodes(&cluster), NONE);
    assert_eq!(take_tombstones(&cluster, 0), [Tombstone::Always]);
}
