//! What a failed acquisition leaves on the nodes: nothing.

use std::time::Duration;

use redquorum::error::{NodeError, NodeReply};
use redquorum_tests::{Cluster, Direction, ServerOptions, eventually};

use super::{
    NODE_TIMEOUT, SOON, WITH_TTL, all, builder_behind, calls, client, healed_on_all_nodes, hold_requests,
    impatient, in_order, is_locked, on_all_nodes, open_requests, proxies, replies_of, taken_back, tombstoned,
    unlocked_everywhere,
};

/// No answer and an error are no refusals, so the rollback goes to every node that may have
/// the lock, or get it.
#[tokio::test]
async fn a_failed_attempt_is_rolled_back_on_nodes_that_granted_erred_or_stayed_silent() {
    let cluster = Cluster::start(5).await;
    let quorum = impatient(&cluster).await;
    cluster.server(0).command(&["SET", "r", "something else"]).await;
    cluster.server(1).pause_writes(Duration::from_secs(60)).await;
    cluster.server(2).freeze().await;
    let lock = quorum.red_lock("r").options(WITH_TTL);
    let replies = replies_of(lock.try_lock().await.unwrap_err());
    let (error, silent) = (NodeReply::Failed(NodeError::WrongType), NodeReply::Failed(NodeError::TimedOut));
    assert_eq!(in_order(&replies), [error, silent.clone(), silent, NodeReply::Done, NodeReply::Done]);
    for server in cluster.some(3..5) {
        eventually(SOON, "a grant is taken back", async || !is_locked(server, "r").await).await;
    }
    cluster.server(1).command(&["CLIENT", "UNPAUSE"]).await;
    cluster.server(2).thaw().await;
    for server in cluster.some(1..3) {
        taken_back(server, "r").await;
    }
    // Four nodes are enough; the fifth keeps what was there.
    lock.try_lock()
        .await
        .unwrap()
        .expect("nothing of the failed attempt is in the way")
        .unlock()
        .await
        .unwrap();
    let kept: String = cluster.server(0).query(redis::cmd("GET").arg("r")).await;
    assert_eq!(kept, "something else");
}

/// The rollback of one attempt is before the next attempt on every connection.
#[tokio::test]
async fn the_residue_of_an_attempt_does_not_vote_against_the_next() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    let lock = quorum.red_lock("r").options(WITH_TTL);
    for _ in 0..5 {
        proxies[..2].iter().for_each(|proxy| proxy.hold(Direction::Replies));
        // Executed on all nodes, but two of the three grants are not heard of.
        let replies = replies_of(lock.try_lock().await.unwrap_err());
        assert_eq!(replies.done(), 1, "{replies}");
        all(&proxies, |proxy| proxy.open(Direction::Replies));
        let guard = lock.try_lock_for(SOON).await.unwrap().expect("free");
        // One of the two may not have been asked, as it was still silent.
        healed_on_all_nodes(&guard).await;
        guard.unlock().await.unwrap();
    }
    unlocked_everywhere(&cluster, "r").await;
}

/// One connection, one order: a lock that is held up holds up its rollback.
#[tokio::test]
async fn a_lock_that_lands_late_is_followed_by_its_own_rollback() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    hold_requests(&proxies[..2]);
    replies_of(quorum.red_lock("r").options(WITH_TTL).try_lock().await.unwrap_err());
    // The client may even be gone: what it has to deliver is still sent.
    drop(quorum);
    open_requests(&proxies);
    for server in cluster.some(0..2) {
        taken_back(server, "r").await;
    }
    unlocked_everywhere(&cluster, "r").await;
}

/// And where the order breaks, because the lock is stuck in an old connection, the tombstone
/// refuses it.
#[tokio::test]
async fn a_lock_that_lands_after_its_own_rollback_is_refused() {
    let cluster = Cluster::start(1).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    let server = cluster.server(0);
    // Longer than a silent connection is kept.
    proxies[0].delay(Direction::Requests, Duration::from_millis(4_500));
    replies_of(quorum.red_lock("r").options(WITH_TTL).try_lock().await.unwrap_err());
    proxies[0].delay(Direction::Requests, Duration::ZERO);
    let before = calls(server).await;
    tombstoned(server, "r").await;
    let unlocked = calls(server).await;
    assert_eq!(unlocked, before + 1, "the lock has come before its rollback, so nothing was tried");
    eventually(SOON, "the lock has come too", async || calls(server).await > unlocked).await;
    assert!(!is_locked(server, "r").await);
    let guard = quorum.red_lock("r").options(WITH_TTL).try_lock_for(SOON).await.unwrap().expect("free");
    guard.unlock().await.unwrap();
}

/// An unlock that a server refuses for want of replicas must be delivered until the server
/// takes it, and a shutdown waits for it.
#[tokio::test]
async fn an_unlock_that_a_server_without_its_replicas_refuses_is_sent_again_until_it_is_taken() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let refused = guard.unlock().await.unwrap();
    assert!(!refused.has_quorum(), "{refused}");
    assert!(refused.to_string().contains("NOREPLICAS"), "the server's error is missing: {refused}");
    let before = calls(server).await;
    eventually(SOON, "it is sent again and again", async || calls(server).await > before + 1).await;
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
    assert!(!is_locked(server, "r").await, "the shutdown has not waited for what must be delivered");
}

/// An unlock that a server was too busy to execute must still be delivered.
#[tokio::test]
async fn an_unlock_that_a_busy_server_refuses_is_sent_again() {
    let cluster = Cluster::start_with(3, ServerOptions::default().config("lua-time-limit", "20")).await;
    let quorum = impatient(&cluster).await;
    let guard = quorum.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    on_all_nodes(&guard).await;
    let server = cluster.server(0);
    let mut endless = redis::cmd("EVAL");
    endless.arg("while true do end").arg(0);
    let unlock = async {
        let is_busy = async || server.try_query::<()>(redis::cmd("GET").arg("r")).await.is_err();
        eventually(SOON, "the server is busy", is_busy).await;
        guard.unlock().await.unwrap();
        // Its answer comes behind that to the unlock.
        let barrier = quorum.red_lock("barrier").options(WITH_TTL).lock().await.unwrap();
        let refused = NodeReply::Failed(NodeError::Busy);
        let is_refused = async || in_order(&barrier.node_replies())[0] == refused;
        eventually(SOON, "the server has refused", is_refused).await;
        server.command(&["SCRIPT", "KILL"]).await;
    };
    let (endless, ()) = tokio::join!(server.try_query::<()>(&endless), unlock);
    assert!(endless.is_err(), "the script was killed");
    unlocked_everywhere(&cluster, "r").await;
}
