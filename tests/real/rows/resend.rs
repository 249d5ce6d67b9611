//! Requests that are sent again, and servers that lose what they need for them.

use std::time::Duration;

use redquorum::RetryPolicy;

use super::{client, is_freed};
use crate::support::{Cluster, Server};

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

/// Row AA: whatever is sent twice counts once: holds never pass 1, and the lock frees, long before its ttl.
#[tokio::test]
async fn broken_connections_and_lost_scripts_never_make_a_lock_count_twice() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let lock = quorum
        .red_lock("r")
        .retry(RetryPolicy::default().polls(Duration::from_millis(50), Duration::from_millis(100)));
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
    is_freed(cluster.servers(), b"r").await;
}

/// Row AA: a server that lost the script between lock and unlock still unlocks.
#[tokio::test]
async fn a_lock_is_freed_by_servers_that_lost_the_script_meanwhile() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for _ in 0..20 {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        for server in cluster.servers() {
            server.command(&["SCRIPT", "FLUSH"]).await;
        }
        guard.unlock().await.unwrap();
        is_freed(cluster.servers(), b"r").await;
    }
}
