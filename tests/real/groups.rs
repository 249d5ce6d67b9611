//! Groups of resources, all or none.

use std::time::Duration;

use redquorum::{
    Error, LockGuard, MultiLock, Quorum, RedLock, Resource,
    error::{ConfigError, InvalidResource, LossReason},
};
use redquorum_tests::{Cluster, Server, Stopwatch, eventually};

use super::{
    behaviours::loss,
    servers::{SOON, builder, calls, client, have_holds, holds, owners, put_owner, remaining},
};

mod regions;

const GROUP: [&str; 3] = ["a", "b", "c"];

/// Another client has it.
const STRANGER: &str = "4f9b1a52-8d41-4a59-9e5c-7f0b6b1f6a3e:7";

const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_group_is_one_request_to_each_node_and_has_one_token() {
    const ROUNDS: usize = 5;
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let names: Vec<String> = (0..20).map(|number| format!("resource:{number}")).collect();
    let mut in_order: Vec<Resource> = names.iter().map(|name| Resource::new(name).unwrap()).collect();
    in_order.sort();
    // Counters that are missing begin at each node's own second; afterwards they are in step.
    quorum.multi_lock(&names).lock().await.unwrap().unlock().await.unwrap();
    have_holds(cluster.servers(), &names[0], 0).await;
    let mut asked = Vec::new();
    for server in cluster.servers() {
        asked.push(calls(server).await);
    }
    let mut last = None;
    for _ in 0..ROUNDS {
        let group = quorum.multi_lock(&names).lock().await.unwrap();
        are_asked_once_more(&cluster, &mut asked).await;
        let token = Some(group.fencing_token());
        assert!(token > last, "{token:?} after {last:?}");
        assert_eq!(group.resources(), in_order);
        assert_eq!(group.resource(), &in_order[0]);
        last = token;
        group.renew().await.unwrap();
        are_asked_once_more(&cluster, &mut asked).await;
        group.unlock().await.unwrap();
        are_asked_once_more(&cluster, &mut asked).await;
    }
    let alone = quorum.red_lock(&names[7]).lock().await.unwrap();
    assert!(Some(alone.fencing_token()) > last);
}

#[tokio::test]
async fn a_group_of_which_another_holds_one_resource_is_refused_and_nothing_of_it_is_left() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        put_owner(server, "b", STRANGER, LONG).await;
    }
    assert!(quorum.multi_lock(GROUP).try_lock().await.unwrap().is_none());
    assert!(quorum.multi_lock(GROUP).try_lock_for(Duration::from_millis(300)).await.unwrap().is_none());
    nothing_left(cluster.servers(), &["a", "c"]).await;

    // Where it was free, the group was granted, and is rolled back.
    cluster.server(2).command(&["DEL", "b"]).await;
    assert!(quorum.multi_lock(GROUP).try_lock().await.unwrap().is_none());
    nothing_left(cluster.servers(), &["a", "c"]).await;
    nothing_left(cluster.some(2..3), &["b"]).await;
    for server in cluster.some(0..2) {
        assert_eq!(owners(server, "b").await, [(STRANGER.to_owned(), 1)], "the other's lock is left alone");
    }

    cluster.server(1).command(&["DEL", "b"]).await;
    let group = quorum.multi_lock(GROUP).lock().await.unwrap();
    have_holds(cluster.some(1..3), "a", 1).await;
    assert_eq!(holds(cluster.some(0..1), "a").await, [0], "all or none holds for every node by itself");
    group.unlock().await.unwrap();
    nothing_left(cluster.servers(), &["a", "c"]).await;
}

/// When one of several resources is gone, its siblings are unlocked all the same, each on
/// every node that has it.
#[tokio::test]
async fn unlocking_a_group_frees_every_resource_that_is_still_ours_when_others_are_gone() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for gone in GROUP {
        let group = held_everywhere(&quorum, &cluster).await;
        for server in cluster.servers() {
            server.command(&["DEL", gone]).await;
        }
        put_owner(cluster.server(1), gone, STRANGER, LONG).await;
        group.unlock().await.unwrap();
        let ours: Vec<&str> = GROUP.into_iter().filter(|name| *name != gone).collect();
        nothing_left(cluster.servers(), &ours).await;
        assert_eq!(owners(cluster.server(1), gone).await, [(STRANGER.to_owned(), 1)]);
        cluster.server(1).command(&["DEL", gone]).await;
    }
    let group = held_everywhere(&quorum, &cluster).await;
    for (server, gone) in cluster.servers().iter().zip(GROUP) {
        server.command(&["DEL", gone]).await;
    }
    drop(group);
    nothing_left(cluster.servers(), &GROUP).await;
}

/// What somebody else holds by now is never extended by the renewal of a group it was once
/// part of.
#[tokio::test]
async fn a_group_never_extends_what_another_holds_by_now_and_is_lost_with_it() {
    let ttl = Duration::from_secs(3);
    let theirs = Duration::from_secs(2);
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(ttl).connect().await.unwrap();
    for is_on_request in [true, false] {
        let group = held_everywhere(&quorum, &cluster).await;
        let watch = Stopwatch::start();
        for server in cluster.some(0..2) {
            put_owner(server, "b", STRANGER, theirs).await;
        }
        if is_on_request {
            assert_eq!(loss(group.renew().await.unwrap_err()), LossReason::Revoked);
        }
        assert_eq!(group.lost().await.reason, LossReason::Revoked);
        let took = watch.undelayed();
        assert!(took < ttl / 2, "lost at the first renewal, not after {took:?}");
        assert!(!group.is_valid());
        for server in cluster.some(0..2) {
            assert_eq!(owners(server, "b").await, [(STRANGER.to_owned(), 1)]);
            let (passed, left) = (watch.undelayed(), remaining(server, "b").await);
            assert!(left <= theirs.saturating_sub(passed) + Duration::from_millis(250), "{left:?} left");
        }
        assert_eq!(loss(group.unlock().await.unwrap_err()), LossReason::Revoked);
        nothing_left(cluster.servers(), &["a", "c"]).await;
        eventually(theirs * 2, "their lease ends when it would have ended", async || {
            holds(cluster.some(0..2), "b").await == [0, 0]
        })
        .await;
    }
}

/// Where it costs nothing: what another holds on a minority is not extended, and the group
/// goes on without that node.
#[tokio::test]
async fn a_group_goes_on_without_a_minority_where_another_holds_part_of_it() {
    let theirs = Duration::from_secs(20);
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let group = held_everywhere(&quorum, &cluster).await;
    put_owner(cluster.server(0), "b", STRANGER, theirs).await;
    group.renew().await.unwrap();
    let before = remaining(cluster.server(0), "a").await;
    for _ in 0..3 {
        group.renew().await.unwrap();
    }
    assert!(remaining(cluster.server(0), "b").await <= theirs);
    assert!(remaining(cluster.server(0), "a").await <= before, "a node renews all or none");
    assert!(group.is_valid());
    group.unlock().await.unwrap();
    nothing_left(cluster.servers(), &["a", "c"]).await;
    assert_eq!(owners(cluster.server(0), "b").await, [(STRANGER.to_owned(), 1)]);
}

#[tokio::test]
async fn a_group_that_cannot_exist_is_an_error_before_any_request() {
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let before = calls(cluster.server(0)).await;
    let empty = "no resources: name at least one";
    assert_eq!(reason(quorum.multi_lock::<&str>([]).lock().await), empty);
    let none = || MultiLock::across::<RedLock>([]);
    assert_eq!(reason(none().lock().await), empty);
    assert_eq!(reason(none().try_lock().await), empty);
    assert_eq!(reason(none().try_lock_for(SOON).await), empty);
    let twice = "b stands twice: name each resource once";
    assert_eq!(reason(quorum.multi_lock(["b", "a", "b"]).lock().await), twice);
    assert_eq!(reason(quorum.multi_lock(["b"]).and_read(["b"]).lock().await), twice);
    let joined = MultiLock::across(["b", "b"].map(|name| quorum.red_lock(name)));
    assert_eq!(reason(joined.try_lock().await), twice);
    let nameless = quorum.multi_lock(["a", ""]).lock().await.map(drop);
    assert_eq!(nameless, Err(Error::Config(ConfigError::Resource(InvalidResource::Empty))));
    assert_eq!(calls(cluster.server(0)).await, before);
}

/// The reason why a group is refused.
fn reason<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let Err(Error::Config(ConfigError::Group { reason, .. })) = outcome else { panic!("{outcome:?}") };
    reason.to_string()
}

async fn held_everywhere(quorum: &Quorum, cluster: &Cluster) -> LockGuard {
    let group = quorum.multi_lock(GROUP).lock().await.unwrap();
    for resource in GROUP {
        have_holds(cluster.servers(), resource, 1).await;
    }
    group
}

/// Waits until none of these resources is locked on any of these servers.
async fn nothing_left(servers: &[Server], resources: &[&str]) {
    for resource in resources {
        have_holds(servers, resource, 0).await;
    }
}

/// Every server has executed one more request, and no second one: what a decision did not wait for
/// arrives after it.
async fn are_asked_once_more(cluster: &Cluster, asked: &mut [u64]) {
    for (server, asked) in cluster.servers().iter().zip(asked) {
        *asked += 1;
        eventually(SOON, "exactly one more call", async || calls(server).await == *asked).await;
    }
}
