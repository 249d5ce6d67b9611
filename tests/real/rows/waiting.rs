//! Waiters: what wakes them, and what they do when nothing does.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use redquorum::{LockError, Quorum, RetryPolicy};
use tokio::{net::TcpListener, task::JoinHandle};

use super::{SOON, calls, client, connected, have_subscribers, hold_as, without_polls};
use crate::support::{Cluster, Direction, Proxy};

/// A waiter without fallback polls, which tells when it had the lock.
fn wait_in_background(quorum: &Quorum, retry: RetryPolicy) -> JoinHandle<Instant> {
    let lock = quorum.red_lock("r").retry(retry);
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

/// A release wakes a waiter at once: there is neither a poll nor the end of a ttl within minutes.
#[tokio::test]
async fn a_waiter_wakes_at_once_on_unlock() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for _ in 0..5 {
        let guard = holder.red_lock("r").ttl(Duration::from_secs(60)).lock().await.unwrap();
        let waiting = wait_in_background(&waiter, without_polls());
        have_subscribers(cluster.servers(), b"r", 1).await;
        let unlocked = Instant::now();
        guard.unlock().await.unwrap();
        let woken = soon(waiting).await.unwrap();
        assert!(woken - unlocked < Duration::from_secs(1), "woken after {:?}", woken - unlocked);
        have_subscribers(cluster.servers(), b"r", 0).await;
    }
}

/// The end of a ttl, which nobody tells, wakes a waiter on time.
#[tokio::test]
async fn a_waiter_wakes_when_the_holders_ttl_ends() {
    let cluster = Cluster::start(3).await;
    let waiter = client(&cluster).await;
    let ttl = Duration::from_millis(600);
    let begin = Instant::now();
    for server in cluster.servers() {
        hold_as(server, "r", "vanished:1", Some(ttl)).await;
    }
    let woken = soon(wait_in_background(&waiter, without_polls())).await.unwrap();
    let took = woken - begin;
    assert!(took >= ttl && took < ttl + Duration::from_secs(1), "{took:?}");
}

/// Waiting with a limit takes as long as the limit, no shorter and not much longer.
#[tokio::test]
async fn waiting_with_a_limit_takes_about_as_long_as_the_limit() {
    let cluster = Cluster::start(3).await;
    let _guard = client(&cluster).await.red_lock("r").lock().await.unwrap();
    let contender = client(&cluster).await;
    let wait = Duration::from_millis(700);
    let begin = Instant::now();
    let outcome = contender.red_lock("r").try_lock_for(wait).await;
    let took = begin.elapsed();
    assert!(matches!(outcome, Err(LockError::TimedOut { .. })), "{outcome:?}");
    assert!(took >= wait && took < wait + Duration::from_millis(500), "{took:?}");
    have_subscribers(cluster.servers(), b"r", 0).await;
}

/// Row AD: a waiter whose connections break just when the release is told subscribes again and looks again.
#[tokio::test]
async fn a_waiter_that_was_cut_off_during_the_unlock_looks_again_when_it_is_back() {
    let cluster = Cluster::start(3).await;
    let mut proxies = Vec::new();
    for server in cluster.servers() {
        proxies.push(Proxy::before(server).await);
    }
    let holder = client(&cluster).await;
    let waiter = connected(Quorum::builder().nodes(proxies.iter().map(Proxy::url))).await;
    let guard = holder.red_lock("r").ttl(Duration::from_secs(60)).lock().await.unwrap();
    let waiting = wait_in_background(&waiter, without_polls());
    have_subscribers(cluster.servers(), b"r", 1).await;
    for proxy in &proxies {
        proxy.cut(Direction::Replies);
    }
    guard.unlock().await.unwrap();
    for proxy in &proxies {
        proxy.drop_connections().await;
        proxy.open(Direction::Replies);
    }
    soon(waiting).await.unwrap();
}

/// Row AD: the same when the server ends the subscribed connections, before and after the release.
#[tokio::test]
async fn a_waiter_whose_subscriptions_the_servers_kill_still_wakes() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for kill_first in [true, false] {
        let guard = holder.red_lock("r").ttl(Duration::from_secs(60)).lock().await.unwrap();
        let waiting = wait_in_background(&waiter, without_polls());
        have_subscribers(cluster.servers(), b"r", 1).await;
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
        soon(waiting).await.unwrap();
    }
}

/// Row AD: nobody tells of a key that is deleted by hand; the fallback poll finds out, and nothing else would.
#[tokio::test]
async fn a_release_that_nobody_tells_is_found_by_the_fallback_poll() {
    let cluster = Cluster::start(3).await;
    let waiter = client(&cluster).await;
    for server in cluster.servers() {
        hold_as(server, "r", "vanished:1", Some(Duration::from_secs(60))).await;
    }
    let polls = RetryPolicy::default().polls(Duration::from_millis(200), Duration::from_millis(400));
    let waiting = wait_in_background(&waiter, polls);
    have_subscribers(cluster.servers(), b"r", 1).await;
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let deleted = Instant::now();
    let woken = soon(waiting).await.unwrap();
    assert!(woken - deleted < Duration::from_millis(1600), "{:?}", woken - deleted);
}

/// Row AC: servers that refuse at once are asked at growing intervals.
#[tokio::test]
async fn servers_that_fail_at_once_are_not_asked_in_a_busy_loop() {
    let cluster = Cluster::start(3).await;
    for server in cluster.servers() {
        server.command(&["SET", "r", "not a lock"]).await;
    }
    let quorum = client(&cluster).await;
    let before = calls(cluster.server(0)).await;
    let outcome = quorum.red_lock("r").try_lock_for(Duration::from_secs(1)).await;
    assert!(outcome.is_err());
    let calls = calls(cluster.server(0)).await - before;
    // Each attempt is a lock and its rollback, 5, 10, 20, ... ms apart.
    assert!((4..=30).contains(&calls), "{calls} calls in a second");
}

/// Row AC: a server that hangs up at once is not dialled each time that somebody wants to lock.
#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_not_dialled_in_a_busy_loop() {
    let cluster = Cluster::start(2).await;
    let rude = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", rude.local_addr().unwrap());
    let (seen, mut dials) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((connection, _)) = rude.accept().await {
            drop(connection);
            seen.send(()).ok();
        }
    });
    let quorum = connected(Quorum::builder().nodes(cluster.urls()).nodes([url])).await;
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
