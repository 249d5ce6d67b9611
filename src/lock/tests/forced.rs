//! Notices of force: how often they make a client ask, and that they alone end nothing.

use std::time::Duration;

use super::{client, pass, server};
use crate::{
    LockGuard, LockOptions, MemoryCluster, Quorum,
    error::LossReason,
    node::{Operation, names},
};

const TTL: Duration = Duration::from_secs(30);
const MILLISECOND: Duration = Duration::from_millis(1);

/// A client with a lease, and the channel of its notices.
struct Scene {
    cluster: MemoryCluster,
    quorum: Quorum,
    guard: LockGuard,
}

impl Scene {
    async fn new() -> Self {
        let cluster = MemoryCluster::new(5);
        let quorum = client(&cluster);
        let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
        Self { cluster, quorum, guard }
    }

    /// Publishes a notice at one node, as any program may.
    fn publish(&self, node: usize) {
        let topic = names::force_unlocked(self.quorum.client().context.lease_ids.name());
        server(&self.cluster, node).publish(&topic);
    }

    /// Publishes ten thousand notices within each second, each of which the client receives on its own.
    async fn flood(&self, seconds: u64) {
        for at in 0..10_000 * seconds {
            self.publish(usize::try_from(at % 5).unwrap());
            tokio::task::yield_now().await;
            if at % 10 == 9 {
                pass(MILLISECOND).await;
            }
        }
    }

    /// Returns the number of renewals at a node since the last call.
    fn renewals(&self) -> usize {
        let log = server(&self.cluster, 4).take_log();
        log.iter().filter(|operation| matches!(operation, Operation::Renew(_))).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_notices_costs_few_renewals_and_no_lease() {
    let scene = Scene::new().await;
    scene.flood(1).await;
    let renewals = scene.renewals();
    assert!((2..=10).contains(&renewals), "{renewals} in the first second");
    scene.flood(10).await;
    let renewals = scene.renewals();
    assert!((10..=22).contains(&renewals), "{renewals} in ten seconds more");
    assert!(scene.guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_notice_after_quiet_is_answered_at_once_also_after_a_flood() {
    let scene = Scene::new().await;
    for _ in 0..3 {
        scene.flood(1).await;
        pass(TTL / 10).await;
        scene.renewals();
        scene.publish(0);
        pass(MILLISECOND).await;
        assert_eq!(scene.renewals(), 1);
    }
}

/// Each time, force falls into the time after an answer in which no other is given.
#[tokio::test(start_paused = true)]
async fn the_last_notice_of_a_burst_is_not_lost() {
    for notices in [1, 2, 3, 10, 100, 1_000] {
        let scene = Scene::new().await;
        for at in 0..notices {
            scene.publish(at % 5);
            pass(MILLISECOND).await;
        }
        let start = tokio::time::Instant::now();
        crate::admin::force_unlock(&client(&scene.cluster), "r").await.unwrap();
        // The watchdog has something else to do while the notice waits: each is renewed sooner.
        let mut others = Vec::new();
        for share in 2..9 {
            tokio::task::yield_now().await;
            let other =
                scene.quorum.red_lock(format!("other {share}")).options(LockOptions::new().ttl(TTL / share));
            others.push(other.lock().await.unwrap());
        }
        assert_eq!(scene.guard.lost().await.reason, LossReason::Revoked);
        assert!(start.elapsed() <= TTL / 60, "{notices}: {:?}", start.elapsed());
    }
}

/// The nodes have different latencies, so their notices of one force-unlock arrive one by one.
#[tokio::test(start_paused = true)]
async fn the_notices_of_several_nodes_are_answered_about_as_soon_as_they_come() {
    let scene = Scene::new().await;
    let start = tokio::time::Instant::now();
    for node in 0..5 {
        scene.publish(node);
        pass(MILLISECOND * 4).await;
    }
    crate::admin::force_unlock(&client(&scene.cluster), "r").await.unwrap();
    scene.guard.lost().await;
    assert!(start.elapsed() <= MILLISECOND * 80, "{:?}", start.elapsed());
}
