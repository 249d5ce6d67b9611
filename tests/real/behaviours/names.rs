//! Names of resources, which may be any bytes, and lease ids, on real servers.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use redquorum_tests::Cluster;

use super::{
    RARE_POLLS, client, hash, locked_on, repeat_until_woken, wait_for_queue_entries, wait_until_unlocked,
};

/// Each name of 1 to 512 bytes can be locked and unlocked, excludes other clients, and wakes waiters.
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
        repeat_until_woken(&what, async || {
            let guard = holder.red_lock(name).lock().await.unwrap();
            assert!(locked_on(&cluster, name).await.len() >= 2, "{}", name.escape_ascii());
            assert!(waiter.red_lock(name).try_lock().await.unwrap().is_none());
            let lock = waiter.red_lock(name).options(RARE_POLLS);
            let begin = Instant::now();
            let waiting = tokio::spawn(async move { (lock.lock().await, begin.elapsed()) });
            wait_for_queue_entries(&cluster, name, 1).await;
            guard.unlock().await.unwrap();
            let (locked, waited) = waiting.await.unwrap();
            locked.unwrap().unlock().await.unwrap();
            wait_until_unlocked(&cluster, name).await;
            waited
        })
        .await;
    }
}

/// `a` and `{a}` are two resources whose release notices have one channel. Waiters of both are woken, and a
/// waiter that leaves does not end the subscription of the other waiter.
#[tokio::test]
async fn resources_that_share_a_channel_keep_each_others_subscriptions() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (client(&cluster).await, client(&cluster).await);
    for order in [["a", "{a}"], ["{a}", "a"]] {
        repeat_until_woken("both waiters are woken", async || {
            let first = holder.red_lock(order[0]).lock().await.unwrap();
            let second = holder.red_lock(order[1]).lock().await.unwrap();
            let begin = Instant::now();
            let wait = |name: &str| {
                let lock = waiter.red_lock(name).options(RARE_POLLS);
                tokio::spawn(async move { lock.lock().await.map(drop) })
            };
            let waiting = [wait(order[0]), wait(order[1])];
            wait_for_queue_entries(&cluster, "a", 1).await;
            // In this time, both waiters subscribe, and make another attempt.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let [waits_for_first, waits_for_second] = waiting;
            first.unlock().await.unwrap();
            waits_for_first.await.unwrap().unwrap();
            assert!(!waits_for_second.is_finished());
            second.unlock().await.unwrap();
            waits_for_second.await.unwrap().unwrap();
            let waited = begin.elapsed();
            wait_for_queue_entries(&cluster, "a", 0).await;
            waited
        })
        .await;
    }
}

/// A lease id consists of the client's label, the client's random uuid (version 4: 122 bits from the
/// operating system) and a number. No two clients have one uuid, no two leases of a client have one number,
/// and the guard shows the id that the servers store.
#[tokio::test]
async fn each_lease_has_its_own_id_and_each_client_a_random_uuid() {
    let cluster = Cluster::start(1).await;
    let mut lease_ids = BTreeSet::new();
    let mut clients = BTreeSet::new();
    for _ in 0..4 {
        let quorum = client(&cluster).await;
        for _ in 0..4 {
            let guard = quorum.red_lock("r").lock().await.unwrap();
            let lease_id = guard.id().to_string();
            assert_eq!(hash(cluster.server(0), "r").await, [(lease_id.clone(), "1".to_owned())]);
            let (label, rest) = lease_id.rsplit_once('/').unwrap();
            assert_eq!(guard.id().label(), Some(label));
            assert!(label.ends_with(&format!(":{}", std::process::id())), "{label}");
            let (client, number) = rest.split_once(':').unwrap();
            assert!(number.parse::<u64>().is_ok(), "{lease_id}");
            let uuid: Vec<char> = client.chars().collect();
            assert!(
                uuid.len() == 36 && uuid[14] == '4' && "89ab".contains(uuid[19]),
                "{client} is no uuid v4"
            );
            clients.insert(client.to_owned());
            lease_ids.insert(lease_id);
            guard.unlock().await.unwrap();
        }
    }
    assert_eq!((clients.len(), lease_ids.len()), (4, 16));
}
