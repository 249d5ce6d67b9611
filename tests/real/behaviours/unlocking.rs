//! Who may unlock what.

use std::time::Duration;

use redquorum::{LockGuard, UnlockError};

use super::{
    SOON, TTL, builder_behind, calls, client, hash, hold_requests, locked_on, on_all_nodes, open_requests,
    proxies, unlocked_everywhere,
};
use crate::support::{Cluster, eventually};

/// Row D: every acquisition has an owner of its own, so the unlock of one that is over finds nothing.
///
/// Whatever the stale holder sends is held up on its way, until somebody else has the resource.
async fn end_a_stale_lease(end: impl AsyncFn(LockGuard)) {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let lock = quorum.red_lock("r").ttl(Duration::from_millis(400)).without_renewal();
    let stale = lock.lock().await.unwrap();
    hold_requests(&proxies);
    let next = client(&cluster).await.red_lock("r").ttl(TTL).lock().await.unwrap();
    on_all_nodes(&next).await;
    assert!(!stale.is_valid());
    let mut before = Vec::new();
    for server in cluster.servers() {
        before.push((hash(server, "r").await, calls(server).await));
    }
    end(stale).await;
    open_requests(&proxies);
    for (server, (owner, calls_before)) in cluster.servers().iter().zip(&before) {
        let has_come = async || calls(server).await > *calls_before;
        eventually(SOON, "the stale unlock has come", has_come).await;
        assert_eq!(hash(server, "r").await, *owner, "a stale unlock touched the next holder's key");
    }
    assert_eq!(locked_on(&cluster, "r").await.len(), 3);
    next.renew().await.unwrap();
    next.unlock().await.unwrap();
    unlocked_everywhere(&cluster, "r").await;
}

/// Row D.
#[tokio::test]
async fn unlocking_a_stale_guard_leaves_the_next_holder_alone_and_says_that_the_lease_was_lost() {
    end_a_stale_lease(async |stale| {
        let outcome = stale.unlock().await;
        assert!(matches!(outcome, Err(UnlockError::LeaseLost { .. })), "{outcome:?}");
    })
    .await;
}

/// Row D.
#[tokio::test]
async fn dropping_a_stale_guard_leaves_the_next_holder_alone() {
    end_a_stale_lease(async |stale| drop(stale)).await;
}

/// Row D: one handle, two leases: the end of the first is not the end of the second.
#[tokio::test]
async fn a_stale_guard_of_the_same_lock_and_client_does_not_unlock_the_lease_that_came_after_it() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").ttl(Duration::from_millis(300)).without_renewal();
    let stale = lock.lock().await.unwrap();
    stale.lost().await;
    let next = quorum.red_lock("r").ttl(TTL).lock().await.unwrap();
    on_all_nodes(&next).await;
    assert!(next.fencing_token() > stale.fencing_token());
    drop(stale);
    // Its answers come behind that of the unlock, if there was one, on the same connections.
    next.renew().await.unwrap();
    on_all_nodes(&next).await;
    assert_eq!(locked_on(&cluster, "r").await, [0, 1, 2]);
    assert!(next.is_valid());
}
