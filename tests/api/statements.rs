//! Promises about types and futures, which the compiler checks.
//!
//! No function of this file is called, except `spawned`. A test of `parity.rs` finds public types that break a
//! promise, and async calls that this file lacks.

use std::{
    error::Error as StdError,
    fmt::{Debug, Display},
    time::Duration,
};

use futures::Stream;
use redquorum::{
    AnyOf, Credentials, Error, Fence, FencingToken, Latch, Lease, LeaseId, LockGuard, LockOptions,
    MemoryCluster, MultiLock, Owner, Permit, Quorum, QuorumBuilder, ReadGuard, RedLock, Resource,
    RestartGuard, RwLock, Semaphore, ShutdownReport,
    admin::{self, InitOutcome},
    blocking,
    election::{Election, Leader, Leaders, Leadership},
    error::{
        AdminError, ClosedReason, ConfigError, InvalidResource, InvalidToken, LeaseLost, LossReason,
        NoQuorum, NodeError, NodeReplies, NodeReply, Refusal, StaleToken,
    },
    inspection::{Health, Inspection, Listing, LockName, LockState, NodeInspection},
    metrics, sim,
};

use super::programs::two_quorums;

/// The promise of a handle or guard: any task or thread can use it.
fn is_handle<T: Debug + Send + Sync + Unpin + 'static>() {}

/// The promise of a value: a program can also copy and compare it.
fn is_value<T: Clone + PartialEq + Eq + Debug + Send + Sync + Unpin + 'static>() {}

/// The promise of an error.
fn is_error<T: StdError + Display + Clone + PartialEq + Eq + Send + Sync + Unpin + 'static>() {}

/// The promise of a future: another task can poll it.
fn is_send<T>(_: impl Future<Output = T> + Send) {}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn types() {
    is_handle::<(Quorum, QuorumBuilder, MemoryCluster, Owner)>();
    is_handle::<(RedLock, RwLock, MultiLock, AnyOf, Semaphore, Latch)>();
    is_handle::<(Lease, LockGuard, ReadGuard, Permit)>();
    is_handle::<(Election, Leadership, Leaders)>();

    is_value::<(Fence, FencingToken, LeaseId, LockOptions, Resource, RestartGuard, ShutdownReport)>();
    is_value::<Credentials>();
    is_value::<(Leader, InitOutcome, NodeReplies, NodeReply, Refusal)>();
    is_value::<(Health, Inspection, Listing, LockName, LockState, NodeInspection)>();
    is_value::<(metrics::Metric, metrics::Kind)>();

    is_error::<Error>();
    is_error::<NoQuorum>();
    is_error::<LeaseLost>();
    is_error::<LossReason>();
    is_error::<ClosedReason>();
    is_error::<ConfigError>();
    is_error::<AdminError>();
    is_error::<NodeError>();
    is_error::<StaleToken>();
    is_error::<InvalidToken>();
    is_error::<InvalidResource>();
    is_error::<blocking::TimedOut>();
    // The size of a pointer.
    const { assert!(size_of::<NoQuorum>() <= 8) };
}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn blocking_types() {
    fn is_iterator<T: Iterator<Item = Leader>>() {}
    is_iterator::<blocking::Leaders>();
    is_handle::<(blocking::Quorum, blocking::RedLock, blocking::RwLock)>();
    is_handle::<(blocking::MultiLock, blocking::AnyOf, blocking::Semaphore, blocking::Latch)>();
    is_handle::<(blocking::Lease, blocking::LockGuard, blocking::ReadGuard, blocking::Permit)>();
    is_handle::<(blocking::Election, blocking::Leadership, blocking::Leaders)>();
}

/// Types by which several threads run schedules, and collect reports.
#[allow(dead_code, reason = "the compiler checks the bounds")]
fn simulator_types() {
    is_handle::<(sim::Simulation, sim::Process, sim::Store, sim::Schedule, sim::Fault)>();
    is_handle::<(sim::Report, sim::Failure, sim::Promise, sim::Promises)>();
}

/// Futures of clients and locks. The name of a resource need not outlive the call that takes it.
#[allow(dead_code, reason = "the compiler checks the bounds")]
fn futures(builder: QuorumBuilder, quorum: &Quorum, owner: &Owner) {
    is_send(builder.connect());
    is_send(quorum.inspect(String::from("a")));
    is_send(quorum.health());
    is_send(quorum.shutdown());
    is_send(quorum.shutdown_within(Duration::ZERO));

    let lock = { quorum.red_lock(String::from("a")) };
    is_send(lock.lock());
    is_send(lock.try_lock());
    is_send(lock.try_lock_for(Duration::ZERO));
    is_send(lock.run(async |guard| guard.renew().await));
    is_send(owner.scope(async { lock.lock().await }));

    let lock = quorum.multi_lock([String::from("a")]);
    is_send(lock.lock());
    is_send(lock.try_lock());
    is_send(lock.try_lock_for(Duration::ZERO));
    is_send(lock.run(async |guard| guard.verify().await));

    let lock = quorum.any_of(["a", "b"]);
    is_send(lock.lock());
    is_send(lock.try_lock());
    is_send(lock.try_lock_for(Duration::ZERO));
    is_send(lock.run(async |guard| guard.lost().await));

    let lock = quorum.rw_lock(b"a");
    is_send(lock.read());
    is_send(lock.try_read());
    is_send(lock.try_read_for(Duration::ZERO));
    is_send(lock.run_read(async |guard| guard.fencing_token()));
    is_send(lock.write());
    is_send(lock.try_write());
    is_send(lock.try_write_for(Duration::ZERO));
    is_send(lock.run_write(async |guard| guard.while_valid(guard.renew()).await));

    let semaphore = quorum.semaphore([0_u8, 159], 4);
    is_send(semaphore.acquire());
    is_send(semaphore.try_acquire());
    is_send(semaphore.try_acquire_for(Duration::ZERO));
    is_send(semaphore.acquire_many(2));
    is_send(semaphore.try_acquire_many(2));
    is_send(semaphore.try_acquire_many_for(2, Duration::ZERO));
    is_send(semaphore.run(async |permit| permit.slot()));
    is_send(semaphore.available_permits());

    let latch = quorum.latch("a", 8);
    is_send(latch.arrive());
    is_send(latch.arrive_as("b"));
    is_send(latch.wait());
    is_send(latch.wait_for(Duration::ZERO));
    is_send(latch.arrivals());

    let election = quorum.election("a");
    is_send(election.campaign("here"));
    is_send(election.try_campaign("here"));
    is_send(election.try_campaign_for("here", Duration::ZERO));
    is_send(election.leader());

    is_send(admin::force_unlock(quorum, "a"));
    is_send(admin::list(quorum, |_| true));
    two_quorums::statements(quorum);
}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn futures_of_guards(guard: LockGuard, reader: ReadGuard, permit: Permit, leadership: Leadership) {
    let lease = guard.lease();
    is_send(async move { lease.lost().await });
    is_send(guard.lost());
    is_send(guard.expiring_within(Duration::ZERO));
    is_send(guard.while_valid(std::future::ready(())));
    is_send(guard.renew());
    is_send(guard.verify());
    is_send(reader.lost());
    is_send(permit.renew());
    is_send(leadership.verify());
    is_send(leadership.proclaim("there"));
    is_send(guard.unlock());
    is_send(reader.unlock());
    is_send(permit.release());
    is_send(leadership.resign());
}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn futures_of_observers_and_admin(
    guard: LockGuard,
    mut leaders: Leaders,
    from: &QuorumBuilder,
    to: &QuorumBuilder,
) {
    fn is_stream<T: Stream<Item = Leader>>(_: &T) {}
    is_stream(&leaders);
    is_send(leaders.next());
    is_send(guard.downgrade());
    is_send(admin::init(from));
    is_send(admin::init_if_needed(from));
    is_send(admin::reconfigure(from, to));
    is_send(admin::give_up_reconfigure(from, to));
}

/// A future that can be spawned, with a closure that borrows from the task.
#[expect(clippy::manual_async_fn, reason = "the bounds of the future are the promise")]
fn spawned(quorum: Quorum) -> impl Future<Output = Result<usize, Error>> + Send + 'static {
    async move {
        let local = String::from("text");
        let borrowed = &local;
        let lock = quorum.red_lock("a");
        lock.run(async |guard| {
            guard.lease().renew().await?;
            guard.while_valid(async { borrowed.len() }).await
        })
        .await?
    }
}

#[tokio::test]
async fn a_spawned_run_borrows_from_its_task() {
    let task = tokio::spawn(spawned(Quorum::in_memory(3).unwrap()));
    assert_eq!(task.await.unwrap(), Ok(4));
}
