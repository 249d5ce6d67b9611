//! From wherever it is called, a call neither panics nor hangs.

use std::time::Duration;

use futures::FutureExt;
use redquorum::{
    MemoryCluster, Owner, Verification,
    blocking::{
        Election, Leadership, Lease, LockGuard, MultiLock, MultiLockGuard, Observation, Quorum, RedLock,
    },
    error::{ConfigError, ConnectError, LockError},
};
use tokio::runtime::{Builder, Runtime};

use super::patience::finishes;

/// Every call that waits for something.
fn everything() {
    let cluster = MemoryCluster::new(3);
    let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
    let lock = quorum.red_lock("r");
    let guard = lock.lock().unwrap();
    guard.renew().unwrap();
    assert_eq!(guard.verify().unwrap(), Verification::Proven);
    assert!(guard.is_valid() && guard.lease().is_valid() && !guard.remaining().is_zero());
    assert_eq!(guard.lost_within(Duration::from_millis(1)), None);
    assert!(lock.try_lock().unwrap().is_none());
    let late = lock.try_lock_for(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(late, LockError::TimedOut { .. }), "{late}");
    assert_eq!(lock.inspect().unwrap().owner(), Some(guard.owner()));
    assert!(guard.unlock().unwrap().confirmed.len() >= 2);

    let held = lock.try_lock().unwrap().expect("it is free");
    lock.force_unlock().unwrap();
    assert!(held.renew().is_err() && !held.is_valid());
    drop(held);

    let done = lock.run(|lease| lease.fencing_token().as_u64()).unwrap();
    assert!(done.value > 0 && done.unlock.is_ok());

    let group = quorum.multi_lock(["a", "b"]).try_lock_for(Duration::from_secs(1)).unwrap();
    group.renew().unwrap();
    assert!(group.is_valid() && group.verify().is_ok() && group.lost_within(Duration::ZERO).is_none());
    group.unlock().unwrap();

    let election = quorum.election("e").value("v");
    let leadership = election.campaign().unwrap();
    assert!(election.try_campaign().unwrap().is_none() && leadership.is_leader());
    let mut leaders = election.observe().unwrap();
    assert_eq!(leaders.next().unwrap().term(), leadership.term());
    leadership.proclaim("w").unwrap();
    assert_eq!(leaders.next_within(Duration::from_secs(5)).unwrap().value(), b"w");
    assert_eq!(election.leader().unwrap().unwrap().value(), b"w");
    leadership.resign().unwrap();
    quorum.shutdown();
    assert_eq!(leaders.next(), None);
    assert_eq!(lock.lock().unwrap_err(), LockError::Closed);
}

fn single_threaded() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_threaded() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_plain_thread() {
    finishes(everything);
}

#[test]
fn the_main_task_of_a_single_threaded_runtime() {
    finishes(|| single_threaded().block_on(async { everything() }));
}

#[test]
fn a_task_of_a_single_threaded_runtime() {
    finishes(|| single_threaded().block_on(async { tokio::spawn(async { everything() }).await.unwrap() }));
}

#[test]
fn the_only_worker_of_a_multi_threaded_runtime() {
    finishes(|| multi_threaded().block_on(async { tokio::spawn(async { everything() }).await.unwrap() }));
}

#[test]
fn the_main_task_of_a_multi_threaded_runtime() {
    finishes(|| multi_threaded().block_on(async { everything() }));
}

#[test]
fn a_blocking_task_of_a_runtime() {
    finishes(|| {
        single_threaded().block_on(async { tokio::task::spawn_blocking(everything).await.unwrap() });
    });
}

#[test]
fn an_executor_other_than_tokio() {
    finishes(|| futures::executor::block_on(async { everything() }));
}

/// Tokio lets a task that has used up its budget see nothing as ready until it yields, and a call
/// that blocks never does.
#[test]
fn a_task_that_has_used_up_its_budget() {
    let work = async {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        while tell.send(()).is_ok() && told.recv().now_or_never().is_some() {}
        everything();
    };
    finishes(|| single_threaded().block_on(async { tokio::spawn(work).await.unwrap() }));
}

#[test]
fn no_nodes_are_an_error_and_no_thread_is_left_waiting() {
    let none = finishes(|| Quorum::in_memory(0).unwrap_err());
    assert_eq!(none, ConnectError::Config(ConfigError::NoNodes));
    let empty = finishes(|| MultiLock::new([]).lock().unwrap_err());
    assert_eq!(empty, LockError::Config(ConfigError::EmptyGroup));
    let url =
        finishes(|| Quorum::connect(redquorum::Quorum::builder().nodes(["http://10.0.0.1"])).unwrap_err());
    assert!(matches!(url, ConnectError::Config(ConfigError::Url { .. })), "{url}");
}

#[test]
fn all_types_are_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<(Quorum, RedLock, LockGuard, MultiLock, MultiLockGuard)>();
    is_send_and_sync::<(Election, Leadership, Observation, Lease, Owner)>();
}
