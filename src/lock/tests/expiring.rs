//! The warning before the end of a lease.

use std::time::Duration;

use futures::FutureExt;

use super::{all_behave, client, lease_without_renewal, pass, thaw_all};
use crate::{LockOptions, MemoryCluster, MultiLock, Quorum, node::memory::Behaviour};

const TTL: Duration = Duration::from_secs(30);
/// 30 s less one percent and 2 ms.
const WINDOW: Duration = Duration::from_millis(29_698);
const LEFT: Duration = Duration::from_secs(6);
/// The largest delay of tokio's timers.
const GRANULE: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn the_warning_arrives_at_its_time_for_a_lease_without_renewal() {
    let cluster = MemoryCluster::new(5);
    let start = tokio::time::Instant::now();
    let guard = lease_without_renewal(&cluster, TTL).await;
    guard.expiring_within(LEFT).await;
    assert!(start.elapsed() >= WINDOW - LEFT && start.elapsed() <= WINDOW - LEFT + GRANULE);
    assert!(guard.is_valid() && guard.remaining() <= LEFT, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn renewals_postpone_the_warning() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    let mut expiring = Box::pin(guard.expiring_within(LEFT));
    tokio::select! {
        biased;
        () = &mut expiring => panic!("{:?} are left", guard.remaining()),
        () = pass(TTL * 5) => {}
    }
    all_behave(&cluster, &Behaviour::Hanging);
    let end = guard.active_lease().valid_until();
    expiring.await;
    assert_eq!(guard.active_lease().valid_until(), end, "nothing was renewed");
    assert!(guard.remaining() <= LEFT && guard.remaining() >= LEFT - GRANULE, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_at_the_last_moment_postpones_the_warning() {
    let cluster = MemoryCluster::new(3);
    let start = tokio::time::Instant::now();
    let guard = lease_without_renewal(&cluster, TTL).await;
    let expiring = guard.expiring_within(LEFT);
    let renewing = async {
        pass(WINDOW - LEFT - GRANULE).await;
        guard.renew().await.unwrap();
    };
    futures::join!(expiring, renewing);
    assert!(start.elapsed() >= 2 * (WINDOW - LEFT - GRANULE), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_warning_arrives_at_once_if_little_is_left_or_after_a_loss() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    assert_eq!(guard.expiring_within(TTL).now_or_never(), Some(()));
    assert_eq!(guard.expiring_within(Duration::MAX).now_or_never(), Some(()));
    crate::admin::force_unlock(&client(&cluster), "r").await.unwrap();
    let start = tokio::time::Instant::now();
    guard.expiring_within(LEFT).await;
    assert!(start.elapsed() <= GRANULE, "{:?}", start.elapsed());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.expiring_within(Duration::ZERO).now_or_never(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn the_first_lease_of_a_group_to_expire_counts() {
    let clusters = [MemoryCluster::new(3), MemoryCluster::new(3)];
    let eu = Quorum::builder().name("eu").connect_in_memory(&clusters[0]).unwrap();
    let us = Quorum::builder().name("us").connect_in_memory(&clusters[1]).unwrap();
    let group = MultiLock::across([eu.red_lock("a"), us.red_lock("b")])
        .options(LockOptions::new().ttl(TTL))
        .lock()
        .await
        .unwrap();
    all_behave(&clusters[1], &Behaviour::Hanging);
    let start = tokio::time::Instant::now();
    group.expiring_within(LEFT).await;
    assert!(start.elapsed() <= WINDOW - LEFT + GRANULE, "{:?}", start.elapsed());
    assert!(group.is_valid() && group.remaining() <= LEFT);
}

#[tokio::test(start_paused = true)]
async fn a_leader_receives_the_warning_of_its_lease() {
    let cluster = MemoryCluster::new(3);
    let leadership =
        client(&cluster).election("e").options(LockOptions::new().ttl(TTL)).campaign("me").await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    leadership.expiring_within(LEFT).await;
    assert!(leadership.is_valid() && leadership.remaining() <= LEFT);
    assert_eq!(leadership.lease().expiring_within(LEFT).now_or_never(), Some(()));
    thaw_all(&cluster);
}
