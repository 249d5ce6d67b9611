//! The blocking API on real servers, called inside of tokio runtimes.
//!
//! Promises: blocking calls work inside of a runtime, the thread of the client renews leases, and pending unlocks are
//! sent also after the last handle is dropped.

use std::{
    thread,
    time::{Duration, Instant},
};

use redquorum::{Error, LockOptions, blocking::Quorum};
use redquorum_tests::{Cluster, ServerOptions, eventually};

/// The deadline of an effect that has to happen at once, on a machine under load.
const SOON: Duration = Duration::from_secs(10);

/// Whether any server has the key of the lock.
async fn is_locked_anywhere(cluster: &Cluster) -> bool {
    for server in cluster.servers() {
        if server.keys().await.iter().any(|key| key == "lock:r") {
            return true;
        }
    }
    false
}

/// Connects a client by the blocking API.
fn connected(cluster: &Cluster) -> Quorum {
    redquorum::Quorum::builder().nodes(cluster.urls()).admit_new_nodes().connect_blocking().unwrap()
}

#[tokio::test]
async fn a_lock_in_a_single_threaded_runtime_is_renewed_and_unlocked() {
    let cluster = Cluster::start(3).await;
    let quorum = connected(&cluster);
    // A ttl that leaves a machine under load time to renew and to unlock.
    let ttl = Duration::from_secs(2);
    let guard = quorum.red_lock("lock:r").options(LockOptions::new().ttl(ttl)).lock().unwrap();
    assert!(is_locked_anywhere(&cluster).await);
    // The runtime of this test does nothing for two ttls, so only the client's own thread can renew.
    assert_eq!(guard.lost_within(ttl * 2), None);
    assert!(guard.is_valid());
    assert!(guard.unlock().unwrap().has_quorum());
    eventually(SOON, "unlocked everywhere", async || !is_locked_anywhere(&cluster).await).await;
    quorum.shutdown();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_guard_unlocks_when_dropped_in_async_code() {
    let cluster = Cluster::start(3).await;
    let guard = connected(&cluster).red_lock("lock:r").lock().unwrap();
    assert!(is_locked_anywhere(&cluster).await);
    tokio::spawn(async move { drop(guard) }).await.unwrap();
    eventually(SOON, "unlocked everywhere", async || !is_locked_anywhere(&cluster).await).await;
}

#[tokio::test]
async fn a_shutdown_returns_when_the_unlocks_of_dropped_guards_are_confirmed() {
    let cluster = Cluster::start(3).await;
    for _ in 0..20 {
        let quorum = connected(&cluster);
        drop(quorum.red_lock("lock:r").lock().unwrap());
        quorum.shutdown();
        assert!(!is_locked_anywhere(&cluster).await);
    }
}

#[tokio::test]
async fn a_shutdown_waits_its_grace_and_unlocks_a_dead_server_after_its_restart() {
    let cluster = Cluster::start_with(5, ServerOptions::persistent()).await;
    let quorum = connected(&cluster);
    let guard = quorum.red_lock("lock:r").lock().unwrap();
    let dead = cluster.server(4);
    eventually(SOON, "the server has the lock", async || dead.keys().await.iter().any(|key| key == "lock:r"))
        .await;
    dead.kill().await;
    drop(guard);
    let start = Instant::now();
    let shutdown = quorum.shutdown_within(Duration::from_millis(500));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert_eq!(shutdown.unconfirmed().count(), 1, "{shutdown}");
    assert!(shutdown.to_string().contains(&format!(":{} has not confirmed", dead.port())), "{shutdown}");
    // The client's thread stays until the pending unlock is confirmed, although no handle is left.
    drop(quorum);
    dead.restart_keeping_data().await;
    eventually(SOON, "the server is unlocked, too", async || !is_locked_anywhere(&cluster).await).await;
}

#[tokio::test]
async fn an_unlock_pending_at_a_frozen_server_outlives_the_last_handle() {
    let cluster = Cluster::start(3).await;
    let guard = connected(&cluster).red_lock("lock:r").lock().unwrap();
    eventually(SOON, "all servers have the lock", async || {
        let mut locked = 0;
        for server in cluster.servers() {
            locked += usize::from(server.keys().await.iter().any(|key| key == "lock:r"));
        }
        locked == 3
    })
    .await;
    let frozen = cluster.server(2);
    frozen.freeze().await;
    drop(guard);
    frozen.thaw().await;
    eventually(SOON, "the server is unlocked, too", async || !is_locked_anywhere(&cluster).await).await;
}

#[tokio::test]
async fn connecting_to_dead_servers_is_an_error() {
    let cluster = Cluster::start(3).await;
    for server in cluster.servers() {
        server.kill().await;
    }
    let urls = cluster.urls();
    let connecting = thread::spawn(move || {
        let builder = redquorum::Quorum::builder().nodes(urls);
        builder.connect_timeout(Duration::from_millis(300)).connect_blocking()
    });
    let error = connecting.join().unwrap().unwrap_err();
    assert!(matches!(error, Error::NoQuorum(_)), "{error}");
}
