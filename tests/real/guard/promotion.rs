//! Replicas that take the place of their master, and masters that have been replicas: their data
//! are another server's.

use redquorum::{
    RestartGuard,
    error::{NodeError, NodeReply, Refusal},
};
use redquorum_tests::eventually;

use super::*;

/// Three nodes and a server that is none.
async fn cluster(options: ServerOptions) -> Cluster {
    // Without the delay before a full synchronization, in case that more replicas come.
    Cluster::start_with(4, options.config("repl-diskless-sync-delay", "0")).await
}

/// Makes one server a replica of another, and waits until it has all of its data.
async fn follow(replica: &Server, master: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]).await;
    eventually(SOON, "the replica has its master's data", async || {
        let offset = async |server: &Server, field| server.info_field("replication", field).await;
        replica.info("replication").await.contains("master_link_status:up")
            && offset(replica, "slave_repl_offset").await == offset(master, "master_repl_offset").await
    })
    .await;
}

/// Server 3 is a replica of node 1 and has its metadata.
async fn with_replica(options: ServerOptions, play: impl Into<Play>) -> Scene {
    let cluster = cluster(options).await;
    // Before it is a node: a master's replication id changes with its first replica.
    follow(cluster.server(3), cluster.server(1)).await;
    let scene = Scene::on(cluster, play).await;
    follow(scene.cluster.server(3), scene.node_1()).await;
    scene
}

async fn promote(replica: &Server) {
    replica.command(&["REPLICAOF", "NO", "ONE"]).await;
}

/// S13: the replica has not been told of the vote when it takes over the address. That servers keep
/// every vote on disk is no help.
#[tokio::test]
async fn a_promoted_replica_lets_nobody_in_beside_a_lease_that_it_was_not_told_of() {
    for options in [ServerOptions::default(), ServerOptions::persistent()] {
        broken_under(&[RestartGuard::Off], async |play| {
            let scene = with_replica(options.clone(), play).await;
            let replica = scene.cluster.server(3);
            // From here on it lags behind.
            promote(replica).await;
            let held = scene.hold().await;
            scene.node_1().kill().await;
            scene.front.lead_to(replica);
            scene.gets_in_beside(&held).await
        })
        .await;
    }
}

/// S15: it takes over the data of another server, and with them that server's metadata, or none.
/// Its `run_id` stays, and so do the connections.
#[tokio::test]
async fn a_node_that_was_a_replica_of_another_server_lets_nobody_in_beside_the_lease_that_it_lost() {
    for master in [2, 3] {
        broken_under(&[RestartGuard::Off], async |play| {
            let scene = Scene::on(cluster(ServerOptions::default()).await, play).await;
            let held = scene.hold().await;
            let run_id = scene.node_1().run_id().await;
            follow(scene.node_1(), scene.cluster.server(master)).await;
            promote(scene.node_1()).await;
            assert_eq!(scene.node_1().run_id().await, run_id);
            scene.gets_in_beside(&held).await
        })
        .await;
    }
}

/// It abstains in its very first answer: what a client says first over a connection that lived
/// through it.
#[tokio::test]
async fn the_first_vote_of_a_node_that_was_a_replica_is_an_abstention() {
    for guard in [RestartGuard::PerConnection, RestartGuard::PerVote] {
        let scene = Scene::on(cluster(ServerOptions::default()).await, guard).await;
        let held = scene.hold().await;
        follow(scene.node_1(), scene.cluster.server(3)).await;
        promote(scene.node_1()).await;
        let reply = scene.reply_of_node_1().await;
        assert!(matches!(reply, NodeReply::Refused(Refusal::Quarantined { .. })), "{reply}");
        assert!(held.is_valid());
    }
}

/// The master follows its own replica, which lags behind, and becomes a master again: the metadata
/// is its own, and only the replication id tells.
struct RoundTrip {
    scene: Scene,
    held: LockGuard,
}

impl RoundTrip {
    async fn as_replica(play: Play) -> Self {
        let scene = with_replica(ServerOptions::default(), play).await;
        let replica = scene.cluster.server(3);
        promote(replica).await;
        let held = scene.hold().await;
        follow(scene.node_1(), replica).await;
        Self { scene, held }
    }

    async fn gets_in(self) -> Option<bool> {
        promote(self.scene.node_1()).await;
        self.scene.gets_in_beside(&self.held).await
    }
}

/// The replication id is looked at when a connection registers; in every call, where proxies or
/// operators do such things.
#[tokio::test]
async fn a_round_trip_to_the_own_replica_under_connections_that_ask_nothing_is_seen_per_vote_alone() {
    broken_under(&[RestartGuard::PerConnection, RestartGuard::Off], async |play| {
        RoundTrip::as_replica(play).await.gets_in().await
    })
    .await;
}

#[tokio::test]
async fn a_round_trip_to_the_own_replica_is_seen_by_the_next_connection() {
    broken_under(&[RestartGuard::Off], async |play| {
        let trip = RoundTrip::as_replica(play).await;
        trip.scene.node_1().command(&["CLIENT", "KILL", "TYPE", "NORMAL"]).await;
        trip.gets_in().await
    })
    .await;
}

/// A refusal as a replica ends the connection.
#[tokio::test]
async fn a_round_trip_to_the_own_replica_is_seen_by_a_client_that_asks_meanwhile() {
    broken_under(&[RestartGuard::Off], async |play| {
        let trip = RoundTrip::as_replica(play).await;
        let reply = trip.scene.reply_of_node_1().await;
        // A server that takes longer to become a replica has not refused yet.
        if reply == NodeReply::Failed(NodeError::TimedOut) {
            return None;
        }
        let abstains = matches!(reply, NodeReply::Refused(Refusal::Quarantined { .. }));
        assert!(
            reply == NodeReply::Failed(NodeError::ReadOnly)
                || (abstains && play.guard == RestartGuard::PerVote),
            "{reply}"
        );
        trip.gets_in().await
    })
    .await;
}

/// A price to know of: what a master calls its replication changes with its first replica, though
/// it forgets nothing.
#[tokio::test]
async fn a_node_that_gets_its_first_replica_is_in_quarantine_from_the_next_registration_on() {
    let scene = Scene::on(cluster(ServerOptions::default()).await, RestartGuard::PerConnection).await;
    follow(scene.cluster.server(3), scene.node_1()).await;
    assert_eq!(scene.reply_of_node_1().await, NodeReply::Done);
    scene.node_1().command(&["CLIENT", "KILL", "TYPE", "NORMAL"]).await;
    let abstains =
        async || matches!(scene.reply_of_node_1().await, NodeReply::Refused(Refusal::Quarantined { .. }));
    eventually(SOON, "the node is in quarantine", abstains).await;
    eventually(SOON, "it votes again", async || scene.reply_of_node_1().await == NodeReply::Done).await;
}
