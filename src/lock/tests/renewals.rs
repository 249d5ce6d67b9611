//! Renewals on request: the answers that they wait for, and their reports.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{client, lease_without_renewal, loss::UNTIL_RENEWALS_COUNT, observed_client, pass, server};
use crate::{
    LockGuard, LockOptions, MemoryCluster,
    mutex::lock,
    node::{Resources, memory::Behaviour, remote::Monitor},
    observer::{ObservedLease, Observer, RenewalOutcome, Renewed},
    values::LeaseId,
};

const TTL: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(10);

#[tokio::test(start_paused = true)]
async fn a_renewal_on_request_does_not_wait_for_a_node_that_it_does_not_need() {
    let cluster = MemoryCluster::new(3);
    let guard = lease_without_renewal(&cluster, TTL).await;
    server(&cluster, 2).behave(Behaviour::Hanging);
    let start = tokio::time::Instant::now();
    guard.renew().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(guard.verify().await, Ok(true));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Nodes 0 and 1 renew the lease. Node 0 proves nothing, because its data were lost.
#[tokio::test(start_paused = true)]
async fn verify_waits_for_an_answer_that_may_complete_the_proof() {
    let cluster = MemoryCluster::new(3);
    let guard = lease_without_renewal(&cluster, TTL).await;
    server(&cluster, 0).forget();
    guard.renew().await.unwrap();
    pass(UNTIL_RENEWALS_COUNT).await;
    server(&cluster, 2).behave(Behaviour::Hanging);
    let (is_proven, ()) = tokio::join!(guard.verify(), async {
        pass(MOMENT).await;
        server(&cluster, 2).thaw();
    });
    assert_eq!(is_proven, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_end_of_a_renewal_on_request_counts() {
    let cluster = MemoryCluster::new(3);
    let guard = lease_without_renewal(&cluster, TTL).await;
    server(&cluster, 2).behave(Behaviour::Hanging);
    guard.renew().await.unwrap();
    server(&cluster, 2).thaw();
    pass(TTL / 2).await;
    let replies = guard.node_replies();
    assert_eq!(replies.done(), 3, "{replies}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_may_have_waiters_unless_the_queue_nodes_report_none() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let may_have_waiters = |guard: &LockGuard| {
        let (lease, context) = (guard.active_lease(), &quorum.client().context);
        // Records the answers that have arrived after the end of a call.
        drop(lease.node_replies(context));
        lease.may_have_waiters(context)
    };
    let single = quorum.red_lock("r").lock().await.unwrap();
    let group = quorum.multi_lock(["a"]).and_read(["s"]).lock().await.unwrap();
    assert!(!may_have_waiters(&single));
    assert!(may_have_waiters(&group), "only renewals show the queues of a group");
    group.renew().await.unwrap();
    assert!(!may_have_waiters(&group));
    for (guard, resource) in [(&single, "r"), (&group, "s")] {
        let lock = client(&cluster).red_lock(resource);
        drop(tokio::spawn(async move { lock.lock().await.map(drop) }));
        pass(MOMENT).await;
        guard.renew().await.unwrap();
        assert!(may_have_waiters(guard), "{resource}");
    }
}

/// An observer that numbers the attempts from [`FIRST_ATTEMPT`](Self::FIRST_ATTEMPT) on.
#[derive(Debug, Default)]
struct Events {
    attempts: Mutex<u64>,
    /// The number of the attempt of each grant.
    granted: Mutex<Vec<u64>>,
    renewed: Mutex<Vec<Renewed>>,
}

impl Events {
    const FIRST_ATTEMPT: u64 = 7;
}

impl Monitor for Events {}

impl Observer for Events {
    fn attempt_began(&self, _resources: &Resources, _lease_id: &LeaseId) -> u64 {
        let mut attempts = lock(&self.attempts);
        *attempts += 1;
        Self::FIRST_ATTEMPT + *attempts - 1
    }

    fn lease_granted(&self, lease: &Arc<dyn ObservedLease>) {
        lock(&self.granted).push(lease.attempt());
    }

    fn renewed(&self, renewed: &Renewed) {
        lock(&self.renewed).push(*renewed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_the_attempt_of_each_grant_and_the_margin_of_each_renewal() {
    let events = Arc::new(Events::default());
    let quorum = observed_client(&MemoryCluster::new(3), Arc::clone(&events) as _);
    let options = LockOptions::new().ttl(TTL).without_renewal();
    let guard = quorum.red_lock("r").options(options).lock().await.unwrap();
    assert_eq!(*lock(&events.granted), [Events::FIRST_ATTEMPT]);
    pass(TTL / 2).await;
    guard.renew().await.unwrap();
    let renewed = std::mem::take(&mut *lock(&events.renewed));
    let [Renewed { outcome: RenewalOutcome::Renewed, took: Duration::ZERO, margin: Some(margin) }] =
        renewed[..]
    else {
        panic!("{renewed:?}")
    };
    // The validity is shorter than the ttl by the drift and the margin of clocks.
    assert!(margin < 0.5 && margin > 0.48, "{margin}");
}
