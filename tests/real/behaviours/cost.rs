//! The cost of waiting, and of nodes that hang or fail at once, on real servers.
//!
//! Promises: waits end at their deadline, no call and no dial is repeated without a pause, and locks are about as fast
//! with one hung node of five.

use std::time::{Duration, Instant};

use redquorum::{Error, RedLock};
use redquorum_tests::{Cluster, Stopwatch, eventually};
use tokio::net::TcpListener;

use super::{
    SOON, WITH_TTL, builder, client, commands_by_server, wait_for_queue_entries, wait_until_unlocked,
};

/// The additional delay with which a test may notice a timer on a machine under load.
const NOISE: Duration = Duration::from_millis(300);

/// The number of turns. In each turn, the node is first healthy and then hung. Therefore the load of other programs
/// affects both measurements.
const TURNS: usize = 6;
/// The number of locks with their unlocks in each half of a turn.
const ROUNDS: usize = 60;
/// The node timeout of a lock with a long ttl: the time for which a client would wait for a hung node.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest accepted ratio of the latencies with and without a hung node. One node of five does not decide
/// a round, so the expected ratio is 1, and the rest is noise.
const MAX_RATIO: f64 = 1.5;

/// A wait ends at its deadline while the resource is held, and while nodes are frozen or dead.
#[tokio::test]
async fn waits_end_at_their_deadline_whatever_the_nodes_do() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    let quorum = client(&cluster).await;
    let wait = Duration::from_millis(700);
    let ends_on_time = async |state: &str| {
        let watch = Stopwatch::start();
        let outcome = quorum.red_lock("r").options(WITH_TTL).try_lock_for(wait).await;
        assert!(watch.elapsed() >= wait && watch.undelayed() <= wait + NOISE, "{state}: {watch:?}");
        outcome
    };
    assert!(ends_on_time("held").await.unwrap().is_none());
    wait_for_queue_entries(&cluster, "r", 0).await;
    cluster.server(0).freeze().await;
    cluster.server(1).freeze().await;
    // If the answering node is the queue node and sends a deferral, the result is `Ok(None)`.
    let is_deferred_or_without_quorum =
        |outcome: &Result<_, _>| matches!(outcome, Ok(None) | Err(Error::NoQuorum(_)));
    let frozen = ends_on_time("frozen").await;
    assert!(is_deferred_or_without_quorum(&frozen), "{frozen:?}");
    cluster.server(0).kill().await;
    cluster.server(1).kill().await;
    let killed = ends_on_time("two of three killed").await;
    assert!(is_deferred_or_without_quorum(&killed), "{killed:?}");
    cluster.server(2).kill().await;
    let killed = ends_on_time("all killed").await;
    assert!(matches!(killed, Err(Error::NoQuorum(_))), "{killed:?}");
    drop(guard);
}

/// While each attempt fails at once, the delay between attempts grows.
#[tokio::test]
async fn a_waiter_whose_nodes_fail_at_once_does_not_spin() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        server.command(&["SET", "r", "something else"]).await;
    }
    let before = commands_by_server(&cluster).await;
    let outcome = quorum.red_lock("r").options(WITH_TTL).try_lock_for(Duration::from_secs(2)).await;
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    let after = commands_by_server(&cluster).await;
    let asked: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    // Delays double from 5 ms to 500 ms: about ten attempts, each with a rollback.
    assert!(asked.iter().all(|asked| (4..=40).contains(asked)), "{asked:?} commands in 2 s");
}

/// The client dials again after growing delays, and not for each lock.
#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_not_dialled_in_a_busy_loop() {
    let cluster = Cluster::start(2).await;
    let rude_server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", rude_server.local_addr().unwrap());
    let (seen, mut dials) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((connection, _)) = rude_server.accept().await {
            drop(connection);
            seen.send(()).ok();
        }
    });
    let quorum = builder(&cluster).nodes([url]).connect().await.unwrap();
    let begin = Instant::now();
    let mut locks = 0;
    while begin.elapsed() < Duration::from_secs(1) {
        quorum.red_lock("r").lock().await.unwrap().unlock().await.unwrap();
        locks += 1;
    }
    let dials = std::iter::from_fn(|| dials.try_recv().ok()).count();
    assert!(locks > 50, "only {locks} locks");
    assert!((2..=20).contains(&dials), "{dials} dials, {locks} locks in a second");
}

/// A lock does not wait for a node whose vote cannot change the result.
#[tokio::test]
async fn a_hung_node_of_five_does_not_change_the_latency_of_lock_and_unlock() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").options(WITH_TTL);
    lock_and_unlock(&lock).await;
    let (mut healthy, mut hung) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let all_five = async || do_all_five_vote(&lock).await;
        eventually(SOON, "all five nodes vote", all_five).await;
        healthy.extend(lock_and_unlock(&lock).await);
        cluster.server(2).freeze().await;
        hung.extend(lock_and_unlock(&lock).await);
        cluster.server(2).thaw().await;
    }
    let longest = *hung.iter().max().unwrap();
    let (healthy, hung) = (median(healthy), median(hung));
    let ratio = hung.as_secs_f64() / healthy.as_secs_f64();
    eprintln!("lock and unlock: healthy {healthy:?}, one hung {hung:?}, ratio {ratio:.2}");
    assert!(ratio <= MAX_RATIO, "healthy {healthy:?}, one of five hung {hung:?}");
    assert!(longest < NODE_TIMEOUT / 2, "a lock waited for the hung node: {longest:?}");
    wait_until_unlocked(&cluster, "r").await;
}

/// Locks and renews once, and returns whether all five nodes have granted the lease.
async fn do_all_five_vote(lock: &RedLock) -> bool {
    let guard = lock.lock().await.unwrap();
    // The renewal asks all nodes. Each node answers before the renewal returns, or not at all.
    let is_renewed = guard.renew().await.is_ok();
    let granted = guard.node_replies().done();
    guard.unlock().await.unwrap();
    is_renewed && granted == 5
}

/// Locks and unlocks `ROUNDS` times, and returns the time of each round.
async fn lock_and_unlock(lock: &RedLock) -> Vec<Duration> {
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let watch = Stopwatch::start();
        lock.lock().await.unwrap().unlock().await.unwrap();
        took.push(watch.undelayed());
    }
    took
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}
