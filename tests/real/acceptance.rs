//! The promises of the library as a whole, on five real servers: exclusion and growing tokens under
//! contention, and no lasting key after failed attempts.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use futures::future::join_all;
use redquorum::{
    LockOptions,
    error::{NodeError, NodeReply},
};
use redquorum_tests::{Cluster, Stopwatch, eventually};

use super::behaviours::{
    NODE_METADATA, SOON, builder, client, in_order, replies_of, wait_until_rolled_back, wait_until_unlocked,
};

const CLIENTS: usize = 16;
/// The number of locks of each client.
const ROUNDS: usize = 100;
/// The number of locks of all clients.
const LOCKS: u64 = (CLIENTS * ROUNDS) as u64;

/// A task reads the counter, yields, and writes the counter. Without the lock, increments would be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_clients_lose_no_increment_and_tokens_grow() {
    let cluster = Cluster::start(5).await;
    let counter = Arc::new(AtomicU64::new(0));
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let clients = join_all((0..CLIENTS).map(|_| client(&cluster))).await;
    let tasks = clients.iter().map(|quorum| {
        let lock = quorum.red_lock("r");
        let (counter, tokens) = (Arc::clone(&counter), Arc::clone(&tokens));
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock.lock().await.unwrap();
                let count = counter.load(Ordering::Relaxed);
                tokens.lock().unwrap().push(guard.fencing_token());
                tokio::task::yield_now().await;
                counter.store(count + 1, Ordering::Relaxed);
                guard.unlock().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::Relaxed), LOCKS);
    let tokens = tokens.lock().unwrap().clone();
    assert_eq!(tokens.len() as u64, LOCKS);
    assert!(tokens.is_sorted_by(|one, next| one < next), "tokens do not grow strictly: {tokens:?}");
    wait_until_unlocked(&cluster, "r").await;
}

/// An attempt with a frozen majority fails within two node timeouts. If the frozen servers execute the attempt later,
/// the rollback follows.
#[tokio::test]
async fn try_lock_with_a_frozen_majority_fails_in_time_and_leaves_no_key() {
    let node_timeout = Duration::from_millis(500);
    let ttl = Duration::from_secs(8);
    let cluster = Cluster::start(5).await;
    let quorum = builder(&cluster).node_timeout(node_timeout).connect().await.unwrap();
    for server in cluster.some(0..3) {
        server.freeze().await;
    }
    let lock = quorum.red_lock("r").options(LockOptions::new().ttl(ttl));
    let watch = Stopwatch::start();
    let replies = replies_of(lock.try_lock().await.unwrap_err());
    assert!(watch.undelayed() <= node_timeout * 2, "{watch:?}");
    let frozen = NodeReply::Failed(NodeError::TimedOut);
    assert_eq!(
        in_order(&replies),
        [frozen.clone(), frozen.clone(), frozen, NodeReply::Done, NodeReply::Done]
    );
    // After some timeouts, the client sends no more requests to the frozen nodes. Until then, too, no call lasts longer
    // than two node timeouts.
    let are_unasked = async || {
        let watch = Stopwatch::start();
        let replies = in_order(&replies_of(lock.try_lock().await.unwrap_err()));
        assert!(watch.undelayed() <= node_timeout * 2, "{watch:?}");
        assert!(
            replies[3..].iter().all(|reply| matches!(reply, NodeReply::Done | NodeReply::Pending)),
            "{replies:?}"
        );
        replies[..3].iter().all(|reply| *reply == NodeReply::Failed(NodeError::Unresponsive))
    };
    eventually(SOON, "the frozen nodes are reported as unresponsive", are_unasked).await;
    let thawed = Stopwatch::start();
    for server in cluster.some(0..3) {
        server.thaw().await;
    }
    for server in cluster.some(0..3) {
        wait_until_rolled_back(server, "r").await;
    }
    wait_until_unlocked(&cluster, "r").await;
    assert!(thawed.elapsed() < ttl);
    for server in cluster.servers() {
        for key in server.keys().await {
            if key == NODE_METADATA {
                continue;
            }
            let ttl: i64 = server.query(redis::cmd("PTTL").arg(&key)).await;
            assert!(ttl > 0 || ttl == -2, "{key} has no ttl");
        }
    }
}
