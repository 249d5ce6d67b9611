//! Servers that lose votes: restarted empty, flushed, or brought back to an earlier state.

use redquorum::{RestartGuard, inspection::NodeInspection};
use redquorum_tests::eventually;

use super::*;
use crate::real::behaviours::is_locked;

/// S10: the holder's lock was on nodes 0 and 1, and node 1 knows nothing of it any more.
#[tokio::test]
async fn a_server_that_was_killed_and_comes_back_empty_lets_nobody_in_beside_the_lease_that_it_forgot() {
    broken_under(&[RestartGuard::Off], async |play| {
        let scene = Scene::start(play).await;
        let held = scene.hold().await;
        scene.node_1().restart_empty().await;
        scene.gets_in_beside(&held).await
    })
    .await;
}

/// S16: neither `run_id` nor replication id tell of it, but the metadata is gone with all the rest.
#[tokio::test]
async fn a_server_that_is_flushed_lets_nobody_in_beside_the_lease_that_it_forgot() {
    for words in [&["FLUSHALL"][..], &["FLUSHDB", "ASYNC"], &["SWAPDB", "0", "1"]] {
        broken_under(&[RestartGuard::Off], async |play| {
            let scene = Scene::start(play).await;
            let held = scene.hold().await;
            scene.node_1().command(words).await;
            scene.gets_in_beside(&held).await
        })
        .await;
    }
}

/// S12: what the snapshot has of the node's metadata is an earlier incarnation's.
#[tokio::test]
async fn a_server_that_goes_back_to_a_snapshot_lets_nobody_in_beside_the_lease_that_it_forgot() {
    for is_known in [false, true] {
        broken_under(&[RestartGuard::Off], async |play| {
            let cluster = Cluster::start_with(3, ServerOptions::default().keeping_data()).await;
            // Before it was a node, or with its metadata.
            cluster.server(1).command(&["SAVE"]).await;
            let scene = Scene::on(cluster, play).await;
            if is_known {
                had(&scene.contender).await.unlock().await.unwrap();
                // Or the key would come back, and be in everybody's way.
                let is_free = async || !is_locked(scene.node_1(), "r").await;
                eventually(SOON, "node 1 has unlocked, too", is_free).await;
                scene.node_1().command(&["SAVE"]).await;
            }
            let held = scene.hold().await;
            scene.node_1().restart_keeping_data().await;
            scene.gets_in_beside(&held).await
        })
        .await;
    }
}

/// S12: two of three counters go back, and the third server, which remembers, is not there.
#[tokio::test]
async fn tokens_keep_growing_when_a_majority_goes_back_to_a_snapshot() {
    for (guard, repeats) in [(RestartGuard::PerConnection, false), (RestartGuard::Off, true)] {
        let cluster = Cluster::start_with(3, ServerOptions::default().keeping_data()).await;
        let [one, other] = two_clients(&cluster, guard).await;
        let next = async |quorum: &Quorum| {
            let guard = had(&quorum.red_lock("r")).await;
            let token = guard.fencing_token();
            guard.unlock().await.unwrap();
            token
        };
        next(&one).await;
        for server in cluster.servers() {
            // Every node has been told of it before the snapshot is taken.
            eventually(SOON, "the unlock is everywhere", async || !is_locked(server, "r").await).await;
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
        // An attempt that reaches one of them alone is lost, and would count up what it has
        // forgotten.
        eventually(SOON, "both are reached again", async || {
            let inspection = other.inspect("r").await;
            let silent = |node: &&NodeInspection| node.holder().is_err();
            inspection.is_ok_and(|inspection| inspection.nodes().filter(silent).count() == 1)
        })
        .await;
        let after = next(&other).await;
        assert_eq!(after <= last, repeats, "{after} after {last} under {guard:?}");
    }
}
