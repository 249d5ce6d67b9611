//! Blocking calls from each kind of caller: a plain thread, and tasks of several runtimes and executors.
//!
//! Promise: a call neither panics nor hangs.

use std::time::Duration;

use futures::FutureExt;
use redquorum::{
    Error, MemoryCluster, Owner,
    blocking::{
        AnyOf, Election, Latch, Leaders, Leadership, Lease, LockGuard, MultiLock, MultiLockGuard,
        MultiQuorumLock, Permit, Quorum, ReadGuard, RedLock, RwLock, Semaphore, TimedOut, admin,
    },
    error::{ClosedReason, ConfigError},
};
use tokio::runtime::{Builder, Runtime};

use super::deadlines::run_with_deadline;

/// Makes each call that waits.
fn call_everything() {
    let cluster = MemoryCluster::new(3);
    let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
    let lock = quorum.red_lock("r");
    let guard = lock.lock().unwrap();
    guard.renew().unwrap();
    assert!(guard.verify().unwrap());
    assert!(guard.is_valid() && guard.lease().is_valid() && !guard.remaining().is_zero());
    assert_eq!(guard.lost_within(Duration::from_millis(1)), None);
    assert!(lock.try_lock().unwrap().is_none());
    assert!(lock.try_lock_for(Duration::from_millis(20)).unwrap().is_none());
    assert_eq!(quorum.inspect("r").unwrap().holder(), Some(guard.id()));
    assert!(guard.unlock().unwrap().has_quorum());

    let held = lock.try_lock().unwrap().expect("the resource is held");
    admin::force_unlock(&quorum, "r").unwrap();
    assert!(held.renew().is_err() && !held.is_valid());
    drop(held);

    assert!(lock.run(|guard| guard.fencing_token().as_u64()).unwrap() > 0);

    let group = quorum
        .multi_lock(["a", "b"])
        .try_lock_for(Duration::from_secs(1))
        .unwrap()
        .expect("a resource of the group is held");
    group.renew().unwrap();
    assert!(group.is_valid() && group.verify().unwrap() && group.lost_within(Duration::ZERO).is_none());
    group.unlock().unwrap();

    let election = quorum.election("e");
    let leadership = election.campaign("v").unwrap();
    assert!(election.try_campaign("v").unwrap().is_none() && leadership.is_valid());
    assert!(election.try_campaign_for("v", Duration::from_millis(20)).unwrap().is_none());
    let mut leaders = election.observe().unwrap();
    assert_eq!(leaders.next().unwrap().term(), leadership.term());
    leadership.proclaim("w").unwrap();
    assert_eq!(leaders.next_within(Duration::from_secs(5)).unwrap().unwrap().value(), b"w");
    let TimedOut { .. } = leaders.next_within(Duration::from_millis(1)).unwrap_err();
    assert_eq!(election.leader().unwrap().unwrap().value(), b"w");
    leadership.resign().unwrap();
    quorum.shutdown();
    assert_eq!((leaders.next(), leaders.next_within(Duration::ZERO)), (None, Ok(None)));
    assert_eq!(lock.lock().unwrap_err(), Error::Closed(ClosedReason::ShutDown));
}

fn single_threaded() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_threaded() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn calls_from_a_plain_thread_return() {
    run_with_deadline(call_everything);
}

#[test]
fn calls_from_the_main_task_of_a_single_threaded_runtime_return() {
    run_with_deadline(|| single_threaded().block_on(async { call_everything() }));
}

#[test]
fn calls_from_a_task_of_a_single_threaded_runtime_return() {
    run_with_deadline(|| {
        single_threaded().block_on(async { tokio::spawn(async { call_everything() }).await.unwrap() })
    });
}

#[test]
fn calls_from_the_only_worker_of_a_multi_threaded_runtime_return() {
    run_with_deadline(|| {
        multi_threaded().block_on(async { tokio::spawn(async { call_everything() }).await.unwrap() })
    });
}

#[test]
fn calls_from_the_main_task_of_a_multi_threaded_runtime_return() {
    run_with_deadline(|| multi_threaded().block_on(async { call_everything() }));
}

#[test]
fn calls_from_a_blocking_task_of_a_runtime_return() {
    run_with_deadline(|| {
        single_threaded().block_on(async { tokio::task::spawn_blocking(call_everything).await.unwrap() });
    });
}

#[test]
fn calls_from_another_executor_than_tokio_return() {
    run_with_deadline(|| futures::executor::block_on(async { call_everything() }));
}

/// If a task has used up its budget of tokio, each future of tokio is pending until the task yields. A blocking call
/// never yields, so the call must not depend on the budget.
#[test]
fn calls_from_a_task_without_budget_return() {
    let work = async {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        while sender.send(()).is_ok() && receiver.recv().now_or_never().is_some() {}
        call_everything();
    };
    run_with_deadline(|| single_threaded().block_on(async { tokio::spawn(work).await.unwrap() }));
}

#[test]
fn invalid_settings_are_an_error_and_do_not_hang() {
    let none = run_with_deadline(|| Quorum::in_memory(0).unwrap_err());
    assert_eq!(none, Error::Config(ConfigError::NoNodes));
    let empty = run_with_deadline(|| MultiLock::across::<redquorum::RedLock>([]).lock().unwrap_err());
    assert!(matches!(empty, Error::Config(ConfigError::Group { .. })), "{empty}");
    let url = run_with_deadline(|| {
        redquorum::Quorum::builder().nodes(["http://10.0.0.1"]).connect_blocking().unwrap_err()
    });
    assert!(matches!(url, Error::Config(ConfigError::Url { .. })), "{url}");
}

#[test]
fn all_types_are_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<(Quorum, RedLock, LockGuard, MultiLock, MultiQuorumLock, MultiLockGuard)>();
    is_send_and_sync::<(RwLock, ReadGuard, AnyOf, Semaphore, Permit, Latch)>();
    is_send_and_sync::<(Election, Leadership, Leaders, Lease, Owner)>();
}
