//! Locks of redquorum (`RedLock`) beside locks of Redisson (`RLock`) for the same resource, on one real
//! server. [`client`] sends the scripts of Redisson.
//!
//! Promises: locks of both kinds exclude each other, and an unlock of either kind wakes waiters of the other
//! kind at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use redquorum::{Owner, RedLock};
use redquorum_tests::{Cluster, Stopwatch, eventually};
use tokio::task::JoinHandle;

use self::client::{RLock, Redisson, Wake};
use super::servers::{
    RARE_POLLS, SOON, client, leases, repeat_until_woken, subscribers, wait_for_subscribers,
};

mod client;
mod endings;
mod tickets;

/// The default ttl of both libraries. Each step of these tests takes less time.
const LEASE: Duration = Duration::from_secs(30);

/// The longest accepted time from an unlock to the lock of the waiter. It is much shorter than a ttl.
const MAX_HAND_OVER: Duration = Duration::from_millis(400);

/// Names without and with braces. Keys that derive from a name with braces have another form.
const RESOURCES: [&str; 3] = ["invoice:42", "{orders}:7", "half{open"];

#[tokio::test]
async fn a_red_lock_waits_for_an_rlock_and_is_woken_by_its_unlock() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    for resource in RESOURCES {
        repeat_until_woken("the unlock of the RLock wakes the RedLock", async || {
            let rlock = redisson.lock(resource, 1);
            assert_eq!(rlock.lock().await, Wake::Free);
            assert!(quorum.red_lock(resource).try_lock().await.unwrap().is_none());
            let begin = Instant::now();
            let red_lock = wait_for_red_lock(quorum.red_lock(resource));
            wait_for_subscribers(cluster.server(0), resource, 1).await;
            assert!(!red_lock.is_finished());
            let start = Stopwatch::start();
            assert_eq!(rlock.unlock().await, Some(true));
            let end = red_lock.await.unwrap();
            assert_prompt(start);
            end - begin
        })
        .await;
    }
}

#[tokio::test]
async fn an_rlock_waits_for_a_red_lock_and_is_woken_by_its_unlock() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    for (resource, is_dropped) in RESOURCES.into_iter().zip([false, false, true]) {
        let red_lock = quorum.red_lock(resource).lock().await.unwrap();
        let rlock = redisson.lock(resource, 1);
        assert!(rlock.try_lock().await.is_err_and(|left| left > LEASE / 2 && left <= LEASE));
        let waiting = wait_for_rlock(rlock.clone()).await;
        let start = Stopwatch::start();
        if is_dropped {
            drop(red_lock);
        } else {
            red_lock.unlock().await.unwrap();
        }
        let wake = waiting.await.unwrap();
        assert_eq!(wake, Wake::Message);
        assert_prompt(start);
        assert_eq!(leases(cluster.server(0), resource).await, [(rlock.owner().to_owned(), 1)]);
    }
}

#[tokio::test]
async fn a_multi_lock_and_rlocks_of_its_resources_wait_for_each_other() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    repeat_until_woken("the unlock of the RLock wakes the group", async || {
        let rlocks = ["a", "c"].map(|resource| redisson.lock(resource, 1));
        for lock in &rlocks {
            lock.try_lock().await.unwrap();
        }
        let group = quorum.multi_lock(["a", "b", "c"]).options(RARE_POLLS);
        let begin = Instant::now();
        let waiting = tokio::spawn(async move {
            let guard = group.lock().await.unwrap();
            (Instant::now(), guard)
        });
        // The group waits at the resource whose ttl ends later, and then at the other resource.
        eventually(SOON, "the group waits", async || {
            subscribers(cluster.server(0), "a").await + subscribers(cluster.server(0), "c").await == 1
        })
        .await;
        assert_eq!(rlocks[0].unlock().await, Some(true));
        wait_for_subscribers(cluster.server(0), "c", 1).await;
        assert_eq!(redisson.lock("b", 2).try_lock().await, Ok(()), "a waiting group holds a resource");
        assert_eq!(redisson.lock("b", 2).unlock().await, Some(true));
        assert!(!waiting.is_finished());
        let start = Stopwatch::start();
        assert_eq!(rlocks[1].unlock().await, Some(true));
        let (end, group) = waiting.await.unwrap();
        assert_prompt(start);
        group.unlock().await.unwrap();
        end - begin
    })
    .await;

    let group = quorum.multi_lock(["a", "b", "c"]).lock().await.unwrap();
    let waiting = ["a", "b", "c"].map(|resource| wait_for_rlock(redisson.lock(resource, 3)));
    let waiting = join_all(waiting).await;
    let start = Stopwatch::start();
    group.unlock().await.unwrap();
    for waiting in waiting {
        let wake = waiting.await.unwrap();
        assert_eq!(wake, Wake::Message);
        assert_prompt(start);
    }
}

#[tokio::test]
async fn re_entrant_holds_of_an_rlock_block_a_red_lock_until_the_last_unlock() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let rlock = redisson.lock("r", 1);
    assert_eq!((rlock.lock().await, rlock.lock().await), (Wake::Free, Wake::Free));
    let seen = quorum.inspect("r").await.unwrap();
    assert_eq!((seen.holder().unwrap().to_string(), seen.holds()), (rlock.owner().to_owned(), 2));
    let red_lock = wait_for_red_lock(quorum.red_lock("r"));
    wait_for_subscribers(cluster.server(0), "r", 1).await;
    assert_eq!(rlock.unlock().await, Some(false));
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
    assert!(!red_lock.is_finished());
    let start = Stopwatch::start();
    assert_eq!(rlock.unlock().await, Some(true));
    red_lock.await.unwrap();
    assert_prompt(start);
}

#[tokio::test]
async fn re_entrant_holds_of_a_red_lock_block_an_rlock_until_the_last_unlock() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    let owner = outer.id().to_string();
    assert_eq!(leases(cluster.server(0), "r").await, [(owner.clone(), 2)]);
    let waiting = wait_for_rlock(redisson.lock("r", 1)).await;
    inner.unlock().await.unwrap();
    assert_eq!(leases(cluster.server(0), "r").await, [(owner, 1)]);
    assert!(redisson.lock("r", 2).try_lock().await.is_err());
    assert!(!waiting.is_finished());
    let start = Stopwatch::start();
    outer.unlock().await.unwrap();
    let wake = waiting.await.unwrap();
    assert_eq!(wake, Wake::Message);
    assert_prompt(start);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_both_kinds_never_hold_the_resource_at_the_same_time() {
    const CLIENTS: u32 = 4;
    const ROUNDS: u32 = 25;
    let cluster = Cluster::start(1).await;
    let count = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let (red_lock, shared) = (client(&cluster).await.red_lock("r"), Arc::clone(&count));
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = red_lock.lock().await.unwrap();
                increment(&shared).await;
                guard.unlock().await.unwrap();
            }
        }));
        let (rlock, shared) = (redisson(&cluster).await.lock("r", 1), Arc::clone(&count));
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                rlock.lock().await;
                increment(&shared).await;
                assert_eq!(rlock.unlock().await, Some(true));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 2 * CLIENTS * ROUNDS);
    eventually(SOON, "no client is subscribed", async || {
        cluster.server(0).query::<Vec<String>>(redis::cmd("PUBSUB").arg("CHANNELS")).await.is_empty()
    })
    .await;
}

/// Increments the count by a read and a write. Without a lock, concurrent increments would be lost.
async fn increment(count: &AtomicU32) {
    let before = count.load(Ordering::Relaxed);
    tokio::task::yield_now().await;
    count.store(before + 1, Ordering::Relaxed);
}

async fn redisson(cluster: &Cluster) -> Redisson {
    Redisson::connect(cluster.server(0), LEASE).await
}

/// Starts a waiter of redquorum. The task unlocks again, and returns the time at which the waiter acquired the lock.
fn wait_for_red_lock(lock: RedLock) -> JoinHandle<Instant> {
    let lock = lock.options(RARE_POLLS);
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        let end = Instant::now();
        guard.unlock().await.unwrap();
        end
    })
}

/// Starts a waiter of Redisson that keeps the lock, and waits until the waiter sleeps. The task returns the event
/// that woke the waiter.
///
/// If the resource were released between the subscription and the second try of the waiter, the second try would
/// succeed, and no message would wake the waiter.
async fn wait_for_rlock(lock: RLock) -> JoinHandle<Wake> {
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.lock().await });
    tokio::time::timeout(SOON, lock.wait_until_asleep())
        .await
        .expect("the RLock does not wait for the held resource");
    waiting
}

/// Asserts that the hand-over since `start` was prompt.
#[track_caller]
fn assert_prompt(start: Stopwatch) {
    assert!(start.undelayed() < MAX_HAND_OVER, "the hand-over took {start:?}");
}
