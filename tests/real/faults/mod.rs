//! Causes of a missing quorum, on real servers. Most tests cause one fault on two of three servers.
//!
//! Promises: the error names the cause for each node, a fault never looks like a held lock (`Ok(None)`), and after the
//! fault the resource can be locked, and no key remains.

use std::time::Duration;

use redquorum::{
    Quorum, RedLock,
    error::{NodeError, NodeReply},
};
use redquorum_tests::{Cluster, Server, ServerOptions, eventually};

use super::behaviours::{SOON, WITH_TTL, builder, client, in_order, is_locked, replies_of};

mod connections;

/// Starts three servers. Only the second and the third get faults.
async fn cluster() -> Cluster {
    Cluster::start(3).await
}

/// Returns the two servers with the fault.
fn faulty_servers(cluster: &Cluster) -> &[Server] {
    cluster.some(1..3)
}

/// Returns the errors of the two faulty nodes, or `None` if the lock succeeds.
async fn reasons_if_any(lock: &RedLock) -> Option<[NodeError; 2]> {
    let replies = match lock.try_lock().await {
        Ok(Some(_)) => return None,
        Ok(None) => panic!("a fault looks like a holder"),
        Err(error) => in_order(&replies_of(error)),
    };
    assert!(matches!(replies[0], NodeReply::Done | NodeReply::Pending), "{replies:?}");
    Some([1, 2].map(|node| match &replies[node] {
        NodeReply::Failed(node_error) => node_error.clone(),
        other => panic!("node {node} gave a vote: {other:?}"),
    }))
}

/// Returns the errors of the two faulty nodes, which have to prevent the lock.
async fn reasons(lock: &RedLock) -> [NodeError; 2] {
    reasons_if_any(lock).await.expect("the lock succeeded although two of three servers are faulty")
}

/// Waits until both faulty nodes give an error for which `is_expected` holds. Some faults take time, or first
/// break the connection.
async fn wait_until_both_fail_with(lock: &RedLock, what: &str, is_expected: impl Fn(&NodeError) -> bool) {
    let both_fail =
        async || reasons_if_any(lock).await.is_some_and(|reasons| reasons.iter().all(&is_expected));
    eventually(SOON, what, both_fail).await;
}

/// Sends a command to both faulty servers.
async fn command_on_faulty(cluster: &Cluster, words: &[&str]) {
    for server in faulty_servers(cluster) {
        server.command(words).await;
    }
}

/// Waits until the resource can be locked again, and until no key of failed attempts remains.
async fn assert_recovers(cluster: &Cluster, lock: &RedLock) {
    let locks = async || lock.try_lock().await.is_ok_and(|guard| guard.is_some());
    eventually(SOON, "the resource can be locked again", locks).await;
    for server in cluster.servers() {
        eventually(SOON, "no key of the lock remains", async || !is_locked(server, "r").await).await;
    }
}

/// Connects a client as the user `locker`. The test still controls the servers as the default user.
async fn client_of_a_user(cluster: &Cluster) -> Quorum {
    for server in cluster.servers() {
        server.command(&["ACL", "SETUSER", "locker", "on", ">first", "~*", "&*", "+@all"]).await;
    }
    let urls = cluster.urls().into_iter().map(|url| url.replace("://", "://locker:first@"));
    Quorum::builder().admit_new_nodes().nodes(urls).connect().await.unwrap()
}

#[tokio::test]
async fn a_key_of_another_type_is_reported() {
    let cluster = cluster().await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    command_on_faulty(&cluster, &["SET", "r", "something else"]).await;
    assert_eq!(reasons(&lock).await, [NodeError::WrongType, NodeError::WrongType]);
    command_on_faulty(&cluster, &["DEL", "r"]).await;
    assert_recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn revoked_credentials_are_reported() {
    let cluster = cluster().await;
    let lock = client_of_a_user(&cluster).await.red_lock("r").options(WITH_TTL);
    command_on_faulty(&cluster, &["ACL", "SETUSER", "locker", "<first", ">second"]).await;
    command_on_faulty(&cluster, &["CLIENT", "KILL", "USER", "locker"]).await;
    let is_refused = |node_error: &NodeError| match node_error {
        NodeError::Handshake(cause) => matches!(**cause, NodeError::NoAuth(_)),
        _ => false,
    };
    wait_until_both_fail_with(&lock, "both nodes refuse the login", is_refused).await;
    command_on_faulty(&cluster, &["ACL", "SETUSER", "locker", ">first"]).await;
    assert_recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_missing_password_is_reported_by_connect() {
    let cluster = Cluster::start_with(1, ServerOptions::default().password("secret")).await;
    let url = cluster.server(0).url().replace(":secret@", "");
    let outcome = Quorum::builder().admit_new_nodes().nodes([url]).connect().await;
    let reply = &in_order(&replies_of(outcome.unwrap_err()))[0];
    let NodeReply::Failed(NodeError::Handshake(cause)) = reply else { panic!("{reply:?}") };
    assert!(matches!(**cause, NodeError::NoAuth(_)), "{cause}");
}

/// The first call reports that the servers refuse writes. Afterwards, the servers refuse the registration of new
/// connections. A server that was a replica may have lost votes, so it votes again only after a quarantine.
#[tokio::test]
async fn a_replica_is_reported() {
    let cluster = cluster().await;
    let ttl = Duration::from_secs(2);
    let lock = builder(&cluster).ttl(ttl).max_ttl(ttl).connect().await.unwrap().red_lock("r");
    command_on_faulty(&cluster, &["REPLICAOF", "127.0.0.1", "1"]).await;
    assert_eq!(reasons(&lock).await, [NodeError::ReadOnly, NodeError::ReadOnly]);
    let is_registration_refused = |node_error: &NodeError| match node_error {
        NodeError::Handshake(cause) => **cause == NodeError::ReadOnly,
        _ => false,
    };
    wait_until_both_fail_with(&lock, "both nodes refuse the registration", is_registration_refused).await;
    command_on_faulty(&cluster, &["REPLICAOF", "NO", "ONE"]).await;
    assert_recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_lack_of_memory_is_reported() {
    let cluster = cluster().await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    command_on_faulty(&cluster, &["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(reasons(&lock).await, [NodeError::OutOfMemory, NodeError::OutOfMemory]);
    command_on_faulty(&cluster, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_recovers(&cluster, &lock).await;
}

/// Each of 1,500 keys takes a millisecond to load, so the lock call reaches the servers while they load.
#[tokio::test]
async fn a_loading_server_is_reported() {
    let options = ServerOptions::default()
        .config("enable-debug-command", "yes")
        .config("key-load-delay", "1000")
        .config("loading-process-events-interval-bytes", "1024");
    let cluster = Cluster::start_with(3, options).await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    command_on_faulty(&cluster, &["DEBUG", "POPULATE", "1500", "key", "100"]).await;
    let check = async {
        for server in faulty_servers(&cluster) {
            let is_loading = async || server.info_field("persistence", "loading").await == "1";
            eventually(SOON, "the server is loading", is_loading).await;
        }
        assert_eq!(reasons(&lock).await, [NodeError::Loading, NodeError::Loading]);
    };
    let reload = ["DEBUG", "RELOAD"];
    tokio::join!(cluster.server(1).command(&reload), cluster.server(2).command(&reload), check);
    assert_recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_missing_permission_outside_or_inside_of_the_script_is_reported() {
    let cluster = cluster().await;
    let lock = client_of_a_user(&cluster).await.red_lock("r").options(WITH_TTL);
    cluster.server(1).command(&["ACL", "SETUSER", "locker", "-evalsha"]).await;
    cluster.server(2).command(&["ACL", "SETUSER", "locker", "-hset"]).await;
    let reasons = reasons(&lock).await;
    assert!(reasons.iter().all(|node_error| matches!(node_error, NodeError::NoPermission(_))), "{reasons:?}");
    command_on_faulty(&cluster, &["ACL", "SETUSER", "locker", "+@all"]).await;
    assert_recovers(&cluster, &lock).await;
}

/// A server cannot write a snapshot to the kernel's directory `/proc`.
#[tokio::test]
async fn a_server_that_cannot_persist_is_reported() {
    let options = ServerOptions::default().config("enable-protected-configs", "yes");
    let cluster = Cluster::start_with(3, options).await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    for words in
        [&["CONFIG", "SET", "dir", "/proc"][..], &["CONFIG", "SET", "save", "3600 100000"], &["BGSAVE"]]
    {
        command_on_faulty(&cluster, words).await;
    }
    for server in faulty_servers(&cluster) {
        let failed = async || server.info_field("persistence", "rdb_last_bgsave_status").await == "err";
        eventually(SOON, "the snapshot has failed", failed).await;
    }
    assert_eq!(reasons(&lock).await, [NodeError::CannotPersist, NodeError::CannotPersist]);
    command_on_faulty(&cluster, &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]).await;
    assert_recovers(&cluster, &lock).await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_reported() {
    let options = ServerOptions::default().config("lua-time-limit", "20");
    let cluster = Cluster::start_with(3, options).await;
    let lock = client(&cluster).await.red_lock("r").options(WITH_TTL);
    let mut endless = redis::cmd("EVAL");
    endless.arg("while true do end").arg(0);
    let check = async {
        for server in faulty_servers(&cluster) {
            let is_busy = async || server.try_query::<()>(redis::cmd("GET").arg("r")).await.is_err();
            eventually(SOON, "the server is busy", is_busy).await;
        }
        assert_eq!(reasons(&lock).await, [NodeError::Busy, NodeError::Busy]);
        command_on_faulty(&cluster, &["SCRIPT", "KILL"]).await;
    };
    let (one, other, ()) = tokio::join!(
        cluster.server(1).try_query::<()>(&endless),
        cluster.server(2).try_query::<()>(&endless),
        check
    );
    assert!(one.is_err() && other.is_err(), "an endless script ended without an error");
    assert_recovers(&cluster, &lock).await;
}
