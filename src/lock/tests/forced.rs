//! Notices of force-unlocks. When a client receives a notice, the client renews its leases, and the renewal shows
//! whether a lease is revoked. A notice alone ends no lease.

use std::time::Duration;

use super::{client, pass, server};
use crate::{
    LockGuard, LockOptions, MemoryCluster, Quorum,
    error::LossReason,
    node::{Operation, names},
};

const TTL: Duration = Duration::from_secs(30);
const MILLISECOND: Duration = Duration::from_millis(1);

/// A client with a lease on `r` at five nodes.
struct Fixture {
    cluster: MemoryCluster,
    quorum: Quorum,
    guard: LockGuard,
}

impl Fixture {
    async fn new() -> Self {
        let cluster = MemoryCluster::new(5);
        let quorum = client(&cluster);
        let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
        Self { cluster, quorum, guard }
    }

    /// Publishes a notice of a force-unlock at one node. Any program can publish such a notice.
    fn publish(&self, node: usize) {
        let topic = names::force_unlocked(self.quorum.client().context.lease_ids.name());
        server(&self.cluster, node).publish(&topic);
    }

    /// Publishes 10,000 notices per second for this number of seconds, in turn at the five nodes. The client receives
    /// each notice separately.
    async fn flood(&self, seconds: u64) {
        for at in 0..10_000 * seconds {
            self.publish(usize::try_from(at % 5).unwrap());
            tokio::task::yield_now().await;
            if at % 10 == 9 {
                pass(MILLISECOND).await;
            }
        }
    }

    /// Returns the number of renewals at node 4 since the last call of this function.
    fn take_renewals(&self) -> usize {
        let log = server(&self.cluster, 4).take_log();
        log.iter().filter(|operation| matches!(operation, Operation::Renew(_))).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_notices_causes_few_renewals_and_no_loss() {
    let fixture = Fixture::new().await;
    fixture.flood(1).await;
    let renewals = fixture.take_renewals();
    assert!((2..=10).contains(&renewals), "{renewals} renewals in the first second");
    fixture.flood(10).await;
    let renewals = fixture.take_renewals();
    assert!((10..=22).contains(&renewals), "{renewals} renewals in ten more seconds");
    assert!(fixture.guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_notice_after_quiet_causes_a_renewal_at_once() {
    let fixture = Fixture::new().await;
    for _ in 0..3 {
        fixture.flood(1).await;
        pass(TTL / 10).await;
        fixture.take_renewals();
        fixture.publish(0);
        pass(MILLISECOND).await;
        assert_eq!(fixture.take_renewals(), 1);
    }
}

/// The notice of the force-unlock follows the burst within the delay of the rate limit, so the renewal for this
/// notice is delayed.
#[tokio::test(start_paused = true)]
async fn the_last_notice_of_a_burst_causes_a_renewal() {
    for notices in [1, 2, 3, 10, 100, 1_000] {
        let fixture = Fixture::new().await;
        for at in 0..notices {
            fixture.publish(at % 5);
            pass(MILLISECOND).await;
        }
        let start = tokio::time::Instant::now();
        crate::admin::force_unlock(&client(&fixture.cluster), "r").await.unwrap();
        // During the delay, the client acquires further leases. Each further lease has a shorter ttl, so its renewal is
        // due before the renewals of the earlier leases.
        let mut further_guards = Vec::new();
        for share in 2..9 {
            tokio::task::yield_now().await;
            let lock = fixture
                .quorum
                .red_lock(format!("other {share}"))
                .options(LockOptions::new().ttl(TTL / share));
            further_guards.push(lock.lock().await.unwrap());
        }
        assert_eq!(fixture.guard.lost().await.reason, LossReason::Revoked);
        assert!(start.elapsed() <= TTL / 60, "after {notices} notices: {:?}", start.elapsed());
    }
}

/// Nodes with different latencies send the notices of one force-unlock at different times. The test publishes notices
/// of five nodes 4 ms apart before the force-unlock.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_within_80_ms_if_notices_arrive_a_few_ms_apart() {
    let fixture = Fixture::new().await;
    let start = tokio::time::Instant::now();
    for node in 0..5 {
        fixture.publish(node);
        pass(MILLISECOND * 4).await;
    }
    crate::admin::force_unlock(&client(&fixture.cluster), "r").await.unwrap();
    fixture.guard.lost().await;
    assert!(start.elapsed() <= MILLISECOND * 80, "{:?}", start.elapsed());
}
