//! The wait queue on real servers.
//!
//! Promises: waiters lock in order of arrival, the queue node skips a dead or frozen waiter, another node keeps the
//! queue if the queue node dies, and no queue entry remains.

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
    behaviours::{SOON, TTL, WITH_TTL, builder, client, wait_until_unlocked},
    servers::{RARE_POLLS, has_no_release_subscriber, repeat_until_woken},
};

/// The resource of all tests.
const R: &str = "r";

/// Returns a lock whose waiters poll rarely.
fn lock_with_rare_polls(quorum: &Quorum) -> RedLock {
    quorum.red_lock(R).options(RARE_POLLS.ttl(TTL))
}

/// Returns a lock whose waiters poll often, so that a queue entry lives for at most two seconds without a
/// poll.
fn lock_with_frequent_polls(quorum: &Quorum) -> RedLock {
    quorum.red_lock(R).options(WITH_TTL.poll_interval(Duration::from_secs(1)))
}

/// Returns the number of queue entries on each server, 0 for a server that does not answer.
async fn queue_lengths(cluster: &Cluster) -> Vec<u64> {
    let mut queue_lengths = Vec::new();
    for server in cluster.servers() {
        queue_lengths.push(server.try_query(cmd("ZCARD").arg("redquorum:queue:{r}")).await.unwrap_or(0));
    }
    queue_lengths
}

/// Waits until the queues on all servers have `count` entries together.
async fn wait_for_queue_length(cluster: &Cluster, count: u64) {
    let what = format!("the queue has {count} entries");
    eventually(SOON, &what, async || queue_lengths(cluster).await.iter().sum::<u64>() == count).await;
}

/// Waits until the resource is unlocked, and until no queue entry, subscription or other key of the queue
/// remains.
async fn wait_until_clean(cluster: &Cluster) {
    wait_until_unlocked(cluster, R).await;
    for server in cluster.servers() {
        eventually(SOON, "no client is queued or subscribed", async || {
            let keys = server.keys().await;
            let is_of_queue =
                |key: &String| key.starts_with("redquorum:queue:") || key.starts_with("redquorum:entry_ttl:");
            has_no_release_subscriber(server).await && !keys.iter().any(is_of_queue)
        })
        .await;
    }
}

/// One acquisition: the number of the waiter, and the time from its call to its lock.
type Turn = (usize, Duration);

/// Starts a waiter that locks, sends its acquisition to `turns`, and unlocks.
fn spawn_waiter(lock: RedLock, number: usize, turns: &UnboundedSender<Turn>) -> JoinHandle<()> {
    let turns = turns.clone();
    let begin = Instant::now();
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        turns.send((number, begin.elapsed())).unwrap();
        guard.unlock().await.unwrap();
    })
}

/// Returns the next acquisition of a waiter.
async fn next_turn(turns: &mut UnboundedReceiver<Turn>) -> Turn {
    tokio::time::timeout(SOON, turns.recv()).await.expect("no waiter is served before the deadline").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_served_in_order_of_arrival() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..9).map(|_| client(&cluster))).await;
    repeat_until_woken("all waiters are woken", async || {
        let guard = clients[8].red_lock(R).options(WITH_TTL).lock().await.unwrap();
        let (sender, mut turns) = unbounded_channel();
        for (number, quorum) in clients[..8].iter().enumerate() {
            spawn_waiter(lock_with_rare_polls(quorum), number, &sender);
            wait_for_queue_length(&cluster, number as u64 + 1).await;
        }
        guard.unlock().await.unwrap();
        let mut longest = Duration::ZERO;
        for number in 0..8 {
            let (served, waited) = next_turn(&mut turns).await;
            assert_eq!(served, number);
            longest = longest.max(waited);
        }
        wait_until_clean(&cluster).await;
        longest
    })
    .await;
}

/// The connections of a killed process close, so the queue node removes the queue entry of the killed waiter. The end
/// of a runtime stands for the end of a process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_waiter_is_skipped_at_once() {
    let cluster = Cluster::start(3).await;
    let (holder, second) = (client(&cluster).await, client(&cluster).await);
    repeat_until_woken("the second waiter is woken", async || {
        let guard = holder.red_lock(R).options(WITH_TTL).lock().await.unwrap();
        let (sender, mut turns) = unbounded_channel();
        let process =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let settings = builder(&cluster);
        let dying = process.spawn(async move { settings.connect().await.unwrap() }).await.unwrap();
        let lock = lock_with_rare_polls(&dying);
        process.spawn(async move { lock.lock().await.map(drop) });
        wait_for_queue_length(&cluster, 1).await;
        spawn_waiter(lock_with_rare_polls(&second), 2, &sender);
        wait_for_queue_length(&cluster, 2).await;
        process.shutdown_background();
        for server in cluster.servers() {
            eventually(SOON, "the connections of the killed process are closed", async || {
                server.info_field("clients", "connected_clients").await.parse::<u64>().unwrap() <= 3
            })
            .await;
        }
        guard.unlock().await.unwrap();
        let (served, waited) = next_turn(&mut turns).await;
        assert_eq!(served, 2);
        wait_until_clean(&cluster).await;
        waited
    })
    .await;
}

/// The connections of a frozen process stay open, so its queue entry stays. The second waiter attempts after
/// the hand-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_waiter_is_skipped_after_the_hand_over() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let (freeze, frozen) = tokio::sync::oneshot::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (thaw, thawed) = std::sync::mpsc::channel::<()>();
    let settings = builder(&cluster);
    // A runtime with one thread stands for a process. While the thread is blocked, the runtime is frozen.
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let lock = lock_with_frequent_polls(&settings.connect().await.unwrap());
            let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
            frozen.await.unwrap();
            stop.send(()).unwrap();
            thawed.recv().unwrap();
            waiting.await.unwrap().unwrap();
        });
    });
    let (sender, mut turns) = unbounded_channel();
    wait_for_queue_length(&cluster, 1).await;
    spawn_waiter(lock_with_frequent_polls(&client(&cluster).await), 2, &sender);
    wait_for_queue_length(&cluster, 2).await;
    freeze.send(()).unwrap();
    stopped.await.unwrap();
    let watch = Stopwatch::start();
    guard.unlock().await.unwrap();
    assert_eq!(next_turn(&mut turns).await.0, 2);
    let (took, undelayed) = (watch.elapsed(), watch.undelayed());
    eprintln!("skipped after {took:?}");
    // The hand-over is an eighth of the node timeout of one second.
    assert!(took > Duration::from_millis(100), "{took:?}");
    assert!(undelayed < Duration::from_millis(1500), "{undelayed:?} of {took:?}");
    thaw.send(()).unwrap();
    tokio::task::spawn_blocking(move || process.join().unwrap()).await.unwrap();
    wait_until_clean(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_node_wakes_the_next_waiter_if_the_first_leaves() {
    let cluster = Cluster::start(3).await;
    let (holder, leaving, second) = (client(&cluster).await, client(&cluster).await, client(&cluster).await);
    repeat_until_woken("the second waiter is woken", async || {
        let guard = holder.red_lock(R).options(WITH_TTL).lock().await.unwrap();
        let (sender, mut turns) = unbounded_channel();
        let first = spawn_waiter(lock_with_rare_polls(&leaving), 1, &sender);
        wait_for_queue_length(&cluster, 1).await;
        spawn_waiter(lock_with_rare_polls(&second), 2, &sender);
        wait_for_queue_length(&cluster, 2).await;
        first.abort();
        wait_for_queue_length(&cluster, 1).await;
        guard.unlock().await.unwrap();
        let (served, waited) = next_turn(&mut turns).await;
        assert_eq!(served, 2);
        wait_until_clean(&cluster).await;
        waited
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_serves_the_queue_after_the_queue_node_died() {
    let cluster = Cluster::start(3).await;
    let holder = client(&cluster).await;
    let guard = holder.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let (sender, mut turns) = unbounded_channel();
    for number in 0..3 {
        spawn_waiter(lock_with_rare_polls(&client(&cluster).await), number, &sender);
        wait_for_queue_length(&cluster, number as u64 + 1).await;
    }
    let queue_node = queue_lengths(&cluster)
        .await
        .iter()
        .position(|waiting| *waiting == 3)
        .expect("no node has all three queue entries");
    cluster.server(queue_node).kill().await;
    wait_for_queue_length(&cluster, 3).await;
    guard.unlock().await.unwrap();
    // After the change of the queue node, the order may differ.
    let mut served =
        [next_turn(&mut turns).await.0, next_turn(&mut turns).await.0, next_turn(&mut turns).await.0];
    served.sort_unstable();
    assert_eq!(served, [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_wakes_the_first_waiter() {
    let cluster = Cluster::start(3).await;
    let (contending, waiting_client) = (client(&cluster).await, client(&cluster).await);
    let (sender, turns) = unbounded_channel();
    let turns = Mutex::new(turns);
    for number in 0..3 {
        repeat_until_woken("the waiter is woken", async || {
            let guard = contending.red_lock(R).options(WITH_TTL).lock().await.unwrap();
            let waiting = spawn_waiter(lock_with_rare_polls(&waiting_client), number, &sender);
            wait_for_queue_length(&cluster, 1).await;
            guard.unlock().await.unwrap();
            let mut turns = turns.lock().await;
            let (served, waited) = next_turn(&mut turns).await;
            assert_eq!(served, number);
            waiting.await.unwrap();
            waited
        })
        .await;
    }
    // This waiter may not be in the queue yet at the time of the unlock.
    let guard = waiting_client.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let waiting = contending.red_lock(R);
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    tokio::task::yield_now().await;
    guard.unlock().await.unwrap();
    tokio::time::timeout(SOON, waiting)
        .await
        .expect("the waiter does not lock the free resource")
        .unwrap()
        .unwrap();
    wait_until_clean(&cluster).await;
}

/// No node publishes a notice at the expiry of a key. The first waiter attempts at that time without a notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_waiter_attempts_at_the_end_of_a_ttl() {
    let cluster = Cluster::start(3).await;
    let clients = [client(&cluster).await, client(&cluster).await];
    repeat_until_woken("both waiters are served", async || {
        for server in cluster.servers() {
            server.command(&["HSET", R, "vanished:1", "1"]).await;
            server.command(&["PEXPIRE", R, "150"]).await;
        }
        let (sender, mut turns) = unbounded_channel();
        for (number, quorum) in clients.iter().enumerate() {
            spawn_waiter(lock_with_rare_polls(quorum), number, &sender);
            // The second waiter may be served before its queue entry can be seen.
            if number == 0 {
                wait_for_queue_length(&cluster, 1).await;
            }
        }
        let mut longest = Duration::ZERO;
        for number in 0..2 {
            let (served, waited) = next_turn(&mut turns).await;
            assert_eq!(served, number);
            longest = longest.max(waited);
        }
        wait_until_clean(&cluster).await;
        longest
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_removes_the_queue_entry() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock(R).options(WITH_TTL).lock().await.unwrap();
    let quorum = client(&cluster).await;
    let lock = lock_with_rare_polls(&quorum);
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    wait_for_queue_length(&cluster, 1).await;
    quorum.shutdown().await;
    assert_eq!(waiting.await.unwrap(), Err(Error::Closed(ClosedReason::ShutDown)));
    assert_eq!(queue_lengths(&cluster).await, [0; 3]);
    guard.unlock().await.unwrap();
    wait_until_clean(&cluster).await;
}

/// Eight clients lock again at once after each unlock. The client with the most turns has at most 1.2 times the turns
/// of the client with the fewest turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_lock_again_at_once_have_about_equally_many_turns() {
    const CLIENTS: usize = 8;
    /// The number of turns that are counted.
    const TURNS: usize = 400;
    let cluster = Cluster::start(3).await;
    let (sender, mut turns) = unbounded_channel();
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let lock = client(&cluster).await.red_lock(R);
        let sender = sender.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                let begin = Instant::now();
                let guard = lock.lock().await.unwrap();
                let waited = begin.elapsed();
                tokio::time::sleep(Duration::from_millis(1)).await;
                guard.unlock().await.unwrap();
                if sender.send((number, waited)).is_err() {
                    return;
                }
            }
        }));
    }
    let (mut begun, mut counts) = ([false; CLIENTS], [0; CLIENTS]);
    let mut waits = Vec::new();
    while waits.len() < TURNS {
        let (number, waited) = tokio::time::timeout(SOON, turns.recv())
            .await
            .expect("no client is served before the deadline")
            .unwrap();
        // The first clients have turns before the other clients connect. Therefore turns are counted only when each
        // client has had a turn.
        if begun.iter().all(|begun| *begun) {
            counts[number] += 1;
            waits.push(waited);
        }
        begun[number] = true;
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
    wait_until_clean(&cluster).await;
}
