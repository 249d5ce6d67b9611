//! Renewal, expiry and loss of leases, on real servers.
//!
//! Promises: a renewal counts only if a quorum of all configured nodes confirms it within the old validity, and
//! `lost()` is ready when the validity ends.

use std::time::{Duration, Instant};

use redquorum::{Error, LockGuard, LockOptions, RestartGuard, error::LossReason};
use redquorum_tests::{Cluster, Direction, eventually};

use super::{
    SOON, WITH_TTL, builder_behind, client, client_without_guard, hold_requests, is_locked, locked_on, loss,
    open_requests, proxies, renew_until_all_granted, wait_for_all_grants, wait_for_tombstone_of,
    wait_until_unlocked,
};

/// The additional delay with which a test may notice a timer on a machine under load.
const NOISE: Duration = Duration::from_millis(150);

/// Returns the earliest and the latest possible end of validity. The clock is read before and after the remaining time.
fn end_of(guard: &LockGuard) -> (Instant, Instant) {
    let before = Instant::now();
    let left = guard.remaining();
    (before + left, Instant::now() + left)
}

/// Three of five nodes grant the lease. Two of these three nodes are a majority of them, but no quorum of five nodes.
///
/// After the grant, the holder reaches only two of the three nodes, and another client reaches all five.
#[tokio::test]
async fn a_renewal_by_most_granting_nodes_without_a_quorum_does_not_count() {
    let cluster = Cluster::start(5).await;
    let proxies = proxies(&cluster).await;
    let holder = builder_behind(&proxies).connect().await.unwrap();
    hold_requests(&proxies[..2]);
    let lock = holder.red_lock("r").options(LockOptions::new().ttl(Duration::from_millis(1_500)));
    let guard = lock.lock().await.unwrap();
    eventually(SOON, "three nodes have granted", async || guard.node_replies().done() == 3).await;
    proxies[4].cut(Direction::Requests);
    proxies[..2].iter().for_each(|proxy| proxy.cut(Direction::Requests));
    let other = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    assert!(!guard.is_valid(), "two holders");
    assert!(other.is_valid());
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    assert!(guard.renew().await.is_err());
}

/// If a renewal arrives after the end of its lease, and the resource is free, the renewal must not lock the resource.
#[tokio::test]
async fn renewals_that_arrive_after_a_later_lease_lock_nothing() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let guard =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_secs(2))).lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    hold_requests(&proxies);
    // This renewal is held in the proxies, and arrives when the keys have expired and the resource is free.
    let renewal = guard.renew().await;
    assert!(matches!(renewal, Err(Error::NoQuorum(_))), "{renewal:?}");
    let other = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    renew_until_all_granted(&other).await;
    other.unlock().await.unwrap();
    wait_until_unlocked(&cluster, "r").await;
    open_requests(&proxies);
    assert!(!guard.is_valid());
    assert!(matches!(guard.verify().await, Err(Error::LeaseLost(_))));
    for server in cluster.servers() {
        wait_for_tombstone_of(server, "r", &guard.id().to_string()).await;
    }
    assert!(!guard.is_valid());
}

/// A renewal does not count if its answers arrive after the end of validity, even if all nodes executed it in
/// time.
#[tokio::test]
async fn a_renewal_that_is_confirmed_after_the_end_of_validity_does_not_count() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(Duration::from_millis(1_950)).connect().await.unwrap();
    let guard =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_secs(2))).lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    // The watchdog renews after 167 to 667 ms. The answers arrive after the end of validity.
    proxies.iter().for_each(|proxy| proxy.delay(Direction::Replies, Duration::from_millis(1_850)));
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    // On each connection, the answer to this lock follows the answer to the renewal.
    let barrier = quorum.red_lock("barrier").options(WITH_TTL).lock().await.unwrap();
    wait_for_all_grants(&barrier).await;
    assert_eq!(loss(guard.ensure().unwrap_err()), LossReason::Expired);
    assert_eq!(guard.remaining(), Duration::ZERO);
    wait_until_unlocked(&cluster, "r").await;
}

/// While another client holds the resource, a renewal of the old lease is a loss with the reason `Revoked`.
#[tokio::test]
async fn renewing_a_lease_that_another_client_replaced_reports_its_revocation() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let other = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    assert_eq!(loss(guard.renew().await.unwrap_err()), LossReason::Revoked);
    drop(guard);
    other.renew().await.unwrap();
    wait_for_all_grants(&other).await;
    assert_eq!(locked_on(&cluster, "r").await, [0, 1, 2]);
}

/// A renewal without a quorum deletes no key, whether the nodes refuse or their answers are lost.
#[tokio::test]
async fn a_failed_renewal_deletes_nothing_and_leaves_the_end_of_validity() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    // The restart guard would put nodes that were replicas into quarantine.
    let builder = builder_behind(&proxies).restart_guard(RestartGuard::Off);
    let quorum = builder.node_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    let (_, latest_end) = end_of(&guard);
    for server in cluster.some(0..2) {
        server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    }
    let renewal = guard.renew().await;
    assert!(matches!(renewal, Err(Error::NoQuorum(_))), "{renewal:?}");
    for server in cluster.some(0..2) {
        server.command(&["REPLICAOF", "NO", "ONE"]).await;
    }
    assert_eq!(locked_on(&cluster, "r").await, [0, 1, 2]);
    proxies[..2].iter().for_each(|proxy| proxy.cut(Direction::Replies));
    let renewal = guard.renew().await;
    assert!(matches!(renewal, Err(Error::NoQuorum(_))), "{renewal:?}");
    assert_eq!(locked_on(&cluster, "r").await, [0, 1, 2]);
    assert!(guard.is_valid());
    assert!(end_of(&guard).0 <= latest_end, "the end of validity has moved");
    assert!(client_without_guard(&cluster).await.red_lock("r").try_lock().await.unwrap().is_none());
}

/// The end of a lease depends on the client's clock, and on no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_is_announced_by_the_end_of_validity_when_all_servers_freeze() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum
        .red_lock("r")
        .options(LockOptions::new().ttl(Duration::from_millis(1_200)))
        .lock()
        .await
        .unwrap();
    // After a renewal the validity ends later than at first.
    let (_, first_end) = end_of(&guard);
    eventually(SOON, "the watchdog has renewed the lease", async || end_of(&guard).0 > first_end).await;
    for server in cluster.servers() {
        server.freeze().await;
    }
    let (_, mut end) = end_of(&guard);
    let mut lost = Box::pin(guard.lost());
    // The last renewal may succeed just before the servers freeze, so the end is read again.
    let lost = loop {
        match tokio::time::timeout(Duration::from_millis(10), &mut lost).await {
            Ok(lost) => break lost,
            Err(_) if guard.is_valid() => end = end.max(end_of(&guard).1),
            Err(_) => {}
        }
    };
    let announced = Instant::now();
    assert_eq!(lost.reason, LossReason::Expired);
    assert!(announced <= end + NOISE, "announced {:?} after the end", announced - end);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
    for server in cluster.servers() {
        server.thaw().await;
    }
    wait_until_unlocked(&cluster, "r").await;
}

/// Renewal and expiry are separate tasks. Therefore `lost()` is also ready on time if the lease is not renewed.
#[tokio::test]
async fn a_lease_without_renewal_is_lost_on_time_while_all_servers_answer() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_millis(500)).without_renewal());
    let guard = lock.lock().await.unwrap();
    let (left, seen_at) = (guard.remaining(), Instant::now());
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    let late = Instant::now().saturating_duration_since(seen_at + left);
    assert!(late <= NOISE, "announced {late:?} after the end");
    wait_until_unlocked(&cluster, "r").await;
    assert!(!is_locked(cluster.server(0), "r").await);
}
