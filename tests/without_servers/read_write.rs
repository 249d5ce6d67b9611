//! What the tests of Redisson's `RReadWriteLock` and of Curator's `InterProcessReadWriteLock` ask
//! of read/write locks, in virtual time; `docs/BEHAVIOURS.md` names each.

use std::{ops::Deref, time::Duration};

use futures::future::join_all;
use redquorum::{
    Error, Lease, LockGuard, LockOptions, MemoryCluster, Owner, Quorum, ReadGuard, RwLock, admin,
    error::{ConfigError, LeaseLost, LossReason, NodeReplies},
    inspection::LockState,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const TTL: Duration = Duration::from_secs(30);

/// Much longer than a lock takes on these nodes, and much shorter than any ttl.
const SOON: Duration = Duration::from_millis(50);

/// Ten seconds without a renewal.
const FIXED: LockOptions = LockOptions::new().ttl(Duration::from_secs(10)).without_renewal();

fn client(cluster: &MemoryCluster) -> Quorum {
    Quorum::builder().connect_in_memory(cluster).unwrap()
}

/// The lock of one resource, for a client of its own.
fn lock(cluster: &MemoryCluster) -> RwLock {
    client(cluster).rw_lock("r")
}

/// A guard of either kind.
enum Guard {
    Exclusive(LockGuard),
    Shared(ReadGuard),
}

impl Guard {
    /// Locks for writing or for reading.
    async fn of(lock: RwLock, writes: bool) -> Self {
        if writes {
            Self::Exclusive(lock.write().await.unwrap())
        } else {
            Self::Shared(lock.read().await.unwrap())
        }
    }

    async fn unlock(self) -> Result<NodeReplies, Error> {
        match self {
            Self::Exclusive(guard) => guard.unlock().await,
            Self::Shared(guard) => guard.unlock().await,
        }
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::Exclusive(guard) => guard,
            Self::Shared(guard) => guard,
        }
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn reading(lock: RwLock) -> JoinHandle<ReadGuard> {
    tokio::spawn(async move { lock.read().await.unwrap() })
}

fn writing(lock: RwLock) -> JoinHandle<LockGuard> {
    tokio::spawn(async move { lock.write().await.unwrap() })
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_the_longest_of_readers_with_ttls_of_their_own() {
    let cluster = MemoryCluster::new(3);
    let start = Instant::now();
    let longest = lock(&cluster).options(FIXED).read().await.unwrap();
    sleep(Duration::from_millis(300)).await;
    let shortest =
        lock(&cluster).options(LockOptions::new().ttl(seconds(3)).without_renewal()).read().await.unwrap();
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
    std::mem::forget(lock(&cluster).options(FIXED).read().await.unwrap());
    sleep(seconds(5)).await;
    lock(&cluster).options(FIXED).read().await.unwrap().unlock().await.unwrap();
    drop(lock(&cluster).write().await.unwrap());
    let waited = start.elapsed();
    assert!((seconds(9)..seconds(11)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn fifty_readers_outlive_their_ttl_while_they_are_renewed() {
    let cluster = MemoryCluster::new(3);
    let readers = join_all((0..50).map(|_| reading(lock(&cluster)))).await;
    let readers: Vec<ReadGuard> = readers.into_iter().map(Result::unwrap).collect();
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
    let lock_of_owner = lock(&cluster).owned_by(&owner).options(FIXED);
    let outer = lock_of_owner.write().await.unwrap();
    sleep(seconds(4)).await;
    let (writer, reader) = (lock_of_owner.write().await.unwrap(), lock_of_owner.read().await.unwrap());
    let leases: [&Lease; 3] = [&outer, &writer, &reader];
    assert!(leases.iter().all(|lease| lease.remaining() < seconds(6)));
    let next = writing(lock(&cluster));
    sleep(seconds(7)).await;
    assert!(next.is_finished());
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_for_a_writer_all_get_in_when_its_ttl_ends_or_when_it_unlocks() {
    for unlocks in [false, true] {
        let cluster = MemoryCluster::new(3);
        let writer = lock(&cluster).options(FIXED).write().await.unwrap();
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
    // The hold that is left belongs to the lease of the writer: only `downgrade` admits other readers.
    assert_eq!(client(&cluster).inspect("r").await.unwrap().state(), LockState::Held);
    assert!(reader.is_valid() && lock(&cluster).try_read().await.unwrap().is_none());
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
        let fixed = LockOptions::new().ttl(seconds(2)).without_renewal();
        let first = Guard::of(lock(&cluster).options(fixed), writes).await;
        let start = Instant::now();
        drop(lock(&cluster).write().await.unwrap());
        assert!(start.elapsed() < Duration::from_millis(2050), "{:?}", start.elapsed());
        assert_eq!(first.lost().await.reason, LossReason::Expired);
        let unlocked = first.unlock().await;
        let Err(Error::LeaseLost(LeaseLost { reason, .. })) = unlocked else { panic!("{unlocked:?}") };
        assert_eq!(reason, LossReason::Expired);
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
    let operator = client(&cluster);
    for writes in [false, true] {
        let held = Guard::of(lock(&cluster), writes).await;
        admin::force_unlock(&operator, "r").await.unwrap();
        assert!(lock(&cluster).try_write().await.unwrap().is_some());
        assert_eq!(held.lost().await.reason, LossReason::Revoked);
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_cannot_write_and_is_told_at_once() {
    let cluster = MemoryCluster::new(3);
    let mine = lock(&cluster).owned_by(&Owner::new());
    let reader = mine.read().await.unwrap();
    let refused = mine.write().await;
    assert!(matches!(refused, Err(Error::Config(ConfigError::WouldDeadlock { .. }))), "{refused:?}");
    let start = Instant::now();
    assert!(lock(&cluster).try_write_for(seconds(5)).await.unwrap().is_none());
    assert_eq!(start.elapsed(), seconds(5));
    assert!(reader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn while_one_writes_nobody_else_reads() {
    let cluster = MemoryCluster::new(3);
    let writer = lock(&cluster).write().await.unwrap();
    let start = Instant::now();
    assert!(lock(&cluster).try_read_for(seconds(5)).await.unwrap().is_none());
    assert_eq!(start.elapsed(), seconds(5));
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
    let quorum = client(&cluster);
    let writer = quorum.rw_lock("r").write().await.unwrap();
    let reader = reading(lock(&cluster));
    sleep(SOON).await;
    quorum.shutdown().await;
    assert!(!writer.is_valid());
    drop(reader.await.unwrap());
}
