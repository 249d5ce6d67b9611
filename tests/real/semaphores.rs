//! Semaphores on real servers.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;
use redquorum::LockOptions;
use redquorum_tests::{Cluster, eventually};
use tokio::sync::Barrier;

use super::servers::{SOON, client};

const PERMITS: u32 = 4;

/// In its first round and in its last, a client keeps its permit until all permits are held.
#[tokio::test]
async fn sixteen_clients_never_have_a_fifth_permit_though_a_server_stops_and_all_of_them_are_served() {
    const ROUNDS: usize = 12;
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..16).map(|_| client(&cluster))).await;
    let (held, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let all_are_held = Barrier::new(PERMITS as usize);
    let work = clients.iter().map(|quorum| async {
        let semaphore = quorum.semaphore("s", PERMITS);
        for round in 0..ROUNDS {
            let permit = semaphore.acquire().await.unwrap();
            assert!(permit.slot() < PERMITS as usize);
            most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if round == 0 || round == ROUNDS - 1 {
                all_are_held.wait().await;
            } else {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            permit.ensure().unwrap();
            held.fetch_sub(1, Ordering::SeqCst);
            permit.release().await.unwrap();
            if done.fetch_add(1, Ordering::SeqCst) == 60 {
                cluster.servers()[0].freeze().await;
            }
        }
    });
    tokio::time::timeout(SOON * 3, join_all(work)).await.expect("all are served, and every permit is in use");
    cluster.servers()[0].thaw().await;
    assert_eq!(most.into_inner(), PERMITS as usize);
    eventually(SOON, "every slot is free", async || {
        clients[0].semaphore("s", PERMITS).available_permits().await.unwrap() == PERMITS as usize
    })
    .await;
}

#[tokio::test]
async fn a_semaphore_of_a_thousand_is_found_full_and_what_is_released_is_found_vacant() {
    let cluster = Cluster::start(3).await;
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let semaphore = one.semaphore("s", 1_024);
    let acquired = join_all((0..1_024).map(|_| semaphore.acquire())).await;
    let mut permits: Vec<_> = acquired.into_iter().map(Result::unwrap).collect();
    let theirs = other.semaphore("s", 1_024);
    assert!(theirs.try_acquire().await.unwrap().is_none());
    assert_eq!(theirs.available_permits().await.unwrap(), 0);
    let released = permits.swap_remove(700);
    let slot = released.slot();
    released.release().await.unwrap();
    let found = Instant::now();
    assert_eq!(theirs.acquire().await.unwrap().slot(), slot);
    assert!(found.elapsed() < SOON, "{:?}", found.elapsed());
}

#[tokio::test]
async fn names_with_braces_have_slots() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for name in ["{test}:abc", "{a}", "a}b{"] {
        let semaphore = quorum.semaphore(name, 2);
        let permits = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        drop(permits);
    }
}

/// One of them is a key of some other kind, which no quorum locks.
#[tokio::test]
async fn a_resource_that_cannot_be_locked_keeps_nobody_from_the_others() {
    let cluster = Cluster::start(3).await;
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    for server in cluster.servers() {
        server.command(&["SET", "a", "a string"]).await;
    }
    let held = other.red_lock("b").lock().await.unwrap();
    let patience = Duration::from_millis(500);
    let any = one.any_of(["a", "b"]).options(LockOptions::new().quorum_timeout(patience));
    let mut waiting = Box::pin(any.lock());
    assert!(tokio::time::timeout(patience * 3, &mut waiting).await.is_err(), "somebody has the other");
    drop(held);
    assert_eq!(waiting.await.unwrap().resource().to_string(), "b");
}

/// The time that each server has spent on calls of clients.
async fn spent(cluster: &Cluster) -> Vec<Duration> {
    let mut spent = Vec::new();
    for server in cluster.servers() {
        let info = server.info("commandstats").await;
        let usec = |command: &str| -> u64 {
            let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
            line.and_then(|line| line.split("usec=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        // What runs inside of a script is in its time.
        spent.push(Duration::from_micros(usec("evalsha") + usec("subscribe") + usec("unsubscribe")));
    }
    spent
}

/// What the busiest server has spent since then.
fn most_since(before: &[Duration], after: &[Duration]) -> Duration {
    after.iter().zip(before).map(|(after, before)| *after - *before).max().unwrap()
}

/// A newcomer looks at all slots and lines up; then it costs no more than its polls. The measure is what
/// a lock with its unlock costs the same servers, for they may be fast or slow.
#[tokio::test]
async fn a_newcomer_at_a_full_semaphore_of_a_thousand_costs_a_server_less_than_forty_locks() {
    const TIMES: usize = 25;
    const LOCKS: u32 = 50;
    for count in [3, 5] {
        let cluster = Cluster::start(count).await;
        let (one, other) = (client(&cluster).await, client(&cluster).await);
        let mut locks = Vec::new();
        for _ in 0..TIMES {
            let before = spent(&cluster).await;
            for _ in 0..LOCKS {
                one.red_lock("r").lock().await.unwrap().unlock().await.unwrap();
            }
            locks.push(most_since(&before, &spent(&cluster).await) / LOCKS);
        }
        let semaphore = one.semaphore("s", 1_024);
        let _permits = join_all((0..1_024).map(|_| semaphore.acquire())).await;
        let theirs = other.semaphore("s", 1_024);
        let mut tried = Vec::new();
        let mut lined_up = Vec::new();
        for _ in 0..TIMES {
            let before = spent(&cluster).await;
            assert!(theirs.try_acquire().await.unwrap().is_none());
            let between = spent(&cluster).await;
            assert!(theirs.try_acquire_for(Duration::from_millis(200)).await.unwrap().is_none());
            tried.push(most_since(&before, &between));
            lined_up.push(most_since(&between, &spent(&cluster).await));
        }
        // The least, as what else the machine does makes a server slower, and nothing makes it faster.
        let [lock, tried, lined_up] = [locks, tried, lined_up].map(|each| each.into_iter().min().unwrap());
        let told = format!("a lock {lock:?}, a try {tried:?}, a newcomer that lines up {lined_up:?}");
        eprintln!("{count} servers, the busiest: {told}");
        assert!(tried.max(lined_up) <= lock * 40, "{told}");
    }
}
