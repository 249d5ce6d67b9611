//! Servers that lose votes: restarted empty, flushed, or restored from a snapshot.
//!
//! Promises: with a restart guard, no second client locks while a lease is valid that a node has forgotten. Tokens grow
//! even if a majority of nodes forgets counters.
//! Numbers such as S19 are those of the scenarios in `docs/SIMULATION.md`.

use redquorum::{RestartGuard, inspection::NodeInspection};
use redquorum_tests::eventually;

use super::*;
use crate::real::behaviours::is_locked;

/// S10: the holder's lock is on nodes 0 and 1, and node 1 restarts without it.
#[tokio::test]
async fn a_server_that_restarts_empty_admits_no_second_holder() {
    assert_exclusion_broken_under(&[RestartGuard::Off], async |variant| {
        let scenario = Scenario::start(variant).await;
        let held = scenario.hold().await;
        scenario.node_1().restart_empty().await;
        scenario.second_holder_overlaps(&held).await
    })
    .await;
}

/// S16: neither the `run_id` nor the replication id changes. The missing node metadata reveals the loss.
#[tokio::test]
async fn a_flushed_server_admits_no_second_holder() {
    for words in [&["FLUSHALL"][..], &["FLUSHDB", "ASYNC"], &["SWAPDB", "0", "1"]] {
        // A Redis Cluster has one database.
        if words[0] == "SWAPDB" && Kind::choose() == Kind::RedisClusters {
            continue;
        }
        assert_exclusion_broken_under(&[RestartGuard::Off], async |variant| {
            let scenario = Scenario::start(variant).await;
            let held = scenario.hold().await;
            scenario.node_1().command(words).await;
            scenario.second_holder_overlaps(&held).await
        })
        .await;
    }
}

/// S12: the snapshot has no node metadata, or the metadata of an earlier incarnation.
#[tokio::test]
async fn a_server_restored_from_a_snapshot_admits_no_second_holder() {
    for has_metadata in [false, true] {
        assert_exclusion_broken_under(&[RestartGuard::Off], async |variant| {
            let cluster = Cluster::start_with(3, ServerOptions::default().keeping_data()).await;
            // This snapshot is from before the registration, so it has no node metadata.
            cluster.server(1).command(&["SAVE"]).await;
            let scenario = Scenario::on(cluster, variant).await;
            if has_metadata {
                lock_eventually(&scenario.contender).await.unlock().await.unwrap();
                // The snapshot must not have a key that locks the resource.
                let is_free = async || !is_locked(scenario.node_1(), "r").await;
                eventually(SOON, "node 1 is unlocked", is_free).await;
                scenario.node_1().command(&["SAVE"]).await;
            }
            let held = scenario.hold().await;
            scenario.node_1().restart_keeping_data().await;
            scenario.second_holder_overlaps(&held).await
        })
        .await;
    }
}

/// S12: two of three counters go back. The third server, whose counter is current, is dead.
#[tokio::test]
async fn tokens_keep_growing_after_a_majority_is_restored_from_a_snapshot() {
    for (guard, is_repeated) in [(RestartGuard::PerConnection, false), (RestartGuard::Off, true)] {
        let cluster = Cluster::start_with(3, ServerOptions::default().keeping_data()).await;
        let [one, other] = two_clients(&cluster, guard).await;
        let next = async |quorum: &Quorum| {
            let guard = lock_eventually(&quorum.red_lock("r")).await;
            let token = guard.fencing_token();
            guard.unlock().await.unwrap();
            token
        };
        next(&one).await;
        for server in cluster.servers() {
            // Each snapshot must include the first token.
            eventually(SOON, "the server is unlocked", async || !is_locked(server, "r").await).await;
            server.command(&["SAVE"]).await;
        }
        for _ in 0..3 {
            next(&one).await;
        }
        let last = next(&one).await;
        cluster.server(2).kill().await;
        for server in cluster.some(0..2) {
            server.restart_keeping_data().await;
        }
        // An attempt that reaches only one server would fail, but would raise the counter of this server above the
        // forgotten value.
        eventually(SOON, "the client reaches both servers again", async || {
            let inspection = other.inspect("r").await;
            let has_failed = |node: &&NodeInspection| node.holder().is_err();
            inspection.is_ok_and(|inspection| inspection.nodes().filter(has_failed).count() == 1)
        })
        .await;
        let after = next(&other).await;
        assert_eq!(after <= last, is_repeated, "{after} after {last} under {guard:?}");
    }
}
