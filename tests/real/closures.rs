//! A closure under a lock. What it returns and what became of its unlock are two things.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use redquorum::{
    LockOptions,
    error::{LockError, LossReason, RunError, UnlockError},
};
use redquorum_tests::Cluster;

use super::servers::{SOON, builder, client, have_holds};

const TTL: Duration = Duration::from_secs(2);

/// Says when it is dropped.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The value comes back with the report of the nodes.
#[tokio::test]
async fn the_value_of_a_closure_comes_back_and_the_resource_is_free() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let done = lock
        .run(async |lease| {
            have_holds(cluster.servers(), "r", 1).await;
            assert!(lease.is_valid() && lock.try_lock().await.unwrap().is_none());
            lease.fencing_token()
        })
        .await
        .unwrap();
    assert!(done.value.as_u64() > 0);
    assert!(done.unlock.unwrap().confirmed.len() >= 2);
    have_holds(cluster.servers(), "r", 0).await;
}

/// An unlock that nobody confirms does not cost the value, and is not kept quiet either.
#[tokio::test]
async fn the_value_of_a_closure_comes_back_though_no_server_confirms_its_unlock() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(TTL).connect().await.unwrap();
    let lock = quorum.red_lock("r");
    let done = lock.run(async |_| {
        for server in cluster.servers() {
            server.freeze().await;
        }
        "the value".to_owned()
    });
    let done = done.await.unwrap();
    assert_eq!(done.value, "the value");
    let Err(UnlockError::NoQuorum { open, .. }) = done.unlock else { panic!("{:?}", done.unlock) };
    assert_eq!(open.len(), 3);
    for server in cluster.servers() {
        server.thaw().await;
    }
    have_holds(cluster.servers(), "r", 0).await;
}

/// That the lease was over when the closure returned is said of the unlock, not instead of
/// the value.
#[tokio::test]
async fn the_value_of_a_closure_that_saw_its_lease_end_comes_back_with_the_loss_beside_it() {
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r");
    let done = lock.run(async |_| lock.force_unlock().await.unwrap().confirmed.len()).await.unwrap();
    assert_eq!(done.value, 1);
    let Err(UnlockError::LeaseLost { lost, .. }) = done.unlock else { panic!("{:?}", done.unlock) };
    assert_eq!(lost.reason, LossReason::TakenAway);
}

#[tokio::test]
async fn a_closure_is_renewed_for_as_long_as_it_runs_and_stopped_when_the_lease_is_lost() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(TTL).connect().await.unwrap();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let witness = Witness(Arc::clone(&is_dropped));
    let mut frozen = None;
    let lock = quorum.red_lock("r");
    let outcome = lock.run(async |lease| {
        let _witness = witness;
        tokio::time::sleep(TTL * 3 / 2).await;
        assert!(lease.is_valid(), "not renewed");
        for server in cluster.some(0..2) {
            server.freeze().await;
        }
        frozen = Some(Instant::now());
        std::future::pending::<()>().await;
    });
    let outcome = tokio::time::timeout(SOON, outcome).await.expect("it was not stopped");
    let Err(RunError::LeaseLost(lost)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(lost.reason, LossReason::Expired);
    let took = frozen.unwrap().elapsed();
    assert!(took <= TTL, "stopped {took:?} after the nodes were gone");
    assert!(is_dropped.load(Ordering::Relaxed));
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    have_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn a_closure_that_panics_unlocks() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let servers = cluster.urls();
    let running = tokio::spawn(async move {
        lock.run(async |_| {
            tokio::task::yield_now().await;
            assert!(servers.is_empty(), "this panic is part of the test");
        })
        .await
    });
    assert!(running.await.is_err_and(|error| error.is_panic()));
    have_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn a_run_that_is_dropped_drops_its_closure_and_unlocks() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let is_dropped = Arc::new(AtomicBool::new(false));
    let witness = Witness(Arc::clone(&is_dropped));
    let running = tokio::spawn(async move {
        lock.run(async |_| {
            let _witness = witness;
            std::future::pending::<()>().await;
        })
        .await
    });
    have_holds(cluster.servers(), "r", 1).await;
    running.abort();
    have_holds(cluster.servers(), "r", 0).await;
    assert!(is_dropped.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_closure_is_not_called_when_there_is_no_lock() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(TTL).connect().await.unwrap();
    for server in cluster.some(0..2) {
        server.kill().await;
    }
    let mut is_called = false;
    let lock = quorum.red_lock("r").options(LockOptions::new().quorum_timeout(Duration::from_millis(100)));
    let outcome = lock.run(async |_| is_called = true).await;
    assert!(matches!(outcome, Err(RunError::Lock(LockError::NoQuorum { .. }))), "{outcome:?}");
    assert!(!is_called);
    have_holds(cluster.some(2..3), "r", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closures_run_in_spawned_tasks_one_at_a_time() {
    const TASKS: u32 = 8;
    const ROUNDS: u32 = 20;
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let count = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (lock, count) = (quorum.red_lock("r"), Arc::clone(&count));
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let increment = async |_| {
                        let before = count.load(Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        count.store(before + 1, Ordering::Relaxed);
                    };
                    lock.run(increment).await.unwrap().unlock.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), TASKS * ROUNDS);
}
