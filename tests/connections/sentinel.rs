//! A node behind Sentinel: its master may be another server tomorrow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redquorum::{
    Credentials, LockGuard, Quorum, QuorumBuilder, RestartGuard, admin,
    error::{NodeError, NodeReply, Refusal},
    inspection::LockState,
};
use redquorum_tests::{Cluster, Kind, Port, Sentinel, Server, ServerOptions, eventually};

use super::{SOON, made, works};

/// Long enough to see a node in quarantine, short enough to wait for the end of it.
const LONGEST: Duration = Duration::from_secs(3);

/// Longer than a Sentinel takes to give a master up and to promote a replica.
const FAILOVER: Duration = Duration::from_secs(40);

async fn follow(replica: &Server, master: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]).await;
    eventually(SOON, "the replica follows", async || {
        replica.info("replication").await.contains("master_link_status:up")
    })
    .await;
}

/// Three nodes, the first of which is a master with its replica.
struct Scene {
    cluster: Cluster,
    sentinel: Sentinel,
    /// Where there is no Sentinel.
    nobody: Port,
}

impl Scene {
    async fn start() -> Self {
        let options = ServerOptions::default().config("repl-diskless-sync-delay", "0");
        let cluster = Cluster::start_as(Kind::Processes, 4, options).await;
        let (master, replica) = (cluster.server(0), cluster.server(3));
        follow(replica, master).await;
        let sentinel = Sentinel::watching("lock-1", master).await;
        Self { cluster, sentinel, nobody: Port::reserve() }
    }

    fn builder(&self) -> QuorumBuilder {
        // The first Sentinel is dead.
        let (dead, alive) = (self.nobody.number(), self.sentinel.port());
        let set = format!("redis+sentinel://127.0.0.1:{dead},127.0.0.1:{alive}/lock-1");
        let nodes = [set, self.cluster.server(1).url(), self.cluster.server(2).url()];
        Quorum::builder()
            .nodes(nodes)
            .ttl(LONGEST)
            .max_ttl(LONGEST)
            .attempt_timeout(Duration::from_millis(600))
    }

    fn master(&self) -> &Server {
        self.cluster.server(0)
    }

    fn replica(&self) -> &Server {
        self.cluster.server(3)
    }
}

/// The reply of the set to the lock of another resource.
async fn reply_of_the_set(quorum: &Quorum) -> NodeReply {
    let guard = quorum.red_lock("free").try_lock().await.unwrap().unwrap();
    let reply = |guard: &LockGuard| {
        let replies = guard.node_replies();
        let (node, reply) = replies.iter().next().unwrap();
        assert!(node.ends_with("/lock-1"), "the node keeps its address: {node}");
        reply.clone()
    };
    eventually(SOON, "the set has answered", async || reply(&guard) != NodeReply::Pending).await;
    reply(&guard)
}

/// A Sentinel that changes a server's role closes all of its connections, those of the test as
/// well.
async fn is_promoted(server: &Server) -> bool {
    let info = server.try_query::<String>(redis::cmd("INFO").arg("replication")).await;
    info.is_ok_and(|info| info.contains("role:master"))
}

/// The lease is held by the other two nodes; the promoted replica, which may lack its last votes,
/// abstains for as long as a lease may live.
async fn is_held_throughout(scene: &Scene, fail: impl AsyncFnOnce(&Scene)) {
    admin::init(&scene.builder()).await.unwrap();
    let (holder, other) =
        (scene.builder().connect().await.unwrap(), scene.builder().connect().await.unwrap());
    let held = works(&holder).await;
    assert_eq!(reply_of_the_set(&other).await, NodeReply::Done);
    let metadata = scene.master().command(&["HGET", "redquorum:node", "incarnation"]).await;

    fail(scene).await;
    eventually(FAILOVER, "the replica is promoted", async || {
        held.ensure().unwrap();
        is_promoted(scene.replica()).await
    })
    .await;
    let abstains = async || {
        matches!(
            reply_of_the_set(&other).await,
            NodeReply::Refused(Refusal::Quarantined { remaining: Some(_), .. })
        )
    };
    eventually(SOON, "the promoted server is in quarantine", abstains).await;
    assert_ne!(scene.replica().command(&["HGET", "redquorum:node", "incarnation"]).await, metadata);
    assert!(scene.replica().keys().await.contains(&"redquorum:quarantine".to_owned()));
    // Not for renewals either: the old master may still be there for somebody.
    let until: u64 = scene.replica().query(redis::cmd("GET").arg("redquorum:quarantine")).await;
    let (seconds, micros): (u64, u64) = scene.replica().query(&redis::cmd("TIME")).await;
    let lasts: u64 = scene.replica().query(redis::cmd("PTTL").arg("redquorum:quarantine")).await;
    assert!(until + 100 >= seconds * 1000 + micros / 1000 + lasts, "{until}, {lasts}");
    held.ensure().unwrap();
    let seen = other.inspect("r").await.unwrap();
    assert_eq!((seen.state(), seen.holder()), (LockState::Held, Some(held.id())));
    assert!(other.red_lock("r").try_lock().await.unwrap().is_none());

    let is_voting = async || reply_of_the_set(&other).await == NodeReply::Done;
    eventually(SOON, "it votes again", is_voting).await;
    held.ensure().unwrap();
    let repaired = async || scene.replica().keys().await.contains(&"r".to_owned());
    eventually(SOON, "renewals have brought the lock to it", repaired).await;
    held.unlock().await.unwrap();
    drop(works(&other).await);
}

#[tokio::test]
async fn a_lock_outlives_a_master_that_dies_and_the_promoted_one_votes_after_a_quarantine() {
    let scene = Scene::start().await;
    is_held_throughout(&scene, async |scene| scene.master().kill().await).await;
    assert_eq!(scene.sentinel.master("lock-1").await, scene.replica().port());
}

/// The old master lives, and becomes a replica: its connections are left.
#[tokio::test]
async fn a_lock_outlives_a_master_that_is_demoted_and_the_promoted_one_votes_after_a_quarantine() {
    let scene = Scene::start().await;
    is_held_throughout(&scene, async |scene| scene.sentinel.fail_over("lock-1").await).await;
    let follows = async || {
        let info = scene.master().try_query::<String>(redis::cmd("INFO").arg("replication")).await;
        info.is_ok_and(|info| info.contains("role:slave"))
    };
    eventually(FAILOVER, "the old master follows", follows).await;
}

/// Nobody registers then, which would refuse it.
#[tokio::test]
async fn what_sentinels_name_is_not_taken_for_a_master_if_it_is_a_replica() {
    let scene = Scene::start().await;
    let quorum = scene.builder().restart_guard(RestartGuard::Off).connect().await.unwrap();
    assert_eq!(reply_of_the_set(&quorum).await, NodeReply::Done);
    // Behind the back of the Sentinel, which has yet to find out.
    scene.master().command(&["REPLICAOF", "127.0.0.1", &scene.replica().port().to_string()]).await;
    eventually(SOON, "the node is not asked any more", async || {
        let reply = reply_of_the_set(&quorum).await;
        super::refusal(&reply) == Some(&NodeError::ReadOnly)
    })
    .await;
}

/// What the page asks of the servers, for the case that the old master is cut off from the
/// Sentinels alone: it has to give no votes beside the promoted one.
#[tokio::test]
async fn a_master_that_was_replaced_unseen_stops_voting_when_it_must_have_a_replica() {
    let scene = Scene::start().await;
    scene.master().command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    eventually(SOON, "the replica has said that it follows", async || {
        scene.master().info("replication").await.contains("min_slaves_good_slaves:1")
    })
    .await;
    admin::init(&scene.builder()).await.unwrap();
    let quorum = scene.builder().connect().await.unwrap();
    assert_eq!(reply_of_the_set(&quorum).await, NodeReply::Done);
    scene.replica().command(&["REPLICAOF", "NO", "ONE"]).await;
    eventually(SOON, "the old master refuses", async || {
        let reply = reply_of_the_set(&quorum).await;
        matches!(reply, NodeReply::Failed(NodeError::Server(why)) if why.contains("NOREPLICAS"))
    })
    .await;
}

/// It was cut off, and nobody told it of the failover. The server that it names swallows what it is
/// sent, so that a dial to it never fails by itself.
#[tokio::test]
async fn a_sentinel_that_names_a_dead_master_does_not_keep_the_node_from_the_living_one() {
    let options = ServerOptions::default().config("repl-diskless-sync-delay", "0");
    let cluster = Cluster::start_as(Kind::Processes, 6, options).await;
    for master in [0, 2] {
        follow(cluster.server(master + 1), cluster.server(master)).await;
    }
    let stale = Sentinel::watching("lock-1", cluster.server(0)).await;
    let present = Sentinel::watching("lock-1", cluster.server(2)).await;
    // Without a replica that lives, the first Sentinel goes on naming the master.
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let set = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/lock-1", stale.port(), present.port());
    let nodes = [set, cluster.server(4).url(), cluster.server(5).url()];
    let quorum = Quorum::builder().nodes(nodes).admit_new_nodes().connect().await.unwrap();
    eventually(SOON, "the master that lives answers", async || {
        let inspection = quorum.inspect("looked-at").await;
        inspection.is_ok_and(|inspection| inspection.nodes().all(|node| node.holder().is_ok()))
    })
    .await;
}

/// The users of these servers accept any password.
#[tokio::test]
async fn providers_give_the_credentials_of_masters_and_of_sentinels_at_every_dial() {
    let scene = Scene::start().await;
    let calls: [Arc<AtomicUsize>; 2] = Default::default();
    let [of_masters, of_sentinels] = calls.clone();
    let count = |number: usize| calls[number].load(Ordering::SeqCst);
    let without_sentinels =
        scene.builder().sentinel_credentials(|_| async { Err("the vault is sealed".into()) });
    let builder = scene
        .builder()
        .credentials(move |_| {
            of_masters.fetch_add(1, Ordering::SeqCst);
            async { Ok(Credentials::new("any")) }
        })
        .sentinel_credentials(move |node| {
            assert!(node.ends_with("/lock-1"), "{node}");
            of_sentinels.fetch_add(1, Ordering::SeqCst);
            async { Ok(Credentials::new("any").user("default")) }
        });
    let quorum = made(builder).await;
    let before = [count(0), count(1)];
    assert!(before[0] >= 3 && before[1] >= 1, "{before:?}");
    scene.master().command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    eventually(SOON, "the next dial asks again", async || count(0) > before[0] && count(1) > before[1]).await;
    drop(quorum);
    let quorum = without_sentinels.connect().await.unwrap();
    let NodeReply::Failed(error) = reply_of_the_set(&quorum).await else { panic!("the set answers") };
    assert!(error.to_string().contains("no credentials: the vault is sealed"), "{error}");
}
