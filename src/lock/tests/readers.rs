//! Readers and writers of one resource: exclusion, order, shared leases, re-entrancy, outages and force-unlocks.

use std::time::Duration;

use futures::{FutureExt, future::join_all};

use super::{NONE, all_behave, client, locked_nodes, pass, server};
use crate::{
    LockOptions, MemoryCluster, Owner, Quorum, ReadGuard, RwLock,
    error::ConfigError,
    error::{Error, LossReason, NodeError},
    node::{Operation, Renew, memory::Behaviour},
};

const TTL: Duration = Duration::from_secs(30);

/// Returns `N` new clients of these nodes, each with a lock on `r`.
fn clients<const N: usize>(cluster: &MemoryCluster) -> [(Quorum, RwLock); N] {
    std::array::from_fn(|_| {
        let quorum = client(cluster);
        let lock = quorum.rw_lock("r");
        (quorum, lock)
    })
}

/// Returns the renewals that a node has received since the last call of this function.
fn take_renewals(cluster: &MemoryCluster, node: usize) -> Vec<Renew> {
    let renewals = server(cluster, node).take_log().into_iter().filter_map(|operation| match operation {
        Operation::Renew(renew) => Some(renew),
        _ => None,
    });
    renewals.collect()
}

#[tokio::test(start_paused = true)]
async fn readers_share_a_resource_and_a_writer_excludes_readers_and_writers() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock_a), (_b, lock_b), (_c, lock_c)] = clients(&cluster);
    let (first, second) = (lock_a.read().await.unwrap(), lock_b.read().await.unwrap());
    assert!(lock_c.try_write().await.unwrap().is_none());
    assert!(lock_c.try_write_for(Duration::from_millis(10)).await.unwrap().is_none());
    first.unlock().await.unwrap();
    assert!(lock_c.try_write().await.unwrap().is_none(), "a reader holds the resource");
    second.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
    let writer = lock_c.write().await.unwrap();
    assert!(lock_a.try_read().await.unwrap().is_none());
    assert!(lock_a.try_write().await.unwrap().is_none());
    writer.unlock().await.unwrap();
    assert!(lock_a.try_read().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_lock_and_a_red_lock_exclude_each_other() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let held = quorum.red_lock("r").lock().await.unwrap();
    assert!(client(&cluster).rw_lock("r").try_read().await.unwrap().is_none());
    held.unlock().await.unwrap();
    let _reader = client(&cluster).rw_lock("r").read().await.unwrap();
    assert!(quorum.red_lock("r").try_lock().await.unwrap().is_none());
    assert!(quorum.rw_lock("r").try_read().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_with_each_phase_of_readers_and_each_writer() {
    let cluster = MemoryCluster::new(5);
    let [(_a, lock_a), (_b, lock_b)] = clients(&cluster);
    let (first, second) = (lock_a.read().await.unwrap(), lock_b.read().await.unwrap());
    assert_eq!(first.fencing_token(), second.fencing_token());
    let read = first.fencing_token();
    join_all([first.unlock(), second.unlock()]).await;
    let writer = lock_a.write().await.unwrap();
    let written = writer.fencing_token();
    assert!(written > read);
    writer.unlock().await.unwrap();
    assert!(lock_b.read().await.unwrap().fencing_token() > written);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_gets_the_resource_before_later_readers() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock_a), (_b, lock_b), (_c, lock_c)] = clients(&cluster);
    let reader = lock_a.read().await.unwrap();
    let writing = tokio::spawn(async move { lock_b.write().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    assert!(lock_c.try_read().await.unwrap().is_none(), "a writer is queued");
    let later_reader = tokio::spawn(async move { lock_c.read().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    assert!(!writing.is_finished() && !later_reader.is_finished());
    reader.unlock().await.unwrap();
    let writer = writing.await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(!later_reader.is_finished());
    writer.unlock().await.unwrap();
    drop(later_reader.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn consecutive_waiting_readers_get_the_resource_together() {
    let cluster = MemoryCluster::new(3);
    let [(_a, holder), (_b, reader_b), (_c, reader_c), (_d, reader_d), (_e, writer)] = clients(&cluster);
    let held = holder.write().await.unwrap();
    let mut reading = Vec::new();
    for lock in [reader_b, reader_c, reader_d] {
        reading.push(tokio::spawn(async move { lock.read().await.unwrap() }));
        pass(Duration::from_millis(10)).await;
    }
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    held.unlock().await.unwrap();
    let start = tokio::time::Instant::now();
    let readers: Vec<ReadGuard> = join_all(reading).await.into_iter().map(Result::unwrap).collect();
    assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
    assert!(readers.iter().all(|reader| reader.is_valid()));
    pass(Duration::from_secs(1)).await;
    assert!(!writing.is_finished());
    drop(readers);
    drop(writing.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn new_readers_are_refused_while_a_writer_waits() {
    let cluster = MemoryCluster::new(3);
    let [(_a, reader), (_b, writer)] = clients(&cluster);
    let held = reader.read().await.unwrap();
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    pass(TTL * 3).await;
    for _ in 0..20 {
        let [(_quorum, lock)] = clients(&cluster);
        assert!(lock.try_read().await.unwrap().is_none());
    }
    assert!(!writing.is_finished());
    held.unlock().await.unwrap();
    drop(writing.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_are_admitted_again_after_a_waiting_writer_gives_up() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock_a), (_b, writer), (_c, later_reader)] = clients(&cluster);
    let _held = lock_a.read().await.unwrap();
    assert!(writer.try_write_for(Duration::from_secs(1)).await.unwrap().is_none());
    pass(Duration::from_millis(10)).await;
    drop(later_reader.read().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_renewed_reader_blocks_a_writer_longer_than_a_reader_without_renewal() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock_a), (_b, lock_b), (_c, writer)] = clients(&cluster);
    let renewed = lock_a.read().await.unwrap();
    let expired = lock_b.options(LockOptions::new().ttl(TTL).without_renewal()).read().await.unwrap();
    pass(TTL * 2).await;
    assert!(renewed.is_valid() && !expired.is_valid());
    let start = tokio::time::Instant::now();
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    pass(TTL).await;
    assert!(renewed.is_valid() && !writing.is_finished());
    renewed.unlock().await.unwrap();
    drop(writing.await.unwrap());
    assert!(start.elapsed() < TTL + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn concurrent_reads_of_one_client_share_a_lease() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock), (_b, writer)] = clients(&cluster);
    let reading = (0..1000).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.read().await.unwrap() })
    });
    let readers: Vec<ReadGuard> =
        join_all(reading.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    let lease_ids: std::collections::BTreeSet<_> = readers.iter().map(|reader| reader.id().clone()).collect();
    assert_eq!(lease_ids.len(), 1);
    let mut readers = readers.into_iter();
    let last = readers.next_back().unwrap();
    join_all(readers.map(ReadGuard::unlock)).await.into_iter().for_each(|unlocked| drop(unlocked.unwrap()));
    assert!(last.is_valid() && writer.try_write().await.unwrap().is_none());
    last.unlock().await.unwrap();
    assert!(writer.try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_read_behind_a_waiting_writer_does_not_join_a_shared_lease() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock), (_b, writer)] = clients(&cluster);
    let first = lock.read().await.unwrap();
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    pass(Duration::from_secs(1)).await;
    let mut second = Box::pin(lock.read());
    assert!((&mut second).now_or_never().is_none());
    pass(Duration::from_secs(1)).await;
    assert!((&mut second).now_or_never().is_none());
    first.unlock().await.unwrap();
    drop(writing.await.unwrap());
    drop(second.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn reads_that_are_not_polled_do_not_delay_a_writer_of_another_client() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock), (_b, writer)] = clients(&cluster);
    let held = writer.write().await.unwrap();
    let polled = tokio::spawn({
        let lock = lock.clone();
        async move { lock.read().await.unwrap() }
    });
    pass(Duration::from_millis(10)).await;
    let mut stalled: Vec<_> = (0..100).map(|_| Box::pin(lock.read())).collect();
    assert!(stalled.iter_mut().all(|read| read.now_or_never().is_none()));
    held.unlock().await.unwrap();
    drop(polled.await.unwrap());
    let start = tokio::time::Instant::now();
    drop(writer.write().await.unwrap());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_owner_re_enters_except_from_reading_to_writing() {
    let cluster = MemoryCluster::new(3);
    let owner = Owner::new();
    let quorum = client(&cluster);
    let lock = quorum.rw_lock("r").owned_by(&owner);
    let writer = lock.write().await.unwrap();
    let inner = lock.read().await.unwrap();
    assert_eq!((inner.fencing_token(), inner.holds()), (writer.fencing_token(), 2));
    drop((writer, inner));
    let reader = lock.read().await.unwrap();
    let [(_b, other)] = clients(&cluster);
    let writing = tokio::spawn(async move { other.write().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    let again = lock.read().await.unwrap();
    assert_eq!(again.id(), reader.id(), "the call has not re-entered the read lease");
    let refused = Error::from(ConfigError::WouldDeadlock { resource: crate::Resource::new("r").unwrap() });
    assert_eq!(lock.write().await.unwrap_err(), refused);
    assert_eq!(lock.try_write().await.unwrap_err(), refused);
    again.unlock().await.unwrap();
    assert!(reader.is_valid() && !writing.is_finished());
    drop(reader);
    drop(writing.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_revokes_the_leases_of_all_readers() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock_a), (_b, lock_b), (admin, writer)] = clients(&cluster);
    let readers = [lock_a.read().await.unwrap(), lock_b.read().await.unwrap()];
    crate::admin::force_unlock(&admin, "r").await.unwrap();
    writer.try_write().await.unwrap().unwrap().unlock().await.unwrap();
    for reader in &readers {
        assert_eq!(reader.lost().await.reason, LossReason::Revoked);
    }
    drop(readers);
    pass(Duration::from_millis(10)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_does_not_revoke_later_readers() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock_a), (_b, lock_b), (admin, writer)] = clients(&cluster);
    let forced = lock_a.read().await.unwrap();
    server(&cluster, 2).behave(Behaviour::Hanging);
    let force = tokio::spawn(async move { crate::admin::force_unlock(&admin, "r").await });
    pass(Duration::from_millis(10)).await;
    let reader = lock_b.read().await.unwrap();
    force.await.unwrap().unwrap();
    server(&cluster, 2).thaw();
    pass(Duration::from_secs(1)).await;
    assert!(reader.is_valid());
    assert!(writer.try_write().await.unwrap().is_none());
    assert_eq!(forced.lost().await.reason, LossReason::Revoked);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlocked_reader_is_not_renewed_at_a_node_without_its_key() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock_a), (admin, _)] = clients(&cluster);
    server(&cluster, 1).behave(Behaviour::Refusing);
    let reader = lock_a.read().await.unwrap();
    server(&cluster, 1).behave(Behaviour::Granting);
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::Disconnected));
    crate::admin::force_unlock(&admin, "r").await.unwrap();
    server(&cluster, 2).behave(Behaviour::Granting);
    reader.renew().await.unwrap_err();
    assert!(!reader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn concurrent_reads_without_a_quorum_end_at_their_quorum_timeout() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &Behaviour::Failing(NodeError::Disconnected));
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let reads = (0..10).map(|_| {
        let lock = quorum.rw_lock("r");
        async move { lock.read().await.unwrap_err() }
    });
    let errors = join_all(reads).await;
    assert!(errors.iter().all(|error| matches!(error, Error::NoQuorum(_))), "{errors:?}");
    // The default quorum timeout is the ttl.
    assert!(
        start.elapsed() >= TTL && start.elapsed() < TTL + Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_takes_over_the_queue_entry_of_the_read_before_it() {
    let cluster = MemoryCluster::new(3);
    let [(_a, holder), (_b, reader), (_c, writer)] = clients(&cluster);
    let held = holder.write().await.unwrap();
    let next_reader = reader.clone();
    let reading = tokio::spawn(async move { reader.try_read_for(Duration::from_secs(2)).await });
    let reading_next = tokio::spawn(async move { next_reader.read().await.unwrap() });
    pass(Duration::from_secs(1)).await;
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    assert!(reading.await.unwrap().unwrap().is_none());
    pass(Duration::from_millis(500)).await;
    held.unlock().await.unwrap();
    let read = reading_next.await.unwrap();
    assert!(!writing.is_finished(), "the writer overtakes the second read");
    read.unlock().await.unwrap();
    drop(writing.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_write_by_an_owner_with_a_lost_read_lease_returns_the_loss() {
    let cluster = MemoryCluster::new(3);
    let lock =
        client(&cluster).rw_lock("r").options(LockOptions::new().without_renewal()).owned_by(&Owner::new());
    let reader = lock.read().await.unwrap();
    pass(TTL).await;
    assert!(!reader.is_valid());
    let refused = lock.write().await.unwrap_err();
    assert!(matches!(refused, Error::LeaseLost(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_group_has_exclusive_and_shared_resources() {
    let cluster = MemoryCluster::new(3);
    let (quorum, other) = (client(&cluster), client(&cluster));
    let reader = other.rw_lock("a").read().await.unwrap();
    let held = quorum.multi_lock(["b"]).and_read(["a"]).lock().await.unwrap();
    assert!(held.fencing_token() > reader.fencing_token());
    assert!(other.red_lock("b").try_lock().await.unwrap().is_none());
    assert!(other.rw_lock("b").try_read().await.unwrap().is_none());
    assert!(other.rw_lock("a").try_read().await.unwrap().is_some());
    reader.unlock().await.unwrap();
    assert!(other.rw_lock("a").try_write().await.unwrap().is_none());
    assert_eq!(server(&cluster, 0).holds("b"), Some(1));
    held.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// The process counts the holds of readers, and nodes do not store the number.
#[tokio::test(start_paused = true)]
async fn the_holds_of_readers_cause_no_request() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let lock = quorum.rw_lock("r").owned_by(&Owner::new());
    let outer = lock.read().await.unwrap();
    let (middle, inner) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    assert_eq!(outer.holds(), 3);
    inner.unlock().await.unwrap();
    drop(middle);
    assert_eq!((outer.holds(), outer.is_valid()), (1, true));
    for node in 0..3 {
        assert_eq!(take_renewals(&cluster, node), [], "node {node}");
    }
    // The same calls of a writer send the number of holds.
    drop(outer);
    let lock = quorum.rw_lock("r").owned_by(&Owner::new());
    let _outer = lock.write().await.unwrap();
    drop(lock.write().await.unwrap());
    for node in 0..3 {
        let holds: Vec<u32> = take_renewals(&cluster, node).iter().map(|renew| renew.holds).collect();
        assert_eq!(holds, [2, 1], "node {node}");
    }
}
