//! Who may unlock what.

use std::time::Duration;

use redquorum::{
    LeaseId, LockGuard, LockOptions,
    error::{LossReason, NodeReply},
};
use redquorum_tests::{Cluster, eventually};

use super::{
    SOON, WITH_TTL, builder_behind, calls, client, hash, healed_on_all_nodes, hold_as, hold_requests,
    locked_on, loss, on_all_nodes, open_requests, proxies, unlocked_everywhere,
};

/// Of a lock that somebody else is given.
const OTHERS_TTL: Duration = Duration::from_secs(20);

/// The ttl of a lease that ends. Its node timeout follows it, and is long enough for a machine under load.
const STALE_TTL: Duration = Duration::from_millis(1500);

/// Every acquisition has an owner of its own, so the unlock of one that is over finds
/// nothing.
///
/// Whatever the stale holder sends is held up on its way, until somebody else has the resource.
async fn end_a_stale_lease(end: impl AsyncFn(LockGuard)) {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let lock = quorum.red_lock("r").options(LockOptions::new().ttl(STALE_TTL).without_renewal());
    let stale = lock.lock().await.unwrap();
    hold_requests(&proxies);
    let next = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    healed_on_all_nodes(&next).await;
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

#[tokio::test]
async fn unlocking_a_stale_guard_leaves_the_next_holder_alone_and_says_that_the_lease_was_lost() {
    end_a_stale_lease(async |stale| {
        assert_eq!(loss(stale.unlock().await.unwrap_err()), LossReason::Expired);
    })
    .await;
}

#[tokio::test]
async fn dropping_a_stale_guard_leaves_the_next_holder_alone() {
    end_a_stale_lease(async |stale| drop(stale)).await;
}

/// One handle, two leases: the end of the first is not the end of the second.
#[tokio::test]
async fn a_stale_guard_of_the_same_lock_and_client_does_not_unlock_the_lease_that_came_after_it() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").options(LockOptions::new().ttl(STALE_TTL).without_renewal());
    let stale = lock.lock().await.unwrap();
    stale.lost().await;
    let next = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    on_all_nodes(&next).await;
    assert!(next.fencing_token() > stale.fencing_token());
    drop(stale);
    // Its answers come behind that of the unlock, if there was one, on the same connections.
    next.renew().await.unwrap();
    on_all_nodes(&next).await;
    assert_eq!(locked_on(&cluster, "r").await, [0, 1, 2]);
    assert!(next.is_valid());
}

/// A guard whose lease is somebody else's by now gets an error for its unlock, and the other
/// keeps the lock. So it does when the guard is dropped without a look at what became of its lease.
#[tokio::test]
async fn unlocking_what_is_anothers_by_now_is_an_error_and_leaves_it_alone() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
    let dropped =
        quorum.red_lock("dropped").options(LockOptions::new().without_renewal()).lock().await.unwrap();
    for server in cluster.servers() {
        hold_as(server, "r", "other:7", Some(OTHERS_TTL)).await;
        hold_as(server, "dropped", "other:7", Some(OTHERS_TTL)).await;
    }
    assert_eq!(loss(guard.unlock().await.unwrap_err()), LossReason::Revoked);
    assert!(dropped.is_valid(), "it has not noticed");
    drop(dropped);
    quorum.shutdown().await;
    for server in cluster.servers() {
        assert_eq!(hash(server, "r").await, [("other:7".to_owned(), "1".to_owned())]);
        assert_eq!(hash(server, "dropped").await, [("other:7".to_owned(), "1".to_owned())]);
    }
}

/// A renewal extends a key only for its owner. What is another's keeps the ttl that the
/// other gave it.
#[tokio::test]
async fn a_renewal_never_extends_a_key_that_is_anothers() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    hold_as(cluster.server(0), "r", "other:7", Some(OTHERS_TTL)).await;
    guard.renew().await.unwrap();
    eventually(SOON, "the reply of the server is known", async || {
        matches!(guard.node_replies().iter().next(), Some((_, NodeReply::Refused(_))))
    })
    .await;
    assert_eq!(hash(cluster.server(0), "r").await, [("other:7".to_owned(), "1".to_owned())]);
    let remaining: u128 = cluster.server(0).query(redis::cmd("PTTL").arg("r")).await;
    assert!(remaining <= OTHERS_TTL.as_millis(), "extended to {remaining} ms");
}

/// A handle can be used again and again; every lease has an id of its own, and its unlock is confirmed.
#[tokio::test]
async fn one_handle_locks_unlocks_and_locks_again() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let mut ids: Vec<LeaseId> = Vec::new();
    for _ in 0..3 {
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.holds(), 1);
        assert!(lock.try_lock().await.unwrap().is_none(), "a lock is not re-entrant by accident");
        assert!(!ids.contains(guard.id()));
        ids.push(guard.id().clone());
        let unlocked = guard.unlock().await.unwrap();
        assert!(unlocked.has_quorum(), "{unlocked}");
        unlocked_everywhere(&cluster, "r").await;
    }
}
