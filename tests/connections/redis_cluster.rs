//! A Redis Cluster as a node: one vote, by one hash slot, whose master may change.
//!
//! Promises: a lease stays valid during a failover, the promoted server abstains for a quarantine, a lease whose vote no
//! replica has is not granted a second time, and a cluster has one vote.

use std::time::Duration;

use redquorum::{
    Error, LockGuard, Quorum, QuorumBuilder, RestartGuard, admin,
    error::{ConfigError, NodeError, NodeReply, Refusal},
    inspection::LockState,
};
use redquorum_tests::{Cluster, Kind, RedisCluster, Server, ServerOptions, Stopwatch, eventually};

use super::{
    SOON, assert_locks, assert_renewals_count_after_quarantine, init_and_connect, permissions, refusal,
    replies_of,
};

/// The ttl and `max_ttl`: long enough to observe a quarantine, and short enough to wait for its end.
const MAX_TTL: Duration = Duration::from_secs(3);

/// The attempt timeout, which is also the longest time for which a call waits for one node.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(600);

/// A ttl that is longer than a failover.
const LONG_TTL: Duration = Duration::from_secs(15);

/// The `cluster-node-timeout`, after which the servers of the cluster replace a dead master.
const CLUSTER_NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest time until the cluster has promoted the replica of a dead master.
const FAILOVER: Duration = Duration::from_secs(40);

/// The hash tag of a url without a name.
const TAG: &str = "{redquorum}";

/// A Redis Cluster, and the shard that has the slot of the node.
struct Setup {
    cluster: RedisCluster,
    shard: usize,
}

impl Setup {
    async fn start() -> Self {
        let cluster = RedisCluster::start(CLUSTER_NODE_TIMEOUT).await;
        let shard = cluster.shard_of(TAG).await;
        Self { cluster, shard }
    }

    /// The url of the node. The seeds are the masters of the other shards, which refer to the master of the node.
    fn url(&self) -> String {
        let others: Vec<usize> = (0..3).filter(|shard| *shard != self.shard).collect();
        let [first, second] = [others[0], others[1]].map(|shard| self.cluster.master(shard).port());
        format!("redis+cluster://127.0.0.1:{first},127.0.0.1:{second}")
    }

    fn master(&self) -> &Server {
        self.cluster.master(self.shard)
    }

    fn replica(&self) -> &Server {
        self.cluster.replica(self.shard)
    }

    /// Moves the slot, with this number of keys in each step, to the master of another shard. `while_moving` acts before
    /// each step, and once after the last step.
    async fn move_slot(&self, keys_at_a_time: usize, mut while_moving: impl AsyncFnMut()) {
        let (source, target) = (self.master(), self.cluster.master((self.shard + 1) % 3));
        let slot: u64 = source.query(redis::cmd("CLUSTER").arg("KEYSLOT").arg(TAG)).await;
        let slot = slot.to_string();
        let source_id: String = source.query(redis::cmd("CLUSTER").arg("MYID")).await;
        let target_id: String = target.query(redis::cmd("CLUSTER").arg("MYID")).await;
        target.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]).await;
        source.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]).await;
        let port = target.port().to_string();
        loop {
            while_moving().await;
            let mut list = redis::cmd("CLUSTER");
            let keys: Vec<String> =
                source.query(list.arg("GETKEYSINSLOT").arg(&slot).arg(keys_at_a_time)).await;
            if keys.is_empty() {
                break;
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "REPLACE", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            source.command(&migrate).await;
        }
        for server in [target, source] {
            server.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]).await;
        }
    }
}

/// Makes a replica the master of its shard, and the healthy master its replica.
async fn fail_over(master: &Server, replica: &Server) {
    eventually(FAILOVER, "the replica takes over", async || {
        // A master refuses the command.
        drop(replica.try_query::<()>(redis::cmd("CLUSTER").arg("FAILOVER")).await);
        is_master(replica).await && !is_master(master).await
    })
    .await;
}

fn builder(nodes: impl IntoIterator<Item = String>) -> QuorumBuilder {
    Quorum::builder().nodes(nodes).ttl(MAX_TTL).max_ttl(MAX_TTL).attempt_timeout(ATTEMPT_TIMEOUT)
}

/// Starts a Redis Cluster of one server.
async fn small_cluster() -> Cluster {
    Cluster::start_as(Kind::RedisClusters, 1, ServerOptions::default()).await
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

async fn is_master(server: &Server) -> bool {
    let info = server.try_query::<String>(redis::cmd("INFO").arg("replication")).await;
    info.is_ok_and(|info| info.contains("role:master"))
}

/// Returns the reply of the first node, which is the cluster, to a lock of another, free resource.
async fn reply_of_first_node(quorum: &Quorum) -> NodeReply {
    super::reply_of_first_node(quorum, "/redquorum").await
}

/// Asserts that a lease of a quorum of one cluster and two servers stays valid during a failover of the cluster. The
/// promoted replica abstains for a quarantine, and then votes again. Meanwhile, free resources are locked as fast as usual.
/// `after_promotion` acts on the old master.
async fn assert_held_through_failover(
    cause_failover: impl AsyncFnOnce(&Setup),
    after_promotion: impl AsyncFnOnce(&Server),
) {
    let (setup, beside) = tokio::join!(Setup::start(), Cluster::processes(2));
    let builder = builder([setup.url()].into_iter().chain(beside.urls()));
    let (holder, other) = (init_and_connect(builder.clone()).await, builder.connect().await.unwrap());
    let held = assert_locks(&holder).await;
    assert_eq!(reply_of_first_node(&other).await, NodeReply::Done);
    assert!(setup.master().keys().await.contains(&"r".to_owned()), "{:?}", setup.master().keys().await);

    // Locks of free resources, before the end of the failover, and shortly afterwards.
    let mut durations = Vec::new();
    let mut lock_free_resource = async || {
        held.ensure().unwrap();
        let begin = Stopwatch::start();
        let free = other.red_lock(format!("free-{}", durations.len())).try_lock().await.unwrap();
        durations.push(begin.elapsed());
        assert!(free.is_some(), "a free resource is not granted");
    };
    cause_failover(&setup).await;
    let begin = Stopwatch::start();
    loop {
        lock_free_resource().await;
        if is_master(setup.replica()).await {
            break;
        }
        assert!(begin.elapsed() < FAILOVER, "the replica is not promoted");
    }
    after_promotion(setup.master()).await;
    for _ in 0..20 {
        lock_free_resource().await;
    }
    durations.sort_unstable();
    let median = durations[durations.len() / 2];
    assert!(median < ATTEMPT_TIMEOUT / 4, "locks wait for the node that fails over: {durations:?}");
    let abstains = async || {
        matches!(
            reply_of_first_node(&other).await,
            NodeReply::Refused(Refusal::Quarantined { remaining: Some(_), .. })
        )
    };
    eventually(SOON, "the promoted server is in quarantine", abstains).await;
    assert_renewals_count_after_quarantine(setup.replica(), &format!("{TAG}redquorum:quarantine")).await;
    held.ensure().unwrap();
    let seen = other.inspect("r").await.unwrap();
    assert_eq!((seen.state(), seen.holder()), (LockState::Held, Some(held.id())));
    assert!(other.red_lock("r").try_lock().await.unwrap().is_none());

    let is_voting = async || reply_of_first_node(&other).await == NodeReply::Done;
    eventually(SOON, "the promoted server votes again", is_voting).await;
    held.ensure().unwrap();
    held.unlock().await.unwrap();
    drop(assert_locks(&other).await);
}

#[tokio::test]
async fn a_lease_survives_the_death_of_a_master_of_a_cluster() {
    assert_held_through_failover(async |setup| setup.master().kill().await, async |_| ()).await;
}

#[tokio::test]
async fn a_lease_survives_the_demotion_of_a_master_of_a_cluster() {
    assert_held_through_failover(
        async |setup| fail_over(setup.master(), setup.replica()).await,
        async |_| (),
    )
    .await;
}

#[tokio::test]
async fn a_lease_survives_the_freeze_of_a_master_of_a_cluster() {
    assert_held_through_failover(
        async |setup| setup.master().freeze().await,
        async |old_master| old_master.thaw().await,
    )
    .await;
}

/// A quorum of one cluster alone, so the client cannot renew a lease by other nodes.
struct OnlyNode {
    setup: Setup,
    contender: Quorum,
    held: LockGuard,
}

impl OnlyNode {
    /// Acquires a lease. `before` acts between the connections of both clients and the lease.
    async fn start(before: impl AsyncFnOnce(&Setup)) -> Self {
        let setup = Setup::start().await;
        // The other servers refer to the master by a proxy, whose replies a test may discard. So the master is the first
        // seed.
        let others = setup.url();
        let others = others.strip_prefix("redis+cluster://").unwrap();
        let url = format!("redis+cluster://{},{others}", address(setup.master()));
        let builder = builder([url]).ttl(LONG_TTL).max_ttl(LONG_TTL);
        let (holder, contender) = (init_and_connect(builder.clone()).await, builder.connect().await.unwrap());
        before(&setup).await;
        let held = holder.red_lock("r").lock().await.unwrap();
        Self { setup, contender, held }
    }

    /// Lets the second client contend until it has the lock. Asserts that no two leases are valid at a time.
    async fn assert_exclusive_until_the_next_grant(&self) {
        let begin = Stopwatch::start();
        let granted = loop {
            let is_valid_before = self.held.ensure().is_ok();
            if let Ok(Some(granted)) = self.contender.red_lock("r").try_lock().await {
                assert!(!is_valid_before || self.held.ensure().is_err(), "two leases are valid");
                break granted;
            }
            assert!(begin.elapsed() < FAILOVER + 3 * LONG_TTL, "no lock after the failover");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(self.held.ensure().is_err(), "two leases are valid");
        assert!(granted.fencing_token() > self.held.fencing_token());
    }

    /// Asserts the same across the promotion of the replica.
    async fn assert_exclusive_through_failover(&self) {
        self.assert_exclusive_until_the_next_grant().await;
        assert!(is_master(self.setup.replica()).await);
    }
}

/// The replica does not receive the vote of the lease, and is promoted when the master dies.
#[tokio::test]
async fn a_lease_without_a_replicated_vote_is_not_granted_twice() {
    let node = OnlyNode::start(async |setup| setup.cluster.discard_replication(setup.shard)).await;
    node.setup.master().kill().await;
    node.assert_exclusive_through_failover().await;
}

/// The frozen master continues after the promotion of its replica, with calls from before.
#[tokio::test]
async fn a_master_that_continues_after_its_replacement_grants_no_held_lock() {
    let node = OnlyNode::start(async |_| ()).await;
    node.setup.master().freeze().await;
    let attempts = async {
        loop {
            let granted = node.contender.red_lock("r").try_lock().await;
            assert!(!matches!(granted, Ok(Some(_))) || node.held.ensure().is_err(), "two leases are valid");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let promoted =
        eventually(FAILOVER, "the replica takes over", async || is_master(node.setup.replica()).await);
    tokio::select! {
        () = promoted => {}
        () = attempts => {}
    }
    node.setup.master().thaw().await;
    node.assert_exclusive_through_failover().await;
}

/// With an option, the replica does not ask the master, which is healthy and not cut off.
#[tokio::test]
async fn a_manual_failover_of_a_healthy_cluster_grants_no_held_lock() {
    for option in [None, Some("FORCE"), Some("TAKEOVER")] {
        let node = OnlyNode::start(async |_| ()).await;
        let mut fail_over = redis::cmd("CLUSTER");
        node.setup.replica().query::<()>(fail_over.arg("FAILOVER").arg(option)).await;
        node.assert_exclusive_through_failover().await;
    }
}

/// Each key of the slot moves alone, and the second client tries to lock before and after each key.
#[tokio::test]
async fn a_migration_of_the_slot_grants_no_held_lock() {
    let node = OnlyNode::start(async |_| ()).await;
    let mut attempts = 0;
    node.setup
        .move_slot(1, async || {
            for name in ["r", "free"] {
                let granted = node.contender.red_lock(name).try_lock().await;
                assert!(!matches!(granted, Ok(Some(_))), "the moving slot gives a vote for {name}");
            }
            attempts += 1;
        })
        .await;
    assert!(attempts > 2, "the slot has {attempts} keys at most");
    node.assert_exclusive_until_the_next_grant().await;
    let target = node.setup.cluster.master((node.setup.shard + 1) % 3);
    assert!(!target.keys().await.is_empty(), "the slot is not on the target");
}

/// The replica replaces the master, and then the master replaces the replica, while a client is idle. The node metadata that
/// a call on the old connection would find is as before, so only the end of the subscription shows the replacement.
#[tokio::test]
async fn an_idle_client_gets_no_vote_of_a_master_that_was_replaced_meanwhile() {
    let setup = Setup::start().await;
    // The quarantine outlasts the test.
    let builder = builder([setup.url()]).max_ttl(LONG_TTL);
    let idle = init_and_connect(builder).await;
    assert_locks(&idle).await.unlock().await.unwrap();
    fail_over(setup.master(), setup.replica()).await;
    fail_over(setup.replica(), setup.master()).await;
    eventually(SOON, "the master is in quarantine", async || {
        let attempt = idle.red_lock("r").try_lock().await;
        let replies = replies_of(attempt.expect_err("the old connection gives a vote"));
        let reply = replies.iter().next().map(|(_, reply)| reply.clone());
        matches!(reply, Some(NodeReply::Refused(Refusal::Quarantined { remaining: Some(_), .. })))
    })
    .await;
}

/// A server without free memory refuses votes, and confirms unlocks.
#[tokio::test]
async fn a_full_cluster_confirms_unlocks() {
    let cluster = small_cluster().await;
    let quorum = init_and_connect(Quorum::builder().nodes(cluster.urls())).await;
    let held = assert_locks(&quorum).await;
    cluster.server(0).command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = quorum.red_lock("free").try_lock().await.unwrap_err();
    let replies = replies_of(error);
    assert!(
        matches!(replies.iter().next(), Some((_, NodeReply::Failed(NodeError::OutOfMemory)))),
        "{replies}"
    );
    held.unlock().await.unwrap();
    assert!(!cluster.server(0).keys().await.contains(&"r".to_owned()));
}

#[tokio::test]
async fn waiters_of_a_cluster_are_woken_and_its_locks_are_listed() {
    let cluster = small_cluster().await;
    let builder = Quorum::builder().nodes(cluster.urls()).ttl(Duration::from_secs(60));
    let (holder, waiter) = (init_and_connect(builder.clone()).await, builder.connect().await.unwrap());
    for name in ["r", "{r}", "a{r}b"] {
        let held = holder.red_lock(name).lock().await.unwrap();
        let lock = waiter.red_lock(name);
        let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
        eventually(SOON, "the waiter is queued", async || {
            let inspection = holder.inspect(name).await.unwrap();
            inspection.waiters() == 1
        })
        .await;
        let listed = admin::list(&holder, |_| true).await.unwrap();
        let names: Vec<String> = listed.locks().map(|(lock, _)| lock.name().to_string()).collect();
        assert_eq!(names, [name]);
        let since_unlock = Stopwatch::start();
        held.unlock().await.unwrap();
        waiting.await.unwrap().unlock().await.unwrap();
        assert!(since_unlock.elapsed() < Duration::from_secs(3), "a fallback poll ended the wait");
    }
}

/// Returns the permissions that `docs/CLUSTER.md` adds to the commands of every node.
fn documented_permissions() -> Vec<String> {
    let page = include_str!("../../docs/CLUSTER.md");
    let (_, rest) = page.split_once("* **Permissions**").expect("the page has the permissions");
    let (item, _) = rest.split_once("\n\n").expect("the list ends");
    let quoted = item.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    quoted.filter(|rule| rule.starts_with(['+', '~', '&'])).map(str::to_owned).collect()
}

/// Whether a user can make a quorum of the node at this url, lock, and be woken.
async fn wakes_a_waiter(url: &str) -> bool {
    let builder = Quorum::builder().nodes([url]).connect_timeout(SOON).ttl(Duration::from_secs(60));
    if admin::init(&builder).await.is_err() {
        return false;
    }
    let (Ok(holder), Ok(waiter)) = (builder.clone().connect().await, builder.connect().await) else {
        return false;
    };
    let Ok(held) = holder.red_lock("r").lock().await else { return false };
    let lock = waiter.red_lock("r");
    let waiting = tokio::spawn(async move { lock.lock().await.is_ok() });
    let queued = async {
        while holder.inspect("r").await.is_ok_and(|inspection| inspection.waiters() == 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // A waiter without a subscription does not enter the queue.
    let is_queued = tokio::time::timeout(Duration::from_secs(2), queued).await.is_ok();
    held.unlock().await.is_ok() && waiting.await.unwrap() && is_queued
}

#[tokio::test]
async fn a_user_needs_exactly_the_documented_permissions_in_a_cluster() {
    let cluster = small_cluster().await;
    let server = cluster.server(0);
    let added = documented_permissions();
    assert_eq!(added.len(), 8, "{added:?}");
    let commands: Vec<String> =
        permissions::commands().into_iter().map(|command| format!("+{command}")).collect();
    for missing in std::iter::once(None).chain(added.iter().map(Some)) {
        let rules = added.iter().filter(|rule| Some(*rule) != missing).chain(&commands);
        let user = ["ACL", "SETUSER", "redquorum", "reset", "on", ">PASSWORD"];
        let user: Vec<&str> = user.into_iter().chain(rules.map(String::as_str)).collect();
        server.command(&["FLUSHALL"]).await;
        server.command(&user).await;
        server.command(&["ACL", "LOG", "RESET"]).await;
        let works = wakes_a_waiter(&server.url().replace("//", "//redquorum:PASSWORD@")).await;
        let mut refused = permissions::refused_objects(server).await;
        // The redis crate sends this command on each connection. No refusal has an effect, and Redis 7.0 has no such command.
        refused.remove("client|setinfo");
        match missing {
            None => assert!(works && refused.is_empty(), "refused: {refused:?}"),
            Some(missing) => assert!(!refused.is_empty(), "{missing} is not needed"),
        }
    }
}

#[tokio::test]
async fn a_client_without_a_restart_guard_has_no_node_in_a_cluster() {
    let error = builder(["redis+cluster://127.0.0.1:1".to_owned()])
        .restart_guard(RestartGuard::Off)
        .connect()
        .await
        .unwrap_err();
    let Error::Config(ConfigError::OutOfRange { setting, given, expected, .. }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!((*setting, &**given), ("restart_guard", "off"));
    assert!(expected.contains("127.0.0.1:1/redquorum is a Redis Cluster"), "{expected}");
}

/// The urls have different seeds and different hash tags.
#[tokio::test]
async fn two_nodes_in_one_cluster_are_refused() {
    let (setup, beside) = tokio::join!(Setup::start(), Cluster::processes(1));
    let [first, second] = [0, 1].map(|shard| setup.cluster.master(shard).port());
    let nodes = [
        format!("redis+cluster://127.0.0.1:{first}/one"),
        format!("redis+cluster://127.0.0.1:{second}/two"),
        beside.server(0).url(),
    ];
    let begin = Stopwatch::start();
    for error in [
        builder(nodes.clone()).admit_new_nodes().connect().await.unwrap_err().to_string(),
        admin::init(&builder(nodes)).await.unwrap_err().to_string(),
    ] {
        assert!(error.contains("the same Redis Cluster as 127.0.0.1:"), "{error}");
    }
    // The fault cannot pass, so no call waits for the connect timeout.
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_standalone_server_behind_the_url_of_a_cluster_is_refused() {
    let cluster = Cluster::processes(1).await;
    let url = format!("redis+cluster://{}", address(cluster.server(0)));
    let error = builder([url]).connect().await.unwrap_err();
    let Error::Config(ConfigError::Server { node, reason, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(&**node, format!("{}/redquorum", address(cluster.server(0))));
    assert_eq!(reason, &NodeError::StandaloneMode);
    assert!(cluster.server(0).keys().await.is_empty());
}

#[tokio::test]
async fn a_cluster_without_slots_and_a_missing_seed_are_named() {
    let options = ServerOptions::default().config("cluster-enabled", "yes");
    let cluster = Cluster::start_as(Kind::Processes, 1, options).await;
    let server = cluster.server(0);
    let unused = redquorum_tests::Port::reserve();
    for (url, is_expected) in [
        (
            format!("redis+cluster://127.0.0.1:{},{}", unused.number(), address(server)),
            (|error| matches!(error, NodeError::ClusterDown(_))) as fn(&NodeError) -> bool,
        ),
        (format!("redis+cluster://127.0.0.1:{0},localhost:{0}", unused.number()), |error| {
            matches!(error, NodeError::NoSlotMaster(_))
        }),
    ] {
        let builder = builder([url]).connect_timeout(Duration::from_secs(3));
        let replies = replies_of(builder.connect().await.unwrap_err());
        let (_, reply) = replies.iter().next().unwrap();
        assert!(refusal(reply).is_some_and(is_expected), "{reply}");
    }
}

/// The slot moves to another master while a lease is held. The other nodes keep the lease alive.
#[tokio::test]
async fn a_lease_survives_the_migration_of_its_slot() {
    let (setup, beside) = tokio::join!(Setup::start(), Cluster::processes(2));
    let builder = builder([setup.url()].into_iter().chain(beside.urls()));
    let (holder, other) = (init_and_connect(builder.clone()).await, builder.connect().await.unwrap());
    let held = assert_locks(&holder).await;
    assert_eq!(reply_of_first_node(&other).await, NodeReply::Done);
    let fill = "for i = 1, 20000 do redis.call('SET', KEYS[1] .. i, i) end";
    setup.master().query::<()>(redis::cmd("EVAL").arg(fill).arg(1).arg(TAG)).await;
    let mut refusals = 0;
    setup
        .move_slot(100, async || {
            // The two servers give the lock of the free resource, whatever the cluster replies.
            let reply = reply_of_first_node(&other).await;
            assert!(reply != NodeReply::Done, "the moving slot gives a vote");
            refusals += usize::from(matches!(reply, NodeReply::Failed(NodeError::SlotMigrating)));
            held.ensure().unwrap();
            assert!(other.red_lock("r").try_lock().await.unwrap().is_none(), "the lease was granted twice");
        })
        .await;
    assert!(refusals > 100, "the moving slot has refused {refusals} locks of at least 200");
    // The incarnation in the moved metadata is that of the source.
    eventually(SOON, "the target is in quarantine", async || {
        held.ensure().unwrap();
        matches!(
            reply_of_first_node(&other).await,
            NodeReply::Refused(Refusal::Quarantined { remaining: Some(_), .. })
        )
    })
    .await;
    assert!(other.red_lock("r").try_lock().await.unwrap().is_none());
    let is_voting = async || reply_of_first_node(&other).await == NodeReply::Done;
    eventually(SOON, "the target votes", is_voting).await;
    held.ensure().unwrap();
    held.unlock().await.unwrap();
    drop(assert_locks(&other).await);
}
