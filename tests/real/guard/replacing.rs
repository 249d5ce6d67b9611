//! `admin::replace`: one node is replaced by a new server, while clients with the old and the new list of nodes lock.
//!
//! Promise: no lease is lost, no two leases on one resource are valid at the same time, and tokens grow.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use redquorum::{
    FencingToken,
    admin::{Replaced, Replacement},
    error::AdminError,
};
use tokio::time::{sleep, timeout};

use super::*;
use crate::real::behaviours::NODE_METADATA;

/// The number of the server that leaves, and of the server that takes its place.
const OLD: usize = 2;
const NEW: usize = 3;

/// The time for which a client uses each lease.
const USE: Duration = Duration::from_millis(3);

/// The number of leases of each list below which a test shows nothing.
const ENOUGH_LEASES: usize = 20;

/// The use of a lease that was valid until the end of the use.
struct LeaseUse {
    begin: Instant,
    end: Instant,
    token: FencingToken,
    has_new_list: bool,
}

fn settings(cluster: &Cluster, servers: [usize; 3]) -> QuorumBuilder {
    builder(servers.map(|number| cluster.server(number).url())).connect_timeout(Duration::from_secs(2))
}

async fn fingerprint(server: &Server) -> Option<String> {
    server.query(redis::cmd("HGET").arg(NODE_METADATA).arg("fingerprint")).await
}

/// Locks and unlocks one resource until the end, and records each use.
async fn lock_repeatedly(
    quorum: &Quorum,
    has_new_list: bool,
    is_over: &AtomicBool,
    uses: &Mutex<Vec<LeaseUse>>,
) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok(Some(guard)) = quorum.red_lock("r").try_lock_for(Duration::from_secs(1)).await else {
            continue;
        };
        let begin = Instant::now();
        sleep(USE).await;
        let end = Instant::now();
        if guard.is_valid() {
            let token = guard.fencing_token();
            uses.lock().unwrap().push(LeaseUse { begin, end, token, has_new_list });
        }
        guard.unlock().await.ok();
    }
}

/// Asserts that the uses do not overlap, and that the tokens grow.
fn assert_exclusive_and_ordered(mut uses: Vec<LeaseUse>) {
    uses.sort_by_key(|of_lease| of_lease.begin);
    for pair in uses.windows(2) {
        assert!(pair[0].end <= pair[1].begin, "two leases were valid at the same time");
        assert!(pair[0].token < pair[1].token, "{} follows {}", pair[1].token, pair[0].token);
    }
    for has_new_list in [false, true] {
        let leases = uses.iter().filter(|of_lease| of_lease.has_new_list == has_new_list).count();
        assert!(leases > ENOUGH_LEASES, "{leases} leases, new list: {has_new_list}");
    }
}

/// Replaces a node under load. `replace` makes the call, and may interrupt it.
async fn replace_under_load(
    is_old_dead: bool,
    replace: impl AsyncFnOnce(QuorumBuilder, Replacement) -> Replaced,
) {
    let cluster = Cluster::start(4).await;
    let [old_list, new_list] = [OLD, NEW].map(|last| settings(&cluster, [0, 1, last]));
    admin::init(&old_list).await.unwrap();
    let connect = async |list: &QuorumBuilder| list.clone().connect().await.unwrap();
    let [holder, one, other] = [connect(&old_list).await, connect(&old_list).await, connect(&old_list).await];
    let held = holder.red_lock("held").lock().await.unwrap();
    let ours = fingerprint(cluster.server(0)).await;
    let (is_over, uses) = (AtomicBool::new(false), Mutex::default());
    let replacement = Replacement::new(cluster.server(OLD).url(), cluster.server(NEW).url());
    let replacing = async {
        sleep(Duration::from_millis(300)).await;
        let replacement = if is_old_dead {
            cluster.server(OLD).kill().await;
            replacement.old_is_gone()
        } else {
            replacement
        };
        let replaced = replace(old_list.clone(), replacement).await;
        let address = |number: usize| format!("127.0.0.1:{}", cluster.server(number).port());
        assert_eq!([&*replaced.old, &*replaced.new], [&*address(OLD), &*address(NEW)]);
        assert_eq!(replaced.nodes, [0, 1, NEW].map(|number| cluster.server(number).url()));
        assert!(held.is_valid());
        let after = connect(&new_list).await;
        assert_eq!(after.health().await.voting(), 3);
        sleep(Duration::from_secs(1)).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let with_new_list = async {
        let is_open = async || fingerprint(cluster.server(NEW)).await == ours;
        eventually(SOON * 3, "the new server belongs to the quorum", is_open).await;
        lock_repeatedly(&connect(&new_list).await, true, &is_over, &uses).await;
    };
    let with_old_list = async |quorum: &Quorum| lock_repeatedly(quorum, false, &is_over, &uses).await;
    tokio::join!(replacing, with_new_list, with_old_list(&one), with_old_list(&other));
    assert!(held.is_valid(), "{}", held.node_replies());
    held.unlock().await.unwrap();
    assert_exclusive_and_ordered(uses.into_inner().unwrap());
    if !is_old_dead {
        let replaced = fingerprint(cluster.server(OLD)).await.unwrap();
        let address = format!("127.0.0.1:{}", cluster.server(NEW).port());
        assert!(
            replaced.starts_with("closed for ") && replaced.ends_with(&format!(" replaced by {address}"))
        );
        let health = one.health().await;
        let shown: BTreeSet<&str> =
            health.nodes().filter_map(|node| node.holder().err()?.replaced_by()).collect();
        assert_eq!(shown, BTreeSet::from([&*address]), "{health}");
    }
}

#[tokio::test]
async fn no_lease_is_lost_and_no_two_are_valid_while_a_node_is_replaced() {
    for is_old_dead in [false, true] {
        let replace = async |list: QuorumBuilder, replacement: Replacement| {
            admin::replace(&list, &replacement).await.unwrap()
        };
        replace_under_load(is_old_dead, replace).await;
    }
}

/// The call ends after every step: after 1 ms, 2 ms, 4 ms and so on.
#[tokio::test]
async fn a_replacement_that_ends_at_any_time_is_continued_by_the_next_call() {
    for is_old_dead in [false, true] {
        let replace = async |list: QuorumBuilder, replacement: Replacement| {
            let mut patience = Duration::from_millis(1);
            loop {
                if let Ok(replaced) = timeout(patience, admin::replace(&list, &replacement)).await {
                    return replaced.unwrap();
                }
                patience *= 2;
            }
        };
        replace_under_load(is_old_dead, replace).await;
    }
}

/// A node that refuses writes answers all questions, but does not vote.
#[tokio::test]
async fn a_node_is_replaced_only_if_the_other_nodes_accept_writes() {
    let cluster = Cluster::start(4).await;
    let old_list = settings(&cluster, [0, 1, OLD]);
    admin::init(&old_list).await.unwrap();
    let ours = fingerprint(cluster.server(0)).await;
    let set = async |replicas: &str| {
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg("min-replicas-to-write").arg(replicas);
        cluster.server(1).query::<()>(&config).await;
    };
    set("1").await;
    let replacement = Replacement::new(cluster.server(OLD).url(), cluster.server(NEW).url());
    let refused = admin::replace(&old_list, &replacement).await;
    let Err(AdminError::OthersNeeded(replies)) = &refused else { panic!("{refused:?}") };
    assert!(replies.to_string().contains("NOREPLICAS"), "{replies}");
    assert_eq!(
        [fingerprint(cluster.server(OLD)).await, fingerprint(cluster.server(NEW)).await],
        [ours, None]
    );
}

/// Nothing is changed: the next call, with an old node that answers, begins the replacement.
#[tokio::test]
async fn a_silent_node_is_replaced_only_if_it_is_said_to_be_gone() {
    let cluster = Cluster::start(4).await;
    let old_list = settings(&cluster, [0, 1, OLD]);
    admin::init(&old_list).await.unwrap();
    cluster.server(OLD).freeze().await;
    let replacement = Replacement::new(cluster.server(OLD).url(), cluster.server(NEW).url());
    let refused = admin::replace(&old_list, &replacement).await;
    let Err(AdminError::OldSilent { node, .. }) = &refused else { panic!("{refused:?}") };
    assert_eq!(**node, *format!("127.0.0.1:{}", cluster.server(OLD).port()));
    assert_eq!(fingerprint(cluster.server(NEW)).await, None);
    cluster.server(OLD).thaw().await;
    admin::replace(&old_list, &replacement.old_is_gone()).await.unwrap();
    let replaced = fingerprint(cluster.server(OLD)).await.unwrap();
    assert!(replaced.contains(" replaced by "), "{replaced}");
}

/// The data of a replica is that of its master, which may be a node. Keys of applications do no harm.
#[tokio::test]
async fn a_replica_stands_in_for_no_node_and_a_server_with_other_keys_does() {
    let cluster = Cluster::start(5).await;
    let old_list = settings(&cluster, [0, 1, OLD]);
    admin::init(&old_list).await.unwrap();
    let replacement = Replacement::new(cluster.server(OLD).url(), cluster.server(NEW).url());
    let new = cluster.server(NEW);
    let address = format!("127.0.0.1:{}", new.port());
    for master in [0, 4] {
        let master = cluster.server(master).port().to_string();
        new.query::<()>(redis::cmd("REPLICAOF").arg("127.0.0.1").arg(master)).await;
        let is_linked = async || {
            let info: String = new.query(redis::cmd("INFO").arg("replication")).await;
            info.contains("master_link_status:up")
        };
        eventually(SOON, "the replica has the data of its master", is_linked).await;
        let refused = admin::replace(&old_list, &replacement).await;
        assert!(
            matches!(&refused, Err(AdminError::NewIsReplica { node, .. }) if **node == *address),
            "{refused:?}"
        );
    }
    new.query::<()>(redis::cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    new.query::<()>(redis::cmd("SET").arg("of-an-application").arg("1")).await;
    admin::replace(&old_list, &replacement).await.unwrap();
}
