//! How waits end, and what they cost meanwhile.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redquorum::{LockError, Quorum};
use tokio::task::JoinSet;

use super::{SOON, TTL, calls_of, client};
use crate::support::{Cluster, eventually};

/// What a client sends, over all connections; what runs inside of scripts is counted apart by the server.
const COMMANDS: [&str; 7] =
    ["evalsha", "script|load", "subscribe", "unsubscribe", "ping", "hello", "client|setinfo"];

/// How much later than a timer a test may notice it.
const NOISE: Duration = Duration::from_millis(300);

const WAITERS: usize = 100;
/// A wait begins with a subscription and polls that grow rarer: this is about what it costs from then on.
const SETTLED: Duration = Duration::from_secs(2);
const WATCHED: Duration = Duration::from_secs(5);

/// Row P: the deadline ends a wait, whether the resource is held or the nodes are mute or gone.
#[tokio::test]
async fn waits_end_at_their_deadline_whatever_the_nodes_do() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("r").ttl(TTL).lock().await.unwrap();
    let quorum = client(&cluster).await;
    let wait = Duration::from_millis(700);
    let ends_on_time = async |state: &str| {
        let begin = Instant::now();
        let outcome = quorum.red_lock("r").ttl(TTL).try_lock_for(wait).await;
        let took = begin.elapsed();
        assert!(matches!(outcome, Err(LockError::TimedOut { .. })), "{state}: {outcome:?}");
        assert!(took >= wait && took <= wait + NOISE, "{state}: {took:?}");
    };
    ends_on_time("held").await;
    cluster.server(0).freeze().await;
    cluster.server(1).freeze().await;
    ends_on_time("mute").await;
    cluster.server(0).kill().await;
    cluster.server(1).kill().await;
    ends_on_time("gone").await;
    drop(guard);
}

/// Row P: nodes that fail at once are not asked in a loop.
#[tokio::test]
async fn a_waiter_whose_nodes_fail_at_once_does_not_spin() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        server.command(&["SET", "r", "something else"]).await;
    }
    let before = sum(&cluster).await;
    let outcome = quorum.red_lock("r").ttl(TTL).try_lock_for(Duration::from_secs(2)).await;
    assert!(matches!(outcome, Err(LockError::TimedOut { .. })), "{outcome:?}");
    let asked = sum(&cluster).await - before;
    // Delays double from 5 ms to 500 ms: ten attempts or so, each with a rollback, at three nodes.
    assert!((6..=120).contains(&asked), "{asked} commands in 2 s");
}

/// Row P: one waiter of each client asks; the others stand behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_for_one_resource_send_less_than_half_a_command_each_per_second() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..2).map(|_| client(&cluster))).await;
    let rate = commands_per_waiter_and_second(&cluster, &clients, |_| "r".to_owned()).await;
    assert!(rate <= 0.5, "{rate:.2} commands per waiter and second");
}

/// Row P: whoever waits alone for a resource polls it, but seldom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_for_a_resource_each_send_at_most_two_and_a_half_commands_per_second() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..2).map(|_| client(&cluster))).await;
    let rate = commands_per_waiter_and_second(&cluster, &clients, |waiter| format!("r{waiter}")).await;
    assert!(rate <= 2.5, "{rate:.2} commands per waiter and second");
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
        held.extend(holder.red_lock(resource(waiter)).ttl(TTL).try_lock().await.unwrap());
    }
    let at_first = sum(cluster).await;
    let mut waiting = JoinSet::new();
    for waiter in 0..WAITERS {
        let lock = clients[waiter % clients.len()].red_lock(resource(waiter)).ttl(TTL);
        waiting.spawn(async move { lock.lock().await.map(drop) });
    }
    tokio::time::sleep(SETTLED).await;
    let (before, begin) = (sum(cluster).await, Instant::now());
    tokio::time::sleep(WATCHED).await;
    let asked = sum(cluster).await - before;
    let rate = asked as f64 / WAITERS as f64 / begin.elapsed().as_secs_f64();
    eprintln!(
        "{WAITERS} waiters, {} resources: {} commands in the first {SETTLED:?}, then {rate:.3} per waiter and second",
        held.len(),
        before - at_first
    );
    assert_eq!(waiting.try_join_next().map(|_| ()), None, "somebody got what is held");
    waiting.shutdown().await;
    drop(held);
    let unsubscribed = async || {
        for server in cluster.servers() {
            let channels: Vec<String> = server.query(redis::cmd("PUBSUB").arg("CHANNELS")).await;
            if !channels.is_empty() {
                return false;
            }
        }
        true
    };
    eventually(SOON, "nobody is left subscribed", unsubscribed).await;
    rate
}

async fn sum(cluster: &Cluster) -> u64 {
    join_all(cluster.servers().iter().map(|server| calls_of(server, &COMMANDS))).await.into_iter().sum()
}
