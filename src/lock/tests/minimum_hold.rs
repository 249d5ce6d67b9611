//! The minimum hold: resources that stay taken after the end of their lease.

use std::time::Duration;

use super::{NONE, client, locked_nodes, pass, server};
use crate::{
    LockOptions, MemoryCluster, MultiLock, Owner, Quorum,
    error::{ConfigError, Error, LossReason},
    node::memory::Behaviour,
};

const MINIMUM: Duration = Duration::from_secs(50);
const KEPT: LockOptions = LockOptions::new().hold_at_least(MINIMUM);

/// A time that is longer than the difference between the minimum hold and the ends of its keys.
const SLACK: Duration = Duration::from_secs(1);

async fn is_free(quorum: &Quorum) -> bool {
    quorum.red_lock("r").try_lock().await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn an_unlock_keeps_the_resource_for_the_rest_of_its_minimum_hold() {
    let cluster = MemoryCluster::new(3);
    let [job, other] = [client(&cluster), client(&cluster)];
    let guard = job.red_lock("r").options(KEPT).lock().await.unwrap();
    pass(Duration::from_secs(10)).await;
    let lease = guard.lease();
    assert!(guard.unlock().await.unwrap().has_quorum());
    assert!(!lease.is_valid());
    pass(MINIMUM - Duration::from_secs(10) - SLACK).await;
    assert!(!is_free(&other).await && !is_free(&job).await);
    pass(2 * SLACK).await;
    assert!(is_free(&other).await);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_keeps_the_resource_and_a_longer_hold_ends_at_its_unlock() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    drop(quorum.red_lock("r").options(KEPT).lock().await.unwrap());
    pass(MINIMUM - SLACK).await;
    assert!(!is_free(&quorum).await);
    pass(2 * SLACK).await;
    let guard = quorum.red_lock("r").options(KEPT).lock().await.unwrap();
    pass(MINIMUM + SLACK).await;
    assert!(guard.is_valid());
    guard.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_keeps_the_resource_for_its_minimum_hold() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let options = KEPT.hold_at_most(Duration::from_secs(5));
    let guard = quorum.red_lock("r").options(options).lock().await.unwrap();
    assert_eq!(guard.lost().await.reason, LossReason::HoldLimit);
    pass(MINIMUM - Duration::from_secs(5) - SLACK).await;
    assert!(!is_free(&quorum).await);
    pass(2 * SLACK).await;
    assert!(is_free(&quorum).await);
}

#[tokio::test(start_paused = true)]
async fn a_minimum_hold_counts_from_the_first_hold_and_begins_to_matter_at_the_last_unlock() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let lock = quorum.red_lock("r").options(KEPT).owned_by(&Owner::new());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    inner.unlock().await.unwrap();
    assert!(outer.is_valid());
    outer.unlock().await.unwrap();
    pass(MINIMUM - SLACK).await;
    assert!(!is_free(&quorum).await);
    pass(2 * SLACK).await;
    assert!(is_free(&quorum).await);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_ends_a_minimum_hold() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.red_lock("r").options(KEPT).lock().await.unwrap().unlock().await.unwrap();
    assert!(!is_free(&quorum).await);
    crate::admin::force_unlock(&quorum, "r").await.unwrap();
    assert!(is_free(&quorum).await);
    // The force-unlock of a lease that lives ends its minimum hold, too, also on a node that it did not reach.
    let guard = quorum.red_lock("r").options(KEPT).lock().await.unwrap();
    server(&cluster, 2).behave(Behaviour::Hanging);
    crate::admin::force_unlock(&quorum, "r").await.unwrap();
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    super::thaw_all(&cluster);
    pass(SLACK).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_and_a_downgrade_keep_nothing() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    super::all_behave(&cluster, &Behaviour::Hanging);
    let lock = quorum.red_lock("r").options(KEPT.quorum_timeout(Duration::from_secs(1)));
    assert!(matches!(lock.lock().await, Err(Error::NoQuorum(_))));
    super::thaw_all(&cluster);
    pass(SLACK).await;
    assert_eq!(locked_nodes(&cluster), NONE);
    let writer = quorum.rw_lock("r").options(KEPT).write().await.unwrap();
    writer.downgrade().await.unwrap().unlock().await.unwrap();
    pass(SLACK).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_group_and_a_permit_stay_taken_for_their_minimum_hold() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.multi_lock(["r", "s"]).options(KEPT).lock().await.unwrap().unlock().await.unwrap();
    let semaphore = quorum.semaphore("p", 1).options(KEPT);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    pass(MINIMUM - SLACK).await;
    assert!(!is_free(&quorum).await && quorum.red_lock("s").try_lock().await.unwrap().is_none());
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    pass(2 * SLACK).await;
    assert!(is_free(&quorum).await && semaphore.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn calls_that_cannot_keep_a_minimum_hold_refuse_the_option() {
    let quorum = client(&MemoryCluster::new(3));
    let across = MultiLock::across([quorum.multi_lock(["r"])]).options(KEPT);
    let election = quorum.election("e").options(KEPT);
    let refusals = [
        quorum.rw_lock("r").options(KEPT).read().await.err(),
        quorum.multi_lock(["r"]).and_read(["s"]).options(KEPT).lock().await.err(),
        across.lock().await.err(),
        quorum.semaphore("p", 2).options(KEPT).acquire_many(2).await.err(),
        election.campaign("v").await.err(),
        election.observe().err(),
    ];
    for refused in refusals {
        assert!(matches!(refused, Some(Error::Config(ConfigError::Unsupported { .. }))), "{refused:?}");
    }
}
