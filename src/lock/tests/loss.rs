//! The ends of leases, and the times at which holders receive them.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::runtime::Handle;

use super::{NONE, all_behave, client, lease_without_renewal, locked_nodes, pass, server, thaw_all};
use crate::{
    LockOptions, MemoryCluster, Quorum,
    admin::force_unlock,
    client::dependencies::ClientDependencies,
    error::{ClosedReason, Error, LossReason, NodeError, NodeReply},
    lock::client::Client,
    node::{ForceUnlock, Operation, Request, memory::Behaviour, remote::Monitor},
    observer::{ObservedLease, Observer},
    values::Resource,
};

const TTL: Duration = Duration::from_secs(30);
/// 30 s less one percent and 2 ms.
const WINDOW: Duration = Duration::from_millis(29_698);

#[tokio::test(start_paused = true)]
async fn a_lease_with_a_fixed_ttl_is_never_renewed_and_ends_on_time() {
    let cluster = MemoryCluster::new(5);
    let start = tokio::time::Instant::now();
    let guard = lease_without_renewal(&cluster, TTL).await;
    let lost = guard.lost().await;
    assert_eq!(lost.reason, LossReason::Expired);
    let took = start.elapsed();
    assert!(took <= WINDOW && took >= WINDOW - Duration::from_millis(2), "{took:?}");
    pass(Duration::from_millis(1)).await;
    assert!(!guard.is_valid());
    assert_eq!(guard.remaining(), Duration::ZERO);
    for server in cluster.servers() {
        assert!(!server.take_log().iter().any(|operation| matches!(operation, Operation::Renew(_))));
    }
    let Err(Error::LeaseLost(lost)) = guard.unlock().await else { panic!("not lost") };
    assert_eq!(lost.reason, LossReason::Expired);
}

/// The client sends no request for a lease after the drop of its guard.
#[tokio::test(start_paused = true)]
async fn a_renewed_lease_outlives_many_ttls_and_stops_being_renewed_with_its_guard() {
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
        assert_eq!(server.take_log(), Vec::<Operation>::new(), "renewed after the guard was dropped");
    }
}

/// The end of a lease has a timer of its own, which a renewal task that died cannot take
/// along.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_in_time_without_the_watchdog() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    quorum.client().stop_watchdog();
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    assert!(start.elapsed() <= WINDOW, "{:?}", start.elapsed());
}

/// Hanging renewals do not delay the report of a loss.
#[tokio::test(start_paused = true)]
async fn loss_is_announced_by_the_deadline_when_every_node_hangs() {
    let cluster = MemoryCluster::new(5);
    let start = tokio::time::Instant::now();
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    assert_eq!(guard.lost().await.reason, LossReason::Expired);
    assert!(start.elapsed() <= WINDOW, "{:?}", start.elapsed());
    pass(Duration::from_millis(2)).await;
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE, "what was lost is unlocked, behind the renewals");
}

/// A renewal that fails deletes nothing.
#[tokio::test(start_paused = true)]
async fn a_failed_renewal_leaves_the_lease_as_it_is_and_is_tried_again() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    for node in 0..3 {
        server(&cluster, node).behave(Behaviour::Failing(NodeError::ReadOnly));
    }
    pass(TTL * 2 / 3).await;
    assert!(guard.is_valid());
    assert_eq!(locked_nodes(&cluster), [0, 1, 2, 3, 4], "nothing is deleted");
    thaw_all(&cluster);
    pass(TTL).await;
    assert!(guard.is_valid(), "renewed once the nodes work again");
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_hangs_or_fails_never_costs_the_lease() {
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

/// A renewal heals nodes that lost the key.
#[tokio::test(start_paused = true)]
async fn nodes_that_lost_the_key_get_it_back_by_renewal() {
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
async fn max_hold_ends_a_lease_in_spite_of_renewals() {
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
async fn a_lease_that_a_quorum_took_away_is_lost_at_the_next_renewal() {
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
async fn a_force_unlocked_lease_is_lost_and_its_resource_free_at_once() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    let waiting = client(&cluster).red_lock("r");
    let waiting = tokio::spawn(async move { waiting.lock().await.map(|guard| guard.fencing_token()) });
    pass(Duration::from_millis(10)).await;
    let start = tokio::time::Instant::now();
    let report = force_unlock(&client(&cluster), "r").await.unwrap();
    assert_eq!(report.done(), 5);
    assert!(waiting.await.unwrap().unwrap() > guard.fencing_token());
    assert_eq!(start.elapsed(), Duration::ZERO, "the waiter is woken");
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    assert_eq!(start.elapsed(), Duration::ZERO, "the holder receives the loss");
    assert_eq!(locked_nodes(&cluster), NONE, "renewals do not bring it back");
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_renewal_receives_a_force_unlock_and_ends_no_later() {
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
    assert!(start.elapsed() <= WINDOW, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_notice_of_force_ends_no_lease_that_a_quorum_keeps() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    let operator = client(&cluster);
    let context = &operator.client().context;
    let renewals = || {
        let log = server(&cluster, 4).take_log();
        log.iter().filter(|operation| matches!(operation, Operation::Renew(_))).count()
    };
    for node in 0..2 {
        let force = ForceUnlock { resources: [Resource::new("r").unwrap()].into() };
        let force = Request::one(Operation::ForceUnlock(force), context.now() + TTL);
        context.nodes[node].call(force).await;
        pass(Duration::from_millis(1)).await;
        assert!(guard.is_valid());
        assert_eq!(renewals(), 1, "the nodes are asked");
    }
    assert_eq!(guard.node_replies().done(), 3);
    pass(2 * TTL).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn lost_resolves_at_once_for_a_lease_that_is_over_and_never_for_one_that_is_renewed() {
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
async fn renewal_on_request_extends_a_fixed_lease() {
    let cluster = MemoryCluster::new(3);
    let guard = lease_without_renewal(&cluster, TTL).await;
    pass(TTL / 2).await;
    let before = guard.active_lease().valid_until();
    guard.renew().await.unwrap();
    assert_eq!(guard.active_lease().valid_until().saturating_duration_since(before), TTL / 2);
    all_behave(&cluster, &Behaviour::Hanging);
    assert!(matches!(guard.renew().await, Err(Error::NoQuorum(_))));
    assert!(guard.is_valid(), "a renewal that fails leaves the lease as it is");
}

/// A node that forgot counts for renewals again after an attempt timeout and a little more.
const AGAIN_COUNTED: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn verify_proves_that_no_later_lease_was_granted_or_says_that_it_cannot() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    assert_eq!(guard.verify().await, Ok(true));
    server(&cluster, 0).forget();
    assert_eq!(guard.verify().await, Ok(true), "two nodes remember");
    pass(AGAIN_COUNTED).await;
    server(&cluster, 1).forget();
    assert_eq!(guard.verify().await, Ok(false), "a node that forgot proves nothing");
    pass(TTL * 2).await;
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn renewals_that_a_slow_node_has_not_come_to_are_dropped_instead_of_piling_up() {
    const LEASES: usize = 1000;
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let mut guards = Vec::new();
    for number in 0..LEASES {
        guards.push(
            quorum.red_lock(format!("r{number}")).options(LockOptions::new().ttl(TTL)).lock().await.unwrap(),
        );
    }
    // One call takes a node timeout now: sixteen of them take longer than the time between two
    // renewals.
    server(&cluster, 0).behave(Behaviour::Hanging);
    pass(TTL * 10).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
    server(&cluster, 0).thaw();
    // What it had swallowed is another matter.
    server(&cluster, 0).take_log();
    pass(Duration::from_millis(100)).await;
    let backlog = server(&cluster, 0).take_log().len();
    assert!(backlog <= LEASES, "{backlog} renewals were waiting");
    pass(TTL).await;
    assert!(guards.iter().all(|guard| guard.node_replies().done() == 5));
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_revokes_a_lease_on_nodes_that_the_operator_cannot_reach() {
    let cluster = MemoryCluster::new(5);
    let down = Behaviour::Failing(NodeError::Unreachable("down".into()));
    let all_down = |nodes: [usize; 2]| nodes.map(|node| server(&cluster, node).behave(down.clone()));
    all_down([3, 4]);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    thaw_all(&cluster);
    all_down([1, 2]);
    let report = force_unlock(&client(&cluster), "r").await.unwrap();
    assert_eq!(report.done(), 3, "two of which never had the key");
    thaw_all(&cluster);
    assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    pass(Duration::from_millis(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn votes_of_contenders_at_nodes_that_forgot_do_not_end_a_lease() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    for (node, other) in ["x:1", "y:1", "z:1"].into_iter().enumerate() {
        server(&cluster, node).forget();
        server(&cluster, node).hold("r", other, TTL / 2);
    }
    assert!(matches!(guard.renew().await, Err(Error::NoQuorum(_))));
    pass(TTL * 2).await;
    assert!(guard.is_valid(), "renewed once their votes were over");
}

#[derive(Debug)]
struct Panicking;

impl Monitor for Panicking {}

impl Observer for Panicking {
    fn lease_granted(&self, lease: &Arc<dyn ObservedLease>) {
        panic!("told of {lease:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_renewed_after_its_observer_panics() {
    let cluster = MemoryCluster::new(3);
    let settings = Quorum::builder().settings.check(3).unwrap();
    let nodes = cluster.connect(&settings.parameters, false);
    let dependencies = ClientDependencies::new(cluster.clock(), Handle::current(), Arc::new(Panicking), None);
    let quorum = Quorum::new(Client::start(nodes, settings, dependencies));
    let lock = quorum.red_lock("r").options(LockOptions::new().ttl(TTL));
    assert!(tokio::spawn(async move { lock.try_lock().await }).await.unwrap_err().is_panic());
    pass(TTL * 2).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}
