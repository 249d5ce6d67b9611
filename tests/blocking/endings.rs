//! How it ends: what is dropped last is unlocked, wherever it is dropped.

use std::{
    thread,
    time::{Duration, Instant},
};

use redquorum::{
    Error, MemoryCluster,
    blocking::{LockGuard, Quorum},
    error::{ClosedReason, LossReason},
};
use tokio::runtime::Builder;

use super::patience::{eventually, finishes};

/// The only guard of a quorum of which nothing else is left.
fn last_of(cluster: &MemoryCluster) -> LockGuard {
    Quorum::connect_in_memory(redquorum::Quorum::builder(), cluster).unwrap().red_lock("r").lock().unwrap()
}

/// Whether somebody else can have it soon.
fn is_unlocked(cluster: &MemoryCluster) {
    let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), cluster).unwrap();
    eventually("it is unlocked", || quorum.red_lock("r").try_lock().unwrap().is_some());
}

#[test]
fn the_last_guard_keeps_its_lease_and_is_unlocked_when_it_is_dropped() {
    finishes(|| {
        let cluster = MemoryCluster::new(3);
        let guard = last_of(&cluster);
        let first_end = Instant::now() + guard.remaining();
        guard.renew().unwrap();
        let left = guard.remaining();
        assert!(Instant::now() + left >= first_end && guard.is_valid());
        drop(guard);
        is_unlocked(&cluster);
    });
}

#[test]
fn the_last_handle_can_be_dropped_inside_of_a_single_threaded_runtime() {
    finishes(|| {
        let cluster = MemoryCluster::new(3);
        let guard = last_of(&cluster);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { drop(guard) });
        is_unlocked(&cluster);
    });
}

#[test]
fn the_last_handle_can_be_dropped_by_a_worker_of_a_multi_threaded_runtime() {
    finishes(|| {
        let cluster = MemoryCluster::new(3);
        let guard = last_of(&cluster);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async { tokio::spawn(async { drop(guard) }).await.unwrap() });
        is_unlocked(&cluster);
    });
}

#[test]
fn a_guard_that_is_dropped_with_its_runtime_is_unlocked() {
    finishes(|| {
        let cluster = MemoryCluster::new(3);
        let guard = last_of(&cluster);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        drop(runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        }));
        drop(runtime);
        is_unlocked(&cluster);
    });
}

#[test]
fn a_shutdown_ends_the_leases_and_the_calls_that_wait() {
    finishes(|| {
        let cluster = MemoryCluster::new(3);
        let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
        let guard = quorum.red_lock("r").lock().unwrap();
        let (waiting, lease) = (quorum.red_lock("r"), guard.lease());
        let waiter = thread::spawn(move || waiting.lock().map(drop));
        let watcher = thread::spawn(move || lease.lost());
        quorum.shutdown();
        assert_eq!(waiter.join().unwrap(), Err(Error::Closed(ClosedReason::ShutDown)));
        assert_eq!(watcher.join().unwrap().reason, LossReason::Closed(ClosedReason::ShutDown));
        assert!(!guard.is_valid());
        is_unlocked(&cluster);
        drop(guard);
    });
}

#[test]
fn try_lock_for_ends_and_leaves_its_place_to_others() {
    finishes(|| {
        let cluster = MemoryCluster::new(3);
        let guard = last_of(&cluster);
        let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
        assert!(quorum.red_lock("r").try_lock_for(Duration::from_millis(30)).unwrap().is_none());
        guard.unlock().unwrap();
        quorum.red_lock("r").lock().unwrap().unlock().unwrap();
    });
}
