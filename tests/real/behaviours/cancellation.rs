//! Dropped futures of `lock` and `connect`, at many moments, on real servers.
//!
//! Promise: after the drop, no key and no connection remains.

use std::{future::Future, pin::pin, task::Poll, time::Duration};

use redquorum_tests::{Cluster, Direction, eventually};

use super::{
    NODE_METADATA, SOON, WITH_TTL, builder, builder_behind, client, connections, is_locked, proxies,
    wait_for_all_grants,
};

/// An acquisition that is dropped in any state (waiting for votes, for their confirmation, or for another
/// holder) rolls back its requests.
///
/// A lock of another resource serves as a barrier: on each connection, its requests follow those of the
/// rollback.
#[tokio::test]
async fn dropping_a_lock_future_at_any_moment_leaves_no_key_on_healthy_nodes() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let holder = client(&cluster).await;
    // With these delays, a lock takes at least 20 ms. The drops below, at up to 46 ms, reach each state of the call.
    for (proxy, delay) in proxies.iter().zip([10, 20, 30]) {
        proxy.delay(Direction::Replies, Duration::from_millis(delay));
    }
    let mut dropped = 0;
    for step in 0..24 {
        // Counters that differ make the attempt confirm its token by a write-back round.
        let counter = format!("{}", 9_000_000_000_000_000_i64 - 1_000 + step * 10);
        cluster.server(step as usize % 3).command(&["SET", "redisson_lock_token:{r}", &counter]).await;
        let holding = if step % 4 == 3 { Some(holder.red_lock("r").lock().await.unwrap()) } else { None };
        let lock = quorum.red_lock("r").options(WITH_TTL);
        let is_over = {
            let locking = pin!(lock.lock());
            tokio::time::timeout(Duration::from_millis(step as u64 * 2), locking).await.is_ok()
        };
        dropped += usize::from(!is_over);
        drop(holding);
        let barrier = quorum.red_lock("barrier").lock().await.unwrap();
        wait_for_all_grants(&barrier).await;
        barrier.unlock().await.unwrap();
        assert_unlocked(&cluster, step).await;
    }
    assert!(dropped >= 12, "only {dropped} futures were dropped");
}

/// Asserts that no server has the lock, after the unlock of the holder of this step.
async fn assert_unlocked(cluster: &Cluster, step: i64) {
    for server in cluster.servers() {
        // The holder unlocks over connections of its own, which the barrier does not cover.
        if step % 4 == 3 {
            eventually(SOON, "the holder has unlocked", async || !is_locked(server, "r").await).await;
        }
        assert!(!is_locked(server, "r").await, "step {step}");
    }
}

/// If the future of `connect` is dropped at any poll, neither a connection nor a key of a lock remains.
///
/// The servers answer late, so some drops happen during the dial, others during the handshake or the
/// registration. The last client shows that the servers still work.
#[tokio::test]
async fn dropping_connect_at_any_poll_leaves_no_connection_and_no_key() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    for (proxy, delay) in proxies.iter().zip([5, 10, 15]) {
        proxy.delay(Direction::Replies, Duration::from_millis(delay));
    }
    let mut dropped = 0;
    // A poll happens when a server has answered. The time limits below cover the states before the first
    // answer.
    for polls in 0..3 {
        dropped += usize::from(!poll_and_drop(builder_behind(&proxies).connect(), polls).await);
    }
    for wait in (0..40).step_by(2).map(Duration::from_millis) {
        let connecting = builder_behind(&proxies).connect();
        dropped += usize::from(tokio::time::timeout(wait, connecting).await.is_err());
    }
    assert!(dropped >= 12, "only {dropped} futures were dropped");
    wait_until_clean(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap().unlock().await.unwrap();
    drop(quorum);
    wait_until_disconnected(&cluster).await;
}

/// If the servers accept connections and never answer, a dropped future of `connect` leaves no connection and no key
/// either.
#[tokio::test]
async fn dropping_connect_while_servers_hang_leaves_no_connection_and_no_key() {
    let cluster = Cluster::start(3).await;
    for server in cluster.servers() {
        server.freeze().await;
    }
    for wait in [0, 5, 50, 500].map(Duration::from_millis) {
        let outcome = tokio::time::timeout(wait, builder(&cluster).connect()).await;
        assert!(outcome.is_err(), "{outcome:?}");
    }
    for server in cluster.servers() {
        server.thaw().await;
    }
    wait_until_clean(&cluster).await;
    client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap().unlock().await.unwrap();
    wait_until_disconnected(&cluster).await;
}

/// Polls a future at most `polls` times, the first time at once and then each time after a wake, and drops the future.
/// Returns whether the future completed.
async fn poll_and_drop(future: impl Future, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        let is_over = future.as_mut().poll(context).is_ready();
        if is_over || left == 0 { Poll::Ready(is_over) } else { Poll::Pending }
    })
    .await
}

/// Waits until no client is connected, and asserts that no key but the node metadata remains. The registration writes
/// the node metadata, which belongs to the node and not to a client.
async fn wait_until_clean(cluster: &Cluster) {
    wait_until_disconnected(cluster).await;
    for server in cluster.servers() {
        let keys = server.keys().await;
        assert!(keys.iter().all(|key| key == NODE_METADATA), "{keys:?}");
    }
}

/// Waits until no client is connected.
async fn wait_until_disconnected(cluster: &Cluster) {
    for server in cluster.servers() {
        eventually(SOON, "no client is connected", async || connections(server).await == 0).await;
    }
}
