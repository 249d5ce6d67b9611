//! The events at which a waiter makes its next attempt, on real servers: unlocks, ends of ttls, new subscriptions, and
//! fallback polls.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use redquorum::{LockOptions, Quorum};
use redquorum_tests::{Cluster, Direction, Stopwatch};
use tokio::task::JoinHandle;

use super::{
    RARE_POLLS, SOON, TTL, WITH_TTL, builder_behind, client, for_each, proxies, put_lock, repeat_until_woken,
    wait_for_queue_entries,
};

/// Starts a waiter that returns the time at which it acquired the lock.
fn wait_in_background(quorum: &Quorum, options: LockOptions) -> JoinHandle<Instant> {
    let lock = quorum.red_lock("r").options(options);
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        let now = Instant::now();
        drop(guard);
        now
    })
}

/// Fails the test if the future takes longer than [`SOON`], which is less than a ttl or the interval of rare polls.
async fn within_deadline<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("the future did not complete before the deadline")
}

/// An unlock wakes a waiter at once. The waiter locks before its first poll, and long before the end of the ttl.
#[tokio::test]
async fn a_waiter_wakes_at_once_on_unlock() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for _ in 0..5 {
        repeat_until_woken("the unlock wakes the waiter", async || {
            let guard = holder.red_lock("r").options(WITH_TTL).lock().await.unwrap();
            let begin = Instant::now();
            let waiting = wait_in_background(&waiter, RARE_POLLS);
            wait_for_queue_entries(&cluster, "r", 1).await;
            let unlocked = Instant::now();
            guard.unlock().await.unwrap();
            let woken = within_deadline(waiting).await.unwrap();
            assert!(woken - unlocked < Duration::from_secs(1), "woken after {:?}", woken - unlocked);
            wait_for_queue_entries(&cluster, "r", 0).await;
            woken - begin
        })
        .await;
    }
}

/// No node publishes a notice at the end of a ttl. The waiter attempts at that time without a notice.
#[tokio::test]
async fn a_waiter_wakes_when_the_holders_ttl_ends() {
    let cluster = Cluster::start(3).await;
    let waiter = client(&cluster).await;
    let ttl = Duration::from_millis(150);
    repeat_until_woken("the end of the ttl wakes the waiter", async || {
        let (begin, watch) = (Instant::now(), Stopwatch::start());
        for server in cluster.servers() {
            put_lock(server, "r", "vanished:1", Some(ttl)).await;
        }
        let woken = within_deadline(wait_in_background(&waiter, RARE_POLLS)).await.unwrap();
        let took = woken - begin;
        assert!(took >= ttl && watch.undelayed() < ttl + Duration::from_secs(1), "{watch:?}");
        took
    })
    .await;
}

/// A waiter whose connections break during the unlock subscribes again, and makes another attempt.
#[tokio::test]
async fn a_waiter_that_was_disconnected_during_the_unlock_attempts_after_reconnecting() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let holder = client(&cluster).await;
    let waiter = builder_behind(&proxies).connect().await.unwrap();
    repeat_until_woken("the new subscription wakes the waiter", async || {
        let guard = holder.red_lock("r").options(WITH_TTL).lock().await.unwrap();
        let begin = Instant::now();
        let waiting = wait_in_background(&waiter, RARE_POLLS);
        wait_for_queue_entries(&cluster, "r", 1).await;
        for_each(&proxies, |proxy| proxy.cut(Direction::Replies));
        guard.unlock().await.unwrap();
        for proxy in &proxies {
            proxy.drop_connections().await;
            proxy.open(Direction::Replies);
        }
        within_deadline(waiting).await.unwrap() - begin
    })
    .await;
}

/// The servers close the subscribed connections before or during the unlock. The waiter subscribes again, and makes
/// another attempt.
#[tokio::test]
async fn a_waiter_whose_subscriptions_the_servers_kill_still_wakes() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for is_killed_before_unlock in [true, false] {
        repeat_until_woken("the unlock or the new subscription wakes the waiter", async || {
            let guard = holder.red_lock("r").options(WITH_TTL).lock().await.unwrap();
            let begin = Instant::now();
            let waiting = wait_in_background(&waiter, RARE_POLLS);
            wait_for_queue_entries(&cluster, "r", 1).await;
            let kill = async || {
                for server in cluster.servers() {
                    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
                }
            };
            if is_killed_before_unlock {
                kill().await;
                guard.unlock().await.unwrap();
            } else {
                let unlocking = tokio::spawn(guard.unlock());
                kill().await;
                unlocking.await.unwrap().unwrap();
            }
            within_deadline(waiting).await.unwrap() - begin
        })
        .await;
    }
}

/// If a key is deleted by `DEL`, no node publishes a notice. Therefore only a fallback poll detects the free resource.
#[tokio::test]
async fn a_release_without_a_notice_is_found_by_the_fallback_poll() {
    let cluster = Cluster::start(3).await;
    let waiter = client(&cluster).await;
    for server in cluster.servers() {
        put_lock(server, "r", "vanished:1", Some(TTL)).await;
    }
    let polls = LockOptions::new().poll_interval(Duration::from_millis(400));
    let waiting = wait_in_background(&waiter, polls);
    wait_for_queue_entries(&cluster, "r", 1).await;
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let deleted = Instant::now();
    let woken = within_deadline(waiting).await.unwrap();
    assert!(woken - deleted < Duration::from_millis(1600), "{:?}", woken - deleted);
}
