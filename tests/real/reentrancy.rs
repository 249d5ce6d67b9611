//! Holds of one owner: how many there are is what every node says.

use std::time::Duration;

use redis::{Client, Cmd, cmd};
use redquorum::{LockGuard, Owner, Quorum, RedLock, admin};
use redquorum_tests::{Cluster, Server, ServerOptions, eventually};

use super::{
    behaviours::replies_of,
    servers::{SOON, builder, client, have_holds, have_waiters, holds, owners, put_owner, remaining},
};

#[tokio::test]
async fn holds_count_up_and_down_on_every_server_that_can_be_reached_under_one_token() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    cluster.server(1).kill().await;
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    have_alive_holds(&cluster, 1).await;
    let inner = lock.try_lock().await.unwrap().unwrap();
    have_alive_holds(&cluster, 2).await;
    assert_eq!((inner.fencing_token(), inner.id()), (outer.fencing_token(), outer.id()));
    assert_eq!((inner.holds(), outer.holds()), (2, 2));
    assert_eq!(owners(cluster.server(0), "r").await, [(outer.id().to_string(), 2)]);
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none(), "only its owner re-enters");
    inner.unlock().await.unwrap();
    have_alive_holds(&cluster, 1).await;
    assert!(outer.is_valid());
    let last = outer.fencing_token();
    outer.unlock().await.unwrap();
    have_alive_holds(&cluster, 0).await;
    assert!(lock.lock().await.unwrap().fencing_token() > last, "a new lease has a new token");
}

#[tokio::test]
async fn guards_of_an_owner_may_go_in_any_order_and_the_last_one_unlocks() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let lock = quorum.red_lock("r").owned_by(&Owner::new());
        let mut guards: Vec<Option<LockGuard>> = Vec::new();
        for _ in order {
            guards.push(Some(lock.lock().await.unwrap()));
        }
        have_holds(cluster.servers(), "r", 3).await;
        for (left, next) in [2, 1, 0].into_iter().zip(order) {
            assert!(guards.iter().flatten().all(|guard| guard.is_valid()));
            drop(guards[next].take());
            have_holds(cluster.servers(), "r", left).await;
        }
    }
}

/// When a re-entry fails, what is taken back is the new hold alone.
#[tokio::test]
async fn a_re_entry_that_found_no_quorum_leaves_the_hold_before_it_everywhere() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(Duration::from_secs(6)).connect().await.unwrap();
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    have_holds(cluster.servers(), "r", 1).await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let replies = replies_of(lock.lock().await.unwrap_err());
    assert_eq!(replies.iter().count(), 3);
    assert_eq!(outer.holds(), 1);
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    // What the frozen servers had of the re-entry they execute now; never is the hold before it
    // gone.
    eventually(SOON, "one hold is left everywhere", async || {
        let holds = holds(cluster.servers(), "r").await;
        assert!(!holds.contains(&0), "a failed re-entry dropped the hold before it: {holds:?}");
        holds == [1, 1, 1]
    })
    .await;
    assert!(outer.is_valid());
    let inner = lock.lock().await.unwrap();
    have_holds(cluster.servers(), "r", 2).await;
    drop(outer);
    inner.unlock().await.unwrap();
    have_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn a_request_that_arrives_twice_counts_once() {
    // The log of a server's slow commands, when all are slow, has every request word by word.
    let options = ServerOptions::default().config("slowlog-log-slower-than", "0");
    let cluster = Cluster::start_with(3, options).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    have_holds(cluster.servers(), "r", 1).await;
    send_again(cluster.servers(), &["lock"]).await;
    assert_eq!(holds(cluster.servers(), "r").await, [1, 1, 1]);

    let inner = lock.lock().await.unwrap();
    have_holds(cluster.servers(), "r", 2).await;
    send_again(cluster.servers(), &["renew"]).await;
    send_again(cluster.servers(), &["lock"]).await;
    assert_eq!(
        holds(cluster.servers(), "r").await,
        [2, 2, 2],
        "sent again, holds are still as they were told"
    );

    inner.unlock().await.unwrap();
    have_holds(cluster.servers(), "r", 1).await;
    send_again(cluster.servers(), &["renew"]).await;
    assert_eq!(holds(cluster.servers(), "r").await, [1, 1, 1]);
    outer.unlock().await.unwrap();
    have_holds(cluster.servers(), "r", 0).await;

    let next = quorum.red_lock("r").lock().await.unwrap();
    have_holds(cluster.servers(), "r", 1).await;
    send_again(cluster.servers(), &["release", "release_late", "unlock"]).await;
    assert_eq!(
        holds(cluster.servers(), "r").await,
        [1, 1, 1],
        "the last lease's unlock is none of the next one's"
    );
    assert!(next.is_valid());
}

#[tokio::test]
async fn locks_in_the_scope_of_an_owner_re_enter_and_spawned_tasks_do_not() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let owner = Owner::new();
    let outer = quorum.red_lock("r").owned_by(&owner).lock().await.unwrap();
    let inner = owner.scope(entered(quorum.red_lock("r"))).await;
    assert_eq!((inner.holds(), inner.fencing_token()), (2, outer.fencing_token()));
    have_holds(cluster.servers(), "r", 2).await;
    let lock = quorum.red_lock("r");
    let in_a_task =
        async || tokio::spawn(async move { lock.try_lock().await.unwrap().is_some() }).await.unwrap();
    assert!(!owner.scope(in_a_task()).await);
    let other = owner.scope(Owner::new().scope(async { quorum.red_lock("r").try_lock().await })).await;
    assert!(other.unwrap().is_none(), "the innermost scope counts");
    drop((outer, inner));
    have_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_share_an_owner_take_turns_and_share_one_lease() {
    const TASKS: u32 = 8;
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for server in cluster.servers() {
        put_owner(server, "r", "stranger:1", Duration::from_secs(30)).await;
    }
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(entered(lock.clone()))).collect();
    have_waiters(&cluster, "r", 1).await;
    assert!(tasks.iter().all(|task| !task.is_finished()));
    admin::force_unlock(&quorum, "r").await.unwrap();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(tokio::time::timeout(SOON, task).await.expect("they wait for each other").unwrap());
    }
    let token = guards[0].fencing_token();
    assert!(guards.iter().all(|guard| guard.fencing_token() == token && guard.holds() == TASKS));
    have_holds(cluster.servers(), "r", TASKS).await;
    let left: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.unlock())).collect();
    for left in left {
        left.await.unwrap().unwrap();
    }
    have_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn the_watchdog_keeps_the_number_of_holds_and_brings_it_back_where_it_was_lost() {
    let ttl = Duration::from_millis(1200);
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(ttl).connect().await.unwrap();
    let lock = quorum.red_lock("r").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    brought_back(&quorum, &cluster, 2).await;
    inner.unlock().await.unwrap();
    brought_back(&quorum, &cluster, 1).await;
    assert!(outer.is_valid());
    outer.unlock().await.unwrap();
    have_holds(cluster.servers(), "r", 0).await;
}

/// One server after the other forgets the lock, and has it again before a ttl is over.
async fn brought_back(quorum: &Quorum, cluster: &Cluster, count: u32) {
    have_holds(cluster.servers(), "r", count).await;
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
        have_holds(std::slice::from_ref(server), "r", count).await;
        assert!(!remaining(server, "r").await.is_zero());
    }
    have_holds(cluster.servers(), "r", count).await;
    assert_eq!(quorum.inspect("r").await.unwrap().holds(), count);
}

async fn entered(lock: RedLock) -> LockGuard {
    lock.lock().await.unwrap()
}

/// The servers that [`holds_count_up_and_down_on_every_server_that_can_be_reached_under_one_token`]
/// leaves alive.
async fn have_alive_holds(cluster: &Cluster, count: u32) {
    have_holds(cluster.some(0..1), "r", count).await;
    have_holds(cluster.some(2..3), "r", count).await;
}

/// Sends every server the last request of one of these operations once more.
async fn send_again(servers: &[Server], operations: &[&str]) {
    for server in servers {
        let log: Vec<(u64, u64, u64, Vec<Vec<u8>>)> = slow_log(server).await;
        let is_sought = |words: &&Vec<Vec<u8>>| {
            words[0].eq_ignore_ascii_case(b"EVALSHA")
                && words.iter().any(|word| operations.iter().any(|operation| word == operation.as_bytes()))
        };
        let words = log.iter().map(|(.., words)| words).find(is_sought).expect("it was sent once");
        let mut again = Cmd::new();
        again.arg(words);
        server.query::<redis::Value>(&again).await;
    }
}

/// The newest first: number, time, duration, words, and two that are of no interest here.
async fn slow_log(server: &Server) -> Vec<(u64, u64, u64, Vec<Vec<u8>>)> {
    type Entry = (u64, u64, u64, Vec<Vec<u8>>, Vec<u8>, Vec<u8>);
    let client = Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let log: Vec<Entry> = cmd("SLOWLOG").arg("GET").arg(-1).query_async(&mut connection).await.unwrap();
    log.into_iter().map(|(number, time, duration, words, ..)| (number, time, duration, words)).collect()
}
