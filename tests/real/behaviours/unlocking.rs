//! Unlocks and renewals of leases that have ended, on real servers.
//!
//! Promise: a guard changes only keys of its own lease id. Therefore a stale guard never changes the keys of the next
//! holder.

use std::time::Duration;

use redquorum::{
    LeaseId, LockGuard, LockOptions,
    error::{LossReason, NodeReply},
};
use redquorum_tests::{Cluster, eventually};

use super::{
    SOON, WITH_TTL, builder_behind, client, evalsha_calls, hash, hold_requests, locked_on, loss,
    open_requests, proxies, put_lock, renew_until_all_granted, wait_for_all_grants, wait_until_unlocked,
};

/// The ttl of the keys with the lease id of another client.
const OTHER_TTL: Duration = Duration::from_secs(20);

/// The ttl of a lease that expires in the test. The node timeout follows from the ttl, and is long enough for
/// a machine under load.
const STALE_TTL: Duration = Duration::from_millis(1500);

/// Ends a stale lease by `end`, and asserts that the keys of the next holder stay the same.
///
/// Each lease has its own lease id, so an unlock of a stale lease finds no key. Proxies hold the requests of
/// the stale holder until another client holds the resource.
async fn end_stale_lease(end: impl AsyncFn(LockGuard)) {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let lock = quorum.red_lock("r").options(LockOptions::new().ttl(STALE_TTL).without_renewal());
    let stale = lock.lock().await.unwrap();
    hold_requests(&proxies);
    let next = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    renew_until_all_granted(&next).await;
    assert!(!stale.is_valid());
    let mut before = Vec::new();
    for server in cluster.servers() {
        before.push((hash(server, "r").await, evalsha_calls(server).await));
    }
    end(stale).await;
    open_requests(&proxies);
    for (server, (fields_before, calls_before)) in cluster.servers().iter().zip(&before) {
        let has_arrived = async || evalsha_calls(server).await > *calls_before;
        eventually(SOON, "the stale unlock has arrived", has_arrived).await;
        assert_eq!(hash(server, "r").await, *fields_before, "a stale unlock changed the next holder's key");
    }
    assert_eq!(locked_on(&cluster, "r").await.len(), 3);
    next.renew().await.unwrap();
    next.unlock().await.unwrap();
    wait_until_unlocked(&cluster, "r").await;
}

#[tokio::test]
async fn unlocking_a_stale_guard_reports_the_loss_and_leaves_the_next_lease() {
    end_stale_lease(async |stale| {
        assert_eq!(loss(stale.unlock().await.unwrap_err()), LossReason::Expired);
    })
    .await;
}

#[tokio::test]
async fn dropping_a_stale_guard_leaves_the_next_lease() {
    end_stale_lease(async |stale| drop(stale)).await;
}

/// A client locks a resource twice. The drop of the guard of the first lease does not unlock the second lease.
#[tokio::test]
async fn a_stale_guard_does_not_unlock_the_next_lease_of_the_same_client() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").options(LockOptions::new().ttl(STALE_TTL).without_renewal());
    let stale = lock.lock().await.unwrap();
    stale.lost().await;
    let next = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    wait_for_all_grants(&next).await;
    assert!(next.fencing_token() > stale.fencing_token());
    drop(stale);
    // If the stale guard sent an unlock, its answer precedes the answer to this renewal on each connection.
    next.renew().await.unwrap();
    wait_for_all_grants(&next).await;
    assert_eq!(locked_on(&cluster, "r").await, [0, 1, 2]);
    assert!(next.is_valid());
}

/// If another client holds the resource, the unlock of the old guard is an error, and the keys of the other client stay
/// the same. The drop of an old guard, whose loss the client has not detected yet, does not change these keys either.
#[tokio::test]
async fn unlocking_a_resource_of_another_lease_is_an_error_and_changes_nothing() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
    let dropped =
        quorum.red_lock("dropped").options(LockOptions::new().without_renewal()).lock().await.unwrap();
    for server in cluster.servers() {
        put_lock(server, "r", "other:7", Some(OTHER_TTL)).await;
        put_lock(server, "dropped", "other:7", Some(OTHER_TTL)).await;
    }
    assert_eq!(loss(guard.unlock().await.unwrap_err()), LossReason::Revoked);
    assert!(dropped.is_valid(), "the client has detected the loss, so the test shows nothing");
    drop(dropped);
    quorum.shutdown().await;
    for server in cluster.servers() {
        assert_eq!(hash(server, "r").await, [("other:7".to_owned(), "1".to_owned())]);
        assert_eq!(hash(server, "dropped").await, [("other:7".to_owned(), "1".to_owned())]);
    }
}

/// A renewal extends a key only if the key has the lease id of the renewal. The key of another lease keeps its ttl.
#[tokio::test]
async fn a_renewal_never_extends_the_key_of_another_lease() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    put_lock(cluster.server(0), "r", "other:7", Some(OTHER_TTL)).await;
    guard.renew().await.unwrap();
    eventually(SOON, "the server has refused the renewal", async || {
        matches!(guard.node_replies().iter().next(), Some((_, NodeReply::Refused(_))))
    })
    .await;
    assert_eq!(hash(cluster.server(0), "r").await, [("other:7".to_owned(), "1".to_owned())]);
    let remaining: u128 = cluster.server(0).query(redis::cmd("PTTL").arg("r")).await;
    assert!(remaining <= OTHER_TTL.as_millis(), "extended to {remaining} ms");
}

/// A `RedLock` can lock repeatedly. Each lease has a lease id of its own, and a quorum confirms each unlock.
#[tokio::test]
async fn a_handle_locks_again_after_its_unlock() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let mut ids: Vec<LeaseId> = Vec::new();
    for _ in 0..3 {
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.holds(), 1);
        assert!(lock.try_lock().await.unwrap().is_none(), "a lock without an owner re-entered");
        assert!(!ids.contains(guard.id()));
        ids.push(guard.id().clone());
        let unlocked = guard.unlock().await.unwrap();
        assert!(unlocked.has_quorum(), "{unlocked}");
        wait_until_unlocked(&cluster, "r").await;
    }
}
