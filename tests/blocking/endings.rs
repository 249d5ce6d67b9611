//! Ends of guards and clients in the blocking API, on in-memory nodes.
//!
//! Promises: the drop of the last guard of a client unlocks, on each kind of thread and runtime. A shutdown ends leases
//! and waits.

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

use super::deadlines::{eventually, run_with_deadline};

/// Returns the only guard of a client without any other handle.
fn only_guard(cluster: &MemoryCluster) -> LockGuard {
    Quorum::connect_in_memory(redquorum::Quorum::builder(), cluster).unwrap().red_lock("r").lock().unwrap()
}

/// Waits until another client can lock the resource.
fn assert_becomes_free(cluster: &MemoryCluster) {
    let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), cluster).unwrap();
    eventually("the resource is unlocked", || quorum.red_lock("r").try_lock().unwrap().is_some());
}

#[test]
fn the_last_guard_keeps_its_lease_and_unlocks_when_dropped() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let guard = only_guard(&cluster);
        let first_end = Instant::now() + guard.remaining();
        guard.renew().unwrap();
        let left = guard.remaining();
        assert!(Instant::now() + left >= first_end && guard.is_valid());
        drop(guard);
        assert_becomes_free(&cluster);
    });
}

#[test]
fn the_last_handle_can_be_dropped_inside_of_a_single_threaded_runtime() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let guard = only_guard(&cluster);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { drop(guard) });
        assert_becomes_free(&cluster);
    });
}

#[test]
fn the_last_handle_can_be_dropped_by_a_worker_of_a_multi_threaded_runtime() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let guard = only_guard(&cluster);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async { tokio::spawn(async { drop(guard) }).await.unwrap() });
        assert_becomes_free(&cluster);
    });
}

#[test]
fn a_guard_dropped_with_its_runtime_is_unlocked() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let guard = only_guard(&cluster);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        drop(runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        }));
        drop(runtime);
        assert_becomes_free(&cluster);
    });
}

#[test]
fn a_shutdown_ends_the_leases_and_the_calls_that_wait() {
    run_with_deadline(|| {
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
        assert_becomes_free(&cluster);
        drop(guard);
    });
}

#[test]
fn a_timed_out_try_lock_for_does_not_block_later_calls() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let guard = only_guard(&cluster);
        let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
        assert!(quorum.red_lock("r").try_lock_for(Duration::from_millis(30)).unwrap().is_none());
        guard.unlock().unwrap();
        quorum.red_lock("r").lock().unwrap().unlock().unwrap();
    });
}
