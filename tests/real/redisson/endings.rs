//! How the locks of one kind of client end under the hands of the other.

use std::time::{Duration, Instant};

use redquorum::{LockOptions, Quorum, admin, error::LossReason};
use redquorum_tests::{Cluster, Direction, Proxy, Stopwatch};

use super::{
    super::{
        behaviours::loss,
        servers::{client, have_subscribers, owners},
    },
    AT_ONCE, at_once,
    client::{Redisson, Wake},
    redisson, wait_of_ours, wait_of_theirs,
};

#[tokio::test]
async fn neither_can_unlock_or_renew_what_the_other_holds() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let theirs = redisson.lock("r", 1);
    let ours = quorum.red_lock("r").lock().await.unwrap();
    let before = owners(cluster.server(0), "r").await;
    assert_eq!((theirs.unlock().await, theirs.renew().await), (None, false));
    assert_eq!(owners(cluster.server(0), "r").await, before);

    cluster.server(0).command(&["DEL", "r"]).await;
    theirs.try_lock().await.unwrap();
    assert!(ours.renew().await.is_err());
    assert!(!ours.is_valid());
    assert_eq!(loss(ours.unlock().await.unwrap_err()), LossReason::Revoked);
    assert_eq!(owners(cluster.server(0), "r").await, [(theirs.owner().to_owned(), 1)]);
}

#[tokio::test]
async fn our_force_unlock_frees_its_lock_and_wakes_its_waiter() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let holder = redisson.lock("r", 1);
    holder.try_lock().await.unwrap();
    let waiting = wait_of_theirs(redisson.lock("r", 2)).await;
    let start = Stopwatch::start();
    admin::force_unlock(&quorum, "r").await.unwrap();
    let wake = waiting.await.unwrap();
    assert_eq!(wake, Wake::Message);
    at_once(start);
    assert_eq!(holder.unlock().await, None);
}

#[tokio::test]
async fn its_force_unlock_frees_our_lock_wakes_our_waiter_and_our_guard_learns_it_at_its_next_renewal() {
    let ttl = Duration::from_secs(3);
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(ttl)).lock().await.unwrap();
    let locked = Stopwatch::start();
    let ours = wait_of_ours(quorum.red_lock("r"));
    have_subscribers(cluster.server(0), "r", 1).await;
    let start = Stopwatch::start();
    assert!(redisson.lock("r", 1).force_unlock().await);
    ours.await.unwrap();
    at_once(start);
    // The waiter's guard is gone again; somebody has to hold the resource, or the renewal heals
    // what was deleted.
    redisson.lock("r", 1).lock().await;
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    assert!(locked.undelayed() < ttl / 3 + AT_ONCE, "{locked:?}");
}

#[tokio::test]
async fn its_force_unlock_is_healed_by_our_next_renewal_if_nobody_holds_the_resource_then() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let guard = quorum.red_lock("r").lock().await.unwrap();
    assert!(redisson.lock("r", 1).force_unlock().await);
    guard.renew().await.unwrap();
    assert!(redisson.lock("r", 1).try_lock().await.is_err());
    assert_eq!(owners(cluster.server(0), "r").await, [(guard.id().to_string(), 1)]);
}

#[tokio::test]
async fn each_takes_over_when_the_lease_of_the_other_ends_and_not_before_its_renewals_do() {
    let lease = Duration::from_millis(600);
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::before(cluster.server(0)).await;
    let quorum = Quorum::builder().admit_new_nodes().nodes([proxy.url()]).connect().await.unwrap();
    let theirs = Redisson::connect(cluster.server(0), lease).await.lock("r", 1);
    theirs.try_lock().await.unwrap();
    let ours = wait_of_ours(quorum.red_lock("r"));
    have_subscribers(cluster.server(0), "r", 1).await;
    let start = Instant::now();
    let (mut renewed, mut watch) = (start, Stopwatch::start());
    while start.elapsed() < lease * 2 {
        tokio::time::sleep(lease / 3).await;
        (renewed, watch) = (Instant::now(), Stopwatch::start());
        assert!(theirs.renew().await, "ours came in between");
    }
    let took_over = ours.await.unwrap() - renewed;
    assert!(took_over >= lease - Duration::from_millis(5), "{took_over:?}");
    assert!(watch.undelayed() < lease + AT_ONCE, "{watch:?}");

    // Nothing comes any more of this guard.
    let _crashed = quorum.red_lock("r").options(LockOptions::new().ttl(lease)).lock().await.unwrap();
    proxy.cut(Direction::Requests);
    let locked = Stopwatch::start();
    let wake = wait_of_theirs(theirs).await.await.unwrap();
    assert_eq!(wake, Wake::Ttl);
    assert!(locked.undelayed() < lease + AT_ONCE, "{locked:?}");
}
