//! Thousands of waiting tasks and their cost, on real servers.
//!
//! Promises: the tasks of a client share one connection per server and one queue entry per resource, and
//! waiting sends few commands.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redquorum::{Error, LockGuard, Quorum, error::ClosedReason};
use redquorum_tests::{Cluster, eventually};
use tokio::task::JoinSet;

use super::{
    SOON, WITH_TTL, client, commands_by_server, connections, has_no_release_subscriber,
    wait_for_queue_entries, wait_until_unlocked,
};

/// The number of waiting tasks of one client.
const TASKS: usize = 5_000;
/// The resources of these tasks, which another client holds.
const RESOURCES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The number of waiting tasks whose commands are counted.
const WAITERS: usize = 100;
/// The first part of a wait, with a subscription and frequent polls, which the measurement leaves out.
const SETTLED: Duration = Duration::from_secs(2);
/// The duration of the measurement.
const WATCHED: Duration = Duration::from_secs(5);

/// Holds all resources with one client, and starts the tasks of another client, a thousand for each resource.
async fn start_waiting_tasks(cluster: &Cluster) -> (Vec<LockGuard>, Quorum, JoinSet<Result<(), Error>>) {
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
        wait_for_queue_entries(cluster, resource, 1).await;
    }
    for server in cluster.servers() {
        assert_eq!(connections(server).await, 2, "not one connection for each client");
    }
    assert!(tasks.try_join_next().is_none());
    (guards, waiter, tasks)
}

/// Waits until no server has a lock or a queue entry for the resources, and no connection is subscribed to release
/// notices.
async fn wait_until_clean(cluster: &Cluster) {
    for resource in RESOURCES {
        wait_until_unlocked(cluster, resource).await;
        wait_for_queue_entries(cluster, resource, 0).await;
    }
    wait_until_unsubscribed(cluster).await;
}

/// Waits until no connection is subscribed to release notices.
async fn wait_until_unsubscribed(cluster: &Cluster) {
    for server in cluster.servers() {
        let is_unsubscribed = async || has_no_release_subscriber(server).await;
        eventually(SOON, "no client is subscribed", is_unsubscribed).await;
    }
}

/// Five thousand tasks share one connection to each server and one subscription per resource. All tasks get
/// their lock, and no subscription or connection remains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_waiting_tasks_share_one_connection_and_all_are_served() {
    let cluster = Cluster::start(3).await;
    let (guards, waiter, mut tasks) = start_waiting_tasks(&cluster).await;
    drop(guards);
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap().unwrap();
    }
    wait_until_clean(&cluster).await;
    drop(waiter);
    for server in cluster.servers() {
        eventually(SOON, "the connections are closed", async || connections(server).await == 0).await;
    }
}

/// A shutdown ends all waiting tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_waiting_tasks_end_with_a_shutdown() {
    let cluster = Cluster::start(3).await;
    let (guards, waiter, mut tasks) = start_waiting_tasks(&cluster).await;
    waiter.shutdown().await;
    while let Some(outcome) = tasks.join_next().await {
        assert_eq!(outcome.unwrap(), Err(Error::Closed(ClosedReason::ShutDown)));
    }
    assert!(guards.iter().all(|guard| guard.is_valid()), "a shutdown ended leases of another client");
    drop(guards);
    wait_until_clean(&cluster).await;
}

/// Only the first waiting task of each client sends requests. The other tasks of the client wait in its local queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_for_one_resource_send_less_than_half_a_command_each_per_second() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..2).map(|_| client(&cluster))).await;
    let rate = commands_per_waiter_and_second(&cluster, &clients, |_| "r".to_owned()).await;
    assert!(rate <= 0.5, "{rate:.2} commands per waiter and second");
}

/// The first waiter in a wait queue sends its rare polls to one node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_for_a_resource_each_send_at_most_half_a_command_per_second() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..2).map(|_| client(&cluster))).await;
    let rate = commands_per_waiter_and_second(&cluster, &clients, |waiter| format!("r{waiter}")).await;
    assert!(rate <= 0.5, "{rate:.2} commands per waiter and second");
}

/// Lets [`WAITERS`] tasks wait for held resources, and returns the commands that all servers receive, per
/// waiter and second.
async fn commands_per_waiter_and_second(
    cluster: &Cluster,
    clients: &[Quorum],
    resource: impl Fn(usize) -> String,
) -> f64 {
    let holder = client(cluster).await;
    let mut held = Vec::new();
    for waiter in 0..WAITERS {
        held.extend(holder.red_lock(resource(waiter)).options(WITH_TTL).try_lock().await.unwrap());
    }
    let at_first = total_commands(cluster).await;
    let mut waiting = JoinSet::new();
    for waiter in 0..WAITERS {
        let lock = clients[waiter % clients.len()].red_lock(resource(waiter)).options(WITH_TTL);
        waiting.spawn(async move { lock.lock().await.map(drop) });
    }
    tokio::time::sleep(SETTLED).await;
    let (before, begin) = (total_commands(cluster).await, Instant::now());
    tokio::time::sleep(WATCHED).await;
    let asked = total_commands(cluster).await - before;
    let rate = asked as f64 / WAITERS as f64 / begin.elapsed().as_secs_f64();
    eprintln!(
        "{WAITERS} waiters, {} resources: {} commands in the first {SETTLED:?}, then {rate:.3} per \
         waiter and second",
        held.len(),
        before - at_first
    );
    assert_eq!(waiting.try_join_next().map(|_| ()), None, "a waiter locked a held resource");
    waiting.shutdown().await;
    drop(held);
    wait_until_unsubscribed(cluster).await;
    rate
}

/// Returns the number of commands that all servers have received from clients.
async fn total_commands(cluster: &Cluster) -> u64 {
    commands_by_server(cluster).await.into_iter().sum()
}
