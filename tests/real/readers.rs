//! Read/write locks on real servers.
//!
//! Promises: readers share the resource and exclude writers, a writer excludes readers and other writers, a waiting
//! writer locks before later readers, and no key remains.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use redquorum::{LockOptions, ReadGuard, admin, error::LossReason, inspection::LockState};
use redquorum_tests::{Cluster, eventually};
use tokio::sync::Barrier;

use super::servers::{SOON, client};

/// Whether no server has a key that locks the resource for a reader or a writer.
async fn is_free(cluster: &Cluster, resource: &str) -> bool {
    let readers = format!("redquorum:readers:{{{resource}}}");
    for server in cluster.servers() {
        let keys = server.keys().await;
        if keys.iter().any(|key| *key == resource || *key == readers) {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn readers_of_several_clients_share_and_a_writer_excludes() {
    let cluster = Cluster::start(3).await;
    let clients = [client(&cluster).await, client(&cluster).await, client(&cluster).await];
    let [one, other, third] = clients.each_ref().map(|quorum| quorum.rw_lock("r"));
    let readers = [one.read().await.unwrap(), other.read().await.unwrap()];
    assert_eq!(readers[0].fencing_token(), readers[1].fencing_token());
    assert!(third.try_write().await.unwrap().is_none());
    for reader in readers {
        reader.unlock().await.unwrap();
    }
    let writer = third.write().await.unwrap();
    assert!(one.try_read().await.unwrap().is_none());
    let reader = writer.downgrade().await.unwrap();
    assert!(other.read().await.unwrap().fencing_token() >= reader.fencing_token());
    reader.unlock().await.unwrap();
    eventually(SOON, "no key of the lock remains", async || is_free(&cluster, "r").await).await;
}

#[tokio::test]
async fn names_with_braces_are_read_and_written() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    for name in ["{test}:abc:key", "{a}", "a}b{"] {
        let lock = quorum.rw_lock(name);
        let reading = (0..10).map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    lock.read().await.unwrap().unlock().await.unwrap();
                }
            })
        });
        join_all(reading.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
        lock.write().await.unwrap().downgrade().await.unwrap().unlock().await.unwrap();
        eventually(SOON, "no key of the lock remains", async || is_free(&cluster, name).await).await;
    }
}

#[tokio::test]
async fn an_inspection_distinguishes_readers_and_writers() {
    let cluster = Cluster::start(3).await;
    let (quorum, other) = (client(&cluster).await, client(&cluster).await);
    let readers = [quorum.rw_lock("r").read().await.unwrap(), other.rw_lock("r").read().await.unwrap()];
    let view = async || quorum.inspect("r").await.unwrap();
    eventually(SOON, "all nodes have two readers", async || {
        let seen = view().await;
        seen.state() == LockState::Shared && seen.holds() == 2
    })
    .await;
    for reader in readers {
        reader.unlock().await.unwrap();
    }
    assert_eq!(view().await.state(), LockState::Free);
    let _writer = quorum.rw_lock("r").write().await.unwrap();
    assert_eq!(view().await.state(), LockState::Held);
}

#[tokio::test]
async fn a_process_that_is_killed_reads_no_longer_than_its_ttl() {
    const TTL: Duration = Duration::from_secs(2);
    let cluster = Cluster::start(3).await;
    let (killed, kept, quorum) = (client(&cluster).await, client(&cluster).await, client(&cluster).await);
    // Like a killed process, a forgotten guard neither renews nor unlocks.
    let renewed = LockOptions::new().ttl(TTL);
    let fixed = renewed.clone().without_renewal();
    std::mem::forget(killed.rw_lock("r").options(fixed).read().await.unwrap());
    let kept = kept.rw_lock("r").options(renewed).read().await.unwrap();
    tokio::time::timeout(TTL * 2, kept.lost()).await.unwrap_err();
    let writing = tokio::spawn(async move { quorum.rw_lock("r").write().await.unwrap() });
    kept.unlock().await.unwrap();
    drop(tokio::time::timeout(SOON, writing).await.unwrap().unwrap());
}

/// Sixteen clients read and write at random, a hundred rounds each. No writer holds the lock together with another
/// holder, and some readers hold the lock together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_readers_and_writers_exclude_each_other() {
    const CLIENTS: u64 = 16;
    const ROUNDS: usize = 100;
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..CLIENTS).map(|_| client(&cluster))).await;
    let (inside, most, written) =
        (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let tasks = clients.iter().zip(0..).map(|(quorum, seed)| {
        let lock = quorum.rw_lock("r");
        let (inside, most, written) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&written));
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            for _ in 0..ROUNDS {
                if random.random_bool(0.3) {
                    let writer = lock.write().await.unwrap();
                    assert_eq!(inside.swap(-1_000, Ordering::SeqCst), 0, "a writer met another holder");
                    let last = written.swap(writer.fencing_token().as_u64(), Ordering::SeqCst);
                    assert!(writer.fencing_token().as_u64() > last);
                    tokio::task::yield_now().await;
                    assert_eq!(
                        inside.swap(0, Ordering::SeqCst),
                        -1_000,
                        "another holder entered beside a writer"
                    );
                    writer.unlock().await.unwrap();
                } else {
                    let reader = lock.read().await.unwrap();
                    let readers = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(readers > 0, "a reader met a writer");
                    most.fetch_max(readers, Ordering::SeqCst);
                    assert!(reader.fencing_token().as_u64() > written.load(Ordering::SeqCst));
                    tokio::task::yield_now().await;
                    assert!(inside.fetch_sub(1, Ordering::SeqCst) > 0, "a reader met a writer");
                    reader.unlock().await.unwrap();
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert!(most.load(Ordering::SeqCst) > 1, "no two readers held the lock together");
    eventually(SOON, "no key of the lock remains", async || is_free(&cluster, "r").await).await;
}

#[tokio::test]
async fn a_writer_waits_for_earlier_readers_and_later_readers_for_the_writer() {
    let cluster = Cluster::start(3).await;
    let clients = join_all((0..5).map(|_| client(&cluster))).await;
    let held = clients[0].rw_lock("r").read().await.unwrap();
    let writer = clients[1].rw_lock("r");
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    eventually(SOON, "the writer is queued", async || {
        for server in cluster.servers() {
            if server.keys().await.contains(&"redquorum:queue:{r}".to_owned()) {
                return true;
            }
        }
        false
    })
    .await;
    for quorum in &clients[2..] {
        assert!(
            quorum.rw_lock("r").try_read().await.unwrap().is_none(),
            "a newcomer read while a writer waits"
        );
    }
    let late = clients[2].rw_lock("r");
    let reading = tokio::spawn(async move { late.read().await.unwrap() });
    held.unlock().await.unwrap();
    let writer = writing.await.unwrap();
    let token = writer.fencing_token();
    writer.unlock().await.unwrap();
    assert!(reading.await.unwrap().fencing_token() > token);
}

#[tokio::test]
async fn a_force_unlock_ends_all_readers() {
    let cluster = Cluster::start(3).await;
    let clients = join_all((0..4).map(|_| client(&cluster))).await;
    let ttl = Duration::from_secs(3);
    let readers = join_all(clients[..3].iter().map(|quorum| {
        let lock = quorum.rw_lock("r").options(LockOptions::new().ttl(ttl));
        async move { lock.read().await.unwrap() }
    }))
    .await;
    admin::force_unlock(&clients[3], "r").await.unwrap();
    drop(clients[3].rw_lock("r").try_write().await.unwrap().unwrap());
    for reader in &readers {
        let lost = tokio::time::timeout(SOON, reader.lost()).await.unwrap();
        assert_eq!(lost.reason, LossReason::Revoked);
    }
    drop::<Vec<ReadGuard>>(readers);
    eventually(SOON, "no key of the lock remains", async || is_free(&cluster, "r").await).await;
}

#[tokio::test]
async fn a_thousand_tasks_that_read_together_send_few_commands() {
    const TASKS: u64 = 1_000;
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    quorum.rw_lock("r").read().await.unwrap().unlock().await.unwrap();
    let commands = async || {
        let mut sum = 0;
        for server in cluster.servers() {
            let counted = server.info_field("stats", "total_commands_processed").await;
            sum += counted.parse::<u64>().unwrap();
        }
        sum
    };
    let before = commands().await;
    let all_read = Arc::new(Barrier::new(TASKS as usize));
    let reading = (0..TASKS).map(|_| {
        let (lock, all_read) = (quorum.rw_lock("r"), Arc::clone(&all_read));
        tokio::spawn(async move {
            let guard = lock.read().await.unwrap();
            all_read.wait().await;
            guard.unlock().await.unwrap();
        })
    });
    for task in reading.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let each = (commands().await - before) as f64 / TASKS as f64;
    assert!(each <= 0.05, "{each} commands for a read");
}
