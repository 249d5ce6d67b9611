//! Re-entrant locks on real servers: the nodes store the number of holds of an owner's lease.

use std::time::Duration;

use redis::{Client, Cmd, cmd};
use redquorum::{LockGuard, Owner, Quorum, RedLock, admin};
use redquorum_tests::{Cluster, Server, ServerOptions, eventually};

use super::{
    behaviours::replies_of,
    servers::{
        SOON, builder, client, holds, leases, put_lease, remaining, wait_for_holds, wait_for_queue_entries,
    },
};

#[tokio::test]
async fn holds_are_counted_on_all_living_servers_under_one_token() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    cluster.server(1).kill().await;
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    wait_for_holds_on_living(&cluster, 1).await;
    let inner = lock.try_lock().await.unwrap().unwrap();
    wait_for_holds_on_living(&cluster, 2).await;
    assert_eq!((inner.fencing_token(), inner.id()), (outer.fencing_token(), outer.id()));
    assert_eq!((inner.holds(), outer.holds()), (2, 2));
    assert_eq!(leases(cluster.server(0), "r").await, [(outer.id().to_string(), 2)]);
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none(), "a lock without the owner re-entered");
    inner.unlock().await.unwrap();
    wait_for_holds_on_living(&cluster, 1).await;
    assert!(outer.is_valid());
    let last = outer.fencing_token();
    outer.unlock().await.unwrap();
    wait_for_holds_on_living(&cluster, 0).await;
    assert!(lock.lock().await.unwrap().fencing_token() > last, "a new lease has no larger token");
}

#[tokio::test]
async fn guards_of_an_owner_are_dropped_in_any_order_and_the_last_guard_unlocks() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let lock = quorum.red_lock("r").owned_by(&Owner::new());
        let mut guards: Vec<Option<LockGuard>> = Vec::new();
        for _ in order {
            guards.push(Some(lock.lock().await.unwrap()));
        }
        wait_for_holds(cluster.servers(), "r", 3).await;
        for (left, next) in [2, 1, 0].into_iter().zip(order) {
            assert!(guards.iter().flatten().all(|guard| guard.is_valid()));
            drop(guards[next].take());
            wait_for_holds(cluster.servers(), "r", left).await;
        }
    }
}

/// A failed re-entry rolls back only its own hold.
#[tokio::test]
async fn a_re_entry_without_a_quorum_leaves_the_outer_hold() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(Duration::from_secs(6)).connect().await.unwrap();
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let replies = replies_of(lock.lock().await.unwrap_err());
    assert_eq!(replies.iter().count(), 3);
    assert_eq!(outer.holds(), 1);
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    // The thawed servers execute the re-entry and its rollback. In the meantime, the outer hold must not disappear.
    eventually(SOON, "one hold is left everywhere", async || {
        let holds = holds(cluster.servers(), "r").await;
        assert!(!holds.contains(&0), "a failed re-entry dropped the hold before it: {holds:?}");
        holds == [1, 1, 1]
    })
    .await;
    assert!(outer.is_valid());
    let inner = lock.lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 2).await;
    drop(outer);
    inner.unlock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn a_request_that_arrives_twice_counts_once() {
    // With this setting, the slow log of a server contains each command with all its words.
    let options = ServerOptions::default().config("slowlog-log-slower-than", "0");
    let cluster = Cluster::start_with(3, options).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    send_again(cluster.servers(), &["lock"]).await;
    assert_eq!(holds(cluster.servers(), "r").await, [1, 1, 1]);

    let inner = lock.lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 2).await;
    send_again(cluster.servers(), &["renew"]).await;
    send_again(cluster.servers(), &["lock"]).await;
    assert_eq!(holds(cluster.servers(), "r").await, [2, 2, 2], "a repeated request changed the holds");

    inner.unlock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    send_again(cluster.servers(), &["renew"]).await;
    assert_eq!(holds(cluster.servers(), "r").await, [1, 1, 1]);
    outer.unlock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 0).await;

    let next = quorum.red_lock("r").lock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 1).await;
    send_again(cluster.servers(), &["release", "release_late", "unlock"]).await;
    assert_eq!(
        holds(cluster.servers(), "r").await,
        [1, 1, 1],
        "a repeated unlock of the last lease changed the next lease"
    );
    assert!(next.is_valid());
}

#[tokio::test]
async fn locks_in_the_scope_of_an_owner_re_enter_and_spawned_tasks_do_not() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let owner = Owner::new();
    let outer = quorum.red_lock("r").owned_by(&owner).lock().await.unwrap();
    let inner = owner.scope(lock_for_task(quorum.red_lock("r"))).await;
    assert_eq!((inner.holds(), inner.fencing_token()), (2, outer.fencing_token()));
    wait_for_holds(cluster.servers(), "r", 2).await;
    let lock = quorum.red_lock("r");
    let in_a_task =
        async || tokio::spawn(async move { lock.try_lock().await.unwrap().is_some() }).await.unwrap();
    assert!(!owner.scope(in_a_task()).await);
    let other = owner.scope(Owner::new().scope(async { quorum.red_lock("r").try_lock().await })).await;
    assert!(other.unwrap().is_none(), "a call re-entered with the owner of the outer scope");
    drop((outer, inner));
    wait_for_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_share_an_owner_take_turns_and_share_one_lease() {
    const TASKS: u32 = 8;
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        put_lease(server, "r", "stranger:1", Duration::from_secs(30)).await;
    }
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(lock_for_task(lock.clone()))).collect();
    wait_for_queue_entries(&cluster, "r", 1).await;
    assert!(tasks.iter().all(|task| !task.is_finished()));
    admin::force_unlock(&quorum, "r").await.unwrap();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(
            tokio::time::timeout(SOON, task)
                .await
                .expect("a task did not get the lease that its owner has")
                .unwrap(),
        );
    }
    let token = guards[0].fencing_token();
    assert!(guards.iter().all(|guard| guard.fencing_token() == token && guard.holds() == TASKS));
    wait_for_holds(cluster.servers(), "r", TASKS).await;
    let left: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.unlock())).collect();
    for left in left {
        left.await.unwrap().unwrap();
    }
    wait_for_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn the_watchdog_restores_the_number_of_holds() {
    let ttl = Duration::from_millis(1200);
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(ttl).connect().await.unwrap();
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    wait_for_restored_holds(&quorum, &cluster, 2).await;
    inner.unlock().await.unwrap();
    wait_for_restored_holds(&quorum, &cluster, 1).await;
    assert!(outer.is_valid());
    outer.unlock().await.unwrap();
    wait_for_holds(cluster.servers(), "r", 0).await;
}

/// Deletes the key on one server after the other, and waits until each server has the key with all holds
/// again.
async fn wait_for_restored_holds(quorum: &Quorum, cluster: &Cluster, count: u32) {
    wait_for_holds(cluster.servers(), "r", count).await;
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
        wait_for_holds(std::slice::from_ref(server), "r", count).await;
        assert!(!remaining(server, "r").await.is_zero());
    }
    wait_for_holds(cluster.servers(), "r", count).await;
    assert_eq!(quorum.inspect("r").await.unwrap().holds(), count);
}

/// Locks in a future that owns its lock, for a task.
async fn lock_for_task(lock: RedLock) -> LockGuard {
    lock.lock().await.unwrap()
}

/// Waits for the holds on the servers that [`holds_are_counted_on_all_living_servers_under_one_token`] leaves
/// alive.
async fn wait_for_holds_on_living(cluster: &Cluster, count: u32) {
    wait_for_holds(cluster.some(0..1), "r", count).await;
    wait_for_holds(cluster.some(2..3), "r", count).await;
}

/// Sends the last request with one of these operations to each server again.
async fn send_again(servers: &[Server], operations: &[&str]) {
    for server in servers {
        let log: Vec<(u64, u64, u64, Vec<Vec<u8>>)> = slow_log(server).await;
        let is_sought = |words: &&Vec<Vec<u8>>| {
            words[0].eq_ignore_ascii_case(b"EVALSHA")
                && words.iter().any(|word| operations.iter().any(|operation| word == operation.as_bytes()))
        };
        let words =
            log.iter().map(|(.., words)| words).find(is_sought).expect("the slow log lacks the request");
        let mut again = Cmd::new();
        again.arg(words);
        server.query::<redis::Value>(&again).await;
    }
}

/// Returns the entries of the slow log, newest first: number, time, duration and words.
async fn slow_log(server: &Server) -> Vec<(u64, u64, u64, Vec<Vec<u8>>)> {
    type Entry = (u64, u64, u64, Vec<Vec<u8>>, Vec<u8>, Vec<u8>);
    let client = Client::open(server.plain_url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let log: Vec<Entry> = cmd("SLOWLOG").arg("GET").arg(-1).query_async(&mut connection).await.unwrap();
    log.into_iter().map(|(number, time, duration, words, ..)| (number, time, duration, words)).collect()
}
