//! How a lease goes on, and how it ends.

use std::time::{Duration, Instant};

use redquorum::{Error, LockGuard, LockOptions, RestartGuard, error::LossReason};
use redquorum_tests::{Cluster, Direction, eventually};

use super::{
    SOON, WITH_TTL, builder_behind, client, healed_on_all_nodes, hold_requests, is_locked, locked_on, loss,
    on_all_nodes, open_requests, proxies, tombstoned_by, trusting, unlocked_everywhere,
};

/// How much later than a timer a test may notice it, on a machine that is busy with something else.
const NOISE: Duration = Duration::from_millis(150);

/// The end of a lease lies between these: the clock is read before and after what is left.
fn end_of(guard: &LockGuard) -> (Instant, Instant) {
    let before = Instant::now();
    let left = guard.remaining();
    (before + left, Instant::now() + left)
}

/// Two of the three nodes that answered at first are a majority of those three, but not of
/// the five.
///
/// The holder keeps reaching two of five; another client reaches the other three.
#[tokio::test]
async fn renewal_by_most_of_the_nodes_that_granted_is_no_quorum_so_there_are_never_two_holders() {
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

/// Once the lease is over, a renewal that arrives makes nobody a holder, though it finds the
/// keys free.
#[tokio::test]
async fn renewals_that_arrive_after_another_has_held_the_resource_revive_nothing() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let guard =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_secs(2))).lock().await.unwrap();
    on_all_nodes(&guard).await;
    hold_requests(&proxies);
    // A renewal is on its way, and will find the keys gone and the resource free.
    let renewal = guard.renew().await;
    assert!(matches!(renewal, Err(Error::NoQuorum(_))), "{renewal:?}");
    let other = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    healed_on_all_nodes(&other).await;
    other.unlock().await.unwrap();
    unlocked_everywhere(&cluster, "r").await;
    open_requests(&proxies);
    assert!(!guard.is_valid());
    assert!(matches!(guard.verify().await, Err(Error::LeaseLost(_))));
    for server in cluster.servers() {
        tombstoned_by(server, "r", &guard.id().to_string()).await;
    }
    assert!(!guard.is_valid());
}

/// A renewal that all nodes have made, in time, but that is heard of too late, is none.
#[tokio::test]
async fn a_renewal_that_is_confirmed_after_the_end_of_validity_does_not_count() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(Duration::from_millis(900)).connect().await.unwrap();
    let guard =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_secs(1))).lock().await.unwrap();
    on_all_nodes(&guard).await;
    // The watchdog asks after a third of a second, and is answered after the end.
    proxies.iter().for_each(|proxy| proxy.delay(Direction::Replies, Duration::from_millis(800)));
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    // On every connection its answers come behind those to the renewal.
    let barrier = quorum.red_lock("barrier").options(WITH_TTL).lock().await.unwrap();
    on_all_nodes(&barrier).await;
    assert_eq!(loss(guard.ensure().unwrap_err()), LossReason::Expired);
    assert_eq!(guard.remaining(), Duration::ZERO);
    unlocked_everywhere(&cluster, "r").await;
}

/// And while the other holds it, the renewal says whose it is now.
#[tokio::test]
async fn renewing_a_lease_whose_keys_another_has_now_is_a_loss_and_leaves_the_other_alone() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    on_all_nodes(&guard).await;
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let other = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    assert_eq!(loss(guard.renew().await.unwrap_err()), LossReason::Revoked);
    drop(guard);
    other.renew().await.unwrap();
    on_all_nodes(&other).await;
    assert_eq!(locked_on(&cluster, "r").await, [0, 1, 2]);
}

/// A renewal without a quorum takes nothing back, whether the nodes refuse or their answers
/// are lost.
#[tokio::test]
async fn a_renewal_that_fails_deletes_nothing_and_the_lease_stays_valid_until_its_own_end() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    // The restart guard would not let nodes vote that have been replicas.
    let builder = builder_behind(&proxies).restart_guard(RestartGuard::Off);
    let quorum = builder.node_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    on_all_nodes(&guard).await;
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
    assert!(end_of(&guard).0 <= latest_end, "its end has moved");
    assert!(trusting(&cluster).await.red_lock("r").try_lock().await.unwrap().is_none());
}

/// The end of a lease needs nobody's answer.
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
    // It is being renewed: then it ends later than it would have.
    let (_, first_end) = end_of(&guard);
    eventually(SOON, "the watchdog has renewed it", async || end_of(&guard).0 > first_end).await;
    for server in cluster.servers() {
        server.freeze().await;
    }
    let (_, mut end) = end_of(&guard);
    let mut lost = Box::pin(guard.lost());
    // A renewal may have been answered just before the servers stood still, so its end is looked at
    // again.
    let lost = loop {
        match tokio::time::timeout(Duration::from_millis(10), &mut lost).await {
            Ok(lost) => break lost,
            Err(_) if guard.is_valid() => end = end.max(end_of(&guard).1),
            Err(_) => {}
        }
    };
    let told = Instant::now();
    assert_eq!(lost.reason, LossReason::Expired);
    assert!(told <= end + NOISE, "told {:?} after the end", told - end);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
    for server in cluster.servers() {
        server.thaw().await;
    }
    unlocked_everywhere(&cluster, "r").await;
}

/// What keeps the lease valid and what ends it are two different things: without one, the
/// other still works.
#[tokio::test]
async fn a_lease_that_nobody_renews_is_lost_on_time_while_all_servers_are_well() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock =
        quorum.red_lock("r").options(LockOptions::new().ttl(Duration::from_millis(500)).without_renewal());
    let guard = lock.lock().await.unwrap();
    let (left, seen_at) = (guard.remaining(), Instant::now());
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    let late = Instant::now().saturating_duration_since(seen_at + left);
    assert!(late <= NOISE, "told {late:?} after the end");
    unlocked_everywhere(&cluster, "r").await;
    assert!(!is_locked(cluster.server(0), "r").await);
}
