//! Shutdowns during lock calls, on real servers.
//!
//! Promises: a shutdown rolls back attempts in flight, and leaves no key on servers that answer. If the lease is
//! unlocked on a quorum, the shutdown waits for the other servers for at most its grace.

use std::time::Duration;

use futures::future::join_all;
use redquorum::{Error, Quorum, error::ClosedReason};
use redquorum_tests::{Cluster, Server, eventually};

/// The deadline of an effect that has to happen at once, on a machine under load.
const SOON: Duration = Duration::from_secs(10);

/// Whether any server has a key with this prefix.
async fn is_locked_anywhere(cluster: &Cluster, prefix: &str) -> bool {
    for server in cluster.servers() {
        if server.keys().await.iter().any(|key| key.starts_with(prefix)) {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_in_flight_are_rolled_back() {
    let cluster = Cluster::start(3).await;
    for round in 0..40 {
        let quorum = Quorum::builder().admit_new_nodes().nodes(cluster.urls()).connect().await.unwrap();
        let lock = quorum.red_lock(format!("lock:{round}"));
        let (locked, shutdown) = tokio::join!(lock.try_lock(), quorum.shutdown());
        assert!(shutdown.is_complete(), "{shutdown}");
        match locked {
            Ok(Some(guard)) => assert!(!guard.is_valid(), "a lease outlived the shutdown"),
            Ok(None) => panic!("the resource is held, although no other client contends for it"),
            Err(error) => assert_eq!(error, Error::Closed(ClosedReason::ShutDown)),
        }
        assert!(!is_locked_anywhere(&cluster, "lock:").await, "round {round} left a key");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_an_attempt_that_is_not_polled() {
    let cluster = Cluster::start(3).await;
    let quorum = Quorum::builder().admit_new_nodes().nodes(cluster.urls()).connect().await.unwrap();
    let lock = quorum.red_lock("lock:r");
    // If the servers were not frozen, the votes could arrive before the first poll returns.
    join_all(cluster.servers().iter().map(Server::freeze)).await;
    let mut attempt = Box::pin(lock.try_lock());
    assert!(futures::poll!(&mut attempt).is_pending());
    join_all(cluster.servers().iter().map(Server::thaw)).await;
    eventually(SOON, "the first server has granted", async || is_granted(&cluster).await).await;
    let mut shutdown = Box::pin(quorum.shutdown());
    let early = tokio::time::timeout(Duration::from_millis(300), &mut shutdown).await;
    assert!(early.is_err(), "the shutdown did not wait for the attempt");
    drop(attempt);
    shutdown.await;
    assert!(!is_locked_anywhere(&cluster, "lock:").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_waits_for_frozen_servers_is_rolled_back_at_once() {
    let cluster = Cluster::start(3).await;
    let (ttl, max_ttl) = (Duration::from_secs(20), Duration::from_secs(20));
    let quorum = Quorum::builder()
        .admit_new_nodes()
        .nodes(cluster.urls())
        .ttl(ttl)
        .max_ttl(max_ttl)
        .node_timeout(Duration::from_secs(2))
        .connect()
        .await
        .unwrap();
    for frozen in cluster.some(1..3) {
        frozen.freeze().await;
    }
    let lock = quorum.red_lock("lock:r");
    let locking = tokio::spawn(async move { lock.try_lock().await.map(drop) });
    eventually(SOON, "the first server has granted", async || is_granted(&cluster).await).await;
    let closing = tokio::spawn(async move { quorum.shutdown().await });
    assert_eq!(locking.await.unwrap(), Err(Error::Closed(ClosedReason::ShutDown)));
    eventually(SOON, "the attempt is rolled back on that server", async || !is_granted(&cluster).await).await;
    for frozen in cluster.some(1..3) {
        frozen.thaw().await;
    }
    eventually(SOON, "the attempt is rolled back on all servers", async || {
        !is_locked_anywhere(&cluster, "lock:").await
    })
    .await;
    closing.await.unwrap();
    assert!(!is_locked_anywhere(&cluster, "lock:").await);
}

/// Whether the first server has granted the lock.
async fn is_granted(cluster: &Cluster) -> bool {
    cluster.server(0).keys().await.iter().any(|key| key == "lock:r")
}

/// A shutdown must end in time before Kubernetes kills the process, also during a rolling restart, which has one server
/// down at a time.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_its_grace_for_a_dead_or_frozen_server() {
    for fault in ["killed", "frozen"] {
        let cluster = Cluster::start(5).await;
        let quorum = Quorum::builder().admit_new_nodes().nodes(cluster.urls()).connect().await.unwrap();
        let guard = quorum.red_lock("lock:r").lock().await.unwrap();
        eventually(SOON, "the last server has granted", async || {
            cluster.server(4).keys().await.iter().any(|key| key == "lock:r")
        })
        .await;
        match fault {
            "killed" => cluster.server(4).kill().await,
            _ => cluster.server(4).freeze().await,
        }
        guard.unlock().await.unwrap();
        let grace = Duration::from_millis(500);
        let shutdown = tokio::time::timeout(SOON, quorum.shutdown_within(grace)).await;
        let shutdown = shutdown.unwrap_or_else(|_| panic!("{fault}: no end within {SOON:?}"));
        let unconfirmed: Vec<(&str, String)> =
            shutdown.unconfirmed().map(|(node, resources)| (node, format!("{resources:?}"))).collect();
        let address = cluster.server(4).address();
        assert_eq!(unconfirmed, [(&*address, "[\"lock:r\"]".to_owned())], "{fault}");
        assert!(!shutdown.is_complete() && shutdown.stalled_calls() == 0, "{fault}");
        if fault == "frozen" {
            // The pending unlock is still sent in the background.
            cluster.server(4).thaw().await;
            eventually(SOON, "the server is unlocked", async || !is_locked_anywhere(&cluster, "lock:").await)
                .await;
        }
    }
}
