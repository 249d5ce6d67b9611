//! Tickets: leases that another client continues.

use std::time::Duration;

use futures::{FutureExt, future::join};

use super::{NONE, all_behave, client, locked_nodes, pass, server, thaw_all, traces::Traces};
use crate::{
    LockGuard, LockOptions, MemoryCluster, Owner, Quorum, Ticket,
    error::{ConfigError, Error, LossReason, NodeError},
    node::{Operation, memory::Behaviour},
};

const TICKET_TTL: Duration = Duration::from_secs(20);

async fn lock(quorum: &Quorum) -> LockGuard {
    quorum.red_lock("r").lock().await.unwrap()
}

async fn redeem(quorum: &Quorum, ticket: &Ticket) -> Option<LockGuard> {
    quorum.redeem(ticket, LockOptions::new()).await.unwrap()
}

async fn is_free(quorum: &Quorum) -> bool {
    quorum.red_lock("r").try_lock().await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_ticket_passes_the_lock_to_another_client_with_growing_tokens() {
    let cluster = MemoryCluster::new(3);
    let [giver, worker, other] = [client(&cluster), client(&cluster), client(&cluster)];
    let guard = lock(&giver).await;
    let (lease, given) = (guard.lease(), guard.fencing_token());
    let text = guard.into_ticket(TICKET_TTL).await.unwrap().to_string();
    assert!(!lease.is_valid());
    assert!(!is_free(&other).await && !is_free(&giver).await);
    let ticket: Ticket = text.parse().unwrap();
    let guard = redeem(&worker, &ticket).await.expect("the ticket is good");
    assert!(given < ticket.fencing_token() && ticket.fencing_token() < guard.fencing_token());
    // The lease of the worker is an ordinary lease, which is renewed.
    pass(TICKET_TTL * 5).await;
    assert!(guard.is_valid() && !is_free(&other).await);
    guard.unlock().await.unwrap();
    assert!(is_free(&other).await);
    pass(Duration::from_secs(1)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_redeemed_once_even_after_its_lease_is_unlocked() {
    let cluster = MemoryCluster::new(3);
    let [giver, one, two] = [client(&cluster), client(&cluster), client(&cluster)];
    let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
    let guard = redeem(&one, &ticket).await.unwrap();
    assert!(redeem(&two, &ticket).await.is_none());
    guard.unlock().await.unwrap();
    assert!(redeem(&two, &ticket).await.is_none());
    assert!(redeem(&one, &ticket).await.is_none());
    assert!(is_free(&two).await);
}

#[tokio::test(start_paused = true)]
async fn of_two_clients_that_redeem_at_once_one_wins() {
    for nodes in [1, 3, 5] {
        let cluster = MemoryCluster::new(nodes);
        let [giver, one, two] = [client(&cluster), client(&cluster), client(&cluster)];
        let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
        let (one, two) = join(redeem(&one, &ticket), redeem(&two, &ticket)).await;
        assert_eq!([one.is_some(), two.is_some()].iter().filter(|won| **won).count(), 1, "{nodes} nodes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_missed_the_queue_node_is_redeemed_on_the_other_nodes() {
    for node in 0..3 {
        let cluster = MemoryCluster::new(3);
        let [giver, worker] = [client(&cluster), client(&cluster)];
        let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
        server(&cluster, node).forget();
        let guard = redeem(&worker, &ticket).await;
        assert!(guard.is_some(), "without the data of node {node}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_ticket_ends_with_its_ttl_and_is_spent_after_the_next_lease() {
    let cluster = MemoryCluster::new(3);
    let [giver, worker] = [client(&cluster), client(&cluster)];
    let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
    pass(TICKET_TTL - Duration::from_secs(1)).await;
    assert!(!is_free(&worker).await);
    pass(Duration::from_secs(2)).await;
    assert!(redeem(&worker, &ticket).await.is_none());
    assert!(is_free(&worker).await);
    assert!(redeem(&worker, &ticket).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_released_ticket_is_spent_and_its_resources_are_free_at_once() {
    let cluster = MemoryCluster::new(3);
    let [giver, worker] = [client(&cluster), client(&cluster)];
    let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
    assert!(worker.release(&ticket).await.unwrap().has_quorum());
    assert!(is_free(&giver).await);
    assert!(redeem(&worker, &ticket).await.is_none());
    // The release of a redeemed ticket does not unlock the lease.
    let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
    let guard = redeem(&worker, &ticket).await.unwrap();
    giver.release(&ticket).await.unwrap();
    assert!(guard.verify().await.unwrap() && !is_free(&giver).await);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_ends_a_ticket() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let ticket = lock(&quorum).await.into_ticket(TICKET_TTL).await.unwrap();
    let inspection = quorum.inspect("r").await.unwrap();
    assert_eq!(inspection.holder(), Some(&ticket.id()));
    crate::admin::force_unlock(&quorum, "r").await.unwrap();
    assert!(is_free(&quorum).await);
    assert!(redeem(&quorum, &ticket).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_redemption_without_a_quorum_is_an_error_and_the_ticket_stays_good() {
    let cluster = MemoryCluster::new(3);
    let [giver, worker] = [client(&cluster), client(&cluster)];
    let ticket = lock(&giver).await.into_ticket(Duration::from_secs(60)).await.unwrap();
    all_behave(&cluster, &Behaviour::Failing(NodeError::TimedOut));
    let refused = worker.redeem(&ticket, LockOptions::new()).await;
    assert!(matches!(refused, Err(Error::NoQuorum(_))), "{refused:?}");
    all_behave(&cluster, &Behaviour::Granting);
    assert!(redeem(&worker, &ticket).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_ticket_without_a_quorum_leaves_nothing() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let guard = lock(&quorum).await;
    all_behave(&cluster, &Behaviour::Hanging);
    assert!(matches!(guard.into_ticket(TICKET_TTL).await, Err(Error::NoQuorum(_))));
    thaw_all(&cluster);
    pass(Duration::from_secs(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_no_key() {
    let cluster = MemoryCluster::new(3);
    let [giver, worker] = [client(&cluster), client(&cluster)];
    let guard = lock(&giver).await;
    all_behave(&cluster, &Behaviour::Hanging);
    let mut issuing = Box::pin(guard.into_ticket(TICKET_TTL));
    assert!((&mut issuing).now_or_never().is_none());
    drop(issuing);
    thaw_all(&cluster);
    pass(Duration::from_secs(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
    let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    let mut redeeming = Box::pin(redeem(&worker, &ticket));
    assert!((&mut redeeming).now_or_never().is_none());
    drop(redeeming);
    thaw_all(&cluster);
    pass(Duration::from_secs(2)).await;
    // The redemption had asked one node, which has given the ticket up. The other nodes keep the ticket.
    assert_eq!(locked_nodes(&cluster).len(), 2);
    assert!(redeem(&worker, &ticket).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_group_and_the_last_hold_of_an_owner_become_tickets() {
    let cluster = MemoryCluster::new(3);
    let [giver, worker] = [client(&cluster), client(&cluster)];
    let guard = giver.multi_lock(["r", "s"]).lock().await.unwrap();
    let ticket = guard.into_ticket(TICKET_TTL).await.unwrap();
    assert_eq!(ticket.resources().len(), 2);
    let guard = redeem(&worker, &ticket).await.unwrap();
    assert!(!is_free(&giver).await && giver.red_lock("s").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    let lock = giver.red_lock("r").owned_by(&Owner::new());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    let refused = inner.into_ticket(TICKET_TTL).await;
    assert!(matches!(refused, Err(Error::Config(ConfigError::HeldMoreThanOnce { .. }))), "{refused:?}");
    let ticket = outer.into_ticket(TICKET_TTL).await.unwrap();
    assert!(redeem(&worker, &ticket).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn leases_that_cannot_become_tickets_are_refused_and_unlocked() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let reading = quorum.multi_lock(["r"]).and_read(["s"]).lock().await.unwrap();
    let refused = reading.into_ticket(TICKET_TTL).await;
    assert!(matches!(refused, Err(Error::Config(ConfigError::Unsupported { .. }))), "{refused:?}");
    let refused = lock(&quorum).await.into_ticket(Duration::from_secs(61)).await;
    assert!(
        matches!(refused, Err(Error::Config(ConfigError::OutOfRange { setting: "ttl", .. }))),
        "{refused:?}"
    );
    let guard = lock(&quorum).await;
    crate::admin::force_unlock(&quorum, "r").await.unwrap();
    let Err(Error::LeaseLost(lost)) = guard.into_ticket(TICKET_TTL).await else { panic!("not lost") };
    assert_eq!(lost.reason, LossReason::Revoked);
    pass(Duration::from_secs(1)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn no_node_receives_and_no_log_shows_the_secret_of_a_ticket() {
    let traces = Traces::begin();
    let cluster = MemoryCluster::new(1);
    let quorum = client(&cluster);
    let ticket = lock(&quorum).await.into_ticket(TICKET_TTL).await.unwrap();
    drop(redeem(&quorum, &ticket).await.unwrap());
    quorum.release(&ticket).await.unwrap();
    let text = ticket.to_string();
    let secret = text.split('.').nth(1).unwrap();
    let log = server(&cluster, 0).take_log();
    assert!(log.iter().any(|operation| matches!(operation, Operation::Transfer(_))));
    for message in ["ticket issued", "redeemed", "ticket released"] {
        assert_eq!(traces.only(message).field("ticket"), ticket.id().to_string());
    }
    let shown = format!("{log:?} {:?} {ticket:?} {quorum:?}", traces.events()).replace('-', "");
    assert!(!shown.contains(secret), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_redemption_takes_two_round_trips_and_no_write_back() {
    let cluster = MemoryCluster::new(3);
    let [giver, worker] = [client(&cluster), client(&cluster)];
    let ticket = lock(&giver).await.into_ticket(TICKET_TTL).await.unwrap();
    cluster.servers().iter().for_each(|server| drop(server.take_log()));
    let _guard = redeem(&worker, &ticket).await.unwrap();
    let logs: Vec<_> = cluster.servers().iter().flat_map(|server| server.take_log()).collect();
    assert!(!logs.iter().any(|operation| matches!(operation, Operation::WriteBack(_))), "{logs:?}");
    let transfers = logs.iter().filter(|operation| matches!(operation, Operation::Transfer(_)));
    assert_eq!(transfers.count(), 3);
}
