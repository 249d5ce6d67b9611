//! Groups over two quorums.

use std::time::Duration;

use redquorum::{LockOptions, MultiLock, MultiLockGuard, MultiQuorumLock, Quorum};
use redquorum_tests::{Cluster, Stopwatch};

use super::{
    super::servers::{SOON, builder, have_subscribers, put_owner},
    LONG, STRANGER, nothing_left,
};

#[tokio::test]
async fn quorums_are_locked_in_one_order_whatever_order_they_are_named_in() {
    let (eu, us) = (Cluster::start(1).await, Cluster::start(1).await);
    let (one, other) = (Region::connect(&eu, &us).await, Region::connect(&eu, &us).await);
    let group = one.group(false).lock().await.unwrap();
    assert_eq!(resources(&group), ["x", "y"]);
    group.unlock().await.unwrap();
    let reversed = other.group(true).lock().await.unwrap();
    assert_eq!(resources(&reversed), ["x", "y"]);
    let waiting = one.group(false);
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    have_subscribers(eu.server(0), "x", 1).await;
    reversed.unlock().await.unwrap();
    waiting.await.unwrap().unwrap();

    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let region = if number % 2 == 0 { &one } else { &other };
            let group = region.group(number % 4 < 2);
            tokio::spawn(async move {
                for _ in 0..10 {
                    group.lock().await.unwrap().unlock().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(SOON, task).await.expect("groups wait for each other in a circle").unwrap();
    }
}

#[tokio::test]
async fn a_group_over_two_quorums_is_given_back_as_a_whole_and_lost_with_either_of_them() {
    let ttl = Duration::from_secs(2);
    let (eu, us) = (Cluster::start(3).await, Cluster::start(3).await);
    let region = Region::connect(&eu, &us).await;
    for (cluster, taken) in [(&eu, "x"), (&us, "y")] {
        for server in cluster.servers() {
            put_owner(server, taken, STRANGER, LONG).await;
        }
        assert!(region.group(false).try_lock().await.unwrap().is_none());
        assert!(region.group(true).try_lock_for(Duration::from_millis(200)).await.unwrap().is_none());
        let (other, free) = if taken == "x" { (&us, "y") } else { (&eu, "x") };
        nothing_left(other.servers(), &[free]).await;
        for server in cluster.servers() {
            server.command(&["DEL", taken]).await;
        }
    }
    for (broken, sound, free) in [(&us, &eu, "x"), (&eu, &us, "y")] {
        let group = region.group(false).options(LockOptions::new().ttl(ttl)).lock().await.unwrap();
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
        nothing_left(sound.servers(), &[free]).await;
    }
    nothing_left(eu.servers(), &["x"]).await;
    nothing_left(us.servers(), &["y"]).await;
    region.group(true).lock().await.unwrap().unlock().await.unwrap();
}

/// The resources of the leases, in the order in which their quorums were locked.
fn resources(guard: &MultiLockGuard) -> Vec<String> {
    guard.leases().map(|lease| lease.resource().to_string()).collect()
}

/// A client of each of two quorums.
struct Region {
    eu: Quorum,
    us: Quorum,
}

impl Region {
    async fn connect(eu: &Cluster, us: &Cluster) -> Self {
        let named = async |name, cluster| builder(cluster).name(name).connect().await.unwrap();
        Self { eu: named("eu", eu).await, us: named("us", us).await }
    }

    fn group(&self, is_reversed: bool) -> MultiQuorumLock {
        let (x, y) = (self.eu.red_lock("x"), self.us.red_lock("y"));
        MultiLock::across(if is_reversed { [y, x] } else { [x, y] })
    }
}
