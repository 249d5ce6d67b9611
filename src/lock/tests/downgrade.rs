//! The downgrade of a write lease to a read lease.

use std::time::Duration;

use futures::FutureExt;

use super::{NONE, all_behave, client, locked_nodes, pass, server, thaw_all};
use crate::{
    LockOptions, MemoryCluster, Owner, ReadGuard, Resource,
    error::{ClosedReason, ConfigError, Error, LossReason, NodeError},
    node::memory::Behaviour,
};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_downgrade_admits_waiting_readers_before_waiting_writers() {
    let cluster = MemoryCluster::new(3);
    let [downgrading, reader, writer] = std::array::from_fn(|_| client(&cluster).rw_lock("r"));
    let guard = downgrading.write().await.unwrap();
    let written = guard.fencing_token();
    let reading = tokio::spawn(async move { reader.read().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    let lease = guard.lease();
    let guard = guard.downgrade().await.unwrap();
    assert!(!lease.is_valid() && guard.fencing_token() > written);
    let reader_guard = reading.await.unwrap();
    pass(TTL * 2).await;
    assert!(guard.is_valid() && reader_guard.is_valid() && !writing.is_finished());
    drop((guard, reader_guard));
    assert!(writing.await.unwrap().fencing_token() > written);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_with_a_hanging_node_succeeds_and_leaves_no_key_there() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).rw_lock("r");
    let guard = lock.write().await.unwrap();
    server(&cluster, 2).behave(Behaviour::Hanging);
    let guard = guard.downgrade().await.unwrap();
    assert!(guard.is_valid());
    thaw_all(&cluster);
    pass(Duration::from_secs(1)).await;
    guard.unlock().await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_without_a_quorum_unlocks_both_leases() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).rw_lock("r");
    let guard = lock.write().await.unwrap();
    let lease = guard.lease();
    all_behave(&cluster, &Behaviour::Hanging);
    assert!(matches!(guard.downgrade().await, Err(Error::NoQuorum(_))));
    assert!(!lease.is_valid());
    thaw_all(&cluster);
    pass(Duration::from_secs(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_downgraded_lease_ends_at_the_hold_limit_of_the_write_lease() {
    let cluster = MemoryCluster::new(3);
    let at_most = Duration::from_secs(10);
    let start = tokio::time::Instant::now();
    let lock = client(&cluster).rw_lock("r").options(LockOptions::new().hold_at_most(at_most));
    let guard = lock.write().await.unwrap();
    pass(at_most / 2).await;
    let guard = guard.downgrade().await.unwrap();
    let lost = tokio::time::timeout(TTL, guard.lost()).await.expect("the read lease has no limit");
    assert_eq!(lost.reason, LossReason::HoldLimit);
    assert!(start.elapsed() <= at_most, "{:?}", start.elapsed());
}

/// Nodes 0 and 1 have not executed the transfer, so they still have the key of the write lease.
#[tokio::test(start_paused = true)]
async fn a_failed_downgrade_unlocks_the_write_lease_at_nodes_without_the_transfer() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).rw_lock("r").write().await.unwrap();
    for node in 0..5 {
        let failure = Behaviour::Failing(NodeError::CallFailed("ERR upstream failure".into()));
        server(&cluster, node).behave(if node < 2 { failure } else { Behaviour::Hanging });
    }
    let downgrading = tokio::spawn(guard.downgrade());
    pass(Duration::from_millis(10)).await;
    assert!(!downgrading.is_finished());
    server(&cluster, 0).behave(Behaviour::Granting);
    server(&cluster, 1).behave(Behaviour::Granting);
    assert_eq!(locked_nodes(&cluster), [0, 1, 2, 3, 4]);
    assert!(matches!(downgrading.await.unwrap(), Err(Error::NoQuorum(_))));
    thaw_all(&cluster);
    pass(Duration::from_secs(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_fails_if_the_write_lease_expires_meanwhile() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).rw_lock("r").options(LockOptions::new().without_renewal());
    let guard = lock.write().await.unwrap();
    pass(guard.remaining() - Duration::from_millis(10)).await;
    all_behave(&cluster, &Behaviour::Hanging);
    let mut downgrade = Box::pin(guard.downgrade());
    assert!((&mut downgrade).now_or_never().is_none());
    pass(Duration::from_millis(20)).await;
    thaw_all(&cluster);
    assert!(downgrade.await.is_err());
    pass(Duration::from_secs(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_downgrade_leaves_no_key() {
    let cluster = MemoryCluster::new(3);
    let lock = client(&cluster).rw_lock("r");
    let guard = lock.write().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    let mut downgrade = Box::pin(guard.downgrade());
    assert!((&mut downgrade).now_or_never().is_none());
    drop(downgrade);
    thaw_all(&cluster);
    pass(Duration::from_secs(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlocked_writer_cannot_downgrade() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let guard = quorum.rw_lock("r").write().await.unwrap();
    crate::admin::force_unlock(&quorum, "r").await.unwrap();
    assert_eq!(loss_reason(guard.downgrade().await), LossReason::Revoked);
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// Returns the reason for which a downgrade lost the lease. Panics if the downgrade has another outcome.
fn loss_reason(downgraded: Result<ReadGuard, Error>) -> LossReason {
    match downgraded {
        Err(Error::LeaseLost(lost)) => lost.reason,
        other => panic!("the lease is not lost: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_at_its_hold_limit_cannot_downgrade() {
    let lock = client(&MemoryCluster::new(3)).rw_lock("r").options(LockOptions::new().hold_at_most(TTL));
    let guard = lock.write().await.unwrap();
    pass(TTL).await;
    assert_eq!(loss_reason(guard.downgrade().await), LossReason::HoldLimit);
}

#[tokio::test(start_paused = true)]
async fn an_owner_can_downgrade_only_its_last_hold() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let lock = client(&cluster).rw_lock("r").owned_by(&owner);
    let (outer, inner) = (lock.write().await.unwrap(), lock.write().await.unwrap());
    let refused = ConfigError::HeldMoreThanOnce { resource: Resource::new("r").unwrap(), holds: 2 };
    assert_eq!(inner.downgrade().await.unwrap_err(), refused.into());
    assert_eq!((outer.is_valid(), outer.holds()), (true, 1));
    let reader = outer.downgrade().await.unwrap();
    let again = lock.read().await.unwrap();
    assert_eq!(again.fencing_token(), reader.fencing_token());
    assert!(matches!(lock.write().await, Err(Error::Config(ConfigError::WouldDeadlock { .. }))));
    drop((reader, again));
    assert!(lock.try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_behind_an_unpolled_call_of_the_owner_ends_with_the_client() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let lock = quorum.rw_lock("r").owned_by(&Owner::new());
    let guard = lock.write().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    let mut entered = Box::pin(lock.write());
    assert!((&mut entered).now_or_never().is_none());
    let mut downgrading = Box::pin(guard.downgrade());
    assert!((&mut downgrading).now_or_never().is_none());
    // The stall watchdog does not roll `entered` back, because no time passes.
    quorum.client().close();
    let downgraded = downgrading.now_or_never().expect("the downgrade waits for the entered call");
    assert_eq!(loss_reason(downgraded), LossReason::Closed(ClosedReason::ShutDown));
    drop(entered);
}
