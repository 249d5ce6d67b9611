//! What the tests of Redisson's `RReadWriteLock` and of Curator's `InterProcessReadWriteLock` ask
//! of read/write locks, in virtual time; `docs/BEHAVIOURS.md` names each.

use std::time::Duration;

use futures::future::join_all;
use redquorum::{
    LockGuard, MemoryCluster, Owner, Quorum, RwLock,
    error::{LockError, LossReason, UnlockError},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const TTL: Duration = Duration::from_secs(30);

/// Much longer than a lock takes on these nodes, and much shorter than any ttl.
const SOON: Duration = Duration::from_millis(50);

/// The lock of one resource, for a client of its own.
fn lock(cluster: &MemoryCluster) -> RwLock {
    Quorum::builder().in_memory(cluster).unwrap().rw_lock("r")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn reading(lock: RwLock) -> JoinHandle<LockGuard> {
    tokio::spawn(async move { lock.read().await.unwrap() })
}

fn writing(lock: RwLock) -> JoinHandle<LockGuard> {
    tokio::spawn(async move { lock.write().await.unwrap() })
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_the_longest_of_readers_with_ttls_of_their_own() {
    let cluster = MemoryCluster::new(3);
    let start = Instant::now();
    let longest = lock(&cluster).ttl(seconds(10)).without_renewal().read().await.unwrap();
    sleep(Duration::from_millis(300)).await;
    let shortest = lock(&cluster).ttl(seconds(3)).without_renewal().read().await.unwrap();
    let writer = writing(lock(&cluster));
    sleep(Duration::from_millis(2800)).await;
    shortest.unlock().await.unwrap();
    sleep(seconds(6)).await;
    assert!(longest.is_valid() && !writer.is_finished());
    drop(longest);
    drop(writer.await.unwrap());
    assert!(start.elapsed() < seconds(9) + Duration::from_millis(500), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_a_reader_that_is_gone_until_its_ttl_and_not_for_those_that_unlocked() {
    let cluster = MemoryCluster::new(3);
    let start = Instant::now();
    std::mem::forget(lock(&cluster).ttl(seconds(10)).without_renewal().read().await.unwrap());
    sleep(seconds(5)).await;
    lock(&cluster).ttl(seconds(10)).without_renewal().read().await.unwrap().unlock().await.unwrap();
    drop(lock(&cluster).write().await.unwrap());
    let waited = start.elapsed();
    assert!((seconds(9)..seconds(11)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn fifty_readers_outlive_their_ttl_while_they_are_renewed() {
    let cluster = MemoryCluster::new(3);
    let readers = join_all((0..50).map(|_| reading(lock(&cluster)))).await;
    let readers: Vec<LockGuard> = readers.into_iter().map(Result::unwrap).collect();
    for _ in 0..5 {
        sleep(TTL / 4).await;
        assert!(readers.iter().all(|reader| reader.remaining() > TTL / 2));
    }
    assert!(lock(&cluster).try_write().await.unwrap().is_none());
    for reader in readers {
        reader.unlock().await.unwrap();
    }
    assert!(lock(&cluster).try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_leaves_the_ttl_as_it_is_whether_it_reads_or_writes() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let lock_of_owner = lock(&cluster).owned_by(&owner).ttl(seconds(10)).without_renewal();
    let outer = lock_of_owner.write().await.unwrap();
    sleep(seconds(4)).await;
    let inner = [lock_of_owner.write().await.unwrap(), lock_of_owner.read().await.unwrap()];
    assert!(inner.iter().chain([&outer]).all(|guard| guard.remaining() < seconds(6)));
    let writer = writing(lock(&cluster));
    sleep(seconds(7)).await;
    assert!(writer.is_finished());
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_for_a_writer_all_get_in_when_its_ttl_ends_or_when_it_unlocks() {
    for unlocks in [false, true] {
        let cluster = MemoryCluster::new(3);
        let writer = lock(&cluster).ttl(seconds(10)).without_renewal().write().await.unwrap();
        let readers: Vec<_> = (0..20).map(|_| reading(lock(&cluster))).collect();
        sleep(seconds(1)).await;
        assert!(!readers.iter().any(JoinHandle::is_finished));
        let start = Instant::now();
        if unlocks {
            writer.unlock().await.unwrap();
        } else {
            std::mem::forget(writer);
        }
        let readers = join_all(readers).await;
        assert_eq!(readers.len(), 20);
        let limit = if unlocks { SOON } else { seconds(9) + SOON };
        assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_within_a_write_is_a_hold_of_the_same_lease_and_gives_nothing_free() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let mine = lock(&cluster).owned_by(&owner);
    let writer = mine.write().await.unwrap();
    let reader = mine.try_read().await.unwrap().unwrap();
    assert!(lock(&cluster).try_read().await.unwrap().is_none());
    reader.unlock().await.unwrap();
    assert!(writer.is_valid() && lock(&cluster).try_read().await.unwrap().is_none());
    let reader = mine.read().await.unwrap();
    writer.unlock().await.unwrap();
    // What is left is a hold of the write lease: it is `downgrade` that lets others read.
    assert!(!reader.is_shared() && lock(&cluster).try_read().await.unwrap().is_none());
    reader.unlock().await.unwrap();
    assert!(lock(&cluster).try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn others_read_when_the_last_hold_of_a_writer_is_given_back() {
    let cluster = MemoryCluster::new(3);
    let mine = lock(&cluster).owned_by(&Owner::new());
    let (outer, inner) = (mine.write().await.unwrap(), mine.try_write().await.unwrap().unwrap());
    assert_eq!(inner.holds(), 2);
    inner.unlock().await.unwrap();
    assert!(lock(&cluster).try_read().await.unwrap().is_none());
    outer.unlock().await.unwrap();
    assert!(lock(&cluster).try_read().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_resource_is_written_when_the_last_of_several_readers_is_gone() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (lock(&cluster).read().await.unwrap(), lock(&cluster).read().await.unwrap());
    one.unlock().await.unwrap();
    assert!(lock(&cluster).try_write().await.unwrap().is_none());
    assert!(other.is_valid());
    other.unlock().await.unwrap();
    assert!(lock(&cluster).try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_renewal_ends_for_the_next_and_its_unlock_says_so() {
    let cluster = MemoryCluster::new(3);
    for writes in [false, true] {
        let first = lock(&cluster).ttl(seconds(2)).without_renewal();
        let first = if writes { first.write().await } else { first.read().await }.unwrap();
        let start = Instant::now();
        drop(lock(&cluster).write().await.unwrap());
        assert!(start.elapsed() < Duration::from_millis(2050), "{:?}", start.elapsed());
        assert_eq!(first.lost().await.reason, LossReason::Expired);
        assert!(matches!(first.unlock().await, Err(UnlockError::LeaseLost { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn holds_are_counted_up_and_down_and_a_handle_locks_again() {
    let cluster = MemoryCluster::new(3);
    let mine = lock(&cluster).owned_by(&Owner::new());
    for _ in 0..2 {
        let one = mine.read().await.unwrap();
        let two = mine.read().await.unwrap();
        assert_eq!((one.holds(), two.holds()), (2, 2));
        two.unlock().await.unwrap();
        assert_eq!(one.holds(), 1);
        one.unlock().await.unwrap();
    }
    let (one, two) = (mine.write().await.unwrap(), mine.write().await.unwrap());
    assert_eq!((one.holds(), two.holds()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn after_re_entries_nothing_is_renewed_any_more() {
    let cluster = MemoryCluster::new(3);
    let mine = lock(&cluster).owned_by(&Owner::new());
    for _ in 0..3 {
        let (outer, inner) = (mine.read().await.unwrap(), mine.read().await.unwrap());
        drop((outer, inner));
    }
    sleep(TTL * 2).await;
    assert!(lock(&cluster).try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn force_ends_readers_and_writers_alike() {
    let cluster = MemoryCluster::new(3);
    let admin = Quorum::builder().in_memory(&cluster).unwrap().red_lock("r");
    for writes in [false, true] {
        let held = lock(&cluster);
        let held = if writes { held.write().await } else { held.read().await }.unwrap();
        admin.force_unlock().await.unwrap();
        assert!(lock(&cluster).try_write().await.unwrap().is_some());
        assert_eq!(held.lost().await.reason, LossReason::TakenAway);
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_cannot_write_and_is_told_at_once() {
    let cluster = MemoryCluster::new(3);
    let mine = lock(&cluster).owned_by(&Owner::new());
    let reader = mine.read().await.unwrap();
    assert!(matches!(mine.write().await, Err(LockError::WouldDeadlock { .. })));
    let start = Instant::now();
    assert!(lock(&cluster).try_write_for(seconds(5)).await.is_err());
    assert_eq!(start.elapsed(), seconds(5));
    assert!(reader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn while_one_writes_nobody_else_reads() {
    let cluster = MemoryCluster::new(3);
    let writer = lock(&cluster).write().await.unwrap();
    let refused = lock(&cluster).try_read_for(seconds(5)).await.unwrap_err();
    assert!(matches!(refused, LockError::TimedOut { .. }), "{refused}");
    assert!(writer.is_valid());
}

#[tokio::test(start_paused = true)]
async fn who_downgrades_keeps_writers_out_that_wait_already() {
    let cluster = MemoryCluster::new(3);
    let writer = lock(&cluster).write().await.unwrap();
    let next = writing(lock(&cluster));
    sleep(SOON).await;
    let reader = writer.downgrade().await.unwrap();
    sleep(seconds(1)).await;
    assert!(reader.is_valid() && !next.is_finished());
    reader.unlock().await.unwrap();
    drop(next.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn others_read_when_the_client_of_a_writer_is_gone() {
    let cluster = MemoryCluster::new(3);
    let quorum = Quorum::builder().in_memory(&cluster).unwrap();
    let writer = quorum.rw_lock("r").write().await.unwrap();
    let reader = reading(lock(&cluster));
    sleep(SOON).await;
    quorum.shutdown().await;
    assert!(!writer.is_valid());
    drop(reader.await.unwrap());
}
