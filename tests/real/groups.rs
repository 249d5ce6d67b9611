//! `MultiLock` groups of one quorum, on real servers.
//!
//! Promises: a group is locked, renewed and unlocked as a whole with one request to each node, a failed attempt leaves
//! no key, and keys of other clients are never changed.

use std::time::Duration;

use redquorum::{
    Error, LockGuard, MultiLock, Quorum, RedLock, Resource,
    error::{ConfigError, InvalidResource, LossReason},
};
use redquorum_tests::{Cluster, Server, Stopwatch, eventually};

use super::{
    behaviours::loss,
    servers::{SOON, builder, client, evalsha_calls, holds, leases, put_lease, remaining, wait_for_holds},
};

mod regions;

const GROUP: [&str; 3] = ["a", "b", "c"];

/// The lease id of another client.
const OTHER_ID: &str = "4f9b1a52-8d41-4a59-9e5c-7f0b6b1f6a3e:7";

/// The ttl of locks that stay held for the whole test.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_group_is_one_request_to_each_node_and_has_one_token() {
    const ROUNDS: usize = 5;
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let names: Vec<String> = (0..20).map(|number| format!("resource:{number}")).collect();
    let mut in_order: Vec<Resource> = names.iter().map(|name| Resource::new(name).unwrap()).collect();
    in_order.sort();
    // A missing counter begins at the node's time in whole seconds, so the first votes may differ, and the first lease
    // may need a write-back. After this lease, the counters of all nodes are equal.
    quorum.multi_lock(&names).lock().await.unwrap().unlock().await.unwrap();
    wait_for_holds(cluster.servers(), &names[0], 0).await;
    let mut asked = Vec::new();
    for server in cluster.servers() {
        asked.push(evalsha_calls(server).await);
    }
    let mut last = None;
    for _ in 0..ROUNDS {
        let group = quorum.multi_lock(&names).lock().await.unwrap();
        wait_for_one_more_request(&cluster, &mut asked).await;
        let token = Some(group.fencing_token());
        assert!(token > last, "{token:?} after {last:?}");
        assert_eq!(group.resources(), in_order);
        assert_eq!(group.resource(), &in_order[0]);
        last = token;
        group.renew().await.unwrap();
        wait_for_one_more_request(&cluster, &mut asked).await;
        group.unlock().await.unwrap();
        wait_for_one_more_request(&cluster, &mut asked).await;
    }
    let alone = quorum.red_lock(&names[7]).lock().await.unwrap();
    assert!(Some(alone.fencing_token()) > last);
}

#[tokio::test]
async fn a_group_with_one_held_resource_is_refused_and_rolled_back() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        put_lease(server, "b", OTHER_ID, LONG).await;
    }
    assert!(quorum.multi_lock(GROUP).try_lock().await.unwrap().is_none());
    assert!(quorum.multi_lock(GROUP).try_lock_for(Duration::from_millis(300)).await.unwrap().is_none());
    wait_until_unlocked(cluster.servers(), &["a", "c"]).await;

    // Server 2, where `b` is free now, grants the group, and has to roll it back.
    cluster.server(2).command(&["DEL", "b"]).await;
    assert!(quorum.multi_lock(GROUP).try_lock().await.unwrap().is_none());
    wait_until_unlocked(cluster.servers(), &["a", "c"]).await;
    wait_until_unlocked(cluster.some(2..3), &["b"]).await;
    for server in cluster.some(0..2) {
        assert_eq!(
            leases(server, "b").await,
            [(OTHER_ID.to_owned(), 1)],
            "the lock of the other client was changed"
        );
    }

    cluster.server(1).command(&["DEL", "b"]).await;
    let group = quorum.multi_lock(GROUP).lock().await.unwrap();
    wait_for_holds(cluster.some(1..3), "a", 1).await;
    assert_eq!(holds(cluster.some(0..1), "a").await, [0], "a node granted a part of the group");
    group.unlock().await.unwrap();
    wait_until_unlocked(cluster.servers(), &["a", "c"]).await;
}

/// If the key of one resource was lost, an unlock still deletes the keys of the other resources, on each
/// node.
#[tokio::test]
async fn unlocking_a_group_frees_its_other_resources_if_one_key_was_lost() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for lost in GROUP {
        let group = lock_on_all_nodes(&quorum, &cluster).await;
        for server in cluster.servers() {
            server.command(&["DEL", lost]).await;
        }
        put_lease(cluster.server(1), lost, OTHER_ID, LONG).await;
        group.unlock().await.unwrap();
        let remaining_names: Vec<&str> = GROUP.into_iter().filter(|name| *name != lost).collect();
        wait_until_unlocked(cluster.servers(), &remaining_names).await;
        assert_eq!(leases(cluster.server(1), lost).await, [(OTHER_ID.to_owned(), 1)]);
        cluster.server(1).command(&["DEL", lost]).await;
    }
    let group = lock_on_all_nodes(&quorum, &cluster).await;
    for (server, lost) in cluster.servers().iter().zip(GROUP) {
        server.command(&["DEL", lost]).await;
    }
    drop(group);
    wait_until_unlocked(cluster.servers(), &GROUP).await;
}

/// If another client locks a part of a group, a renewal does not extend that part, and the group is lost.
#[tokio::test]
async fn a_group_is_lost_if_another_client_locks_a_part_on_a_majority() {
    let ttl = Duration::from_secs(3);
    let other_ttl = Duration::from_secs(2);
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(ttl).connect().await.unwrap();
    for is_renewed_by_test in [true, false] {
        let group = lock_on_all_nodes(&quorum, &cluster).await;
        let watch = Stopwatch::start();
        for server in cluster.some(0..2) {
            put_lease(server, "b", OTHER_ID, other_ttl).await;
        }
        if is_renewed_by_test {
            assert_eq!(loss(group.renew().await.unwrap_err()), LossReason::Revoked);
        }
        assert_eq!(group.lost().await.reason, LossReason::Revoked);
        let took = watch.undelayed();
        assert!(took < ttl / 2, "lost only {took:?} after the key, and not at the first renewal");
        assert!(!group.is_valid());
        for server in cluster.some(0..2) {
            assert_eq!(leases(server, "b").await, [(OTHER_ID.to_owned(), 1)]);
            let (passed, left) = (watch.undelayed(), remaining(server, "b").await);
            assert!(left <= other_ttl.saturating_sub(passed) + Duration::from_millis(250), "{left:?} left");
        }
        assert_eq!(loss(group.unlock().await.unwrap_err()), LossReason::Revoked);
        wait_until_unlocked(cluster.servers(), &["a", "c"]).await;
        eventually(other_ttl * 2, "the other lease ends at its own ttl", async || {
            holds(cluster.some(0..2), "b").await == [0, 0]
        })
        .await;
    }
}

/// If another client locks a part on a minority of nodes only, the group stays valid without these nodes, and
/// that part is not extended.
#[tokio::test]
async fn a_group_stays_valid_if_another_client_holds_a_part_on_a_minority() {
    let other_ttl = Duration::from_secs(20);
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let group = lock_on_all_nodes(&quorum, &cluster).await;
    put_lease(cluster.server(0), "b", OTHER_ID, other_ttl).await;
    group.renew().await.unwrap();
    let before = remaining(cluster.server(0), "a").await;
    for _ in 0..3 {
        group.renew().await.unwrap();
    }
    assert!(remaining(cluster.server(0), "b").await <= other_ttl);
    assert!(remaining(cluster.server(0), "a").await <= before, "the node renewed a part of the group");
    assert!(group.is_valid());
    group.unlock().await.unwrap();
    wait_until_unlocked(cluster.servers(), &["a", "c"]).await;
    assert_eq!(leases(cluster.server(0), "b").await, [(OTHER_ID.to_owned(), 1)]);
}

#[tokio::test]
async fn an_invalid_group_is_an_error_before_any_request() {
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let before = evalsha_calls(cluster.server(0)).await;
    let empty = "no resources: name at least one";
    assert_eq!(reason(quorum.multi_lock::<&str>([]).lock().await), empty);
    let none = || MultiLock::across::<RedLock>([]);
    assert_eq!(reason(none().lock().await), empty);
    assert_eq!(reason(none().try_lock().await), empty);
    assert_eq!(reason(none().try_lock_for(SOON).await), empty);
    let twice = "b is named twice: name each resource once";
    assert_eq!(reason(quorum.multi_lock(["b", "a", "b"]).lock().await), twice);
    assert_eq!(reason(quorum.multi_lock(["b"]).and_read(["b"]).lock().await), twice);
    let joined = MultiLock::across(["b", "b"].map(|name| quorum.red_lock(name)));
    assert_eq!(reason(joined.try_lock().await), twice);
    let nameless = quorum.multi_lock(["a", ""]).lock().await.map(drop);
    assert_eq!(nameless, Err(Error::Config(ConfigError::Resource(InvalidResource::Empty))));
    assert_eq!(evalsha_calls(cluster.server(0)).await, before);
}

/// Returns the reason why a group is refused.
fn reason<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let Err(Error::Config(ConfigError::Group { reason, .. })) = outcome else { panic!("{outcome:?}") };
    reason.to_string()
}

/// Locks the group, and waits until each node has granted it.
async fn lock_on_all_nodes(quorum: &Quorum, cluster: &Cluster) -> LockGuard {
    let group = quorum.multi_lock(GROUP).lock().await.unwrap();
    for resource in GROUP {
        wait_for_holds(cluster.servers(), resource, 1).await;
    }
    group
}

/// Waits until none of these resources is locked on any of these servers.
async fn wait_until_unlocked(servers: &[Server], resources: &[&str]) {
    for resource in resources {
        wait_for_holds(servers, resource, 0).await;
    }
}

/// Waits until each server has executed exactly one more request. The call returns after the answers of a quorum, so
/// the request may reach the last server later.
async fn wait_for_one_more_request(cluster: &Cluster, asked: &mut [u64]) {
    for (server, asked) in cluster.servers().iter().zip(asked) {
        *asked += 1;
        eventually(SOON, "exactly one more call", async || evalsha_calls(server).await == *asked).await;
    }
}
