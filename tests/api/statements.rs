//! Promises about types and futures, which the compiler checks.
//!
//! Only `spawned` and the functions `require_...` are called. A test of `parity.rs` finds public types that break a
//! promise, and async calls that this file does not contain.

use std::{
    error::Error as StdError,
    fmt::{Debug, Display},
    time::Duration,
};

use futures::Stream;
use redquorum::{
    AnyOf, Credentials, Error, Fence, FencingToken, Latch, Lease, LeaseId, LockGuard, LockOptions,
    MemoryCluster, MultiLock, Owner, Permit, Quorum, QuorumBuilder, ReadGuard, RedLock, Resource,
    RestartGuard, RwLock, Semaphore, ShutdownReport, Ticket,
    admin::{self, Abandoned, InitOutcome, Replaced, Replacement},
    blocking,
    election::{Election, Leader, Leaders, Leadership},
    error::{
        AdminError, ClosedReason, ConfigError, InvalidResource, InvalidTicket, InvalidToken, LeaseLost,
        LossReason, NoQuorum, NodeError, NodeReplies, NodeReply, Refusal, StaleToken,
    },
    inspection::{Health, Inspection, Listing, LockName, LockState, NodeInspection},
    metrics, sim,
};

use super::programs::two_quorums;

/// Requires the promise of a handle or guard: any task or thread can use the value.
fn require_handle<T: Debug + Send + Sync + Unpin + 'static>() {}

/// Requires the promise of a value: any task or thread can use, copy and compare the value.
fn require_value<T: Clone + PartialEq + Eq + Debug + Send + Sync + Unpin + 'static>() {}

/// Requires the promise of an error: a value that is also an `Error`.
fn require_error<T: StdError + Display + Clone + PartialEq + Eq + Send + Sync + Unpin + 'static>() {}

/// Requires the promise of a future: any thread can poll the future.
fn require_send<T>(_: impl Future<Output = T> + Send) {}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn types() {
    require_handle::<(Quorum, QuorumBuilder, MemoryCluster, Owner)>();
    require_handle::<(RedLock, RwLock, MultiLock, AnyOf, Semaphore, Latch)>();
    require_handle::<(Lease, LockGuard, ReadGuard, Permit)>();
    require_handle::<(Election, Leadership, Leaders)>();

    require_value::<(Fence, FencingToken, LeaseId, LockOptions, Resource, RestartGuard, ShutdownReport)>();
    require_value::<(Credentials, Ticket)>();
    require_value::<(Replacement, Replaced, Abandoned)>();
    require_value::<(Leader, InitOutcome, NodeReplies, NodeReply, Refusal)>();
    require_value::<(Health, Inspection, Listing, LockName, LockState, NodeInspection)>();
    require_value::<(metrics::Metric, metrics::Kind)>();

    require_error::<Error>();
    require_error::<NoQuorum>();
    require_error::<LeaseLost>();
    require_error::<InvalidTicket>();
    require_error::<LossReason>();
    require_error::<ClosedReason>();
    require_error::<ConfigError>();
    require_error::<AdminError>();
    require_error::<NodeError>();
    require_error::<StaleToken>();
    require_error::<InvalidToken>();
    require_error::<InvalidResource>();
    require_error::<blocking::TimedOut>();
    // The error has at most the size of a pointer.
    const { assert!(size_of::<NoQuorum>() <= 8) };
}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn blocking_types() {
    fn require_iterator<T: Iterator<Item = Leader>>() {}
    require_iterator::<blocking::Leaders>();
    require_handle::<(blocking::Quorum, blocking::RedLock, blocking::RwLock)>();
    require_handle::<(blocking::MultiLock, blocking::AnyOf, blocking::Semaphore, blocking::Latch)>();
    require_handle::<(blocking::Lease, blocking::LockGuard, blocking::ReadGuard, blocking::Permit)>();
    require_handle::<(blocking::Election, blocking::Leadership, blocking::Leaders)>();
}

/// Types by which several threads run schedules, and collect reports.
#[allow(dead_code, reason = "the compiler checks the bounds")]
fn simulator_types() {
    require_handle::<(sim::Simulation, sim::Process, sim::Store, sim::Schedule, sim::Fault)>();
    require_handle::<(sim::Report, sim::Failure, sim::Promise, sim::Promises)>();
}

/// Futures of clients and locks. The name of a resource need not outlive the call that takes it.
#[allow(dead_code, reason = "the compiler checks the bounds")]
fn futures(builder: QuorumBuilder, quorum: &Quorum, owner: &Owner) {
    require_send(builder.connect());
    require_send(quorum.inspect(String::from("a")));
    require_send(quorum.health());
    require_send(quorum.shutdown());
    require_send(quorum.shutdown_within(Duration::ZERO));

    let lock = { quorum.red_lock(String::from("a")) };
    require_send(lock.lock());
    require_send(lock.try_lock());
    require_send(lock.try_lock_for(Duration::ZERO));
    require_send(lock.run(async |guard| guard.renew().await));
    require_send(owner.scope(async { lock.lock().await }));

    let lock = quorum.multi_lock([String::from("a")]);
    require_send(lock.lock());
    require_send(lock.try_lock());
    require_send(lock.try_lock_for(Duration::ZERO));
    require_send(lock.run(async |guard| guard.verify().await));

    let lock = quorum.any_of(["a", "b"]);
    require_send(lock.lock());
    require_send(lock.try_lock());
    require_send(lock.try_lock_for(Duration::ZERO));
    require_send(lock.run(async |guard| guard.lost().await));

    let lock = quorum.rw_lock(b"a");
    require_send(lock.read());
    require_send(lock.try_read());
    require_send(lock.try_read_for(Duration::ZERO));
    require_send(lock.run_read(async |guard| guard.fencing_token()));
    require_send(lock.write());
    require_send(lock.try_write());
    require_send(lock.try_write_for(Duration::ZERO));
    require_send(lock.run_write(async |guard| guard.while_valid(guard.renew()).await));

    let semaphore = quorum.semaphore([0_u8, 159], 4);
    require_send(semaphore.acquire());
    require_send(semaphore.try_acquire());
    require_send(semaphore.try_acquire_for(Duration::ZERO));
    require_send(semaphore.acquire_many(2));
    require_send(semaphore.try_acquire_many(2));
    require_send(semaphore.try_acquire_many_for(2, Duration::ZERO));
    require_send(semaphore.run(async |permit| permit.slot()));
    require_send(semaphore.available_permits());

    let latch = quorum.latch("a", 8);
    require_send(latch.arrive());
    require_send(latch.arrive_as("b"));
    require_send(latch.wait());
    require_send(latch.wait_for(Duration::ZERO));
    require_send(latch.arrivals());
    require_send(latch.open());

    let election = quorum.election("a");
    require_send(election.campaign("here"));
    require_send(election.try_campaign("here"));
    require_send(election.try_campaign_for("here", Duration::ZERO));
    require_send(election.leader());

    require_send(admin::force_unlock(quorum, "a"));
    require_send(admin::list(quorum, |_| true));
    two_quorums::statements(quorum);
}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn futures_of_tickets(quorum: &Quorum, ticket: &Ticket) {
    require_send(quorum.redeem(ticket, LockOptions::new()));
    require_send(quorum.release(ticket));
}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn futures_of_guards(guard: LockGuard, reader: ReadGuard, permit: Permit, leadership: Leadership) {
    let lease = guard.lease();
    require_send(async move { lease.lost().await });
    require_send(guard.lost());
    require_send(guard.expiring_within(Duration::ZERO));
    require_send(guard.while_valid(std::future::ready(())));
    require_send(guard.renew());
    require_send(guard.verify());
    require_send(reader.lost());
    require_send(permit.renew());
    require_send(leadership.verify());
    require_send(leadership.proclaim("there"));
    require_send(guard.unlock());
    require_send(reader.unlock());
    require_send(permit.release());
    require_send(leadership.resign());
}

#[allow(dead_code, reason = "the compiler checks the bounds")]
fn futures_of_observers_and_admin(
    [guard, given]: [LockGuard; 2],
    mut leaders: Leaders,
    from: &QuorumBuilder,
    to: &QuorumBuilder,
    replacement: &Replacement,
) {
    fn require_stream<T: Stream<Item = Leader>>(_: &T) {}
    require_stream(&leaders);
    require_send(leaders.next());
    require_send(guard.downgrade());
    require_send(given.into_ticket(Duration::ZERO));
    require_send(admin::init(from));
    require_send(admin::init_if_needed(from));
    require_send(admin::reconfigure(from, to));
    require_send(admin::give_up_reconfigure(from, to));
    require_send(admin::replace(from, replacement));
    require_send(admin::abandon_replacement(from, replacement));
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
