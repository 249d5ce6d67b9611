//! Resources of any bytes.

use std::time::Duration;

use super::{SOON, client, have_subscribers, is_freed, locked, without_polls};
use crate::support::Cluster;

/// Every name of 1 to 512 bytes works like any other: it locks, keeps others out, tells its release, and is freed.
#[tokio::test]
async fn any_bytes_make_a_resource() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    let longest = [0xfe_u8; 512];
    let names: [&[u8]; 13] = [
        b"{",
        b"}",
        b"{}",
        b"a{b}c",
        b"}{",
        b"\n",
        b"\r\n",
        b"\0",
        b"\xff",
        b" ",
        b"*?[a]",
        "später".as_bytes(),
        &longest,
    ];
    for name in names {
        let guard = holder.red_lock(name).lock().await.unwrap();
        assert!(locked(cluster.servers(), name).await >= 2, "{}", name.escape_ascii());
        assert!(waiter.red_lock(name).try_lock().await.unwrap().is_none());
        let lock = waiter.red_lock(name).retry(without_polls());
        let waiting = tokio::spawn(async move { lock.lock().await });
        have_subscribers(cluster.servers(), name, 1).await;
        guard.unlock().await.unwrap();
        let woken = tokio::time::timeout(SOON, waiting).await;
        let woken = woken.unwrap_or_else(|_| panic!("{}: not woken", name.escape_ascii()));
        woken.unwrap().unwrap().unlock().await.unwrap();
        is_freed(cluster.servers(), name).await;
    }
}

/// `a` and `{a}` are two locks, although their releases are told on one channel: the waiters of both are woken, and one that
/// leaves does not take the other's subscription along.
#[tokio::test]
async fn resources_that_share_a_channel_wake_each_others_waiters_only() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for order in [["a", "{a}"], ["{a}", "a"]] {
        let first = holder.red_lock(order[0]).lock().await.unwrap();
        let second = holder.red_lock(order[1]).lock().await.unwrap();
        let wait = |name: &str| {
            let lock = waiter.red_lock(name).retry(without_polls());
            tokio::spawn(async move { lock.lock().await.map(drop) })
        };
        let waiting = [wait(order[0]), wait(order[1])];
        have_subscribers(cluster.servers(), b"a", 1).await;
        // Both have subscribed, and have looked once more since.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let [waits_for_first, waits_for_second] = waiting;
        first.unlock().await.unwrap();
        tokio::time::timeout(SOON, waits_for_first).await.expect("woken").unwrap().unwrap();
        assert!(!waits_for_second.is_finished());
        second.unlock().await.unwrap();
        tokio::time::timeout(SOON, waits_for_second).await.expect("woken").unwrap().unwrap();
        have_subscribers(cluster.servers(), b"a", 0).await;
    }
}
