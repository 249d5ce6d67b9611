//! Waiters, and what wakes them.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use redquorum::{LockOptions, Quorum};
use redquorum_tests::{Cluster, Direction, Stopwatch};
use tokio::task::JoinHandle;

use super::{
    RARE_POLLS, SOON, TTL, WITH_TTL, all, builder_behind, client, have_waiters, hold_as, is_woken, proxies,
};

/// A waiter that returns the time that it had the lock.
fn wait_in_background(quorum: &Quorum, options: LockOptions) -> JoinHandle<Instant> {
    let lock = quorum.red_lock("r").options(options);
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        let now = Instant::now();
        drop(guard);
        now
    })
}

/// Fails the test if this takes as long as only a ttl or a poll would make it.
async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("it went on in time")
}

/// An unlock wakes a waiter at once: there is neither a poll nor the end of a ttl within minutes.
#[tokio::test]
async fn a_waiter_wakes_at_once_on_unlock() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for _ in 0..5 {
        is_woken("the unlock wakes the waiter", async || {
            let guard = holder.red_lock("r").options(WITH_TTL).lock().await.unwrap();
            let begin = Instant::now();
            let waiting = wait_in_background(&waiter, RARE_POLLS);
            have_waiters(&cluster, "r", 1).await;
            let unlocked = Instant::now();
            guard.unlock().await.unwrap();
            let woken = soon(waiting).await.unwrap();
            assert!(woken - unlocked < Duration::from_secs(1), "woken after {:?}", woken - unlocked);
            have_waiters(&cluster, "r", 0).await;
            woken - begin
        })
        .await;
    }
}

/// The end of a ttl, which no node announces, wakes a waiter on time.
#[tokio::test]
async fn a_waiter_wakes_when_the_holders_ttl_ends() {
    let cluster = Cluster::start(3).await;
    let waiter = client(&cluster).await;
    let ttl = Duration::from_millis(150);
    is_woken("the end of the ttl wakes the waiter", async || {
        let (begin, watch) = (Instant::now(), Stopwatch::start());
        for server in cluster.servers() {
            hold_as(server, "r", "vanished:1", Some(ttl)).await;
        }
        let woken = soon(wait_in_background(&waiter, RARE_POLLS)).await.unwrap();
        let took = woken - begin;
        assert!(took >= ttl && watch.undelayed() < ttl + Duration::from_secs(1), "{watch:?}");
        took
    })
    .await;
}

/// A waiter whose connections break during the unlock subscribes again, and makes another attempt.
#[tokio::test]
async fn a_waiter_that_was_cut_off_during_the_unlock_looks_again_when_it_is_back() {
    let cluster = Cluster::start(3).await;
    let proxies = proxies(&cluster).await;
    let holder = client(&cluster).await;
    let waiter = builder_behind(&proxies).connect().await.unwrap();
    is_woken("the new subscription wakes the waiter", async || {
        let guard = holder.red_lock("r").options(WITH_TTL).lock().await.unwrap();
        let begin = Instant::now();
        let waiting = wait_in_background(&waiter, RARE_POLLS);
        have_waiters(&cluster, "r", 1).await;
        all(&proxies, |proxy| proxy.cut(Direction::Replies));
        guard.unlock().await.unwrap();
        for proxy in &proxies {
            proxy.drop_connections().await;
            proxy.open(Direction::Replies);
        }
        soon(waiting).await.unwrap() - begin
    })
    .await;
}

/// The same if the server ends the subscribed connections, before and after the unlock.
#[tokio::test]
async fn a_waiter_whose_subscriptions_the_servers_kill_still_wakes() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for kill_first in [true, false] {
        is_woken("the unlock or the new subscription wakes the waiter", async || {
            let guard = holder.red_lock("r").options(WITH_TTL).lock().await.unwrap();
            let begin = Instant::now();
            let waiting = wait_in_background(&waiter, RARE_POLLS);
            have_waiters(&cluster, "r", 1).await;
            let kill = async || {
                for server in cluster.servers() {
                    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
                }
            };
            if kill_first {
                kill().await;
                guard.unlock().await.unwrap();
            } else {
                let unlocking = tokio::spawn(guard.unlock());
                kill().await;
                unlocking.await.unwrap().unwrap();
            }
            soon(waiting).await.unwrap() - begin
        })
        .await;
    }
}

/// No node announces that a key was deleted by hand: only a fallback poll finds out.
#[tokio::test]
async fn a_release_that_nobody_tells_is_found_by_the_fallback_poll() {
    let cluster = Cluster::start(3).await;
    let waiter = client(&cluster).await;
    for server in cluster.servers() {
        hold_as(server, "r", "vanished:1", Some(TTL)).await;
    }
    let polls = LockOptions::new().poll_interval(Duration::from_millis(400));
    let waiting = wait_in_background(&waiter, polls);
    have_waiters(&cluster, "r", 1).await;
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let deleted = Instant::now();
    let woken = soon(waiting).await.unwrap();
    assert!(woken - deleted < Duration::from_millis(1600), "{:?}", woken - deleted);
}
