//! Waiting in the queue, on real servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::cmd;
use redquorum::{Error, Quorum, RedLock, error::ClosedReason};
use redquorum_tests::{Cluster, Stopwatch, eventually};
use tokio::{
    sync::{
        Mutex,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    task::JoinHandle,
};

use super::{
    behaviours::{SOON, TTL, WITH_TTL, builder, client, unlocked_everywhere},
    servers::{RARE_POLLS, is_woken, nobody_waits_for_a_release},
};

const R: &str = "r";

/// A lock whose waiters poll rarely.
fn patient(quorum: &Quorum) -> RedLock {
    quorum.red_lock(R).options(RARE_POLLS.ttl(TTL))
}

/// A lock whose waiters poll often, so that a node keeps their queue entries for two seconds at most.
fn restless(quorum: &Quorum) -> RedLock {
    quorum.red_lock(R).options(WITH_TTL.poll_interval(Duration::from_secs(1)))
}

/// How many wait in the queue at each server that answers.
async fn queued(cluster: &Cluster) -> Vec<u64> {
    let mut queued = Vec::new();
    for server in cluster.servers() {
        queued.push(server.try_query(cmd("ZCARD").arg("redquorum:queue:{r}")).await.unwrap_or(0));
    }
    queued
}

async fn have_queued(cluster: &Cluster, count: u64) {
    let what = format!("{count} wait in the queue");
    eventually(SOON, &what, async || queued(cluster).await.iter().sum::<u64>() == count).await;
}

/// Nobody is queued or listens, nothing is locked, and no key says that it ever was otherwise.
async fn nothing_is_left(cluster: &Cluster) {
    unlocked_everywhere(cluster, R).await;
    for server in cluster.servers() {
        eventually(SOON, "nobody is queued or listens", async || {
            let keys = server.keys().await;
            let is_of_queue =
                |key: &String| key.starts_with("redquorum:queue:") || key.starts_with("redquorum:entry_ttl:");
            nobody_waits_for_a_release(server).await && !keys.iter().any(is_of_queue)
        })
        .await;
    }
}

/// The turn of a waiter: its name, and the time from its call to its lock.
type Turn = (usize, Duration);

/// Waits in the queue, and reports the turn.
fn wait(lock: RedLock, name: usize, turns: &UnboundedSender<Turn>) -> JoinHandle<()> {
    let turns = turns.clone();
    let begin = Instant::now();
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        turns.send((name, begin.elapsed())).unwrap();
        guard.unlock().await.unwrap();
    })
}

async fn next(turns: &mut UnboundedReceiver<Turn>) -> Turn {
    tokio::time::timeout(SOON, turns.recv()).await.expect("a waiter has a turn").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_served_in_the_order_in_which_they_came() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..9).map(|_| client(&cluster))).await;
    is_woken("all waiters are woken", async || {
        let guard = clients[8].red_lock(R).options(WITH_TTL).lock().await.unwrap();
        let (sender, mut turns) = unbounded_channel();
        for (name, quorum) in clients[..8].iter().enumerate() {
            wait(patient(quorum), name, &sender);
            have_queued(&cluster, name as u64 + 1).await;
        }
        guard.unlock().await.unwrap();
        let mut longest = Duration::ZERO;
        for name in 0..8 {
            let (served, waited) = next(&mut turns).await;
            assert_eq!(served, name);
            longest = longest.max(waited);
        }
        nothing_is_left(&cluster).await;
        longest
    })
    .await;
}

/// Its connections end with it, so the node knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_was_killed_is_passed_over_at_once() {
    let cluster = Cluster::start(3).await;
    let (holder, second) = (client(&cluster).await, client(&cluster).await);
    is_woken("the second waiter is woken", async || {
        let guard = holder.red_lock(R).options(WITH_TTL).lock().await.unwrap();
        let (sender, mut turns) = unbounded_channel();
        let process =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let settings = builder(&cluster);
        let dying = process.spawn(async move { settings.connect().await.unwrap() }).await.unwrap();
        let lock = patient(&dying);
        process.spawn(async move { lock.lock().await.map(drop) });
        have_queued(&cluster, 1).await;
        wait(patient(&second), 2, &sender);
        have_queued(&cluster, 2).await;
        process.shutdown_background();
        for server in cluster.servers() {
            eventually(SOON, "its connections are closed", async || {
                server.info_field("clients", "connected_clients").await.parse::<u64>().unwrap() <= 3
            })
            .await;
        }
        guard.unlock().await.unwrap();
        let (served, waited) = next(&mut turns).await;
        assert_eq!(served, 2);
        nothing_is_left(&cluster).await;
        waited
    })
    .await;
}

/// Its connections stay open, so nobody knows; but the second in the queue does not wait for it for
/// long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stands_still_is_passed_over_by_the_second_in_the_queue() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let (freeze, frozen) = tokio::sync::oneshot::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (thaw, thawed) = std::sync::mpsc::channel::<()>();
    let settings = builder(&cluster);
    // A process with one thread, which blocks.
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lock = restless(&settings.connect().await.unwrap());
            let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
            frozen.await.unwrap();
            stop.send(()).unwrap();
            thawed.recv().unwrap();
            waiting.await.unwrap().unwrap();
        });
    });
    let (sender, mut turns) = unbounded_channel();
    have_queued(&cluster, 1).await;
    wait(restless(&client(&cluster).await), 2, &sender);
    have_queued(&cluster, 2).await;
    freeze.send(()).unwrap();
    stopped.await.unwrap();
    let watch = Stopwatch::start();
    guard.unlock().await.unwrap();
    assert_eq!(next(&mut turns).await.0, 2);
    let (took, undelayed) = (watch.elapsed(), watch.undelayed());
    eprintln!("passed over after {took:?}");
    // An eighth of the node timeout, which is a second.
    assert!(took > Duration::from_millis(100), "{took:?}");
    assert!(undelayed < Duration::from_millis(1500), "{undelayed:?} of {took:?}");
    thaw.send(()).unwrap();
    tokio::task::spawn_blocking(move || process.join().unwrap()).await.unwrap();
    nothing_is_left(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_node_wakes_the_next_waiter_if_the_first_leaves() {
    let cluster = Cluster::start(3).await;
    let (holder, giving_up, second) =
        (client(&cluster).await, client(&cluster).await, client(&cluster).await);
    is_woken("the second waiter is woken", async || {
        let guard = holder.red_lock(R).options(WITH_TTL).lock().await.unwrap();
        let (sender, mut turns) = unbounded_channel();
        let first = wait(patient(&giving_up), 1, &sender);
        have_queued(&cluster, 1).await;
        wait(patient(&second), 2, &sender);
        have_queued(&cluster, 2).await;
        first.abort();
        have_queued(&cluster, 1).await;
        guard.unlock().await.unwrap();
        let (served, waited) = next(&mut turns).await;
        assert_eq!(served, 2);
        nothing_is_left(&cluster).await;
        waited
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_queue_node_is_killed_the_next_one_serves() {
    let cluster = Cluster::start(3).await;
    let holder = client(&cluster).await;
    let guard = holder.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let (sender, mut turns) = unbounded_channel();
    for name in 0..3 {
        wait(patient(&client(&cluster).await), name, &sender);
        have_queued(&cluster, name as u64 + 1).await;
    }
    let queue_node =
        queued(&cluster).await.iter().position(|waiting| *waiting == 3).expect("one node has them all");
    cluster.server(queue_node).kill().await;
    have_queued(&cluster, 3).await;
    guard.unlock().await.unwrap();
    let mut served = [next(&mut turns).await.0, next(&mut turns).await.0, next(&mut turns).await.0];
    served.sort_unstable();
    assert_eq!(served, [0, 1, 2], "in any order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contender_wakes_the_first_in_the_queue() {
    let cluster = Cluster::start(3).await;
    let (contending, waiting_client) = (client(&cluster).await, client(&cluster).await);
    let (sender, turns) = unbounded_channel();
    let turns = Mutex::new(turns);
    for name in 0..3 {
        is_woken("the waiter is woken", async || {
            let guard = contending.red_lock(R).options(WITH_TTL).lock().await.unwrap();
            let waiting = wait(patient(&waiting_client), name, &sender);
            have_queued(&cluster, 1).await;
            guard.unlock().await.unwrap();
            let mut turns = turns.lock().await;
            let (served, waited) = next(&mut turns).await;
            assert_eq!(served, name);
            waiting.await.unwrap();
            waited
        })
        .await;
    }
    let guard = waiting_client.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let waiting = contending.red_lock(R);
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    tokio::task::yield_now().await;
    guard.unlock().await.unwrap();
    tokio::time::timeout(SOON, waiting).await.expect("it is free").unwrap().unwrap();
    nothing_is_left(&cluster).await;
}

/// No node announces that a key has expired: the first waiter makes an attempt then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_ttl_wakes_the_first_in_the_queue() {
    let cluster = Cluster::start(3).await;
    let clients = [client(&cluster).await, client(&cluster).await];
    is_woken("both waiters have their turns", async || {
        for server in cluster.servers() {
            server.command(&["HSET", R, "vanished:1", "1"]).await;
            server.command(&["PEXPIRE", R, "150"]).await;
        }
        let (sender, mut turns) = unbounded_channel();
        for (name, quorum) in clients.iter().enumerate() {
            wait(patient(quorum), name, &sender);
            // The second may have its turn before it is seen in the queue.
            if name == 0 {
                have_queued(&cluster, 1).await;
            }
        }
        let mut longest = Duration::ZERO;
        for name in 0..2 {
            let (served, waited) = next(&mut turns).await;
            assert_eq!(served, name);
            longest = longest.max(waited);
        }
        nothing_is_left(&cluster).await;
        longest
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_leaves_the_queue() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let quorum = client(&cluster).await;
    let lock = patient(&quorum);
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    have_queued(&cluster, 1).await;
    quorum.shutdown().await;
    assert_eq!(waiting.await.unwrap(), Err(Error::Closed(ClosedReason::ShutDown)));
    assert_eq!(queued(&cluster).await, [0; 3]);
    guard.unlock().await.unwrap();
    nothing_is_left(&cluster).await;
}

/// Eight clients that come again at once: each has as many turns as any other, and nobody waits for
/// much longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_again_and_again_have_equally_many_turns() {
    const CLIENTS: usize = 8;
    const TURNS: usize = 400;
    let cluster = Cluster::start(3).await;
    let (sender, mut turns) = unbounded_channel();
    let mut tasks = Vec::new();
    for name in 0..CLIENTS {
        let lock = client(&cluster).await.red_lock(R);
        let sender = sender.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                let begin = Instant::now();
                let guard = lock.lock().await.unwrap();
                let waited = begin.elapsed();
                tokio::time::sleep(Duration::from_millis(1)).await;
                guard.unlock().await.unwrap();
                if sender.send((name, waited)).is_err() {
                    return;
                }
            }
        }));
    }
    let (mut begun, mut counts) = ([false; CLIENTS], [0; CLIENTS]);
    let mut waits = Vec::new();
    while waits.len() < TURNS {
        let (name, waited) = tokio::time::timeout(SOON, turns.recv()).await.expect("turns go on").unwrap();
        // A client that connects first has more turns until all are queued.
        if begun.iter().all(|begun| *begun) {
            counts[name] += 1;
            waits.push(waited);
        }
        begun[name] = true;
    }
    drop(turns);
    for task in tasks {
        task.await.unwrap();
    }
    waits.sort_unstable();
    let mean = waits.iter().sum::<Duration>() / u32::try_from(waits.len()).unwrap();
    let p99 = waits[waits.len() * 99 / 100];
    let (most, fewest) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
    eprintln!("turns {counts:?}; waits: mean {mean:?}, p99 {p99:?}");
    assert!(most * 5 <= fewest * 6, "{counts:?}");
    nothing_is_left(&cluster).await;
}
