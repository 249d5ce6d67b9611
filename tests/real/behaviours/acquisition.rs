//! The validity of acquired leases, and attempts with dead nodes, on real servers.
//!
//! Promises: no lease is returned after its validity has ended, a dead minority changes nothing, and with a dead
//! majority an attempt is an error and leaves no key.

use std::time::{Duration, Instant};

use redquorum::{Error, LockOptions, error::NodeReply};
use redquorum_tests::{Cluster, Direction, eventually};

use super::{
    SOON, WITH_TTL, builder, builder_behind, client, for_each, in_order, is_locked, proxies, replies_of,
    wait_until_unlocked,
};

/// A validity whose end has passed is zero. The computation must not underflow to a large remaining time.
///
/// Proxies delay the replies, for shorter and for longer than the ttl. If a lease is returned, its validity ends at
/// most `WINDOW` after the begin of the call.
#[tokio::test]
async fn a_lease_whose_validity_ended_while_nodes_stalled_is_not_returned() {
    /// The ttl.
    const SHORT: Duration = Duration::from_millis(300);
    /// The validity: the ttl less one percent and 2 ms.
    const WINDOW: Duration = Duration::from_millis(295);
    let cluster = Cluster::start(3).await;
    for stall in [0, 150, 285, 295, 310, 900].map(Duration::from_millis) {
        let proxies = proxies(&cluster).await;
        let quorum = builder_behind(&proxies).connect().await.unwrap();
        for_each(&proxies[1..], |proxy| proxy.delay(Direction::Replies, stall));
        let options = LockOptions::new().ttl(SHORT).without_renewal();
        let lock = quorum.red_lock("r").options(options.node_timeout(SHORT - Duration::from_millis(1)));
        let begin = Instant::now();
        match lock.try_lock().await {
            Ok(Some(guard)) => {
                let left = guard.remaining();
                // The elapsed time is read after the remaining time, so their sum may only be too large.
                let end = begin.elapsed() + left;
                assert!(stall < WINDOW, "stalled for {stall:?}, and still valid for {left:?}");
                let noise = Duration::from_millis(50);
                assert!(end <= WINDOW + noise, "valid until {end:?} after the call");
            }
            Ok(None) => panic!("the resource is held, although no other client contends for it"),
            Err(error) => assert!(stall >= Duration::from_millis(150), "stalled for {stall:?}: {error}"),
        }
        wait_until_unlocked(&cluster, "r").await;
    }
}

/// The validity is checked after the last vote, so votes that arrive after its end grant nothing.
///
/// Because the drift is large, the validity ends long before the keys expire. The rollback has to delete the
/// keys.
#[tokio::test]
async fn an_attempt_that_outlasts_its_validity_is_an_error_and_leaves_no_key() {
    let ttl = Duration::from_secs(2);
    let window = Duration::from_millis(1_018);
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).drift(0.49).connect().await.unwrap();
    let lock = quorum
        .red_lock("r")
        .options(LockOptions::new().ttl(ttl).without_renewal().node_timeout(Duration::from_millis(1_500)));
    for_each(&proxies, |proxy| proxy.delay(Direction::Replies, Duration::from_millis(1_300)));
    let begin = Instant::now();
    let outcome = lock.try_lock().await;
    let took = begin.elapsed();
    let Err(Error::NoQuorum(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains(", and no validity was left before they had answered; "), "{error}");
    assert!(!error.is_quarantined() && error.retry_after().is_none(), "{error}");
    assert!(took >= window, "the attempt ended after {took:?}");
    wait_until_unlocked(&cluster, "r").await;
    assert!(begin.elapsed() < ttl, "the keys may have expired by their ttl");
}

/// One node is dead before the client connects, and a second dies under the lease. The living nodes are a quorum.
#[tokio::test]
async fn a_dead_minority_changes_nothing() {
    let cluster = Cluster::start(5).await;
    cluster.server(0).kill().await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").options(WITH_TTL);
    for _ in 0..20 {
        let guard = lock.lock().await.unwrap();
        guard.renew().await.unwrap();
        guard.unlock().await.unwrap();
    }
    let guard = lock.lock().await.unwrap();
    cluster.server(1).kill().await;
    guard.renew().await.unwrap();
    assert!(guard.is_valid());
    assert!(client(&cluster).await.red_lock("r").try_lock().await.unwrap().is_none());
    let unlocked = guard.unlock().await.unwrap();
    assert_eq!((unlocked.done(), unlocked.iter().count()), (3, 5), "{unlocked}");
    for _ in 0..20 {
        let guard = lock.try_lock().await.unwrap().unwrap();
        guard.unlock().await.unwrap();
    }
    for server in cluster.some(2..5) {
        assert!(!is_locked(server, "r").await);
    }
}

/// A dead majority is reported at once, and the attempt leaves no key on the living node.
#[tokio::test]
async fn a_dead_majority_is_an_error_and_leaves_no_key_on_living_nodes() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).connect().await.unwrap();
    cluster.server(0).kill().await;
    cluster.server(1).kill().await;
    let replies = replies_of(quorum.red_lock("r").options(WITH_TTL).try_lock().await.unwrap_err());
    // The two dead nodes decide the attempt, so the reply of the living node may still be outstanding.
    assert!(matches!(in_order(&replies)[2], NodeReply::Done | NodeReply::Pending), "{replies}");
    let barrier = quorum.red_lock("barrier").try_lock().await;
    assert!(barrier.is_err(), "{barrier:?}");
    let what = "the living node has no key";
    eventually(SOON, what, async || !is_locked(cluster.server(2), "r").await).await;
}
