//! Locks of ours and of Redisson-shaped clients contend for one resource on one server.

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
use super::servers::{RARE_POLLS, SOON, client, have_subscribers, is_woken, owners, subscribers};

mod client;
mod endings;

/// Redisson's default, and ours: nothing here lasts as long.
const LEASE: Duration = Duration::from_secs(30);

/// Longer than it takes to wake a waiter, and shorter than a ttl.
const AT_ONCE: Duration = Duration::from_millis(400);

/// Names as they come, and as clusters want them: with braces, the names derived from them are
/// others.
const RESOURCES: [&str; 3] = ["invoice:42", "{orders}:7", "half{open"];

#[tokio::test]
async fn ours_waits_for_its_lock_and_is_woken_at_once_by_its_unlock() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    for resource in RESOURCES {
        is_woken("its unlock wakes ours", async || {
            let theirs = redisson.lock(resource, 1);
            assert_eq!(theirs.lock().await, Wake::Free);
            assert!(quorum.red_lock(resource).try_lock().await.unwrap().is_none());
            let begin = Instant::now();
            let ours = wait_of_ours(quorum.red_lock(resource));
            have_subscribers(cluster.server(0), resource, 1).await;
            assert!(!ours.is_finished());
            let start = Stopwatch::start();
            assert_eq!(theirs.unlock().await, Some(true));
            let end = ours.await.unwrap();
            at_once(start);
            end - begin
        })
        .await;
    }
}

#[tokio::test]
async fn it_waits_for_our_lock_and_is_woken_at_once_by_our_unlock() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    for (resource, is_dropped) in RESOURCES.into_iter().zip([false, false, true]) {
        let ours = quorum.red_lock(resource).lock().await.unwrap();
        let theirs = redisson.lock(resource, 1);
        assert!(theirs.try_lock().await.is_err_and(|left| left > LEASE / 2 && left <= LEASE));
        let waiting = wait_of_theirs(theirs.clone()).await;
        let start = Stopwatch::start();
        if is_dropped {
            drop(ours);
        } else {
            ours.unlock().await.unwrap();
        }
        let wake = waiting.await.unwrap();
        assert_eq!(wake, Wake::Message);
        at_once(start);
        assert_eq!(owners(cluster.server(0), resource).await, [(theirs.owner().to_owned(), 1)]);
    }
}

#[tokio::test]
async fn a_group_of_ours_waits_for_each_of_its_locks_and_it_waits_for_the_group() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    is_woken("its unlock wakes the group", async || {
        let theirs = ["a", "c"].map(|resource| redisson.lock(resource, 1));
        for lock in &theirs {
            lock.try_lock().await.unwrap();
        }
        let group = quorum.multi_lock(["a", "b", "c"]).options(RARE_POLLS);
        let begin = Instant::now();
        let waiting = tokio::spawn(async move {
            let guard = group.lock().await.unwrap();
            (Instant::now(), guard)
        });
        // The group waits for the resource that is held for longer, and then for the other.
        eventually(SOON, "the group waits", async || {
            subscribers(cluster.server(0), "a").await + subscribers(cluster.server(0), "c").await == 1
        })
        .await;
        assert_eq!(theirs[0].unlock().await, Some(true));
        have_subscribers(cluster.server(0), "c", 1).await;
        assert_eq!(redisson.lock("b", 2).try_lock().await, Ok(()), "a group that waits holds nothing");
        assert_eq!(redisson.lock("b", 2).unlock().await, Some(true));
        assert!(!waiting.is_finished());
        let start = Stopwatch::start();
        assert_eq!(theirs[1].unlock().await, Some(true));
        let (end, group) = waiting.await.unwrap();
        at_once(start);
        group.unlock().await.unwrap();
        end - begin
    })
    .await;

    let group = quorum.multi_lock(["a", "b", "c"]).lock().await.unwrap();
    let waiting = ["a", "b", "c"].map(|resource| wait_of_theirs(redisson.lock(resource, 3)));
    let waiting = join_all(waiting).await;
    let start = Stopwatch::start();
    group.unlock().await.unwrap();
    for waiting in waiting {
        let wake = waiting.await.unwrap();
        assert_eq!(wake, Wake::Message);
        at_once(start);
    }
}

#[tokio::test]
async fn its_re_entrant_holds_block_ours_until_the_last_is_given_back() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let theirs = redisson.lock("r", 1);
    assert_eq!((theirs.lock().await, theirs.lock().await), (Wake::Free, Wake::Free));
    let seen = quorum.inspect("r").await.unwrap();
    assert_eq!((seen.holder().unwrap().to_string(), seen.holds()), (theirs.owner().to_owned(), 2));
    let ours = wait_of_ours(quorum.red_lock("r"));
    have_subscribers(cluster.server(0), "r", 1).await;
    assert_eq!(theirs.unlock().await, Some(false));
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
    assert!(!ours.is_finished());
    let start = Stopwatch::start();
    assert_eq!(theirs.unlock().await, Some(true));
    ours.await.unwrap();
    at_once(start);
}

#[tokio::test]
async fn our_re_entrant_holds_are_the_value_that_it_reads_and_block_it_until_the_last_is_given_back() {
    let cluster = Cluster::start(1).await;
    let (quorum, redisson) = (client(&cluster).await, redisson(&cluster).await);
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    let owner = outer.id().to_string();
    assert_eq!(owners(cluster.server(0), "r").await, [(owner.clone(), 2)]);
    let waiting = wait_of_theirs(redisson.lock("r", 1)).await;
    inner.unlock().await.unwrap();
    assert_eq!(owners(cluster.server(0), "r").await, [(owner, 1)]);
    assert!(redisson.lock("r", 2).try_lock().await.is_err());
    assert!(!waiting.is_finished());
    let start = Stopwatch::start();
    outer.unlock().await.unwrap();
    let wake = waiting.await.unwrap();
    assert_eq!(wake, Wake::Message);
    at_once(start);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_both_kinds_never_hold_the_resource_at_the_same_time() {
    const CLIENTS: u32 = 4;
    const ROUNDS: u32 = 25;
    let cluster = Cluster::start(1).await;
    let count = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let (lock, ours) = (client(&cluster).await.red_lock("r"), Arc::clone(&count));
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock.lock().await.unwrap();
                increment(&ours).await;
                guard.unlock().await.unwrap();
            }
        }));
        let (lock, theirs) = (redisson(&cluster).await.lock("r", 1), Arc::clone(&count));
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                lock.lock().await;
                increment(&theirs).await;
                assert_eq!(lock.unlock().await, Some(true));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 2 * CLIENTS * ROUNDS);
    eventually(SOON, "nobody is left subscribed", async || {
        cluster.server(0).query::<Vec<String>>(redis::cmd("PUBSUB").arg("CHANNELS")).await.is_empty()
    })
    .await;
}

/// As careless as can be: only a lock keeps two of them from losing one.
async fn increment(count: &AtomicU32) {
    let before = count.load(Ordering::Relaxed);
    tokio::task::yield_now().await;
    count.store(before + 1, Ordering::Relaxed);
}

async fn redisson(cluster: &Cluster) -> Redisson {
    Redisson::connect(cluster.server(0), LEASE).await
}

/// The time that our waiter had the lock, which is unlocked then.
fn wait_of_ours(lock: RedLock) -> JoinHandle<Instant> {
    let lock = lock.options(RARE_POLLS);
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        let end = Instant::now();
        guard.unlock().await.unwrap();
        end
    })
}

/// What woke it to have the lock, which it keeps. Returns once it sleeps: a release that
/// comes between its subscription and its second try wakes nobody.
async fn wait_of_theirs(lock: RLock) -> JoinHandle<Wake> {
    let waiter = lock.clone();
    let waiting = tokio::spawn(async move { waiter.lock().await });
    tokio::time::timeout(SOON, lock.sleeps()).await.expect("it waits for what is held");
    waiting
}

#[track_caller]
fn at_once(start: Stopwatch) {
    assert!(start.undelayed() < AT_ONCE, "the hand-over took {start:?}");
}
