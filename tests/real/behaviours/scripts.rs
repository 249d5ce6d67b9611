//! Repeated requests, and servers that lost the script, on real servers.
//!
//! Promises: a repeated request counts once, and a missing script is loaded again without changing the order
//! of requests.

use std::time::Duration;

use redquorum::LockOptions;
use redquorum_tests::{Cluster, Server};

use super::{
    SOON, WITH_TTL, client, client_with_short_timeout, replies_of, wait_for_tombstone, wait_until_unlocked,
};

/// Breaks all connections of a server and flushes its scripts, in turn, without end.
async fn disturb(servers: &[Server]) {
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

/// Returns the fields of the hash, or no fields if the connection of this query was broken, too.
async fn try_holders(server: &Server) -> Vec<(String, String)> {
    server.try_query(redis::cmd("HGETALL").arg("r")).await.unwrap_or_default()
}

/// A request that is sent twice counts once. The number of holds never exceeds 1, and the resource is free long before
/// the ttl ends.
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
                let holders = try_holders(server).await;
                assert!(holders.len() <= 1, "round {round}: {holders:?}");
                assert!(holders.iter().all(|(_, holds)| holds == "1"), "round {round}: {holders:?}");
            }
            drop(guard.unlock().await);
        }
    };
    tokio::select! {
        () = rounds => {}
        () = disturb(cluster.servers()) => unreachable!("the disturbance has no end"),
    }
    wait_until_unlocked(&cluster, "r").await;
}

/// If a call finds that the script of a server was flushed, the client loads the script again within this call.
#[tokio::test]
async fn flushed_scripts_are_loaded_again_within_the_call() {
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
        wait_until_unlocked(&cluster, "r").await;
    }
}

/// If a call has ended before the client receives the answer that the script is missing, the client sends only the
/// rollback of the call again, and not its lock.
#[tokio::test]
async fn an_ended_call_whose_script_was_missing_leaves_no_lock() {
    let cluster = Cluster::start(3).await;
    let quorum = client_with_short_timeout(&cluster).await;
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
        wait_for_tombstone(server, "r").await;
    }
    wait_until_unlocked(&cluster, "r").await;
    lock.try_lock().await.unwrap().unwrap().unlock().await.unwrap();
}

/// A restarted server has no script. The client brings the script with a new connection.
#[tokio::test]
async fn restarted_servers_get_the_script_with_the_new_connection() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        server.restart_empty().await;
    }
    let guard = quorum
        .red_lock("r")
        .options(WITH_TTL)
        .try_lock_for(SOON)
        .await
        .unwrap()
        .expect("the resource is held");
    guard.unlock().await.unwrap();
    wait_until_unlocked(&cluster, "r").await;
}
