//! Requests that are sent again, and servers that lose what they need for them.

use std::time::Duration;

use redquorum::LockOptions;
use redquorum_tests::{Cluster, Server};

use super::{SOON, WITH_TTL, client, impatient, replies_of, tombstoned, unlocked_everywhere};

/// Breaks all connections of a server, or makes it forget its scripts, at every turn.
async fn harass(servers: &[Server]) {
    for turn in 0_usize.. {
        let server = &servers[turn / 2 % servers.len()];
        if turn.is_multiple_of(2) {
            server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        } else {
            server.command(&["SCRIPT", "FLUSH"]).await;
        }
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}

/// The fields of the hash, none if the connection for looking was broken as well.
async fn holders_if_told(server: &Server) -> Vec<(String, String)> {
    server.try_query(redis::cmd("HGETALL").arg("r")).await.unwrap_or_default()
}

/// Whatever is sent twice counts once: holds never pass 1, and the lock frees, long before
/// its ttl.
#[tokio::test]
async fn broken_connections_and_lost_scripts_never_make_a_lock_count_twice() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").options(LockOptions::new().poll_interval(Duration::from_millis(50)));
    let rounds = async {
        for round in 0..60 {
            let guard = lock.lock().await.unwrap();
            drop(guard.renew().await);
            for server in cluster.servers() {
                let holders = holders_if_told(server).await;
                assert!(holders.len() <= 1, "round {round}: {holders:?}");
                assert!(holders.iter().all(|(_, holds)| holds == "1"), "round {round}: {holders:?}");
            }
            drop(guard.unlock().await);
        }
    };
    tokio::select! {
        () = rounds => {}
        () = harass(cluster.servers()) => unreachable!("it goes on for ever"),
    }
    unlocked_everywhere(&cluster, "r").await;
}

/// A server that lost its scripts is given them again in passing.
#[tokio::test]
async fn scripts_that_were_flushed_are_loaded_again_without_anybody_noticing() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").options(WITH_TTL);
    let flush = async || {
        for server in cluster.servers() {
            server.command(&["SCRIPT", "FLUSH"]).await;
        }
    };
    for _ in 0..20 {
        flush().await;
        let guard = lock.try_lock().await.unwrap().unwrap();
        flush().await;
        guard.renew().await.unwrap();
        flush().await;
        guard.unlock().await.unwrap();
        unlocked_everywhere(&cluster, "r").await;
    }
}

/// A lock that the server could not execute is not sent again once its caller has given up,
/// its rollback is.
#[tokio::test]
async fn a_lock_whose_missing_script_is_learned_of_after_it_was_given_up_leaves_nothing() {
    let cluster = Cluster::start(3).await;
    let quorum = impatient(&cluster).await;
    for server in cluster.some(0..2) {
        server.command(&["SCRIPT", "FLUSH"]).await;
        server.freeze().await;
    }
    let lock = quorum.red_lock("r").options(WITH_TTL);
    replies_of(lock.try_lock().await.unwrap_err());
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    for server in cluster.some(0..2) {
        tombstoned(server, "r").await;
    }
    unlocked_everywhere(&cluster, "r").await;
    lock.try_lock().await.unwrap().unwrap().unlock().await.unwrap();
}

/// A restarted server has no scripts either.
#[tokio::test]
async fn servers_that_were_restarted_get_the_script_with_the_new_connection() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        server.restart_empty().await;
    }
    let guard = quorum.red_lock("r").options(WITH_TTL).try_lock_for(SOON).await.unwrap().expect("free");
    guard.unlock().await.unwrap();
    unlocked_everywhere(&cluster, "r").await;
}
