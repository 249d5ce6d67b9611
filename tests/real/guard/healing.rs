//! A lease that goes on while servers forget it: renewals bring it back, and count where that is
//! safe.

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

/// Renews until every server counts.
async fn counted_everywhere(guard: &LockGuard) {
    eventually(SOON, "every server counts", async || {
        guard.renew().await.unwrap();
        guard.node_replies().done() == guard.node_replies().iter().count()
    })
    .await;
}

/// The connections live on, and nothing but the metadata that is gone tells of it: one server after
/// the other.
#[tokio::test]
async fn renewals_bring_a_lease_back_to_flushed_servers_at_once_and_count_there_after_the_attempt_timeout() {
    let cluster = Cluster::start(3).await;
    let [quorum, other] = two_clients(&cluster, RestartGuard::PerConnection).await;
    let (guard, contender) = (quorum.red_lock("r").lock().await.unwrap(), other.red_lock("r"));
    counted_everywhere(&guard).await;
    for (number, server) in cluster.servers().iter().enumerate() {
        let flushed = Instant::now();
        server.command(&["FLUSHALL"]).await;
        guard.renew().await.unwrap();
        eventually(SOON, "the lock is back", async || is_locked(server, "r").await).await;
        let is_told = async || abstains(&in_order(&guard.node_replies())[number]);
        eventually(SOON, "the node is known not to count", is_told).await;
        assert!(!matches!(contender.try_lock().await, Ok(Some(_))));
        counted_everywhere(&guard).await;
        let again = flushed.elapsed();
        assert!(again >= ATTEMPT_TIMEOUT, "counted again after {again:?}");
        assert!(again < TTL, "renewals wait out the whole quarantine: {again:?}");
    }
    assert!(guard.is_valid());
    let token = guard.fencing_token();
    guard.unlock().await.unwrap();
    assert!(had(&contender).await.fencing_token() > token);
}

/// Nobody knows of the lease but its holder, who brings it back before it is over; and nobody votes
/// meanwhile.
#[tokio::test]
async fn a_lease_that_is_renewed_survives_all_servers_being_flushed_at_once_and_nobody_gets_in() {
    broken_under(&[RestartGuard::Off], async |Play { guard, .. }| {
        let cluster = Cluster::start(3).await;
        let [quorum, other] = two_clients(&cluster, guard).await;
        let held = quorum.red_lock("r").lock().await.unwrap();
        counted_everywhere(&held).await;
        join_all(cluster.servers().iter().map(|server| server.command(&["FLUSHALL"]))).await;
        let flushed = Instant::now();
        while flushed.elapsed() < TTL * 3 / 2 {
            if let Ok(Some(_guard)) = other.red_lock("r").try_lock().await {
                return Some(held.is_valid());
            }
            assert!(held.is_valid(), "{}", held.node_replies());
        }
        counted_everywhere(&held).await;
        Some(false)
    })
    .await;
}
