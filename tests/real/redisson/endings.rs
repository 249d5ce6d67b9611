//! Ends of leases of one kind while clients of the other kind wait or hold: force-unlocks, ends of ttls, and unlocks
//! and renewals by a client that does not have the lease.

use std::time::{Duration, Instant};

use redquorum::{LockOptions, Quorum, admin, error::LossReason};
use redquorum_tests::{Cluster, Direction, Proxy, Stopwatch};

use super::{
    super::{
        behaviours::loss,
        servers::{client, leases, wait_for_subscribers},
    },
    MAX_HAND_OVER, assert_prompt,
    client::{Redisson, Wake},
    redisson, wait_for_red_lock, wait_for_rlock,
};

#[tokio::test]
async fn neither_kind_can_unlock_or_renew_locks_of_the_other_kind() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let rlock = redisson.lock("r", 1);
    let red_lock = quorum.red_lock("r").lock().await.unwrap();
    let before = leases(cluster.server(0), "r").await;
    assert_eq!((rlock.unlock().await, rlock.renew().await), (None, false));
    assert_eq!(leases(cluster.server(0), "r").await, before);

    cluster.server(0).command(&["DEL", "r"]).await;
    rlock.try_lock().await.unwrap();
    assert!(red_lock.renew().await.is_err());
    assert!(!red_lock.is_valid());
    assert_eq!(loss(red_lock.unlock().await.unwrap_err()), LossReason::Revoked);
    assert_eq!(leases(cluster.server(0), "r").await, [(rlock.owner().to_owned(), 1)]);
}

#[tokio::test]
async fn admin_force_unlock_frees_an_rlock_and_wakes_its_waiter() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let holder = redisson.lock("r", 1);
    holder.try_lock().await.unwrap();
    let waiting = wait_for_rlock(redisson.lock("r", 2)).await;
    let start = Stopwatch::start();
    admin::force_unlock(&quorum, "r").await.unwrap();
    let wake = waiting.await.unwrap();
    assert_eq!(wake, Wake::Message);
    assert_prompt(start);
    assert_eq!(holder.unlock().await, None);
}

#[tokio::test]
async fn an_rlock_force_unlock_wakes_a_waiter_and_revokes_the_lease() {
    let ttl = Duration::from_secs(3);
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(ttl)).lock().await.unwrap();
    let locked = Stopwatch::start();
    let waiting = wait_for_red_lock(quorum.red_lock("r"));
    wait_for_subscribers(cluster.server(0), "r", 1).await;
    let start = Stopwatch::start();
    assert!(redisson.lock("r", 1).force_unlock().await);
    waiting.await.unwrap();
    assert_prompt(start);
    // The waiter has unlocked again. If the resource were free at the next renewal of `guard`, the renewal would
    // restore the deleted key.
    redisson.lock("r", 1).lock().await;
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    assert!(locked.undelayed() < ttl / 3 + MAX_HAND_OVER, "{locked:?}");
}

#[tokio::test]
async fn after_an_rlock_force_unlock_a_renewal_restores_the_lock_of_a_free_resource() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let guard = quorum.red_lock("r").lock().await.unwrap();
    assert!(redisson.lock("r", 1).force_unlock().await);
    guard.renew().await.unwrap();
    assert!(redisson.lock("r", 1).try_lock().await.is_err());
    assert_eq!(leases(cluster.server(0), "r").await, [(guard.id().to_string(), 1)]);
}

#[tokio::test]
async fn a_waiter_of_either_kind_locks_when_the_renewals_of_the_other_kind_end() {
    let lease = Duration::from_millis(600);
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::before(cluster.server(0)).await;
    let quorum = Quorum::builder().admit_new_nodes().nodes([proxy.url()]).connect().await.unwrap();
    let rlock = Redisson::connect(cluster.server(0), lease).await.lock("r", 1);
    rlock.try_lock().await.unwrap();
    let waiting = wait_for_red_lock(quorum.red_lock("r"));
    wait_for_subscribers(cluster.server(0), "r", 1).await;
    let start = Instant::now();
    let (mut renewed, mut watch) = (start, Stopwatch::start());
    while start.elapsed() < lease * 2 {
        tokio::time::sleep(lease / 3).await;
        (renewed, watch) = (Instant::now(), Stopwatch::start());
        assert!(rlock.renew().await, "the waiter locked a renewed resource");
    }
    let took_over = waiting.await.unwrap() - renewed;
    assert!(took_over >= lease - Duration::from_millis(5), "{took_over:?}");
    assert!(watch.undelayed() < lease + MAX_HAND_OVER, "{watch:?}");

    // The proxy discards all requests of this guard from here on.
    let _crashed = quorum.red_lock("r").options(LockOptions::new().ttl(lease)).lock().await.unwrap();
    proxy.cut(Direction::Requests);
    let locked = Stopwatch::start();
    let wake = wait_for_rlock(rlock).await.await.unwrap();
    assert_eq!(wake, Wake::Ttl);
    assert!(locked.undelayed() < lease + MAX_HAND_OVER, "{locked:?}");
}
