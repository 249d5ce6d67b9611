//! Thousands of tasks of one client that wait for a handful of resources.

use redquorum::{LockError, LockGuard, Quorum};
use tokio::task::JoinSet;

use super::{client, connections, have_subscribers, is_freed};
use crate::support::{Cluster, eventually};

const TASKS: usize = 5_000;
const RESOURCES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Holds all resources with one client, and lets all tasks of another wait for them, a thousand for each.
async fn all_waiting(cluster: &Cluster) -> (Vec<LockGuard>, Quorum, JoinSet<Result<(), LockError>>) {
    let (holder, waiter) = (client(cluster).await, client(cluster).await);
    let mut guards = Vec::new();
    for resource in RESOURCES {
        guards.push(holder.red_lock(resource).lock().await.unwrap());
    }
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let lock = waiter.red_lock(RESOURCES[number % RESOURCES.len()]);
        tasks.spawn(async move { lock.lock().await.map(drop) });
    }
    for resource in RESOURCES {
        have_subscribers(cluster.servers(), resource.as_bytes(), 1).await;
    }
    for server in cluster.servers() {
        assert_eq!(connections(server).await, 2, "one connection for each client");
    }
    assert!(tasks.try_join_next().is_none());
    (guards, waiter, tasks)
}

async fn nothing_is_left(cluster: &Cluster) {
    for resource in RESOURCES {
        is_freed(cluster.servers(), resource.as_bytes()).await;
        have_subscribers(cluster.servers(), resource.as_bytes(), 0).await;
    }
    let channels = async |server: &crate::support::Server| {
        server.query::<Vec<String>>(redis::cmd("PUBSUB").arg("CHANNELS")).await
    };
    for server in cluster.servers() {
        assert_eq!(channels(server).await, Vec::<String>::new());
    }
}

/// Five thousand tasks share one connection to each server and one subscription for each resource, all get their turn, and
/// leave neither behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_waiting_tasks_share_one_connection_and_all_get_their_turn() {
    let cluster = Cluster::start(3).await;
    let (guards, waiter, mut tasks) = all_waiting(&cluster).await;
    drop(guards);
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap().unwrap();
    }
    nothing_is_left(&cluster).await;
    drop(waiter);
    for server in cluster.servers() {
        eventually(super::SOON, "the connections are closed", async || connections(server).await == 0).await;
    }
}

/// A shutdown ends them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_waiting_tasks_end_with_a_shutdown() {
    let cluster = Cluster::start(3).await;
    let (guards, waiter, mut tasks) = all_waiting(&cluster).await;
    waiter.shutdown().await;
    while let Some(outcome) = tasks.join_next().await {
        assert_eq!(outcome.unwrap(), Err(LockError::Closed));
    }
    assert!(guards.iter().all(LockGuard::is_valid), "they belong to another client");
    drop(guards);
    nothing_is_left(&cluster).await;
}
