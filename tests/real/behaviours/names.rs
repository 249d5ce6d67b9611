//! Names: those of resources, which may be any bytes, and those of owners.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use redquorum_tests::Cluster;

use super::{RARE_POLLS, client, hash, have_waiters, is_woken, locked_on, unlocked_everywhere};

/// Every name of 1 to 512 bytes locks, excludes other clients, wakes its waiters, and is unlocked.
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
        let what = format!("a waiter for {} is woken", name.escape_ascii());
        is_woken(&what, async || {
            let guard = holder.red_lock(name).lock().await.unwrap();
            assert!(locked_on(&cluster, name).await.len() >= 2, "{}", name.escape_ascii());
            assert!(waiter.red_lock(name).try_lock().await.unwrap().is_none());
            let lock = waiter.red_lock(name).options(RARE_POLLS);
            let begin = Instant::now();
            let waiting = tokio::spawn(async move { (lock.lock().await, begin.elapsed()) });
            have_waiters(&cluster, name, 1).await;
            guard.unlock().await.unwrap();
            let (locked, waited) = waiting.await.unwrap();
            locked.unwrap().unlock().await.unwrap();
            unlocked_everywhere(&cluster, name).await;
            waited
        })
        .await;
    }
}

/// `a` and `{a}` are two locks with one channel for their release notices: the waiters of both are woken, and a waiter
/// that leaves does not end the other's subscription.
#[tokio::test]
async fn resources_that_share_a_channel_wake_each_others_waiters_only() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for order in [["a", "{a}"], ["{a}", "a"]] {
        is_woken("both waiters are woken", async || {
            let first = holder.red_lock(order[0]).lock().await.unwrap();
            let second = holder.red_lock(order[1]).lock().await.unwrap();
            let begin = Instant::now();
            let wait = |name: &str| {
                let lock = waiter.red_lock(name).options(RARE_POLLS);
                tokio::spawn(async move { lock.lock().await.map(drop) })
            };
            let waiting = [wait(order[0]), wait(order[1])];
            have_waiters(&cluster, "a", 1).await;
            // Both have subscribed, and have made another attempt since.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let [waits_for_first, waits_for_second] = waiting;
            first.unlock().await.unwrap();
            waits_for_first.await.unwrap().unwrap();
            assert!(!waits_for_second.is_finished());
            second.unlock().await.unwrap();
            waits_for_second.await.unwrap().unwrap();
            let waited = begin.elapsed();
            have_waiters(&cluster, "a", 0).await;
            waited
        })
        .await;
    }
}

/// An owner is its client's label, a random uuid of the client (version 4: 122 bits from the
/// operating system) and a number; no two clients share the first, no two leases of a client the second, and the
/// guard shows what the servers store.
#[tokio::test]
async fn no_two_leases_share_an_owner_and_clients_are_random_uuids() {
    let cluster = Cluster::start(1).await;
    let mut owners = BTreeSet::new();
    let mut clients = BTreeSet::new();
    for _ in 0..4 {
        let quorum = client(&cluster).await;
        for _ in 0..4 {
            let guard = quorum.red_lock("r").lock().await.unwrap();
            let owner = guard.id().to_string();
            assert_eq!(hash(cluster.server(0), "r").await, [(owner.clone(), "1".to_owned())]);
            let (label, lease_id) = owner.rsplit_once('/').unwrap();
            assert_eq!(guard.id().label(), Some(label));
            assert!(label.ends_with(&format!(":{}", std::process::id())), "{label}");
            let (client, number) = lease_id.split_once(':').unwrap();
            assert!(number.parse::<u64>().is_ok(), "{owner}");
            let uuid: Vec<char> = client.chars().collect();
            assert!(
                uuid.len() == 36 && uuid[14] == '4' && "89ab".contains(uuid[19]),
                "{client} is no uuid v4"
            );
            clients.insert(client.to_owned());
            owners.insert(owner);
            guard.unlock().await.unwrap();
        }
    }
    assert_eq!((clients.len(), owners.len()), (4, 16));
}
