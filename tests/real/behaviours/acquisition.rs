//! When a lock is taken, and when it only seems to be.

use std::time::{Duration, Instant};

use redquorum::{Error, LockOptions, error::NodeReply};
use redquorum_tests::{Cluster, Direction, eventually};

use super::{
    SOON, WITH_TTL, all, builder, builder_behind, client, in_order, is_locked, proxies, replies_of,
    unlocked_everywhere,
};

/// What is left of a ttl is never the difference of two times in the wrong order.
///
/// Replies are held back for shorter and longer than the whole ttl. If there is a lease at all, it
/// ends within one window of the moment before the call.
#[tokio::test]
async fn a_lease_whose_window_passed_while_nodes_stalled_is_never_returned_as_valid() {
    const SHORT: Duration = Duration::from_millis(300);
    /// The ttl less one percent and 2 ms.
    const WINDOW: Duration = Duration::from_millis(295);
    let cluster = Cluster::start(3).await;
    for stall in [0, 150, 285, 295, 310, 900].map(Duration::from_millis) {
        let proxies = proxies(&cluster).await;
        let quorum = builder_behind(&proxies).connect().await.unwrap();
        all(&proxies[1..], |proxy| proxy.delay(Direction::Replies, stall));
        let options = LockOptions::new().ttl(SHORT).without_renewal();
        let lock = quorum.red_lock("r").options(options.node_timeout(SHORT - Duration::from_millis(1)));
        let begin = Instant::now();
        match lock.try_lock().await {
            Ok(Some(guard)) => {
                let left = guard.remaining();
                // Only now, so that the two together can only be too long.
                let end = begin.elapsed() + left;
                assert!(stall < WINDOW, "stalled for {stall:?}, and still valid for {left:?}");
                let noise = Duration::from_millis(50);
                assert!(end <= WINDOW + noise, "valid until {end:?} after the call");
            }
            Ok(None) => panic!("nobody else wants the resource"),
            Err(error) => assert!(stall >= Duration::from_millis(150), "stalled for {stall:?}: {error}"),
        }
        unlocked_everywhere(&cluster, "r").await;
    }
}

/// The validity is looked at last, so votes that come after its end are worth nothing.
///
/// The drift is large, so that the lease ends long before the keys do: what removes them is the
/// rollback.
#[tokio::test]
async fn a_lock_that_expired_while_it_was_being_taken_is_an_error_and_leaves_no_key() {
    let ttl = Duration::from_secs(2);
    let window = Duration::from_millis(1_018);
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).drift(0.49).connect().await.unwrap();
    let lock = quorum
        .red_lock("r")
        .options(LockOptions::new().ttl(ttl).without_renewal().node_timeout(Duration::from_millis(1_500)));
    all(&proxies, |proxy| proxy.delay(Direction::Replies, Duration::from_millis(1_300)));
    let begin = Instant::now();
    let outcome = lock.try_lock().await;
    let took = begin.elapsed();
    let Err(Error::NoQuorum(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains(", and no validity was left before they had answered; "), "{error}");
    assert!(!error.is_quarantined() && error.retry_after().is_none(), "{error}");
    assert!(took >= window, "given up after {took:?}");
    unlocked_everywhere(&cluster, "r").await;
    assert!(begin.elapsed() < ttl, "gone, but perhaps with the ttl");
}

/// Nodes that are down are outvoted, from the connection to the unlock.
#[tokio::test]
async fn a_minority_of_dead_nodes_changes_nothing() {
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

/// And a majority of them is told, at once, without keys on the living.
#[tokio::test]
async fn a_majority_of_dead_nodes_is_no_quorum_and_leaves_no_key_on_the_living() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).connect().await.unwrap();
    cluster.server(0).kill().await;
    cluster.server(1).kill().await;
    let replies = replies_of(quorum.red_lock("r").options(WITH_TTL).try_lock().await.unwrap_err());
    // The other two decide it, so the living node may not even be waited for.
    assert!(matches!(in_order(&replies)[2], NodeReply::Done | NodeReply::Pending), "{replies}");
    let barrier = quorum.red_lock("barrier").try_lock().await;
    assert!(barrier.is_err(), "{barrier:?}");
    let what = "no key is left on the living node";
    eventually(SOON, what, async || !is_locked(cluster.server(2), "r").await).await;
}
