//! Forks of a process with connections to real servers, and the end of a runtime.

use std::time::Duration;

use futures::FutureExt;
use redquorum::{Error, LockGuard, LockOptions, Quorum, error::ClosedReason};
use redquorum_tests::{Cluster, ForkedProcess, eventually};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

/// The deadline of an effect that has to happen at once, on a machine under load.
const SOON: Duration = Duration::from_secs(10);

/// Long enough for renewals on a machine under load.
const TTL: Duration = Duration::from_secs(3);

fn single_threaded() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn connected(cluster: &Cluster) -> Quorum {
    Quorum::builder().nodes(cluster.urls()).admit_new_nodes().ttl(TTL).connect().await.unwrap()
}

/// Asserts that the lease is renewed for longer than its ttl, and that every node answers.
async fn assert_outlives_ttl(quorum: &Quorum, guard: LockGuard) {
    let lost = timeout(2 * TTL, guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    let health = quorum.health().await;
    assert_eq!(health.voting(), 3, "{health}");
    assert!(guard.unlock().await.unwrap().has_quorum());
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_and_calls_that_are_dropped_in_a_child_change_nothing_on_the_servers() {
    let cluster = Cluster::start(3).await;
    let (quorum, other) = (connected(&cluster).await, connected(&cluster).await);
    let guard = quorum.red_lock("held").lock().await.unwrap();
    let elsewhere = other.red_lock("elsewhere").lock().await.unwrap();
    let lock = quorum.red_lock("elsewhere");
    let mut waiting = Box::pin(lock.lock());
    let waits = async || quorum.inspect("elsewhere").await.unwrap().waiters() == 1;
    while !waits().await {
        assert!((&mut waiting).now_or_never().is_none());
    }
    let mut guards = Some((guard, quorum.clone(), waiting));
    let child = ForkedProcess::start(|| {
        let (guard, quorum, waiting) = guards.take().unwrap();
        assert!(!guard.is_valid());
        drop((guard, waiting, quorum));
    });
    eventually(SOON, "the child has ended", async || child.is_done()).await;
    let (guard, _, waiting) = guards.take().unwrap();
    assert!(waits().await, "the child left the queue");
    assert_outlives_ttl(&quorum, guard).await;
    elsewhere.unlock().await.unwrap();
    assert!(timeout(SOON, waiting).await.unwrap().unwrap().is_valid());
}

#[test]
fn a_child_that_drops_its_copy_of_the_runtime_closes_no_connection() {
    let servers = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cluster = servers.block_on(Cluster::start(3));
    let mut runtime = Some(single_threaded());
    let (quorum, guard) = runtime.as_ref().unwrap().block_on(async {
        let quorum = connected(&cluster).await;
        let guard = quorum.red_lock("held").lock().await.unwrap();
        (quorum, guard)
    });
    let mut handles = Some((quorum, guard));
    let child = ForkedProcess::start(|| {
        let (quorum, guard) = handles.take().unwrap();
        drop(runtime.take());
        drop((quorum, guard));
    });
    child.wait();
    let (quorum, guard) = handles.take().unwrap();
    runtime.take().unwrap().block_on(assert_outlives_ttl(&quorum, guard));
}

#[test]
fn calls_on_a_second_runtime_fail_at_once_if_the_first_has_ended() {
    let servers = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cluster = servers.block_on(Cluster::start(3));
    let quorum = single_threaded().block_on(connected(&cluster));
    let second = single_threaded();
    let lock = quorum.red_lock("r").options(LockOptions::new().quorum_timeout(SOON * 10));
    for _ in 0..2 {
        let refused = second.block_on(async { timeout(SOON, lock.lock()).await.unwrap() });
        assert_eq!(refused.unwrap_err(), Error::Closed(ClosedReason::RuntimeEnded));
    }
    let health = second.block_on(quorum.health());
    assert_eq!(health.voting(), 0);
    let third = single_threaded();
    third.block_on(async {
        let own = connected(&cluster).await;
        assert!(own.red_lock("r").lock().await.unwrap().unlock().await.unwrap().has_quorum());
    });
}
