//! Leases whose keys a server loses by a flush. The next renewal restores the key, and renewals count on that node
//! after the attempt timeout, before the end of the quarantine.

use std::time::Instant;

use redquorum::{
    RestartGuard,
    error::{NodeReply, Refusal},
};
use redquorum_tests::eventually;

use super::*;
use crate::real::behaviours::{in_order, is_locked};

fn abstains(reply: &NodeReply) -> bool {
    matches!(reply, NodeReply::Refused(Refusal::Quarantined { .. }))
}

/// Renews until the lease counts on each server.
async fn renew_until_counted(guard: &LockGuard) {
    eventually(SOON, "the lease counts on each server", async || {
        guard.renew().await.unwrap();
        guard.node_replies().done() == guard.node_replies().iter().count()
    })
    .await;
}

/// A flush leaves the connections open, so only the missing node metadata reveals the loss. Each server is
/// flushed in turn.
#[tokio::test]
async fn renewals_restore_a_flushed_lease_at_once_and_count_after_the_attempt_timeout() {
    let cluster = Cluster::start(3).await;
    let [quorum, other] = two_clients(&cluster, RestartGuard::PerConnection).await;
    let (guard, contender) = (quorum.red_lock("r").lock().await.unwrap(), other.red_lock("r"));
    renew_until_counted(&guard).await;
    for (number, server) in cluster.servers().iter().enumerate() {
        let flushed = Instant::now();
        server.command(&["FLUSHALL"]).await;
        guard.renew().await.unwrap();
        eventually(SOON, "the server has the lock again", async || is_locked(server, "r").await).await;
        let does_abstain = async || abstains(&in_order(&guard.node_replies())[number]);
        eventually(SOON, "the renewal reports the abstention", does_abstain).await;
        assert!(!matches!(contender.try_lock().await, Ok(Some(_))));
        renew_until_counted(&guard).await;
        let took = flushed.elapsed();
        assert!(took >= ATTEMPT_TIMEOUT, "renewals counted again after {took:?}");
        assert!(took < TTL, "renewals did not count before the end of the quarantine: {took:?}");
    }
    assert!(guard.is_valid());
    let token = guard.fencing_token();
    guard.unlock().await.unwrap();
    assert!(lock_eventually(&contender).await.fencing_token() > token);
}

/// After the flush, no server has a key of the lease. The renewals of the holder restore the keys before the validity
/// ends. In this time, the nodes abstain.
#[tokio::test]
async fn a_renewed_lease_survives_a_flush_of_all_servers_without_a_second_holder() {
    assert_exclusion_broken_under(&[RestartGuard::Off], async |Variant { guard, .. }| {
        let cluster = Cluster::start(3).await;
        let [quorum, other] = two_clients(&cluster, guard).await;
        let held = quorum.red_lock("r").lock().await.unwrap();
        renew_until_counted(&held).await;
        join_all(cluster.servers().iter().map(|server| server.command(&["FLUSHALL"]))).await;
        let flushed = Instant::now();
        while flushed.elapsed() < TTL * 3 / 2 {
            if let Ok(Some(_guard)) = other.red_lock("r").try_lock().await {
                return Some(held.is_valid());
            }
            assert!(held.is_valid(), "{}", held.node_replies());
        }
        renew_until_counted(&held).await;
        Some(false)
    })
    .await;
}
