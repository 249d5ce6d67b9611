//! Promoted replicas, and masters that were replicas for a while. Both have the data of another server.
//!
//! Promise: a restart guard detects the change, and the node abstains for a quarantine. One exception: `PerConnection`
//! does not detect that a master was a replica of its own replica, if no client called it in this time.
//! Numbers such as S19 are those of the scenarios in `docs/SIMULATION.md`.

use redquorum::{
    RestartGuard,
    error::{NodeError, NodeReply, Refusal},
};
use redquorum_tests::eventually;

use super::*;

/// Starts three nodes, and a fourth server that is no node.
async fn cluster(options: ServerOptions) -> Cluster {
    // With a delay of zero, a full synchronization begins at once. By default, the master waits for more replicas.
    Cluster::start_with(4, options.config("repl-diskless-sync-delay", "0")).await
}

/// Makes one server a replica of another, and waits until the replica has all data.
async fn follow(replica: &Server, master: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]).await;
    eventually(SOON, "the replica has its master's data", async || {
        let offset = async |server: &Server, field| server.info_field("replication", field).await;
        replica.info("replication").await.contains("master_link_status:up")
            && offset(replica, "slave_repl_offset").await == offset(master, "master_repl_offset").await
    })
    .await;
}

/// Starts a scenario in which server 3 is a replica of node 1 and has its metadata.
async fn with_replica(options: ServerOptions, variant: impl Into<Variant>) -> Scenario {
    let cluster = cluster(options).await;
    // Before the registration, because the replication id of a master changes with its first replica.
    follow(cluster.server(3), cluster.server(1)).await;
    let scenario = Scenario::on(cluster, variant).await;
    follow(scenario.cluster.server(3), scenario.node_1()).await;
    scenario
}

/// Makes a replica a master.
async fn promote(replica: &Server) {
    replica.command(&["REPLICAOF", "NO", "ONE"]).await;
}

/// S13: the replica gets the address of node 1, but does not have the holder's vote. Persistence on disk does not
/// change this.
#[tokio::test]
async fn a_promoted_replica_without_the_last_vote_admits_no_second_holder() {
    for options in [ServerOptions::default(), ServerOptions::persistent()] {
        assert_exclusion_broken_under(&[RestartGuard::Off], async |variant| {
            let scenario = with_replica(options.clone(), variant).await;
            let replica = scenario.cluster.server(3);
            // From here on, the replica receives no further votes.
            promote(replica).await;
            let held = scenario.hold().await;
            scenario.node_1().kill().await;
            scenario.proxy_1.lead_to(replica);
            scenario.second_holder_overlaps(&held).await
        })
        .await;
    }
}

/// S15: node 1 gets the data of another server. Server 2 is a node and has node metadata, server 3 has none. The
/// `run_id` and the connections of node 1 stay.
#[tokio::test]
async fn a_node_that_was_a_replica_of_another_server_admits_no_second_holder() {
    for master in [2, 3] {
        assert_exclusion_broken_under(&[RestartGuard::Off], async |variant| {
            let scenario = Scenario::on(cluster(ServerOptions::default()).await, variant).await;
            let held = scenario.hold().await;
            let run_id = scenario.node_1().run_id().await;
            follow(scenario.node_1(), scenario.cluster.server(master)).await;
            promote(scenario.node_1()).await;
            assert_eq!(scenario.node_1().run_id().await, run_id);
            scenario.second_holder_overlaps(&held).await
        })
        .await;
    }
}

/// The node abstains in its first answer, over a connection from before the change.
#[tokio::test]
async fn the_first_vote_of_a_node_that_was_a_replica_is_an_abstention() {
    for guard in [RestartGuard::PerConnection, RestartGuard::PerVote] {
        let scenario = Scenario::on(cluster(ServerOptions::default()).await, guard).await;
        let held = scenario.hold().await;
        follow(scenario.node_1(), scenario.cluster.server(3)).await;
        promote(scenario.node_1()).await;
        let reply = scenario.reply_of_node_1().await;
        assert!(matches!(reply, NodeReply::Refused(Refusal::Quarantined { .. })), "{reply}");
        assert!(held.is_valid());
    }
}

/// Node 1 follows its own outdated replica for a while, and becomes a master again. The replica has the node metadata
/// of node 1, so only the replication id reveals the change.
struct RoundTrip {
    scenario: Scenario,
    held: LockGuard,
}

impl RoundTrip {
    /// Starts the scenario up to the state in which node 1 is a replica.
    async fn as_replica(variant: Variant) -> Self {
        let scenario = with_replica(ServerOptions::default(), variant).await;
        let replica = scenario.cluster.server(3);
        promote(replica).await;
        let held = scenario.hold().await;
        follow(scenario.node_1(), replica).await;
        Self { scenario, held }
    }

    /// Makes node 1 a master again, and lets the second client contend.
    async fn second_holder_overlaps(self) -> Option<bool> {
        promote(self.scenario.node_1()).await;
        self.scenario.second_holder_overlaps(&self.held).await
    }
}

/// `PerConnection` checks the replication id at the registration of a connection, and `PerVote` in each call.
/// `PerVote` is for deployments with proxies, or where operators change roles.
#[tokio::test]
async fn only_per_vote_detects_a_round_trip_without_calls() {
    assert_exclusion_broken_under(&[RestartGuard::PerConnection, RestartGuard::Off], async |variant| {
        RoundTrip::as_replica(variant).await.second_holder_overlaps().await
    })
    .await;
}

#[tokio::test]
async fn the_next_connection_detects_a_round_trip() {
    assert_exclusion_broken_under(&[RestartGuard::Off], async |variant| {
        let trip = RoundTrip::as_replica(variant).await;
        trip.scenario.node_1().command(&["CLIENT", "KILL", "TYPE", "NORMAL"]).await;
        trip.second_holder_overlaps().await
    })
    .await;
}

/// If a client calls while the server is a replica, the refusal ends the connection, and the next
/// registration detects the change.
#[tokio::test]
async fn a_call_to_the_replica_detects_a_round_trip() {
    assert_exclusion_broken_under(&[RestartGuard::Off], async |variant| {
        let trip = RoundTrip::as_replica(variant).await;
        let reply = trip.scenario.reply_of_node_1().await;
        // The server takes too long to become a replica, and has not refused yet.
        if reply == NodeReply::Failed(NodeError::TimedOut) {
            return None;
        }
        let abstains = matches!(reply, NodeReply::Refused(Refusal::Quarantined { .. }));
        assert!(
            reply == NodeReply::Failed(NodeError::ReadOnly)
                || (abstains && variant.guard == RestartGuard::PerVote),
            "{reply}"
        );
        trip.second_holder_overlaps().await
    })
    .await;
}

/// A known limitation: the replication id of a master changes with its first replica, so the node goes into
/// quarantine although it has forgotten nothing.
#[tokio::test]
async fn a_node_with_its_first_replica_is_quarantined_at_the_next_registration() {
    let scenario = Scenario::on(cluster(ServerOptions::default()).await, RestartGuard::PerConnection).await;
    follow(scenario.cluster.server(3), scenario.node_1()).await;
    assert_eq!(scenario.reply_of_node_1().await, NodeReply::Done);
    scenario.node_1().command(&["CLIENT", "KILL", "TYPE", "NORMAL"]).await;
    let abstains =
        async || matches!(scenario.reply_of_node_1().await, NodeReply::Refused(Refusal::Quarantined { .. }));
    eventually(SOON, "the node is in quarantine", abstains).await;
    eventually(SOON, "the node votes again", async || scenario.reply_of_node_1().await == NodeReply::Done)
        .await;
}
