//! Leases with fewer keys than nodes, on real servers: late grants and renewals restore the lease on the
//! missing servers.

use std::time::Duration;

use redquorum::{LockOptions, error::NodeReply};
use redquorum_tests::{Cluster, eventually};

use super::{
    SOON, WITH_TTL, client, client_without_guard, hash, is_locked, locked_on, wait_for_all_grants,
    wait_until_unlocked,
};

/// A grant that arrives after the decision counts for the lease.
#[tokio::test]
async fn grants_that_arrive_after_the_decision_count() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    for server in cluster.some(3..5) {
        server.freeze().await;
    }
    // No renewal is sent, so only late grants can complete the lease.
    let guard = quorum.red_lock("r").options(WITH_TTL.without_renewal()).lock().await.unwrap();
    assert_eq!(guard.node_replies().done(), 3, "not held on exactly a quorum: {}", guard.node_replies());
    for server in cluster.some(3..5) {
        server.thaw().await;
    }
    wait_for_all_grants(&guard).await;
    assert_eq!(locked_on(&cluster, "r").await.len(), 5);
    // The unlock also reaches the servers whose grants came late.
    guard.unlock().await.unwrap();
    wait_until_unlocked(&cluster, "r").await;
}

/// The watchdog restores the key on servers that lost it, before the lease expires.
#[tokio::test]
async fn the_watchdog_heals_servers_that_lost_the_key() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    let ttl = Duration::from_secs(3);
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(ttl)).lock().await.unwrap();
    for server in cluster.some(0..2) {
        server.command(&["FLUSHALL"]).await;
    }
    assert_eq!(locked_on(&cluster, "r").await.len(), 3);
    eventually(ttl, "all servers have the key again", async || locked_on(&cluster, "r").await.len() == 5)
        .await;
    assert!(guard.is_valid());
    let expected = [(guard.id().to_string(), "1".to_owned())];
    assert_eq!(hash(cluster.server(0), "r").await, expected);
}

/// A renewal on request restores the key as well. The replies then show how many more servers may fail.
#[tokio::test]
async fn a_renewal_heals_servers_and_replies_show_the_margin() {
    let cluster = Cluster::start(5).await;
    let quorum = client_without_guard(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    for server in cluster.some(0..2) {
        server.command(&["FLUSHALL"]).await;
    }
    guard.renew().await.unwrap();
    eventually(SOON, "all servers have the key again", async || locked_on(&cluster, "r").await.len() == 5)
        .await;

    for server in cluster.some(3..5) {
        server.kill().await;
    }
    guard.renew().await.unwrap();
    eventually(SOON, "the replies show the dead servers", async || guard.node_replies().done() == 3).await;
    let replies = guard.node_replies();
    assert!(replies.iter().skip(3).all(|(_, reply)| matches!(reply, NodeReply::Failed(_))), "{replies}");
    assert!(guard.is_valid());
}

/// A lease survives if servers restart one after the other. The next server restarts only after a renewal has
/// restored the key on the previous server.
#[tokio::test]
async fn a_lease_survives_a_rolling_restart_of_servers_without_persistence() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_secs(3))).lock().await.unwrap();
    for server in cluster.servers() {
        server.restart_empty().await;
        eventually(SOON, "the server has the key again", async || is_locked(server, "r").await).await;
    }
    assert!(guard.is_valid());
    assert!(client(&cluster).await.red_lock("r").try_lock().await.unwrap().is_none());
}
