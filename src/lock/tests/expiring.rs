//! `expiring_within` of leases, of locks across quorums and of leaderships. The tests call the moment at which the
//! future becomes ready the warning.

use std::time::Duration;

use futures::FutureExt;

use super::{all_behave, client, lease_without_renewal, pass, thaw_all};
use crate::{LockOptions, MemoryCluster, MultiLock, Quorum, node::memory::Behaviour};

const TTL: Duration = Duration::from_secs(30);
/// The validity of a lease with a ttl of 30 s: the ttl minus drift (1 %) and margin (2 ms).
const VALIDITY: Duration = Duration::from_millis(29_698);
/// The remaining validity at which the warning is due.
const WARNED_AT: Duration = Duration::from_secs(6);
/// The largest delay of tokio's timers.
const TIMER_DELAY: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_lease_without_renewal_gets_the_warning_on_time() {
    let cluster = MemoryCluster::new(5);
    let start = tokio::time::Instant::now();
    let guard = lease_without_renewal(&cluster, TTL).await;
    guard.expiring_within(WARNED_AT).await;
    assert!(start.elapsed() >= VALIDITY - WARNED_AT && start.elapsed() <= VALIDITY - WARNED_AT + TIMER_DELAY);
    assert!(guard.is_valid() && guard.remaining() <= WARNED_AT, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn renewals_postpone_the_warning() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    let mut expiring = Box::pin(guard.expiring_within(WARNED_AT));
    tokio::select! {
        biased;
        () = &mut expiring => panic!("warned with {:?} remaining", guard.remaining()),
        () = pass(TTL * 5) => {}
    }
    all_behave(&cluster, &Behaviour::Hanging);
    let end = guard.active_lease().valid_until();
    expiring.await;
    assert_eq!(guard.active_lease().valid_until(), end, "a renewal has extended the lease");
    assert!(
        guard.remaining() <= WARNED_AT && guard.remaining() >= WARNED_AT - TIMER_DELAY,
        "{:?}",
        guard.remaining()
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewal_at_the_last_moment_postpones_the_warning() {
    let cluster = MemoryCluster::new(3);
    let start = tokio::time::Instant::now();
    let guard = lease_without_renewal(&cluster, TTL).await;
    let expiring = guard.expiring_within(WARNED_AT);
    let renewing = async {
        pass(VALIDITY - WARNED_AT - TIMER_DELAY).await;
        guard.renew().await.unwrap();
    };
    futures::join!(expiring, renewing);
    assert!(start.elapsed() >= 2 * (VALIDITY - WARNED_AT - TIMER_DELAY), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_warning_is_immediate_near_the_end_and_after_a_loss() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    assert_eq!(guard.expiring_within(TTL).now_or_never(), Some(()));
    assert_eq!(guard.expiring_within(Duration::MAX).now_or_never(), Some(()));
    crate::admin::force_unlock(&client(&cluster), "r").await.unwrap();
    let start = tokio::time::Instant::now();
    guard.expiring_within(WARNED_AT).await;
    assert!(start.elapsed() <= TIMER_DELAY, "{:?}", start.elapsed());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.expiring_within(Duration::ZERO).now_or_never(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn a_lock_across_quorums_gets_the_warning_of_the_first_expiring_lease() {
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
    group.expiring_within(WARNED_AT).await;
    assert!(start.elapsed() <= VALIDITY - WARNED_AT + TIMER_DELAY, "{:?}", start.elapsed());
    assert!(group.is_valid() && group.remaining() <= WARNED_AT);
}

#[tokio::test(start_paused = true)]
async fn a_leader_receives_the_warning_of_its_lease() {
    let cluster = MemoryCluster::new(3);
    let leadership =
        client(&cluster).election("e").options(LockOptions::new().ttl(TTL)).campaign("me").await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    leadership.expiring_within(WARNED_AT).await;
    assert!(leadership.is_valid() && leadership.remaining() <= WARNED_AT);
    assert_eq!(leadership.lease().expiring_within(WARNED_AT).now_or_never(), Some(()));
    thaw_all(&cluster);
}
