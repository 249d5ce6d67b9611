//! What a failed or abandoned acquisition leaves on the nodes: nothing.

use std::pin::pin;
use std::time::Duration;

use redquorum::{Fault, Quorum, Vote};

use super::{
    SOON, TTL, all, builder, builder_behind, buried, calls, client, hold_requests, in_order, is_locked,
    on_all_nodes, open_requests, proxies, unlocked_everywhere, votes_of,
};
use crate::support::{Cluster, Direction, ServerOptions, eventually};

/// Short enough to wait for in a test, long enough for a healthy node under load.
const NODE_TIMEOUT: Duration = Duration::from_millis(400);

async fn impatient(cluster: &Cluster) -> Quorum {
    builder(cluster).node_timeout(NODE_TIMEOUT).connect().await.unwrap()
}

/// Row K: no answer and an error are no refusals, so the rollback goes to every node that may have the lock, or get it.
#[tokio::test]
async fn a_failed_attempt_is_rolled_back_on_nodes_that_granted_erred_or_stayed_silent() {
    let cluster = Cluster::start(5).await;
    let quorum = impatient(&cluster).await;
    cluster.server(0).command(&["SET", "r", "something else"]).await;
    cluster.server(1).pause_writes(Duration::from_secs(60)).await;
    cluster.server(2).freeze().await;
    let lock = quorum.red_lock("r").ttl(TTL);
    let votes = votes_of(lock.try_lock().await.unwrap_err());
    let (error, silent) = (Vote::Unknown(Fault::WrongType), Vote::Unknown(Fault::TimedOut));
    assert_eq!(in_order(&votes), [error, silent.clone(), silent, Vote::Granted, Vote::Granted]);
    for server in cluster.some(3..5) {
        eventually(SOON, "a grant is taken back", async || !is_locked(server, "r").await).await;
    }
    cluster.server(1).command(&["CLIENT", "UNPAUSE"]).await;
    cluster.server(2).thaw().await;
    for server in cluster.some(1..3) {
        buried(server, "r").await;
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

/// Row K: the rollback of one attempt is before the next attempt on every connection.
#[tokio::test]
async fn the_residue_of_an_attempt_does_not_vote_against_the_next() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    let lock = quorum.red_lock("r").ttl(TTL);
    for _ in 0..5 {
        proxies[..2].iter().for_each(|proxy| proxy.hold(Direction::Replies));
        // Executed on all nodes, but two of the three grants are not heard of.
        let votes = votes_of(lock.try_lock().await.unwrap_err());
        assert_eq!(votes.granted(), 1, "{votes}");
        all(&proxies, |proxy| proxy.open(Direction::Replies));
        let guard = lock.try_lock_for(SOON).await.unwrap();
        on_all_nodes(&guard).await;
        guard.unlock().await.unwrap();
    }
    unlocked_everywhere(&cluster, "r").await;
}

/// Row L: one connection, one order: a lock that is held up holds up its rollback.
#[tokio::test]
async fn a_lock_that_lands_late_is_followed_by_its_own_rollback() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    hold_requests(&proxies[..2]);
    votes_of(quorum.red_lock("r").ttl(TTL).try_lock().await.unwrap_err());
    // The client may even be gone: what it owes is still sent.
    drop(quorum);
    open_requests(&proxies);
    for server in cluster.some(0..2) {
        buried(server, "r").await;
    }
    unlocked_everywhere(&cluster, "r").await;
}

/// Row L: and where the order breaks, because the lock is stuck in an old connection, the tombstone refuses it.
#[tokio::test]
async fn a_lock_that_lands_after_its_own_rollback_is_refused() {
    let cluster = Cluster::start(1).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    let server = cluster.server(0);
    // Longer than a silent connection is kept.
    proxies[0].delay(Direction::Requests, Duration::from_millis(4_500));
    votes_of(quorum.red_lock("r").ttl(TTL).try_lock().await.unwrap_err());
    proxies[0].delay(Direction::Requests, Duration::ZERO);
    let before = calls(server).await;
    buried(server, "r").await;
    let unlocked = calls(server).await;
    assert_eq!(unlocked, before + 1, "the lock has come before its rollback, so nothing was tried");
    eventually(SOON, "the lock has come too", async || calls(server).await > unlocked).await;
    assert!(!is_locked(server, "r").await);
    quorum.red_lock("r").ttl(TTL).try_lock_for(SOON).await.unwrap().unlock().await.unwrap();
}

/// Row N: a server that lost its scripts is given them again in passing.
#[tokio::test]
async fn scripts_that_were_flushed_are_loaded_again_without_anybody_noticing() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").ttl(TTL);
    let flush = async || {
        for server in cluster.servers() {
            server.command(&["SCRIPT", "FLUSH"]).await;
        }
    };
    for _ in 0..10 {
        flush().await;
        let guard = lock.try_lock().await.unwrap().unwrap();
        flush().await;
        guard.renew().await.unwrap();
        flush().await;
        guard.unlock().await.unwrap();
        unlocked_everywhere(&cluster, "r").await;
    }
}

/// Row N: a lock that the server could not execute is not sent again once its caller has given up, its rollback is.
#[tokio::test]
async fn a_lock_whose_missing_script_is_learned_of_after_it_was_given_up_leaves_nothing() {
    let cluster = Cluster::start(3).await;
    let quorum = impatient(&cluster).await;
    for server in cluster.some(0..2) {
        server.command(&["SCRIPT", "FLUSH"]).await;
        server.freeze().await;
    }
    let lock = quorum.red_lock("r").ttl(TTL);
    votes_of(lock.try_lock().await.unwrap_err());
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    for server in cluster.some(0..2) {
        buried(server, "r").await;
    }
    unlocked_everywhere(&cluster, "r").await;
    lock.try_lock().await.unwrap().unwrap().unlock().await.unwrap();
}

/// Row N: a restarted server has no scripts either.
#[tokio::test]
async fn servers_that_were_restarted_get_the_script_with_the_new_connection() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        server.restart_empty().await;
    }
    quorum.red_lock("r").ttl(TTL).try_lock_for(SOON).await.unwrap().unlock().await.unwrap();
    unlocked_everywhere(&cluster, "r").await;
}

/// Row K: an unlock that a server was too busy to execute is still owed.
#[tokio::test]
async fn an_unlock_that_a_busy_server_refuses_is_sent_again() {
    let cluster = Cluster::start_with(3, ServerOptions::default().config("lua-time-limit", "20")).await;
    let quorum = impatient(&cluster).await;
    let guard = quorum.red_lock("r").ttl(TTL).lock().await.unwrap();
    on_all_nodes(&guard).await;
    let server = cluster.server(0);
    let mut endless = redis::cmd("EVAL");
    endless.arg("while true do end").arg(0);
    let unlock = async {
        let is_busy = async || server.try_query::<()>(redis::cmd("GET").arg("r")).await.is_err();
        eventually(SOON, "the server is busy", is_busy).await;
        guard.unlock().await.unwrap();
        // Its answer comes behind that to the unlock.
        let barrier = quorum.red_lock("barrier").ttl(TTL).lock().await.unwrap();
        let refused = Vote::Unknown(Fault::Busy);
        let is_refused = async || in_order(&barrier.votes())[0] == refused;
        eventually(SOON, "the server has refused", is_refused).await;
        server.command(&["SCRIPT", "KILL"]).await;
    };
    let (endless, ()) = tokio::join!(server.try_query::<()>(&endless), unlock);
    assert!(endless.is_err(), "the script was killed");
    unlocked_everywhere(&cluster, "r").await;
}

/// Row M: dropped wherever it waits (for votes, for their confirmation, for others to unlock), an acquisition takes back
/// what it has asked for.
///
/// A lock on another resource is the barrier: on each connection it comes behind the rollback.
#[tokio::test]
async fn dropping_a_lock_future_at_any_moment_leaves_no_key_on_healthy_nodes() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let quorum = builder_behind(&proxies).connect().await.unwrap();
    let holder = client(&cluster).await;
    // With these round trips a lock takes 20 ms and more, so that the drops below find it everywhere.
    for (proxy, delay) in proxies.iter().zip([10, 20, 30]) {
        proxy.delay(Direction::Replies, Duration::from_millis(delay));
    }
    let mut dropped = 0;
    for step in 0..24 {
        // Counters that differ make the lock confirm its token in a second round.
        let counter = format!("{}", 9_000_000_000_000_000_i64 - 1_000 + step * 10);
        cluster.server(step as usize % 3).command(&["SET", "redisson_lock_token:{r}", &counter]).await;
        let holding = if step % 4 == 3 { Some(holder.red_lock("r").lock().await.unwrap()) } else { None };
        let lock = quorum.red_lock("r").ttl(TTL);
        let is_over = {
            let locking = pin!(lock.lock());
            tokio::time::timeout(Duration::from_millis(step as u64 * 2), locking).await.is_ok()
        };
        dropped += usize::from(!is_over);
        drop(holding);
        let barrier = quorum.red_lock("barrier").lock().await.unwrap();
        on_all_nodes(&barrier).await;
        barrier.unlock().await.unwrap();
        unlocked_or_held_by_nobody(&cluster, step).await;
    }
    assert!(dropped >= 12, "only {dropped} futures were dropped");
}

async fn unlocked_or_held_by_nobody(cluster: &Cluster, step: i64) {
    for server in cluster.servers() {
        // The holder's own unlock comes on other connections.
        if step % 4 == 3 {
            eventually(SOON, "the holder has unlocked", async || !is_locked(server, "r").await).await;
        }
        assert!(!is_locked(server, "r").await, "step {step}");
    }
}
