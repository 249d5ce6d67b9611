//! What many waiters share, and what they cost together.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redquorum::{Error, LockGuard, Quorum, error::ClosedReason};
use redquorum_tests::{Cluster, eventually};
use tokio::task::JoinSet;

use super::{
    SOON, WITH_TTL, client, commands_by_server, connections, have_waiters, nobody_waits_for_a_release,
    unlocked_everywhere,
};

const TASKS: usize = 5_000;
const RESOURCES: [&str; 5] = ["a", "b", "c", "d", "e"];

const WAITERS: usize = 100;
/// A wait begins with a subscription and polls that grow rarer: this is about what it costs from
/// then on.
const SETTLED: Duration = Duration::from_secs(2);
const WATCHED: Duration = Duration::from_secs(5);

/// Holds all resources with one client, and lets all tasks of another wait for them, a thousand for
/// each.
async fn all_waiting(cluster: &Cluster) -> (Vec<LockGuard>, Quorum, JoinSet<Result<(), Error>>) {
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
        have_waiters(cluster, resource, 1).await;
    }
    for server in cluster.servers() {
        assert_eq!(connections(server).await, 2, "one connection for each client");
    }
    assert!(tasks.try_join_next().is_none());
    (guards, waiter, tasks)
}

async fn nothing_is_left(cluster: &Cluster) {
    for resource in RESOURCES {
        unlocked_everywhere(cluster, resource).await;
        have_waiters(cluster, resource, 0).await;
    }
    nobody_is_subscribed(cluster).await;
}

async fn nobody_is_subscribed(cluster: &Cluster) {
    for server in cluster.servers() {
        let nobody_is = async || nobody_waits_for_a_release(server).await;
        eventually(SOON, "nobody is left subscribed", nobody_is).await;
    }
}

/// Five thousand tasks share one connection to each server and one subscription for each resource,
/// all get their turn, and leave neither behind.
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
        eventually(SOON, "the connections are closed", async || connections(server).await == 0).await;
    }
}

/// A shutdown ends them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_waiting_tasks_end_with_a_shutdown() {
    let cluster = Cluster::start(3).await;
    let (guards, waiter, mut tasks) = all_waiting(&cluster).await;
    waiter.shutdown().await;
    while let Some(outcome) = tasks.join_next().await {
        assert_eq!(outcome.unwrap(), Err(Error::Closed(ClosedReason::ShutDown)));
    }
    assert!(guards.iter().all(|guard| guard.is_valid()), "they belong to another client");
    drop(guards);
    nothing_is_left(&cluster).await;
}

/// One waiter of each client asks; the others stand behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_for_one_resource_send_less_than_half_a_command_each_per_second() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..2).map(|_| client(&cluster))).await;
    let rate = commands_per_waiter_and_second(&cluster, &clients, |_| "r".to_owned()).await;
    assert!(rate <= 0.5, "{rate:.2} commands per waiter and second");
}

/// A waiter asks one node, and polls it seldom, even where it waits for a resource alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_for_a_resource_each_send_at_most_half_a_command_per_second() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..2).map(|_| client(&cluster))).await;
    let rate = commands_per_waiter_and_second(&cluster, &clients, |waiter| format!("r{waiter}")).await;
    assert!(rate <= 0.5, "{rate:.2} commands per waiter and second");
}

/// Lets many wait for what is held, and counts what all servers together are sent meanwhile.
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
    let at_first = sum(cluster).await;
    let mut waiting = JoinSet::new();
    for waiter in 0..WAITERS {
        let lock = clients[waiter % clients.len()].red_lock(resource(waiter)).options(WITH_TTL);
        waiting.spawn(async move { lock.lock().await.map(drop) });
    }
    tokio::time::sleep(SETTLED).await;
    let (before, begin) = (sum(cluster).await, Instant::now());
    tokio::time::sleep(WATCHED).await;
    let asked = sum(cluster).await - before;
    let rate = asked as f64 / WAITERS as f64 / begin.elapsed().as_secs_f64();
    eprintln!(
        "{WAITERS} waiters, {} resources: {} commands in the first {SETTLED:?}, then {rate:.3} per \
         waiter and second",
        held.len(),
        before - at_first
    );
    assert_eq!(waiting.try_join_next().map(|_| ()), None, "somebody got what is held");
    waiting.shutdown().await;
    drop(held);
    nobody_is_subscribed(cluster).await;
    rate
}

async fn sum(cluster: &Cluster) -> u64 {
    commands_by_server(cluster).await.into_iter().sum()
}
