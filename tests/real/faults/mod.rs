//! Why there is no quorum: each cause, on two of three servers, is told apart in the error, and
//! never taken for a holder.

use std::time::Duration;

use redquorum::{
    Quorum, RedLock,
    error::{NodeError, NodeReply},
};
use redquorum_tests::{Cluster, Server, ServerOptions, eventually};

use super::behaviours::{SOON, WITH_TTL, builder, client, in_order, is_locked, replies_of};

mod connections;

/// Three servers of which the first is well.
async fn cluster() -> Cluster {
    Cluster::start(3).await
}

/// The two servers that something is wrong with.
fn ailing(cluster: &Cluster) -> &[Server] {
    cluster.some(1..3)
}

/// What the two ailing nodes give as their reasons; `None` if they are well enough for a lock.
async fn reasons_if_any(lock: &RedLock) -> Option<[NodeError; 2]> {
    let replies = match lock.try_lock().await {
        Ok(Some(_)) => return None,
        Ok(None) => panic!("an error was taken for a holder"),
        Err(error) => in_order(&replies_of(error)),
    };
    assert!(matches!(replies[0], NodeReply::Done | NodeReply::Pending), "{replies:?}");
    Some([1, 2].map(|node| match &replies[node] {
        NodeReply::Failed(node_error) => node_error.clone(),
        other => panic!("node {node} gave a vote: {other:?}"),
    }))
}

async fn reasons(lock: &RedLock) -> [NodeError; 2] {
    reasons_if_any(lock).await.expect("a quorum is ailing")
}

/// Waits until both give this reason, where the cause takes a moment, or breaks the connection
/// first.
async fn eventually_both(lock: &RedLock, what: &str, is_it: impl Fn(&NodeError) -> bool) {
    let told = async || reasons_if_any(lock).await.is_some_and(|reasons| reasons.iter().all(&is_it));
    eventually(SOON, what, told).await;
}

async fn all_ailing(cluster: &Cluster, words: &[&str]) {
    for server in ailing(cluster) {
        server.command(words).await;
    }
}

/// After the cause is gone, so is everything of the attempts.
async fn recovers(cluster: &Cluster, lock: &RedLock) {
    let locks = async || lock.try_lock().await.is_ok_and(|guard| guard.is_some());
    eventually(SOON, "the resource can be locked again", locks).await;
    for server in cluster.servers() {
        eventually(SOON, "no key is left", async || !is_locked(server, "r").await).await;
    }
}

/// A client that logs in as a user of its own, so that the fixture stays in charge of the servers.
async fn client_of_a_user(cluster: &Cluster) -> Quorum {
    for server in cluster.servers() {
        server.command(&["ACL", "SETUSER", "locker", "on", ">first", "~*", "&*", "+@all"]).await;
    }
    let urls = cluster.urls().into_iter().map(|url| url.replace("redis://", "redis://locker:first@"));
    Quorum::builder().admit_new_nodes().nodes(urls).connect().await.unwrap()
}

#[tokio::test]
async fn a_key_of_another_type_is_told() {
    let cluster = cluster().await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    all_ailing(&cluster, &["SET", "r", "something else"]).await;
    assert_eq!(reasons(&lock).await, [NodeError::WrongType, NodeError::WrongType]);
    all_ailing(&cluster, &["DEL", "r"]).await;
    recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn credentials_that_are_not_accepted_any_more_are_told() {
    let cluster = cluster().await;
    let lock = client_of_a_user(&cluster).await.red_lock("r").options(WITH_TTL);
    all_ailing(&cluster, &["ACL", "SETUSER", "locker", "<first", ">second"]).await;
    all_ailing(&cluster, &["CLIENT", "KILL", "USER", "locker"]).await;
    let is_refused = |node_error: &NodeError| match node_error {
        NodeError::Handshake(cause) => matches!(**cause, NodeError::NoAuth(_)),
        _ => false,
    };
    eventually_both(&lock, "the refused login is told", is_refused).await;
    all_ailing(&cluster, &["ACL", "SETUSER", "locker", ">first"]).await;
    recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_missing_password_is_told_when_connecting() {
    let cluster = Cluster::start_with(1, ServerOptions::default().password("secret")).await;
    let url = cluster.server(0).url().replace(":secret@", "");
    let outcome = Quorum::builder().admit_new_nodes().nodes([url]).connect().await;
    let reply = &in_order(&replies_of(outcome.unwrap_err()))[0];
    let NodeReply::Failed(NodeError::Handshake(cause)) = reply else { panic!("{reply:?}") };
    assert!(matches!(**cause, NodeError::NoAuth(_)), "{cause}");
}

/// Told by the first call that it refuses, and then by its refusal to register. What it voted
/// before may be lost by now, so that it recovers after a quarantine.
#[tokio::test]
async fn a_replica_is_told() {
    let cluster = cluster().await;
    let ttl = Duration::from_secs(2);
    let lock = builder(&cluster).ttl(ttl).max_ttl(ttl).connect().await.unwrap().red_lock("r");
    all_ailing(&cluster, &["REPLICAOF", "127.0.0.1", "1"]).await;
    assert_eq!(reasons(&lock).await, [NodeError::ReadOnly, NodeError::ReadOnly]);
    let is_no_longer_asked = |node_error: &NodeError| match node_error {
        NodeError::Handshake(cause) => **cause == NodeError::ReadOnly,
        _ => false,
    };
    eventually_both(&lock, "the connections are given up", is_no_longer_asked).await;
    all_ailing(&cluster, &["REPLICAOF", "NO", "ONE"]).await;
    recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_lack_of_memory_is_told() {
    let cluster = cluster().await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    all_ailing(&cluster, &["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(reasons(&lock).await, [NodeError::OutOfMemory, NodeError::OutOfMemory]);
    all_ailing(&cluster, &["CONFIG", "SET", "maxmemory", "0"]).await;
    recovers(&cluster, &lock).await;
}

/// Every key takes a millisecond to load, so that there is time to ask meanwhile.
#[tokio::test]
async fn a_server_that_is_loading_is_told() {
    let options = ServerOptions::default()
        .config("enable-debug-command", "yes")
        .config("key-load-delay", "1000")
        .config("loading-process-events-interval-bytes", "1024");
    let cluster = Cluster::start_with(3, options).await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    all_ailing(&cluster, &["DEBUG", "POPULATE", "1500", "key", "100"]).await;
    let told = async {
        for server in ailing(&cluster) {
            let is_loading = async || server.info_field("persistence", "loading").await == "1";
            eventually(SOON, "the server is loading", is_loading).await;
        }
        assert_eq!(reasons(&lock).await, [NodeError::Loading, NodeError::Loading]);
    };
    let reload = ["DEBUG", "RELOAD"];
    tokio::join!(cluster.server(1).command(&reload), cluster.server(2).command(&reload), told);
    recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_missing_permission_is_told_outside_and_inside_of_the_script() {
    let cluster = cluster().await;
    let lock = client_of_a_user(&cluster).await.red_lock("r").options(WITH_TTL);
    cluster.server(1).command(&["ACL", "SETUSER", "locker", "-evalsha"]).await;
    cluster.server(2).command(&["ACL", "SETUSER", "locker", "-hset"]).await;
    let reasons = reasons(&lock).await;
    assert!(reasons.iter().all(|node_error| matches!(node_error, NodeError::NoPermission(_))), "{reasons:?}");
    all_ailing(&cluster, &["ACL", "SETUSER", "locker", "+@all"]).await;
    recovers(&cluster, &lock).await;
}

/// A snapshot cannot be written to a directory of the kernel's.
#[tokio::test]
async fn a_server_that_cannot_persist_is_told() {
    let options = ServerOptions::default().config("enable-protected-configs", "yes");
    let cluster = Cluster::start_with(3, options).await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    for words in
        [&["CONFIG", "SET", "dir", "/proc"][..], &["CONFIG", "SET", "save", "3600 100000"], &["BGSAVE"]]
    {
        all_ailing(&cluster, words).await;
    }
    for server in ailing(&cluster) {
        let failed = async || server.info_field("persistence", "rdb_last_bgsave_status").await == "err";
        eventually(SOON, "the snapshot has failed", failed).await;
    }
    assert_eq!(reasons(&lock).await, [NodeError::CannotPersist, NodeError::CannotPersist]);
    all_ailing(&cluster, &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]).await;
    recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_told() {
    let options = ServerOptions::default().config("lua-time-limit", "20");
    let cluster = Cluster::start_with(3, options).await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    let mut endless = redis::cmd("EVAL");
    endless.arg("while true do end").arg(0);
    let told = async {
        for server in ailing(&cluster) {
            let is_busy = async || server.try_query::<()>(redis::cmd("GET").arg("r")).await.is_err();
            eventually(SOON, "the server is busy", is_busy).await;
        }
        assert_eq!(reasons(&lock).await, [NodeError::Busy, NodeError::Busy]);
        all_ailing(&cluster, &["SCRIPT", "KILL"]).await;
    };
    let (one, other, ()) = tokio::join!(
        cluster.server(1).try_query::<()>(&endless),
        cluster.server(2).try_query::<()>(&endless),
        told
    );
    assert!(one.is_err() && other.is_err(), "the scripts were killed");
    recovers(&cluster, &lock).await;
}
