//! What is left of a future that was dropped: nothing.

use std::{future::Future, pin::pin, task::Poll, time::Duration};

use redquorum_tests::{Cluster, Direction, eventually};

use super::{
    NODE_METADATA, SOON, WITH_TTL, builder, builder_behind, client, connections, is_locked, on_all_nodes,
    proxies,
};

/// Dropped wherever it waits (for votes, for their confirmation, for others to unlock), an
/// acquisition takes back what it has asked for.
///
/// A lock on another resource is the barrier: on each connection it comes behind the rollback.
#[tokio::test]
async fn dropping_a_lock_future_at_any_moment_leaves_no_key_on_healthy_nodes() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let holder = client(&cluster).await;
    // With these round trips a lock takes 20 ms and more, so that the drops below find it
    // everywhere.
    for (proxy, delay) in proxies.iter().zip([10, 20, 30]) {
        proxy.delay(Direction::Replies, Duration::from_millis(delay));
    }
    let mut dropped = 0;
    for step in 0..24 {
        // Counters that differ make the lock confirm its token in a second round.
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
        on_all_nodes(&barrier).await;
        barrier.unlock().await.unwrap();
        unlocked_or_held_by_nobody(&cluster, step).await;
    }
    assert!(dropped >= 12, "only {dropped} futures were dropped");
}

async fn unlocked_or_held_by_nobody(cluster: &Cluster, step: i64) {
    for server in cluster.servers() {
        // The holder's own unlock comes on other connections.
        if step % 4 == 3 {
            eventually(SOON, "the holder has unlocked", async || !is_locked(server, "r").await).await;
        }
        assert!(!is_locked(server, "r").await, "step {step}");
    }
}

/// Dropped at any of its polls, `connect` leaves neither a connection nor a key of a lock.
///
/// The servers answer late, so that it is dropped while it dials, in the handshake and while it
/// asks. That a client can be made afterwards shows that the servers were well.
#[tokio::test]
async fn dropping_connect_at_any_poll_leaves_no_connection_and_no_key() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    for (proxy, delay) in proxies.iter().zip([5, 10, 15]) {
        proxy.delay(Direction::Replies, Duration::from_millis(delay));
    }
    let mut dropped = 0;
    // It is polled when a server has answered its question; the times find what goes on before
    // that.
    for polls in 0..3 {
        dropped += usize::from(!polled(builder_behind(&proxies).connect(), polls).await);
    }
    for wait in (0..40).step_by(2).map(Duration::from_millis) {
        let connecting = builder_behind(&proxies).connect();
        dropped += usize::from(tokio::time::timeout(wait, connecting).await.is_err());
    }
    assert!(dropped >= 12, "only {dropped} futures were dropped");
    nothing_is_left(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap().unlock().await.unwrap();
    drop(quorum);
    no_connection_is_left(&cluster).await;
}

/// The same where servers take connections and say nothing.
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
    nothing_is_left(&cluster).await;
    client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap().unlock().await.unwrap();
    no_connection_is_left(&cluster).await;
}

/// Polls a future so many times, whenever it asks for it, and drops it. Tells whether it was over
/// by then.
async fn polled(future: impl Future, polls: usize) -> bool {
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

/// The metadata of a node that has registered is no residue: it is what the node knows about
/// itself.
async fn nothing_is_left(cluster: &Cluster) {
    no_connection_is_left(cluster).await;
    for server in cluster.servers() {
        let keys = server.keys().await;
        assert!(keys.iter().all(|key| key == NODE_METADATA), "{keys:?}");
    }
}

async fn no_connection_is_left(cluster: &Cluster) {
    for server in cluster.servers() {
        eventually(SOON, "no connection is left", async || connections(server).await == 0).await;
    }
}
