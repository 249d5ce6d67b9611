//! Read/write locks on in-memory nodes in virtual time. The tests require the same behaviour as the tests of Redisson's
//! `RReadWriteLock` and of Curator's `InterProcessReadWriteLock`. `docs/BEHAVIOURS.md` lists these tests.

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

/// The default ttl.
const TTL: Duration = Duration::from_secs(30);

/// The deadline of an effect that has to happen at once. It is much shorter than any ttl.
const SOON: Duration = Duration::from_millis(50);

/// A ttl of ten seconds, without renewal.
const FIXED: LockOptions = LockOptions::new().ttl(Duration::from_secs(10)).without_renewal();

fn client(cluster: &MemoryCluster) -> Quorum {
    Quorum::builder().connect_in_memory(cluster).unwrap()
}

/// Returns a lock of the resource for a new client.
fn lock(cluster: &MemoryCluster) -> RwLock {
    client(cluster).rw_lock("r")
}

/// A guard of a reader or a writer.
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
async fn a_writer_waits_only_for_the_ttl_of_a_vanished_reader() {
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
async fn all_waiting_readers_lock_when_the_writer_unlocks_or_its_ttl_ends() {
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
async fn a_read_within_a_write_is_a_hold_of_the_same_lease() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let owned_lock = lock(&cluster).owned_by(&owner);
    let writer = owned_lock.write().await.unwrap();
    let reader = owned_lock.try_read().await.unwrap().unwrap();
    assert!(lock(&cluster).try_read().await.unwrap().is_none());
    reader.unlock().await.unwrap();
    assert!(writer.is_valid() && lock(&cluster).try_read().await.unwrap().is_none());
    let reader = owned_lock.read().await.unwrap();
    writer.unlock().await.unwrap();
    // The remaining hold belongs to the writer's lease. Only `downgrade` admits other readers.
    assert_eq!(client(&cluster).inspect("r").await.unwrap().state(), LockState::Held);
    assert!(reader.is_valid() && lock(&cluster).try_read().await.unwrap().is_none());
    reader.unlock().await.unwrap();
    assert!(lock(&cluster).try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn other_clients_read_after_the_last_hold_of_a_writer_is_unlocked() {
    let cluster = MemoryCluster::new(3);
    let owned_lock = lock(&cluster).owned_by(&Owner::new());
    let (outer, inner) = (owned_lock.write().await.unwrap(), owned_lock.try_write().await.unwrap().unwrap());
    assert_eq!(inner.holds(), 2);
    inner.unlock().await.unwrap();
    assert!(lock(&cluster).try_read().await.unwrap().is_none());
    outer.unlock().await.unwrap();
    assert!(lock(&cluster).try_read().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_writer_locks_after_the_last_of_several_readers_unlocks() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (lock(&cluster).read().await.unwrap(), lock(&cluster).read().await.unwrap());
    one.unlock().await.unwrap();
    assert!(lock(&cluster).try_write().await.unwrap().is_none());
    assert!(other.is_valid());
    other.unlock().await.unwrap();
    assert!(lock(&cluster).try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_renewal_expires_and_its_unlock_reports_the_loss() {
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
    let owned_lock = lock(&cluster).owned_by(&Owner::new());
    for _ in 0..2 {
        let one = owned_lock.read().await.unwrap();
        let two = owned_lock.read().await.unwrap();
        assert_eq!((one.holds(), two.holds()), (2, 2));
        two.unlock().await.unwrap();
        assert_eq!(one.holds(), 1);
        one.unlock().await.unwrap();
    }
    let (one, two) = (owned_lock.write().await.unwrap(), owned_lock.write().await.unwrap());
    assert_eq!((one.holds(), two.holds()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn no_lease_is_renewed_after_its_last_hold_is_dropped() {
    let cluster = MemoryCluster::new(3);
    let owned_lock = lock(&cluster).owned_by(&Owner::new());
    for _ in 0..3 {
        let (outer, inner) = (owned_lock.read().await.unwrap(), owned_lock.read().await.unwrap());
        drop((outer, inner));
    }
    sleep(TTL * 2).await;
    assert!(lock(&cluster).try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_ends_readers_and_writers() {
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
async fn a_reader_that_locks_for_writing_gets_an_error_at_once() {
    let cluster = MemoryCluster::new(3);
    let owned_lock = lock(&cluster).owned_by(&Owner::new());
    let reader = owned_lock.read().await.unwrap();
    let refused = owned_lock.write().await;
    assert!(matches!(refused, Err(Error::Config(ConfigError::WouldDeadlock { .. }))), "{refused:?}");
    let start = Instant::now();
    assert!(lock(&cluster).try_write_for(seconds(5)).await.unwrap().is_none());
    assert_eq!(start.elapsed(), seconds(5));
    assert!(reader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn no_client_reads_while_another_client_writes() {
    let cluster = MemoryCluster::new(3);
    let writer = lock(&cluster).write().await.unwrap();
    let start = Instant::now();
    assert!(lock(&cluster).try_read_for(seconds(5)).await.unwrap().is_none());
    assert_eq!(start.elapsed(), seconds(5));
    assert!(writer.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_downgraded_writer_excludes_waiting_writers() {
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
async fn other_clients_read_after_the_shutdown_of_a_writing_client() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let writer = quorum.rw_lock("r").write().await.unwrap();
    let reader = reading(lock(&cluster));
    sleep(SOON).await;
    quorum.shutdown().await;
    assert!(!writer.is_valid());
    drop(reader.await.unwrap());
}
