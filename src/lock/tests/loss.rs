//! Renewals and losses of leases: the reasons for a loss, the time at which the holder receives the loss, and `verify`.

use std::{sync::Arc, thread, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::{runtime::Builder, time::timeout};

use super::{
    NONE, all_behave, client, lease_without_renewal, locked_nodes, observed_client, pass, server, thaw_all,
};
use crate::{
    LockOptions, MemoryCluster, Quorum,
    admin::{self, force_unlock},
    error::{ClosedReason, Error, LossReason, NodeError, NodeReply},
    node::{ForceUnlock, Operation, Request, memory::Behaviour, remote::Monitor},
    observer::{ObservedLease, Observer},
    values::Resource,
};

const TTL: Duration = Duration::from_secs(30);
/// The validity of a lease with a ttl of 30 s: the ttl minus drift (1 %) and margin (2 ms).
const VALIDITY: Duration = Duration::from_millis(29_698);

#[tokio::test(start_paused = true)]
async fn a_lease_without_renewal_is_never_renewed_and_ends_on_time() {
    let cluster = MemoryCluster::new(5);
    let start = tokio::time::Instant::now();
    let guard = lease_without_renewal(&cluster, TTL).await;
    let lost = guard.lost().await;
    assert_eq!(lost.reason, LossReason::Expired);
    let took = start.elapsed();
    assert!(took <= VALIDITY && took >= VALIDITY - Duration::from_millis(2), "{took:?}");
    pass(Duration::from_millis(1)).await;
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
    for server in cluster.servers() {
        assert!(!server.take_log().iter().any(|operation| matches!(operation, Operation::Renew(_))));
    }
    let Err(Error::LeaseLost(lost)) = guard.unlock().await else { panic!("the lease is not lost") };
    assert_eq!(lost.reason, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_until_its_guard_is_dropped() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    for _ in 0..20 {
        pass(TTL / 2).await;
        assert!(guard.is_valid());
        assert_eq!(guard.node_replies().done(), 5);
    }
    drop(guard);
    assert_eq!(locked_nodes(&cluster), NONE);
    for server in cluster.servers() {
        server.take_log();
    }
    pass(TTL).await;
    for server in cluster.servers() {
        assert_eq!(
            server.take_log(),
            Vec::<Operation>::new(),
            "a request was sent after the guard was dropped"
        );
    }
}

/// The expiry is a task of its own, so the loss does not depend on the watchdog.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_on_time_without_the_watchdog() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    quorum.client().stop_watchdog();
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    assert!(start.elapsed() <= VALIDITY, "{:?}", start.elapsed());
}

/// The report has a timer of its own, and does not depend on the expiry.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_on_time_without_the_expiry() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let options = LockOptions::new().ttl(TTL).without_renewal();
    let guard = quorum.red_lock("r").options(options).lock().await.unwrap();
    quorum.client().stop_expiry();
    let lost = timeout(TTL, guard.lost()).await.expect("the loss is not reported");
    assert_eq!(lost.reason, LossReason::Expired);
    assert!(start.elapsed() <= VALIDITY, "{:?}", start.elapsed());
}

/// The renewals are pending at the hanging nodes, and do not delay the report of the loss.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_on_time_if_all_nodes_hang() {
    let cluster = MemoryCluster::new(5);
    let start = tokio::time::Instant::now();
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    assert!(start.elapsed() <= VALIDITY, "{:?}", start.elapsed());
    pass(Duration::from_millis(2)).await;
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE, "the pending renewals have left keys of the lost lease");
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_deletes_no_key_and_is_retried() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    for node in 0..3 {
        server(&cluster, node).behave(Behaviour::Failing(NodeError::ReadOnly));
    }
    pass(TTL * 2 / 3).await;
    assert!(guard.is_valid());
    assert_eq!(locked_nodes(&cluster), [0, 1, 2, 3, 4], "a failed renewal has deleted a key");
    thaw_all(&cluster);
    pass(TTL).await;
    assert!(guard.is_valid(), "no later renewal has extended the lease");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_and_a_failing_minority_do_not_end_a_lease() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    server(&cluster, 0).behave(Behaviour::Hanging);
    server(&cluster, 3).behave(Behaviour::Failing(NodeError::OutOfMemory));
    pass(TTL * 10).await;
    assert!(guard.is_valid());
    let replies = guard.node_replies();
    assert_eq!(replies.done(), 3, "{replies}");
    assert!(
        replies.iter().any(|(_, reply)| *reply == NodeReply::Failed(NodeError::OutOfMemory)),
        "{replies}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewal_restores_the_key_at_nodes_without_data() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    server(&cluster, 1).forget();
    server(&cluster, 2).forget();
    assert_eq!(locked_nodes(&cluster), [0, 3, 4]);
    pass(TTL / 2).await;
    assert_eq!(locked_nodes(&cluster), [0, 1, 2, 3, 4]);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn hold_at_most_ends_a_lease_despite_renewals() {
    let cluster = MemoryCluster::new(3);
    let start = tokio::time::Instant::now();
    let hold_at_most = Duration::from_secs(100);
    let guard = client(&cluster)
        .red_lock("r")
        .options(LockOptions::new().ttl(TTL).hold_at_most(hold_at_most))
        .lock()
        .await
        .unwrap();
    assert_eq!(guard.lost().await.reason, LossReason::HoldLimit);
    assert!(start.elapsed() <= hold_at_most && start.elapsed() >= hold_at_most - Duration::from_millis(2));
    pass(Duration::from_millis(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_quorum_has_revoked_is_lost_at_the_next_renewal() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    for node in 0..3 {
        server(&cluster, node).behave(Behaviour::Refusing);
    }
    let start = tokio::time::Instant::now();
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    assert!(start.elapsed() <= TTL / 3 + Duration::from_millis(1));
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_ends_the_lease_and_wakes_a_waiter_at_once() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    let waiting = client(&cluster).red_lock("r");
    let waiting = tokio::spawn(async move { waiting.lock().await.map(|guard| guard.fencing_token()) });
    pass(Duration::from_millis(10)).await;
    let start = tokio::time::Instant::now();
    let replies = force_unlock(&client(&cluster), "r").await.unwrap();
    assert_eq!(replies.done(), 5);
    assert!(waiting.await.unwrap().unwrap() > guard.fencing_token());
    assert_eq!(start.elapsed(), Duration::ZERO, "the waiter was not woken");
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    assert_eq!(start.elapsed(), Duration::ZERO, "the holder has received the loss late");
    assert_eq!(locked_nodes(&cluster), NONE, "a renewal has restored the key");
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_renewal_is_lost_at_once_after_a_force_unlock() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let fixed = LockOptions::new().ttl(TTL).without_renewal();
    let forced = quorum.red_lock("r").options(fixed.clone()).lock().await.unwrap();
    let other = quorum.red_lock("other").options(fixed).lock().await.unwrap();
    let start = tokio::time::Instant::now();
    pass(TTL / 2).await;
    force_unlock(&client(&cluster), "r").await.unwrap();
    assert_eq!(forced.lost().await.reason, LossReason::Revoked);
    assert!(start.elapsed() < TTL / 2 + Duration::from_millis(1), "{:?}", start.elapsed());
    assert!(other.is_valid());
    assert_eq!(other.lost().await.reason, LossReason::Expired);
    assert!(start.elapsed() <= VALIDITY, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_at_a_minority_ends_no_lease() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    let operator = client(&cluster);
    let context = &operator.client().context;
    let take_renewals = || {
        let log = server(&cluster, 4).take_log();
        log.iter().filter(|operation| matches!(operation, Operation::Renew(_))).count()
    };
    for node in 0..2 {
        let force = ForceUnlock { resources: [Resource::new("r").unwrap()].into() };
        let force = Request::one(Operation::ForceUnlock(force), context.now() + TTL);
        context.nodes[node].call(force).await;
        pass(Duration::from_millis(1)).await;
        assert!(guard.is_valid());
        assert_eq!(take_renewals(), 1, "the notice has to cause one renewal");
    }
    assert_eq!(guard.node_replies().done(), 3);
    pass(2 * TTL).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn lost_is_pending_while_a_lease_is_renewed() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    let mut lost = Box::pin(guard.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    tokio::select! {
        biased;
        lost = &mut lost => panic!("{lost}"),
        () = pass(TTL * 5) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_every_lease_and_refuses_later_calls() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let waiting = quorum.red_lock("r");
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    pass(Duration::from_millis(1)).await;
    quorum.shutdown().await;
    assert_eq!(guard.lost().await.reason, LossReason::Closed(ClosedReason::ShutDown));
    assert_eq!(locked_nodes(&cluster), NONE);
    assert_eq!(waiting.await.unwrap(), Err(Error::Closed(ClosedReason::ShutDown)));
    assert_eq!(quorum.red_lock("r").try_lock().await.map(drop), Err(Error::Closed(ClosedReason::ShutDown)));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_on_request_extends_a_lease_without_renewal() {
    let cluster = MemoryCluster::new(3);
    let guard = lease_without_renewal(&cluster, TTL).await;
    pass(TTL / 2).await;
    let before = guard.active_lease().valid_until();
    guard.renew().await.unwrap();
    assert_eq!(guard.active_lease().valid_until().saturating_duration_since(before), TTL / 2);
    all_behave(&cluster, &Behaviour::Hanging);
    assert!(matches!(guard.renew().await, Err(Error::NoQuorum(_))));
    assert!(guard.is_valid(), "the failed renewal has ended the lease");
}

/// A time after which the renewals at a node that lost its data count again. The time is longer than an attempt
/// timeout.
pub(super) const UNTIL_RENEWALS_COUNT: Duration = Duration::from_secs(6);

#[tokio::test(start_paused = true)]
async fn verify_returns_whether_a_quorum_proves_the_lease() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    assert_eq!(guard.verify().await, Ok(true));
    server(&cluster, 0).forget();
    assert_eq!(guard.verify().await, Ok(true), "two of three nodes still have their data");
    pass(UNTIL_RENEWALS_COUNT).await;
    server(&cluster, 1).forget();
    assert_eq!(guard.verify().await, Ok(false), "two of three nodes have lost their data");
    pass(TTL * 2).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn renewals_for_a_hanging_node_are_dropped_instead_of_accumulating() {
    const LEASES: usize = 1000;
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let mut guards = Vec::new();
    for number in 0..LEASES {
        guards.push(
            quorum.red_lock(format!("r{number}")).options(LockOptions::new().ttl(TTL)).lock().await.unwrap(),
        );
    }
    // Each call to node 0 now takes a node timeout. The renewals of 1,000 leases need sixteen calls, which take longer
    // than the time between two renewals.
    server(&cluster, 0).behave(Behaviour::Hanging);
    pass(TTL * 10).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
    server(&cluster, 0).thaw();
    // The requests that the hanging node had received before do not count.
    server(&cluster, 0).take_log();
    pass(Duration::from_millis(100)).await;
    let backlog = server(&cluster, 0).take_log().len();
    assert!(backlog <= LEASES, "{backlog} renewals were pending");
    pass(TTL).await;
    assert!(guards.iter().all(|guard| guard.node_replies().done() == 5));
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_revokes_a_lease_on_nodes_that_the_operator_cannot_reach() {
    let cluster = MemoryCluster::new(5);
    let down = Behaviour::Failing(NodeError::Unreachable("down".into()));
    let take_down = |nodes: [usize; 2]| nodes.map(|node| server(&cluster, node).behave(down.clone()));
    take_down([3, 4]);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    thaw_all(&cluster);
    take_down([1, 2]);
    let replies = force_unlock(&client(&cluster), "r").await.unwrap();
    assert_eq!(replies.done(), 3, "nodes 0, 3 and 4 answer");
    thaw_all(&cluster);
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    pass(Duration::from_millis(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn several_other_leases_at_single_nodes_do_not_revoke_a_lease() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    for (node, lease_id) in ["x:1", "y:1", "z:1"].into_iter().enumerate() {
        server(&cluster, node).forget();
        server(&cluster, node).hold("r", lease_id, TTL / 2);
    }
    assert!(matches!(guard.renew().await, Err(Error::NoQuorum(_))));
    pass(TTL * 2).await;
    assert!(guard.is_valid(), "no renewal has succeeded after the other leases expired");
}

/// An observer that panics at the grant of a lease.
#[derive(Debug)]
struct PanickingObserver;

impl Monitor for PanickingObserver {}

impl Observer for PanickingObserver {
    fn lease_granted(&self, lease: &Arc<dyn ObservedLease>) {
        panic!("the observer panics at {lease:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_renewed_after_its_observer_panics() {
    let cluster = MemoryCluster::new(3);
    let quorum = observed_client(&cluster, Arc::new(PanickingObserver));
    let lock = quorum.red_lock("r").options(LockOptions::new().ttl(TTL));
    assert!(tokio::spawn(async move { lock.try_lock().await }).await.unwrap_err().is_panic());
    pass(TTL * 2).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// Starts every kind of call that waits for answers, while no node answers. Returns the futures, each with a name.
fn calls_in_flight(quorum: &Quorum) -> Vec<(&'static str, BoxFuture<'static, Result<(), Error>>)> {
    type Call = BoxFuture<'static, Result<(), Error>>;
    fn call<T>(work: impl Future<Output = Result<T, Error>> + Send + 'static) -> Call {
        async move { work.await.map(drop) }.boxed()
    }
    let with = |work: fn(Quorum) -> Call| work(quorum.clone());
    let mut calls = vec![
        ("inspect", with(|quorum| call(async move { quorum.inspect("r").await }))),
        ("leader", with(|quorum| call(async move { quorum.election("e").leader().await }))),
        (
            "available_permits",
            with(|quorum| call(async move { quorum.semaphore("s", 3).available_permits().await })),
        ),
        ("any_of", with(|quorum| call(async move { quorum.any_of(["a", "b"]).try_lock().await }))),
        ("arrivals", with(|quorum| call(async move { quorum.latch("l", 2).arrivals().await }))),
        ("arrive", with(|quorum| call(async move { quorum.latch("l", 2).arrive().await }))),
        ("wait", with(|quorum| call(async move { quorum.latch("l", 2).wait().await }))),
        ("list", with(|quorum| async move { admin::list(&quorum, |_| true).await.map(drop) }.boxed())),
        ("force_unlock", with(|quorum| call(async move { force_unlock(&quorum, "r").await }))),
        ("try_lock", with(|quorum| call(async move { quorum.red_lock("r").try_lock().await }))),
        ("lock", with(|quorum| call(async move { quorum.red_lock("r").lock().await }))),
    ];
    for (name, call) in &mut calls {
        assert!(call.now_or_never().is_none(), "{name} does not wait for the nodes");
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_at_a_shutdown_return_closed() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    all_behave(&cluster, &Behaviour::Hanging);
    let calls = calls_in_flight(&quorum);
    let shutdown = tokio::spawn(async move { quorum.shutdown().await });
    for (name, call) in calls {
        assert_eq!(call.await, Err(Error::Closed(ClosedReason::ShutDown)), "{name}");
    }
    assert!(shutdown.await.unwrap().is_complete());
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_at_the_end_of_the_runtime_return_closed() {
    let cluster = MemoryCluster::new(3);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let quorum = {
        let _entered = runtime.enter();
        client(&cluster)
    };
    all_behave(&cluster, &Behaviour::Hanging);
    let calls = calls_in_flight(&quorum);
    // The drop waits for the end of all tasks.
    thread::spawn(move || drop(runtime)).join().unwrap();
    for (name, call) in calls {
        assert_eq!(call.await, Err(Error::Closed(ClosedReason::RuntimeEnded)), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_after_the_end_of_the_runtime_names_the_resources_of_its_leases() {
    let cluster = MemoryCluster::new(3);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let quorum = {
        let _entered = runtime.enter();
        client(&cluster)
    };
    quorum.red_lock("unlocked").lock().await.unwrap().unlock().await.unwrap();
    let _group = quorum.multi_lock(["a", "b"]).lock().await.unwrap();
    thread::spawn(move || drop(runtime)).join().unwrap();
    let report = quorum.shutdown().await;
    let unconfirmed: Vec<_> = report.unconfirmed().map(|(_, resources)| resources.to_vec()).collect();
    let expected = ["a", "b"].map(|resource| Resource::new(resource).unwrap());
    assert_eq!(unconfirmed, [expected.clone(), expected.clone(), expected]);
}

/// A lock in the list without any answer would be missing in the list.
#[tokio::test(start_paused = true)]
async fn a_list_does_not_omit_locks_because_the_client_was_closed() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let _guard = client(&cluster).red_lock("r").lock().await.unwrap();
    let closing = quorum.clone();
    // The nodes have listed their names at the time of the filter.
    let listed = admin::list(&quorum, |_| {
        closing.client().close();
        true
    });
    assert_eq!(listed.await.map(drop), Err(Error::Closed(ClosedReason::ShutDown)));
}
