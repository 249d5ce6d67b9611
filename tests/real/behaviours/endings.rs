//! The ends of leases and of clients, on real servers: by the ttl, by the end of a process, by dropped handles and by a
//! shutdown.
//!
//! Promise: after each of these ends, the resource is free at the latest one ttl later, if the servers can be reached.

use std::time::Duration;

use redquorum::{
    Error, LockOptions, Quorum,
    error::{ClosedReason, LossReason},
};
use redquorum_tests::{Cluster, Stopwatch, eventually};

use super::{
    SOON, builder_behind, client, connections, evalsha_calls, hold_requests, locked_on, loss, open_requests,
    proxies, wait_for_all_grants, wait_for_queue_entries, wait_until_unlocked,
};

/// A lease without renewal is never renewed, and the resource is free when the ttl ends.
#[tokio::test]
async fn a_fixed_lease_is_never_renewed_and_frees_on_time() {
    let cluster = Cluster::start(3).await;
    let (holder, next) = (client(&cluster).await, client(&cluster).await);
    let ttl = Duration::from_millis(900);
    let watch = Stopwatch::start();
    let guard =
        holder.red_lock("r").options(LockOptions::new().ttl(ttl).without_renewal()).lock().await.unwrap();
    let before = evalsha_calls(cluster.server(0)).await;
    tokio::time::sleep(ttl * 2 / 3).await;
    assert!(guard.is_valid());
    assert_eq!(evalsha_calls(cluster.server(0)).await, before, "a renewal was sent");
    assert!(next.red_lock("r").try_lock().await.unwrap().is_none());
    let _next = next.red_lock("r").lock().await.unwrap();
    assert!(watch.elapsed() >= ttl * 9 / 10 && watch.undelayed() < ttl + Duration::from_secs(1), "{watch:?}");
    assert_eq!(loss(guard.ensure().unwrap_err()), LossReason::Expired);
}

/// A process or runtime that ends without an unlock keeps the resource for at most one ttl.
#[tokio::test]
async fn a_holder_that_vanishes_frees_the_resource_within_one_ttl() {
    let cluster = Cluster::start(3).await;
    let ttl = Duration::from_millis(900);
    let urls = cluster.urls();
    let vanished = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let quorum = Quorum::builder().admit_new_nodes().nodes(urls).connect().await.unwrap();
            let guard = quorum.red_lock("r").options(LockOptions::new().ttl(ttl)).lock().await.unwrap();
            // Longer than the ttl, so the lease has been renewed before the process vanishes.
            tokio::time::sleep(ttl * 3 / 2).await;
            assert!(guard.is_valid());
            std::mem::forget(guard);
        });
        drop(runtime);
        Stopwatch::start()
    });
    let vanished = tokio::task::spawn_blocking(move || vanished.join().unwrap()).await.unwrap();
    assert!(!locked_on(&cluster, "r").await.is_empty(), "a vanished holder sent an unlock");
    let _guard = client(&cluster).await.red_lock("r").lock().await.unwrap();
    assert!(vanished.undelayed() < ttl + Duration::from_millis(700), "{vanished:?}");
}

/// The client sends pending unlocks even if its last handle is dropped directly after the guard.
#[tokio::test]
async fn dropping_the_last_handle_after_a_guard_still_unlocks() {
    let cluster = Cluster::start(3).await;
    for is_guard_dropped_first in [true, false] {
        let quorum = client(&cluster).await;
        let guard = quorum.red_lock("r").lock().await.unwrap();
        assert!(locked_on(&cluster, "r").await.len() >= 2);
        if is_guard_dropped_first {
            drop(guard);
            drop(quorum);
        } else {
            drop(quorum);
            drop(guard);
        }
        wait_until_unlocked(&cluster, "r").await;
        for server in cluster.servers() {
            eventually(SOON, "the connection is closed", async || connections(server).await == 0).await;
        }
    }
}

/// If the servers are unreachable when the last handle of a client is dropped, the client sends the pending unlocks
/// later.
#[tokio::test]
async fn pending_unlocks_outlive_the_last_handle_until_the_servers_are_reachable() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    hold_requests(&proxies);
    for proxy in &proxies {
        proxy.drop_connections().await;
    }
    drop(guard);
    drop(quorum);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(locked_on(&cluster, "r").await.len(), 3, "an unlock reached a server through a closed proxy");
    open_requests(&proxies);
    wait_until_unlocked(&cluster, "r").await;
}

/// A shutdown unlocks each lease before it returns. Waiting calls end, and later calls are refused.
#[tokio::test]
async fn a_shutdown_unlocks_all_leases_and_ends_all_calls() {
    let cluster = Cluster::start(3).await;
    let (quorum, other) = (client(&cluster).await, client(&cluster).await);
    let unlocked = quorum.red_lock("unlocked").lock().await.unwrap();
    let dropped = quorum.red_lock("dropped").lock().await.unwrap();
    let alive = quorum.red_lock("alive").lock().await.unwrap();
    let _held = other.red_lock("held").lock().await.unwrap();
    let waiting = quorum.red_lock("held");
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    wait_for_queue_entries(&cluster, "held", 1).await;

    unlocked.unlock().await.unwrap();
    drop(dropped);
    quorum.shutdown().await;
    for resource in ["unlocked", "dropped", "alive"] {
        assert_eq!(locked_on(&cluster, resource).await.len(), 0, "{resource} is still locked");
    }
    let closed = Error::Closed(ClosedReason::ShutDown);
    assert_eq!(waiting.await.unwrap(), Err(closed.clone()));
    assert_eq!(alive.lost().await.reason, LossReason::Closed(ClosedReason::ShutDown));
    let error = alive.unlock().await.unwrap_err();
    assert_eq!(error.to_string(), "the lease on alive is lost: the client was shut down");
    assert_eq!(loss(error), LossReason::Closed(ClosedReason::ShutDown));
    let lock = quorum.red_lock("later");
    assert_eq!(lock.lock().await.map(drop), Err(closed.clone()));
    assert_eq!(lock.try_lock().await.map(drop), Err(closed.clone()));
    assert_eq!(lock.try_lock_for(Duration::from_millis(1)).await.map(drop), Err(closed));
    quorum.shutdown().await;
    for server in cluster.servers() {
        eventually(SOON, "only the other client is connected", async || connections(server).await == 1).await;
    }
}
