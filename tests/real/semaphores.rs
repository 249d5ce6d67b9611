//! Semaphores and `any_of` on real servers.
//!
//! Promises: no more permits are held than the semaphore has, each waiter gets a permit although a server hangs, a
//! newcomer at a large semaphore costs each server at most as much as forty locks, and `any_of` locks a resource
//! although another resource cannot be locked.

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

/// In the first and in the last round, a client keeps its permit until all permits are held at once.
#[tokio::test]
async fn sixteen_clients_share_four_permits_although_a_server_hangs() {
    /// The number of permits that each client acquires, one after the other.
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
    tokio::time::timeout(SOON * 3, join_all(work))
        .await
        .expect("a client is not served, or a permit stays free in the first or last round");
    cluster.servers()[0].thaw().await;
    assert_eq!(most.into_inner(), PERMITS as usize);
    eventually(SOON, "every slot is free", async || {
        clients[0].semaphore("s", PERMITS).available_permits().await.unwrap() == PERMITS as usize
    })
    .await;
}

#[tokio::test]
async fn a_full_semaphore_of_a_thousand_is_noticed_and_so_is_a_released_slot() {
    let cluster = Cluster::start(3).await;
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let semaphore = one.semaphore("s", 1_024);
    let acquired = join_all((0..1_024).map(|_| semaphore.acquire())).await;
    let mut permits: Vec<_> = acquired.into_iter().map(Result::unwrap).collect();
    let other_semaphore = other.semaphore("s", 1_024);
    assert!(other_semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(other_semaphore.available_permits().await.unwrap(), 0);
    let released = permits.swap_remove(700);
    let slot = released.slot();
    released.release().await.unwrap();
    let begin = Instant::now();
    assert_eq!(other_semaphore.acquire().await.unwrap().slot(), slot);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
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

/// `a` is a string, so no quorum can lock it. `b` can still be locked.
#[tokio::test]
async fn any_of_locks_other_resources_although_one_cannot_be_locked() {
    let cluster = Cluster::start(3).await;
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    for server in cluster.servers() {
        server.command(&["SET", "a", "a string"]).await;
    }
    let held = other.red_lock("b").lock().await.unwrap();
    let patience = Duration::from_millis(500);
    let any = one.any_of(["a", "b"]).options(LockOptions::new().quorum_timeout(patience));
    let mut waiting = Box::pin(any.lock());
    assert!(
        tokio::time::timeout(patience * 3, &mut waiting).await.is_err(),
        "the wait ended while another client holds b"
    );
    drop(held);
    assert_eq!(waiting.await.unwrap().resource().to_string(), "b");
}

/// Returns the time that each server has spent on requests of clients.
async fn spent(cluster: &Cluster) -> Vec<Duration> {
    let mut spent = Vec::new();
    for server in cluster.servers() {
        let info = server.info("commandstats").await;
        let usec = |command: &str| -> u64 {
            let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
            line.and_then(|line| line.split("usec=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        // The time of a script includes its commands.
        spent.push(Duration::from_micros(usec("evalsha") + usec("subscribe") + usec("unsubscribe")));
    }
    spent
}

/// Returns the time that the busiest server has spent between two measurements.
fn most_since(before: &[Duration], after: &[Duration]) -> Duration {
    after.iter().zip(before).map(|(after, before)| *after - *before).max().unwrap()
}

/// A newcomer queries all slots, attempts, and enters a queue. The test measures the time that the busiest server
/// spends on this.
///
/// The unit of this time is a lock with its unlock on the same servers, because servers may be fast or slow.
#[tokio::test]
async fn a_newcomer_at_a_large_full_semaphore_costs_a_server_at_most_forty_locks() {
    /// The number of measurements of each cost.
    const TIMES: usize = 25;
    /// The number of locks in one measurement.
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
        let other_semaphore = other.semaphore("s", 1_024);
        let mut tried = Vec::new();
        let mut queued = Vec::new();
        for _ in 0..TIMES {
            let before = spent(&cluster).await;
            assert!(other_semaphore.try_acquire().await.unwrap().is_none());
            let between = spent(&cluster).await;
            assert!(other_semaphore.try_acquire_for(Duration::from_millis(200)).await.unwrap().is_none());
            tried.push(most_since(&before, &between));
            queued.push(most_since(&between, &spent(&cluster).await));
        }
        // The minimum of each cost, because other load on the machine can only increase a cost.
        let [lock, tried, queued] = [locks, tried, queued].map(|each| each.into_iter().min().unwrap());
        let costs = format!("a lock {lock:?}, a try {tried:?}, a newcomer that enters a queue {queued:?}");
        eprintln!("{count} servers, the busiest: {costs}");
        assert!(tried.max(queued) <= lock * 40, "{costs}");
    }
}
