//! A node behind Sentinel, whose master may change, on real servers and Sentinels.
//!
//! Promises: a lease stays valid during a failover, the promoted server abstains for a quarantine, a replica gives no
//! votes, and each dial gets the credentials of a provider.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redquorum::{
    Credentials, Quorum, QuorumBuilder, RestartGuard, admin,
    error::{NodeError, NodeReply, Refusal},
    inspection::LockState,
};
use redquorum_tests::{Cluster, Kind, Port, Sentinel, Server, ServerOptions, eventually};

use super::{SOON, assert_locks, assert_renewals_count_after_quarantine, init_and_connect};

/// The ttl and `max_ttl`: long enough to observe a quarantine, and short enough to wait for its end.
const MAX_TTL: Duration = Duration::from_secs(3);

/// The longest time until a Sentinel has promoted a replica of a dead master.
const FAILOVER: Duration = Duration::from_secs(40);

/// Makes a server a replica of a master, and waits until the replica is connected to the master.
async fn follow(replica: &Server, master: &Server) {
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]).await;
    eventually(SOON, "the replica follows", async || {
        replica.info("replication").await.contains("master_link_status:up")
    })
    .await;
}

/// Three nodes on servers 0 to 2. The first node is behind a Sentinel, which watches server 0 as the master and
/// server 3 as its replica.
struct SentinelSetup {
    cluster: Cluster,
    sentinel: Sentinel,
    /// A port without a Sentinel.
    unused_port: Port,
}

impl SentinelSetup {
    async fn start() -> Self {
        let options = ServerOptions::default().config("repl-diskless-sync-delay", "0");
        let cluster = Cluster::start_as(Kind::Processes, 4, options).await;
        let (master, replica) = (cluster.server(0), cluster.server(3));
        follow(replica, master).await;
        let sentinel = Sentinel::watching("lock-1", master).await;
        Self { cluster, sentinel, unused_port: Port::reserve() }
    }

    fn builder(&self) -> QuorumBuilder {
        // The first address of the url has no Sentinel.
        let (dead, alive) = (self.unused_port.number(), self.sentinel.port());
        let set = format!("redis+sentinel://127.0.0.1:{dead},127.0.0.1:{alive}/lock-1");
        let nodes = [set, self.cluster.server(1).url(), self.cluster.server(2).url()];
        Quorum::builder()
            .nodes(nodes)
            .ttl(MAX_TTL)
            .max_ttl(MAX_TTL)
            .attempt_timeout(Duration::from_millis(600))
    }

    fn master(&self) -> &Server {
        self.cluster.server(0)
    }

    fn replica(&self) -> &Server {
        self.cluster.server(3)
    }
}

/// Returns the reply of the first node, which is the set, to a lock of another, free resource.
async fn reply_of_first_node(quorum: &Quorum) -> NodeReply {
    super::reply_of_first_node(quorum, "/lock-1").await
}

/// Whether the server is a master. The query may fail, because a Sentinel that changes the role of a server closes all
/// connections of the server.
async fn is_promoted(server: &Server) -> bool {
    let info = server.try_query::<String>(redis::cmd("INFO").arg("replication")).await;
    info.is_ok_and(|info| info.contains("role:master"))
}

/// Asserts that a lease stays valid during a failover, because the other two nodes renew the lease. The promoted
/// replica may not have the last votes. Therefore the replica abstains for a quarantine, and then votes again.
async fn assert_held_through_failover(
    setup: &SentinelSetup,
    cause_failover: impl AsyncFnOnce(&SentinelSetup),
) {
    admin::init(&setup.builder()).await.unwrap();
    let (holder, other) =
        (setup.builder().connect().await.unwrap(), setup.builder().connect().await.unwrap());
    let held = assert_locks(&holder).await;
    assert_eq!(reply_of_first_node(&other).await, NodeReply::Done);
    let old_incarnation = setup.master().command(&["HGET", "redquorum:node", "incarnation"]).await;

    cause_failover(setup).await;
    eventually(FAILOVER, "the replica is promoted", async || {
        held.ensure().unwrap();
        is_promoted(setup.replica()).await
    })
    .await;
    let abstains = async || {
        matches!(
            reply_of_first_node(&other).await,
            NodeReply::Refused(Refusal::Quarantined { remaining: Some(_), .. })
        )
    };
    eventually(SOON, "the promoted server is in quarantine", abstains).await;
    assert_ne!(setup.replica().command(&["HGET", "redquorum:node", "incarnation"]).await, old_incarnation);
    assert!(setup.replica().keys().await.contains(&"redquorum:quarantine".to_owned()));
    assert_renewals_count_after_quarantine(setup.replica(), "redquorum:quarantine").await;
    held.ensure().unwrap();
    let seen = other.inspect("r").await.unwrap();
    assert_eq!((seen.state(), seen.holder()), (LockState::Held, Some(held.id())));
    assert!(other.red_lock("r").try_lock().await.unwrap().is_none());

    let is_voting = async || reply_of_first_node(&other).await == NodeReply::Done;
    eventually(SOON, "the promoted server votes again", is_voting).await;
    held.ensure().unwrap();
    let is_restored = async || setup.replica().keys().await.contains(&"r".to_owned());
    eventually(SOON, "a renewal has restored the lock on the promoted server", is_restored).await;
    held.unlock().await.unwrap();
    drop(assert_locks(&other).await);
}

#[tokio::test]
async fn a_lease_survives_the_death_of_a_master_and_its_failover() {
    let setup = SentinelSetup::start().await;
    assert_held_through_failover(&setup, async |setup| setup.master().kill().await).await;
    assert_eq!(setup.sentinel.master("lock-1").await, setup.replica().port());
}

/// The Sentinel makes the healthy master a replica.
#[tokio::test]
async fn a_lease_survives_the_demotion_of_a_master_and_its_failover() {
    let setup = SentinelSetup::start().await;
    assert_held_through_failover(&setup, async |setup| setup.sentinel.fail_over("lock-1").await).await;
    let follows = async || {
        let info = setup.master().try_query::<String>(redis::cmd("INFO").arg("replication")).await;
        info.is_ok_and(|info| info.contains("role:slave"))
    };
    eventually(FAILOVER, "the old master follows", follows).await;
}

/// The test is without a restart guard. With a guard, the registration would refuse the replica.
#[tokio::test]
async fn a_replica_that_sentinel_names_as_the_master_is_refused() {
    let setup = SentinelSetup::start().await;
    let quorum = setup.builder().restart_guard(RestartGuard::Off).connect().await.unwrap();
    assert_eq!(reply_of_first_node(&quorum).await, NodeReply::Done);
    // The Sentinel does not make this change, so it still names the old master.
    setup.master().command(&["REPLICAOF", "127.0.0.1", &setup.replica().port().to_string()]).await;
    eventually(SOON, "the replica is refused", async || {
        let reply = reply_of_first_node(&quorum).await;
        super::refusal(&reply) == Some(&NodeError::ReadOnly)
    })
    .await;
}

/// If the Sentinels cannot reach a master that still answers clients, they promote a replica, and the old master must
/// not vote any more. `docs/REDIS.md` recommends `min-replicas-to-write` for this reason.
#[tokio::test]
async fn a_replaced_master_that_needs_a_replica_stops_voting() {
    let setup = SentinelSetup::start().await;
    setup.master().command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    eventually(SOON, "the master counts its replica", async || {
        setup.master().info("replication").await.contains("min_slaves_good_slaves:1")
    })
    .await;
    admin::init(&setup.builder()).await.unwrap();
    let quorum = setup.builder().connect().await.unwrap();
    assert_eq!(reply_of_first_node(&quorum).await, NodeReply::Done);
    setup.replica().command(&["REPLICAOF", "NO", "ONE"]).await;
    eventually(SOON, "the old master refuses", async || {
        let reply = reply_of_first_node(&quorum).await;
        matches!(reply, NodeReply::Failed(NodeError::Server(why)) if why.contains("NOREPLICAS"))
    })
    .await;
}

/// The first Sentinel names a frozen master, as a Sentinel does that was not part of a failover. A dial to this master
/// neither succeeds nor fails.
#[tokio::test]
async fn a_sentinel_that_names_a_dead_master_does_not_hide_the_living_master() {
    let options = ServerOptions::default().config("repl-diskless-sync-delay", "0");
    let cluster = Cluster::start_as(Kind::Processes, 6, options).await;
    for master in [0, 2] {
        follow(cluster.server(master + 1), cluster.server(master)).await;
    }
    let stale = Sentinel::watching("lock-1", cluster.server(0)).await;
    let present = Sentinel::watching("lock-1", cluster.server(2)).await;
    // Without a living replica, the first Sentinel keeps naming the old master.
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let set = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/lock-1", stale.port(), present.port());
    let nodes = [set, cluster.server(4).url(), cluster.server(5).url()];
    let quorum = Quorum::builder().nodes(nodes).admit_new_nodes().connect().await.unwrap();
    eventually(SOON, "the living master answers", async || {
        let inspection = quorum.inspect("looked-at").await;
        inspection.is_ok_and(|inspection| inspection.nodes().all(|node| node.holder().is_ok()))
    })
    .await;
}

/// The default user of these servers accepts any password.
#[tokio::test]
async fn providers_give_the_credentials_of_masters_and_of_sentinels_at_every_dial() {
    let setup = SentinelSetup::start().await;
    let calls: [Arc<AtomicUsize>; 2] = Default::default();
    let [of_masters, of_sentinels] = calls.clone();
    let count = |number: usize| calls[number].load(Ordering::SeqCst);
    let without_sentinels =
        setup.builder().sentinel_credentials(|_| async { Err("the vault is sealed".into()) });
    let builder = setup
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
    let quorum = init_and_connect(builder).await;
    let before = [count(0), count(1)];
    assert!(before[0] >= 3 && before[1] >= 1, "{before:?}");
    setup.master().command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    eventually(SOON, "the next dial calls both providers again", async || {
        count(0) > before[0] && count(1) > before[1]
    })
    .await;
    drop(quorum);
    let quorum = without_sentinels.connect().await.unwrap();
    let NodeReply::Failed(error) = reply_of_first_node(&quorum).await else { panic!("the set answers") };
    assert!(error.to_string().contains("no credentials: the vault is sealed"), "{error}");
}
