//! Rollbacks of failed attempts, on real servers.
//!
//! Promise: a failed attempt leaves no lock on any node. The order in which its requests arrive does not matter, nor
//! the time until a node answers again.

use std::time::Duration;

use redquorum::error::{NodeError, NodeReply};
use redquorum_tests::{Cluster, Direction, ServerOptions, eventually};

use super::{
    NODE_TIMEOUT, SOON, WITH_TTL, builder_behind, client, client_with_short_timeout, evalsha_calls, for_each,
    hold_requests, in_order, is_locked, open_requests, proxies, renew_until_all_granted, replies_of,
    wait_for_all_grants, wait_for_tombstone, wait_until_rolled_back, wait_until_unlocked,
};

/// A timeout or an error does not prove that a node refused. Therefore the rollback is sent to each node that may have
/// executed the lock, or may still execute the lock.
#[tokio::test]
async fn a_failed_attempt_is_rolled_back_on_nodes_that_granted_failed_or_were_silent() {
    let cluster = Cluster::start(5).await;
    let quorum = client_with_short_timeout(&cluster).await;
    cluster.server(0).command(&["SET", "r", "something else"]).await;
    cluster.server(1).pause_writes(Duration::from_secs(60)).await;
    cluster.server(2).freeze().await;
    let lock = quorum.red_lock("r").options(WITH_TTL);
    let replies = replies_of(lock.try_lock().await.unwrap_err());
    let (error, silent) = (NodeReply::Failed(NodeError::WrongType), NodeReply::Failed(NodeError::TimedOut));
    assert_eq!(in_order(&replies), [error, silent.clone(), silent, NodeReply::Done, NodeReply::Done]);
    for server in cluster.some(3..5) {
        eventually(SOON, "a grant is rolled back", async || !is_locked(server, "r").await).await;
    }
    cluster.server(1).command(&["CLIENT", "UNPAUSE"]).await;
    cluster.server(2).thaw().await;
    for server in cluster.some(1..3) {
        wait_until_rolled_back(server, "r").await;
    }
    // Four nodes are enough for a quorum. Server 0 still has the string under the name of the resource.
    lock.try_lock().await.unwrap().expect("the failed attempt left a lock").unlock().await.unwrap();
    let kept: String = cluster.server(0).query(redis::cmd("GET").arg("r")).await;
    assert_eq!(kept, "something else");
}

/// On each connection, the rollback of one attempt precedes the next attempt.
#[tokio::test]
async fn the_rollback_of_an_attempt_precedes_the_next_attempt() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    let lock = quorum.red_lock("r").options(WITH_TTL);
    for _ in 0..5 {
        proxies[..2].iter().for_each(|proxy| proxy.hold(Direction::Replies));
        // All nodes execute the lock, but the client receives only one of the three grants.
        let replies = replies_of(lock.try_lock().await.unwrap_err());
        assert_eq!(replies.done(), 1, "{replies}");
        for_each(&proxies, |proxy| proxy.open(Direction::Replies));
        let guard = lock.try_lock_for(SOON).await.unwrap().expect("the resource is held");
        // One of the two nodes may not have been asked, because it was still silent.
        renew_until_all_granted(&guard).await;
        guard.unlock().await.unwrap();
    }
    wait_until_unlocked(&cluster, "r").await;
}

/// Lock and rollback use one connection, so a delayed lock precedes its rollback.
#[tokio::test]
async fn a_delayed_lock_is_followed_by_its_own_rollback() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    hold_requests(&proxies[..2]);
    replies_of(quorum.red_lock("r").options(WITH_TTL).try_lock().await.unwrap_err());
    // After the drop of the client, its pending unlocks are still sent.
    drop(quorum);
    open_requests(&proxies);
    for server in cluster.some(0..2) {
        wait_until_rolled_back(server, "r").await;
    }
    wait_until_unlocked(&cluster, "r").await;
}

/// If the lock is delayed in an old connection and arrives after its rollback, the tombstone refuses the
/// lock.
#[tokio::test]
async fn a_lock_that_arrives_after_its_own_rollback_is_refused() {
    let cluster = Cluster::start(1).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    let server = cluster.server(0);
    // Longer than the client keeps a silent connection.
    proxies[0].delay(Direction::Requests, Duration::from_millis(4_500));
    replies_of(quorum.red_lock("r").options(WITH_TTL).try_lock().await.unwrap_err());
    proxies[0].delay(Direction::Requests, Duration::ZERO);
    let before = evalsha_calls(server).await;
    wait_for_tombstone(server, "r").await;
    let unlocked = evalsha_calls(server).await;
    // The new connection has sent its registration and the rollback.
    assert_eq!(unlocked, before + 2, "the lock arrived before its rollback, so the test shows nothing");
    eventually(SOON, "the lock has arrived, too", async || evalsha_calls(server).await > unlocked).await;
    assert!(!is_locked(server, "r").await);
    let guard = quorum
        .red_lock("r")
        .options(WITH_TTL)
        .try_lock_for(SOON)
        .await
        .unwrap()
        .expect("the resource is held");
    guard.unlock().await.unwrap();
}

/// A server without enough replicas refuses writes. The client repeats the unlock until the server executes the unlock,
/// and a shutdown waits for the execution.
#[tokio::test]
async fn an_unlock_refused_for_lack_of_replicas_is_repeated_until_executed() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let refused = guard.unlock().await.unwrap();
    assert!(!refused.has_quorum(), "{refused}");
    assert!(refused.to_string().contains("NOREPLICAS"), "the server's error is missing: {refused}");
    let before = evalsha_calls(server).await;
    eventually(SOON, "the unlock is repeated", async || evalsha_calls(server).await > before + 1).await;
    assert!(is_locked(server, "r").await);
    let (was_locked, shutdown) = tokio::join!(
        async {
            let was_locked = is_locked(server, "r").await;
            server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
            was_locked
        },
        quorum.shutdown()
    );
    assert!(was_locked);
    assert!(shutdown.is_complete(), "{shutdown}");
    assert!(!is_locked(server, "r").await, "the shutdown did not wait for the pending unlock");
}

/// The client repeats an unlock that a busy server refuses.
#[tokio::test]
async fn an_unlock_refused_by_a_busy_server_is_repeated() {
    let cluster = Cluster::start_with(3, ServerOptions::default().config("lua-time-limit", "20")).await;
    let quorum = client_with_short_timeout(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    let server = cluster.server(0);
    let mut endless = redis::cmd("EVAL");
    endless.arg("while true do end").arg(0);
    let unlock = async {
        let is_busy = async || server.try_query::<()>(redis::cmd("GET").arg("r")).await.is_err();
        eventually(SOON, "the server is busy", is_busy).await;
        guard.unlock().await.unwrap();
        // The answer to this lock follows the answer to the unlock.
        let barrier = quorum.red_lock("barrier").options(WITH_TTL).lock().await.unwrap();
        let refused = NodeReply::Failed(NodeError::Busy);
        let is_refused = async || in_order(&barrier.node_replies())[0] == refused;
        eventually(SOON, "the server has refused", is_refused).await;
        server.command(&["SCRIPT", "KILL"]).await;
    };
    let (endless, ()) = tokio::join!(server.try_query::<()>(&endless), unlock);
    assert!(endless.is_err(), "the endless script ended without an error");
    wait_until_unlocked(&cluster, "r").await;
}
