//! `run`: a closure under a lock, on real servers.
//!
//! Promises: `run` returns the value only if the lease was valid until the closure returned. At a loss, `run` drops the
//! closure at its present `await`. `run` unlocks in each case.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use redquorum::{Error, LockGuard, LockOptions, admin, error::LossReason};
use redquorum_tests::{Cluster, Stopwatch};

use super::{
    behaviours::loss,
    servers::{SOON, builder, client, wait_for_holds},
};

const TTL: Duration = Duration::from_secs(2);

/// A value that records its drop.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn run_returns_the_value_and_unlocks() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let mut inside = None;
    let token = lock
        .run(async |guard| {
            wait_for_holds(cluster.servers(), "r", 1).await;
            assert!(guard.is_valid() && lock.try_lock().await.unwrap().is_none());
            assert!(guard.verify().await.unwrap());
            inside = Some(guard.fencing_token());
            guard.fencing_token()
        })
        .await
        .unwrap();
    assert_eq!(Some(token), inside);
    wait_for_holds(cluster.servers(), "r", 0).await;
}

/// `run` returns the value even if no server confirms the unlock. The replies of `LockGuard::unlock` show
/// which nodes are missing.
#[tokio::test]
async fn run_returns_the_value_although_no_server_confirms_the_unlock() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(TTL).connect().await.unwrap();
    let freeze_all = async || {
        for server in cluster.servers() {
            server.freeze().await;
        }
    };
    let thaw_all = async || {
        for server in cluster.servers() {
            server.thaw().await;
        }
    };
    let lock = quorum.red_lock("r");
    let done = lock.run(async |_| {
        freeze_all().await;
        "the value".to_owned()
    });
    assert_eq!(done.await.unwrap(), "the value");
    thaw_all().await;
    wait_for_holds(cluster.servers(), "r", 0).await;

    let guard = lock.lock().await.unwrap();
    freeze_all().await;
    let unlocked = guard.unlock().await.unwrap();
    assert!(!unlocked.has_quorum(), "{unlocked}");
    assert_eq!((unlocked.done(), unlocked.iter().count(), unlocked.needed()), (0, 3, 2));
    thaw_all().await;
    wait_for_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn a_lease_that_ends_during_a_blocking_closure_drops_its_value() {
    let cluster = Cluster::start(1).await;
    let fixed = LockOptions::new().ttl(TTL / 4).without_renewal();
    let lock = client(&cluster).await.red_lock("r").options(fixed);
    let mut stored = None;
    let outcome = lock.run(async |guard| {
        std::thread::sleep(TTL / 4);
        stored = Some(guard.fencing_token());
        guard.fencing_token()
    });
    assert_eq!(loss(outcome.await.unwrap_err()), LossReason::Expired);
    assert!(stored.is_some(), "the closure did not run to its end");
    wait_for_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn a_closure_whose_lease_is_force_unlocked_returns_the_loss() {
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r");
    let outcome = lock.run(async |_| admin::force_unlock(&quorum, "r").await.unwrap().done()).await;
    assert_eq!(loss(outcome.unwrap_err()), LossReason::Revoked);
}

#[tokio::test]
async fn run_renews_the_lease_and_stops_the_closure_at_a_loss() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(TTL).connect().await.unwrap();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = DropFlag(Arc::clone(&is_dropped));
    let mut frozen = None;
    let lock = quorum.red_lock("r");
    let outcome = lock.run(async |guard| {
        let _flag = flag;
        tokio::time::sleep(TTL * 3 / 2).await;
        assert!(guard.is_valid(), "the lease was not renewed");
        for server in cluster.some(0..2) {
            server.freeze().await;
        }
        frozen = Some(Stopwatch::start());
        std::future::pending::<()>().await;
    });
    let outcome = tokio::time::timeout(SOON, outcome).await.expect("the closure was not stopped");
    assert_eq!(loss(outcome.unwrap_err()), LossReason::Expired);
    let took = frozen.unwrap().undelayed();
    assert!(took <= TTL, "stopped {took:?} after the nodes were frozen");
    assert!(is_dropped.load(Ordering::Relaxed));
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    wait_for_holds(cluster.servers(), "r", 0).await;
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
    wait_for_holds(cluster.servers(), "r", 0).await;
}

#[tokio::test]
async fn a_run_that_is_dropped_drops_its_closure_and_unlocks() {
    let cluster = Cluster::start(3).await;
    let lock = client(&cluster).await.red_lock("r");
    let is_dropped = Arc::new(AtomicBool::new(false));
    let flag = DropFlag(Arc::clone(&is_dropped));
    let running = tokio::spawn(async move {
        lock.run(async |_| {
            let _flag = flag;
            std::future::pending::<()>().await;
        })
        .await
    });
    wait_for_holds(cluster.servers(), "r", 1).await;
    running.abort();
    wait_for_holds(cluster.servers(), "r", 0).await;
    assert!(is_dropped.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_closure_is_not_called_without_a_quorum() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).ttl(TTL).connect().await.unwrap();
    for server in cluster.some(0..2) {
        server.kill().await;
    }
    let mut is_called = false;
    let lock = quorum.red_lock("r").options(LockOptions::new().quorum_timeout(Duration::from_millis(100)));
    let outcome = lock.run(async |_| is_called = true).await;
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert!(!is_called);
    wait_for_holds(cluster.some(2..3), "r", 0).await;
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
                    let increment = async |_: &LockGuard| {
                        let before = count.load(Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        count.store(before + 1, Ordering::Relaxed);
                    };
                    lock.run(increment).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), TASKS * ROUNDS);
}
