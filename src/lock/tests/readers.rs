//! Readers and writers of one resource.

use std::time::Duration;

use futures::{FutureExt, future::join_all};

use super::{NONE, all_behave, client, locked_nodes, pass, server};
use crate::{
    LockOptions, MemoryCluster, Owner, Quorum, ReadGuard, RwLock,
    error::ConfigError,
    error::{Error, LossReason, NodeError},
    node::memory::Behaviour,
};

const TTL: Duration = Duration::from_secs(30);

/// As many clients of these nodes, each with its own lock on `r`.
fn clients<const N: usize>(cluster: &MemoryCluster) -> [(Quorum, RwLock); N] {
    std::array::from_fn(|_| {
        let quorum = client(cluster);
        let lock = quorum.rw_lock("r");
        (quorum, lock)
    })
}

#[tokio::test(start_paused = true)]
async fn readers_share_what_a_writer_has_alone() {
    let cluster = MemoryCluster::new(3);
    let [(_a, one), (_b, other), (_c, third)] = clients(&cluster);
    let (first, second) = (one.read().await.unwrap(), other.read().await.unwrap());
    assert!(third.try_write().await.unwrap().is_none());
    assert!(third.try_write_for(Duration::from_millis(10)).await.unwrap().is_none());
    first.unlock().await.unwrap();
    assert!(third.try_write().await.unwrap().is_none(), "a reader holds the resource");
    second.unlock().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
    let writer = third.write().await.unwrap();
    assert!(one.try_read().await.unwrap().is_none());
    assert!(one.try_write().await.unwrap().is_none());
    writer.unlock().await.unwrap();
    assert!(one.try_read().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_lock_is_the_lock_of_that_resource() {
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
async fn tokens_grow_from_readers_to_writers_and_back_and_readers_may_share_one() {
    let cluster = MemoryCluster::new(5);
    let [(_a, one), (_b, other)] = clients(&cluster);
    let (first, second) = (one.read().await.unwrap(), other.read().await.unwrap());
    assert_eq!(first.fencing_token(), second.fencing_token());
    let read = first.fencing_token();
    join_all([first.unlock(), second.unlock()]).await;
    let writer = one.write().await.unwrap();
    let written = writer.fencing_token();
    assert!(written > read);
    writer.unlock().await.unwrap();
    assert!(other.read().await.unwrap().fencing_token() > written);
}

#[tokio::test(start_paused = true)]
async fn a_writer_goes_before_readers_that_come_after_it() {
    let cluster = MemoryCluster::new(3);
    let [(_a, one), (_b, other), (_c, third)] = clients(&cluster);
    let reader = one.read().await.unwrap();
    let writing = tokio::spawn(async move { other.write().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    assert!(third.try_read().await.unwrap().is_none(), "a writer is queued");
    let late = tokio::spawn(async move { third.read().await.unwrap() });
    pass(Duration::from_millis(10)).await;
    assert!(!writing.is_finished() && !late.is_finished());
    reader.unlock().await.unwrap();
    let writer = writing.await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert!(!late.is_finished());
    writer.unlock().await.unwrap();
    drop(late.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_one_behind_the_other_get_in_together_and_the_writer_behind_them_after_all() {
    let cluster = MemoryCluster::new(3);
    let [(_w, writer), (_a, one), (_b, two), (_c, three), (_v, last)] = clients(&cluster);
    let held = writer.write().await.unwrap();
    let mut reading = Vec::new();
    for lock in [one, two, three] {
        reading.push(tokio::spawn(async move { lock.read().await.unwrap() }));
        pass(Duration::from_millis(10)).await;
    }
    let writing = tokio::spawn(async move { last.write().await.unwrap() });
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
async fn a_waiting_writer_excludes_new_readers_while_readers_renew() {
    let cluster = MemoryCluster::new(3);
    let [(_a, long), (_b, writer)] = clients(&cluster);
    let held = long.read().await.unwrap();
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
async fn a_writer_that_gives_up_lets_readers_in_again() {
    let cluster = MemoryCluster::new(3);
    let [(_a, one), (_b, writer), (_c, late)] = clients(&cluster);
    let _held = one.read().await.unwrap();
    assert!(writer.try_write_for(Duration::from_secs(1)).await.unwrap().is_none());
    pass(Duration::from_millis(10)).await;
    drop(late.read().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn readers_are_renewed_and_a_killed_reader_ends_with_its_ttl() {
    let cluster = MemoryCluster::new(3);
    let [(_a, one), (_b, other), (_c, writer)] = clients(&cluster);
    let kept = one.read().await.unwrap();
    let gone = other.options(LockOptions::new().ttl(TTL).without_renewal()).read().await.unwrap();
    pass(TTL * 2).await;
    assert!(kept.is_valid() && !gone.is_valid());
    let start = tokio::time::Instant::now();
    let writing = tokio::spawn(async move { writer.write().await.unwrap() });
    pass(TTL).await;
    assert!(kept.is_valid() && !writing.is_finished());
    kept.unlock().await.unwrap();
    drop(writing.await.unwrap());
    assert!(start.elapsed() < TTL + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_client_that_read_at_once_share_a_lease() {
    let cluster = MemoryCluster::new(3);
    let [(_a, lock), (_b, writer)] = clients(&cluster);
    let reading = (0..1000).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.read().await.unwrap() })
    });
    let readers: Vec<ReadGuard> =
        join_all(reading.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    let owners: std::collections::BTreeSet<_> = readers.iter().map(|reader| reader.id().clone()).collect();
    assert_eq!(owners.len(), 1);
    let mut readers = readers.into_iter();
    let last = readers.next_back().unwrap();
    join_all(readers.map(ReadGuard::unlock)).await.into_iter().for_each(|unlocked| drop(unlocked.unwrap()));
    assert!(last.is_valid() && writer.try_write().await.unwrap().is_none());
    last.unlock().await.unwrap();
    assert!(writer.try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_shared_lease_is_joined_for_a_short_time_only() {
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
    let begun = tokio::time::Instant::now();
    drop(writer.write().await.unwrap());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_owner_re_enters_its_lease_to_read_and_never_waits_for_itself() {
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
    assert_eq!(again.id(), reader.id(), "no matter who is queued");
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
    let [(_a, one), (_b, other), (admin, writer)] = clients(&cluster);
    let readers = [one.read().await.unwrap(), other.read().await.unwrap()];
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
async fn force_takes_nothing_from_readers_that_come_while_a_node_is_silent() {
    let cluster = MemoryCluster::new(3);
    let [(_a, one), (_b, other), (admin, writer)] = clients(&cluster);
    let forced = one.read().await.unwrap();
    server(&cluster, 2).behave(Behaviour::Hanging);
    let force = tokio::spawn(async move { crate::admin::force_unlock(&admin, "r").await });
    pass(Duration::from_millis(10)).await;
    let reader = other.read().await.unwrap();
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
    let [(_a, one), (admin, _)] = clients(&cluster);
    server(&cluster, 1).behave(Behaviour::Refusing);
    let reader = one.read().await.unwrap();
    server(&cluster, 1).behave(Behaviour::Granting);
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::Disconnected));
    crate::admin::force_unlock(&admin, "r").await.unwrap();
    server(&cluster, 2).behave(Behaviour::Granting);
    reader.renew().await.unwrap_err();
    assert!(!reader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_each_reading_task_ends_after_its_own_timeout() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &Behaviour::Failing(NodeError::Disconnected));
    let quorum = client(&cluster);
    let begun = tokio::time::Instant::now();
    let reads = (0..10).map(|_| {
        let lock = quorum.rw_lock("r");
        async move { lock.read().await.unwrap_err() }
    });
    let errors = join_all(reads).await;
    assert!(errors.iter().all(|error| matches!(error, Error::NoQuorum(_))), "{errors:?}");
    assert!(begun.elapsed() < TTL + Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_reading_task_takes_over_the_queue_entry_of_the_task_before() {
    let cluster = MemoryCluster::new(3);
    let [(_a, holder), (_b, reader), (_c, writer)] = clients(&cluster);
    let held = holder.write().await.unwrap();
    let (first, next) = (reader.clone(), reader);
    let first = tokio::spawn(async move { first.try_read_for(Duration::from_secs(2)).await });
    let next = tokio::spawn(async move { next.read().await.unwrap() });
    pass(Duration::from_secs(1)).await;
    let writer = tokio::spawn(async move { writer.write().await.unwrap() });
    assert!(first.await.unwrap().unwrap().is_none());
    pass(Duration::from_millis(500)).await;
    held.unlock().await.unwrap();
    let read = next.await.unwrap();
    assert!(!writer.is_finished());
    read.unlock().await.unwrap();
    drop(writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_owner_with_a_lost_read_lease_gets_that_error_when_it_writes() {
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
