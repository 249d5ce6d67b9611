//! A lease that is held on fewer servers than it could be gets back the others.

use std::time::Duration;

use redquorum::{LockOptions, error::NodeReply};
use redquorum_tests::{Cluster, eventually};

use super::{
    SOON, WITH_TTL, client, hash, is_locked, locked_on, on_all_nodes, trusting, unlocked_everywhere,
};

/// A server that grants after the decision counts for the lease from then on.
#[tokio::test]
async fn grants_that_come_after_the_decision_are_adopted() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    for server in cluster.some(3..5) {
        server.freeze().await;
    }
    // No renewal comes to help: the first is due after 20 s.
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    assert_eq!(guard.node_replies().done(), 3, "held on exactly a quorum: {}", guard.node_replies());
    for server in cluster.some(3..5) {
        server.thaw().await;
    }
    on_all_nodes(&guard).await;
    assert_eq!(locked_on(&cluster, "r").await.len(), 5);
    // And what was adopted is taken back in the end.
    guard.unlock().await.unwrap();
    unlocked_everywhere(&cluster, "r").await;
}

/// The watchdog gives the key back to servers that lost it, well before the lease could
/// suffer.
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
    eventually(ttl, "the keys are back", async || locked_on(&cluster, "r").await.len() == 5).await;
    assert!(guard.is_valid());
    let expected = [(guard.id().to_string(), "1".to_owned())];
    assert_eq!(hash(cluster.server(0), "r").await, expected);
}

/// So does a renewal on request, which also shows how many servers could still fail.
#[tokio::test]
async fn renewing_heals_servers_and_votes_show_the_margin() {
    let cluster = Cluster::start(5).await;
    let quorum = trusting(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    on_all_nodes(&guard).await;
    for server in cluster.some(0..2) {
        server.command(&["FLUSHALL"]).await;
    }
    guard.renew().await.unwrap();
    eventually(SOON, "the keys are back", async || locked_on(&cluster, "r").await.len() == 5).await;

    for server in cluster.some(3..5) {
        server.kill().await;
    }
    guard.renew().await.unwrap();
    eventually(SOON, "the replies show the dead servers", async || guard.node_replies().done() == 3).await;
    let replies = guard.node_replies();
    assert!(replies.iter().skip(3).all(|(_, reply)| matches!(reply, NodeReply::Failed(_))), "{replies}");
    assert!(guard.is_valid());
}

/// A lease survives servers that restart one after the other, as long as renewals come in between.
#[tokio::test]
async fn a_lease_survives_a_rolling_restart_of_forgetful_servers() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_secs(3))).lock().await.unwrap();
    for server in cluster.servers() {
        server.restart_empty().await;
        eventually(SOON, "the key is back", async || is_locked(server, "r").await).await;
    }
    assert!(guard.is_valid());
    let contender = client(&cluster).await;
    let patient = contender.red_lock("r").options(LockOptions::new().quorum_timeout(Duration::MAX));
    assert!(patient.try_lock().await.unwrap().is_none());
}
