//! `MultiLock::across`: groups over two quorums, on real servers.
//!
//! Promises: all clients lock the quorums in one order, a group is locked as a whole or not at all, and a group is lost
//! with the lease of either quorum.

use std::time::Duration;

use redquorum::{LockOptions, MultiLock, MultiLockGuard, MultiQuorumLock, Quorum};
use redquorum_tests::{Cluster, Stopwatch};

use super::{
    super::servers::{SOON, builder, put_lease, wait_for_subscribers},
    LONG, OTHER_ID, wait_until_unlocked,
};

#[tokio::test]
async fn quorums_are_locked_in_one_order_whatever_the_order_of_arguments() {
    let (eu, us) = (Cluster::start(1).await, Cluster::start(1).await);
    let (one, other) = (TwoRegions::connect(&eu, &us).await, TwoRegions::connect(&eu, &us).await);
    let group = one.group().lock().await.unwrap();
    assert_eq!(resources(&group), ["x", "y"]);
    group.unlock().await.unwrap();
    let reversed = other.reversed_group().lock().await.unwrap();
    assert_eq!(resources(&reversed), ["x", "y"]);
    let waiting = one.group();
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    wait_for_subscribers(eu.server(0), "x", 1).await;
    reversed.unlock().await.unwrap();
    waiting.await.unwrap().unwrap();

    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let regions = if number % 2 == 0 { &one } else { &other };
            let group = if number % 4 < 2 { regions.reversed_group() } else { regions.group() };
            tokio::spawn(async move {
                for _ in 0..10 {
                    group.lock().await.unwrap().unlock().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(SOON, task).await.expect("two groups wait for each other").unwrap();
    }
}

#[tokio::test]
async fn a_group_over_two_quorums_is_all_or_nothing_and_lost_with_either_lease() {
    let ttl = Duration::from_secs(2);
    let (eu, us) = (Cluster::start(3).await, Cluster::start(3).await);
    let regions = TwoRegions::connect(&eu, &us).await;
    for (cluster, taken) in [(&eu, "x"), (&us, "y")] {
        for server in cluster.servers() {
            put_lease(server, taken, OTHER_ID, LONG).await;
        }
        assert!(regions.group().try_lock().await.unwrap().is_none());
        assert!(regions.reversed_group().try_lock_for(Duration::from_millis(200)).await.unwrap().is_none());
        let (other, free) = if taken == "x" { (&us, "y") } else { (&eu, "x") };
        wait_until_unlocked(other.servers(), &[free]).await;
        for server in cluster.servers() {
            server.command(&["DEL", taken]).await;
        }
    }
    for (broken, sound, free) in [(&us, &eu, "x"), (&eu, &us, "y")] {
        let group = regions.group().options(LockOptions::new().ttl(ttl)).lock().await.unwrap();
        assert_eq!(resources(&group), ["x", "y"]);
        assert!(group.is_valid() && group.leases().all(|lease| lease.fencing_token().as_u64() > 0));
        let watch = Stopwatch::start();
        for server in broken.some(0..2) {
            server.freeze().await;
        }
        group.lost().await;
        assert!(watch.undelayed() <= ttl, "{watch:?}");
        assert!(!group.is_valid());
        for server in broken.some(0..2) {
            server.thaw().await;
        }
        drop(group);
        wait_until_unlocked(sound.servers(), &[free]).await;
    }
    wait_until_unlocked(eu.servers(), &["x"]).await;
    wait_until_unlocked(us.servers(), &["y"]).await;
    regions.reversed_group().lock().await.unwrap().unlock().await.unwrap();
}

/// Returns the resources of the leases, in the order in which their quorums were locked.
fn resources(guard: &MultiLockGuard) -> Vec<String> {
    guard.leases().map(|lease| lease.resource().to_string()).collect()
}

/// A process with a client of each of two quorums.
struct TwoRegions {
    eu: Quorum,
    us: Quorum,
}

impl TwoRegions {
    async fn connect(eu: &Cluster, us: &Cluster) -> Self {
        let named = async |name, cluster| builder(cluster).name(name).connect().await.unwrap();
        Self { eu: named("eu", eu).await, us: named("us", us).await }
    }

    /// Returns the group of `x` in `eu` and `y` in `us`, given in the order in which all clients lock.
    fn group(&self) -> MultiQuorumLock {
        MultiLock::across([self.eu.red_lock("x"), self.us.red_lock("y")])
    }

    /// Returns the same group as [`group`](Self::group), given in the reversed order.
    fn reversed_group(&self) -> MultiQuorumLock {
        MultiLock::across([self.us.red_lock("y"), self.eu.red_lock("x")])
    }
}
