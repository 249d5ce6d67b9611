//! Tickets on real servers: servers that are dead, frozen or restarted without data, redeemers that are killed or
//! redeem at the same time, and a release during a redemption.
//!
//! Promises: each call ends within [`SOON`], at most one redemption succeeds, no two clients hold the resource, tokens
//! grow from the giver over the ticket to the redeemer, and no key outlives the ttl of the client that left the key.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redquorum::{
    Error, LockGuard, LockOptions, Quorum, QuorumBuilder, RestartGuard, Ticket, admin, error::NodeReplies,
};
use redquorum_tests::{Cluster, Direction, Proxy, Server, eventually};
use tokio::time::timeout;

use self::redeemer::Redeemer;
use super::servers::{SOON, client, holds, is_possible, leases, wait_for_holds};

mod redeemer;

const R: &str = "order:7";

/// The ttl of most tickets, the largest by default. A key that disappears within [`SOON`] was unlocked, and did not
/// expire.
const TICKET_TTL: Duration = Duration::from_secs(60);

/// The ttl of a lease that ends because its process is killed.
const SHORT_TTL: Duration = Duration::from_secs(3);

/// Returns the output of a call that has to end within [`SOON`].
#[track_caller]
fn bounded<T>(call: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let ended = timeout(SOON, call).await;
        ended.unwrap_or_else(|_| panic!("{caller}: the call has not ended after {SOON:?}"))
    }
}

async fn lock(quorum: &Quorum) -> LockGuard {
    bounded(quorum.red_lock(R).lock()).await.unwrap()
}

/// Turns a lease into a ticket, and asserts that the token of the ticket is larger.
async fn issue(guard: LockGuard) -> Ticket {
    let given = guard.fencing_token();
    let ticket = bounded(guard.into_ticket(TICKET_TTL)).await.unwrap();
    assert!(ticket.fencing_token() > given, "{ticket:?} after {given}");
    ticket
}

/// Redeems a ticket, and asserts that the token of the lease is larger.
async fn redeem(quorum: &Quorum, ticket: &Ticket) -> Option<LockGuard> {
    let guard = bounded(quorum.redeem(ticket, LockOptions::new())).await.unwrap()?;
    assert!(guard.fencing_token() > ticket.fencing_token(), "{} after {ticket:?}", guard.fencing_token());
    Some(guard)
}

async fn is_free(quorum: &Quorum) -> bool {
    bounded(quorum.red_lock(R).try_lock()).await.unwrap().is_some()
}

/// Returns the lease id of the resource's key on a server; `None` without a key.
async fn lease_on(server: &Server) -> Option<String> {
    leases(server, R).await.into_iter().next().map(|(lease_id, _)| lease_id)
}

/// Whether a server has the key of a lease other than the ticket.
async fn is_redeemed_on(server: &Server, ticket: &Ticket) -> bool {
    lease_on(server).await.is_some_and(|lease_id| lease_id != ticket.id().to_string())
}

/// A fault of one server.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Dead,
    Frozen,
}

impl Fault {
    async fn begin(self, server: &Server) {
        match self {
            Self::Dead => server.kill().await,
            Self::Frozen => server.freeze().await,
        }
    }
}

/// The call before which the fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    IntoTicket,
    Redeem,
}

/// Passes a lock on by a ticket, while one of three nodes has a fault.
async fn pass_on_despite(fault: Fault, before: Before, node: usize) {
    let cluster = Cluster::start(3).await;
    let [giver, worker] = [client(&cluster).await, client(&cluster).await];
    let guard = lock(&giver).await;
    if before == Before::IntoTicket {
        fault.begin(cluster.server(node)).await;
    }
    let ticket = issue(guard).await;
    assert!(!is_free(&giver).await, "another client holds the resource of the ticket");
    if before == Before::Redeem {
        fault.begin(cluster.server(node)).await;
    }
    let guard = redeem(&worker, &ticket).await.expect("the ticket is good");
    assert!(redeem(&giver, &ticket).await.is_none(), "two redemptions of one ticket succeeded");
    assert!(!is_free(&giver).await && bounded(guard.verify()).await.unwrap());
    guard.unlock().await.unwrap();
    for (number, server) in cluster.servers().iter().enumerate() {
        if number != node {
            eventually(SOON, "the living node is unlocked", async || lease_on(server).await.is_none()).await;
        }
    }
    assert!(is_free(&giver).await);
}

/// In one of the three cases, the node with the fault is the queue node, which a redeemer asks first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_passes_a_lock_on_while_any_node_is_dead() {
    for before in [Before::IntoTicket, Before::Redeem] {
        join_all((0..3).map(|node| pass_on_despite(Fault::Dead, before, node))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_passes_a_lock_on_while_any_node_is_frozen() {
    for before in [Before::IntoTicket, Before::Redeem] {
        join_all((0..3).map(|node| pass_on_despite(Fault::Frozen, before, node))).await;
    }
}

/// The frozen nodes execute their requests after the thaw, in order: the transfer and its rollback.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_both_calls_fail_and_leave_no_key() {
    let cluster = Cluster::start(3).await;
    let [giver, worker] = [client(&cluster).await, client(&cluster).await];
    let ticket = issue(lock(&giver).await).await;
    join_all(cluster.some(1..3).iter().map(Server::freeze)).await;
    let refused = bounded(worker.redeem(&ticket, LockOptions::new())).await;
    assert!(matches!(refused, Err(Error::NoQuorum(_))), "{refused:?}");
    join_all(cluster.some(1..3).iter().map(Server::thaw)).await;
    // The ticket is spent on the nodes that have transferred.
    drop(bounded(redeem_again(&worker, &ticket)).await);
    bounded(giver.release(&ticket)).await.unwrap();
    wait_for_holds(cluster.servers(), R, 0).await;

    let guard = bounded(lock_again(&giver)).await;
    join_all(cluster.some(1..3).iter().map(Server::freeze)).await;
    let refused = bounded(guard.into_ticket(TICKET_TTL)).await;
    assert!(matches!(refused, Err(Error::NoQuorum(_))), "{refused:?}");
    join_all(cluster.some(1..3).iter().map(Server::thaw)).await;
    wait_for_holds(cluster.servers(), R, 0).await;
}

/// Redeems a ticket, again while too few nodes answer.
async fn redeem_again(quorum: &Quorum, ticket: &Ticket) -> Option<LockGuard> {
    loop {
        match quorum.redeem(ticket, LockOptions::new()).await {
            Ok(redeemed) => return redeemed,
            Err(Error::NoQuorum(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns the settings of a client of these nodes. New nodes are not admitted.
fn guarded(urls: Vec<String>, max_ttl: Duration, guard: RestartGuard) -> QuorumBuilder {
    Quorum::builder().nodes(urls).ttl(max_ttl / 2).max_ttl(max_ttl).restart_guard(guard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_is_redeemed_although_any_node_restarted_without_data() {
    join_all((0..3).map(async |node| {
        let cluster = Cluster::start(3).await;
        let builder = guarded(cluster.urls(), TICKET_TTL, RestartGuard::default());
        admin::init(&builder).await.unwrap();
        let [giver, worker] = [builder.clone().connect().await, builder.connect().await].map(Result::unwrap);
        let ticket = issue(lock(&giver).await).await;
        cluster.server(node).restart_empty().await;
        // The connections to the restarted server may be down at first.
        let guard = bounded(redeem_again(&worker, &ticket)).await.expect("the ticket is good");
        assert!(guard.fencing_token() > ticket.fencing_token());
        assert!(redeem(&giver, &ticket).await.is_none());
        guard.unlock().await.unwrap();
        wait_for_holds(cluster.servers(), R, 0).await;
    }))
    .await;
}

/// The ticket is on nodes 0 and 1, and node 1 restarts without its data. With a restart guard, no client locks before
/// the end of the ticket. Without a restart guard, another client locks while node 0 still has the ticket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_forgot_a_ticket_admits_no_client_before_the_end_of_the_ticket() {
    for guard in [RestartGuard::default(), RestartGuard::Off].into_iter().filter(|guard| is_possible(*guard))
    {
        let is_guarded = guard != RestartGuard::Off;
        let ttl = if is_guarded { SHORT_TTL } else { 2 * SOON };
        let cluster = Cluster::start(3).await;
        let builder = guarded(cluster.urls(), ttl, guard);
        admin::init(&builder).await.unwrap();
        let proxy = Proxy::before(cluster.server(2)).await;
        let [zero, one] = [0, 1].map(|node| cluster.server(node).url());
        let through = guarded(vec![zero, one, proxy.url().to_owned()], ttl, guard);
        let [giver, other] = [through.connect().await, builder.connect().await].map(Result::unwrap);
        proxy.cut(Direction::Requests);
        let guard = lock(&giver).await;
        let start = Instant::now();
        let ticket = bounded(guard.into_ticket(ttl)).await.unwrap();
        assert!(lease_on(cluster.server(2)).await.is_none(), "the ticket is on node 2, too");
        cluster.server(1).restart_empty().await;
        let next =
            timeout(ttl + SOON, lock_again(&other)).await.expect("the resource is free after the ticket");
        // Without the guard, tokens that begin anew within the same second are not ordered either.
        assert!(!is_guarded || next.fencing_token() > ticket.fencing_token());
        assert_eq!(start.elapsed() >= ttl, is_guarded, "locked {:?} after the ticket", start.elapsed());
        assert!(redeem(&other, &ticket).await.is_none(), "a ticket was redeemed after another lease");
    }
}

/// Locks, again while too few nodes answer.
async fn lock_again(quorum: &Quorum) -> LockGuard {
    loop {
        match quorum.red_lock(R).try_lock().await {
            Ok(Some(guard)) => return guard,
            Ok(None) | Err(Error::NoQuorum(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Connects through a proxy before each server.
async fn proxies(cluster: &Cluster) -> (Vec<Proxy>, Vec<String>) {
    let proxies = join_all(cluster.servers().iter().map(Proxy::before)).await;
    let urls = proxies.iter().map(|proxy| proxy.url().to_owned()).collect();
    (proxies, urls)
}

/// The redeemer dies when one node has transferred the resource, and before the node's answer arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redeemer_killed_after_its_first_node_leaves_the_ticket_to_the_next() {
    if redeemer::is_child() {
        return redeemer::run().await;
    }
    let test = "a_redeemer_killed_after_its_first_node_leaves_the_ticket_to_the_next";
    for first in 0..3 {
        let cluster = Cluster::start(3).await;
        let [giver, worker] = [client(&cluster).await, client(&cluster).await];
        let (proxies, urls) = proxies(&cluster).await;
        let mut killed = Redeemer::start(test, &urls, SHORT_TTL).await;
        let ticket = issue(lock(&giver).await).await;
        for (node, proxy) in proxies.iter().enumerate() {
            proxy.hold(if node == first { Direction::Replies } else { Direction::Requests });
        }
        killed.redeem(&ticket).await;
        let server = cluster.server(first);
        eventually(SOON, "the first node has transferred", async || is_redeemed_on(server, &ticket).await)
            .await;
        killed.kill().await;
        proxies.iter().for_each(|proxy| proxy.cut(Direction::Requests));
        let guard = redeem(&worker, &ticket).await.expect("two of three nodes have the ticket");
        assert!(!is_free(&giver).await && bounded(guard.verify()).await.unwrap());
        guard.unlock().await.unwrap();
        // The key of the killed process ends with its ttl.
        wait_for_holds(cluster.servers(), R, 0).await;
    }
}

/// The redeemer dies when all nodes have transferred the resource, and before an answer arrives. The ttl allows a node
/// timeout of 4 s. With a shorter node timeout, a redeemer on a machine under load may roll back before the kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redeemer_killed_after_all_nodes_holds_the_resource_for_its_ttl() {
    if redeemer::is_child() {
        return redeemer::run().await;
    }
    let test = "a_redeemer_killed_after_all_nodes_holds_the_resource_for_its_ttl";
    let ttl = Duration::from_secs(12);
    let cluster = Cluster::start(3).await;
    let [giver, worker] = [client(&cluster).await, client(&cluster).await];
    let (proxies, urls) = proxies(&cluster).await;
    let mut killed = Redeemer::start(test, &urls, ttl).await;
    let ticket = issue(lock(&giver).await).await;
    proxies.iter().for_each(|proxy| proxy.hold(Direction::Replies));
    killed.redeem(&ticket).await;
    for server in cluster.servers() {
        eventually(SOON, "the node has transferred", async || is_redeemed_on(server, &ticket).await).await;
    }
    killed.kill().await;
    assert!(redeem(&worker, &ticket).await.is_none(), "two redemptions of one ticket succeeded");
    // The wait is shorter than the ttl of the ticket.
    let guard = timeout(ttl + SOON, worker.red_lock(R).lock()).await.expect("the resource becomes free");
    assert!(guard.unwrap().fencing_token() > ticket.fencing_token());
}

/// Each redeemer asks the queue node first, and the loser waits a hedge before it asks the other nodes. The long node
/// timeout makes the hedge long, so the winner has finished by then, also on a machine under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_that_redeem_at_once_exactly_one_wins() {
    const ROUNDS: usize = 20;
    if redeemer::is_child() {
        return redeemer::run().await;
    }
    let test = "of_two_processes_that_redeem_at_once_exactly_one_wins";
    let cluster = Cluster::start(5).await;
    let giver = client(&cluster).await;
    let urls = cluster.urls();
    let ttl = Duration::from_secs(30);
    let mut redeemers = [Redeemer::start(test, &urls, ttl).await, Redeemer::start(test, &urls, ttl).await];
    let (mut wins, mut last) = ([0; 2], 0);
    for _ in 0..ROUNDS {
        let guard = lock(&giver).await;
        assert!(guard.fencing_token().as_u64() > last);
        let ticket = issue(guard).await;
        let [one, two] = &mut redeemers;
        tokio::join!(one.redeem(&ticket), two.redeem(&ticket));
        let (one, two) = tokio::join!(bounded(one.outcome()), bounded(two.outcome()));
        let (winner, token) = match (one, two) {
            (Some(token), None) => (0, token),
            (None, Some(token)) => (1, token),
            outcomes => panic!("not exactly one process has won: {outcomes:?}"),
        };
        assert!(token > ticket.fencing_token().as_u64());
        assert!(!is_free(&giver).await);
        assert!(holds(cluster.servers(), R).await.iter().filter(|holds| **holds == 1).count() >= 3);
        (wins[winner], last) = (wins[winner] + 1, token);
        redeemers[winner].unlock().await;
        wait_for_holds(cluster.servers(), R, 0).await;
    }
    eprintln!("wins of the two processes: {wins:?}");
}

/// In half of the rounds, the release begins later than the redemption, by up to four times the time that a redemption
/// takes, and in the other half earlier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_during_a_redemption_leaves_a_lease_or_a_free_resource() {
    const ROUNDS: u32 = 60;
    let cluster = Cluster::start(3).await;
    let [giver, worker] = [client(&cluster).await, client(&cluster).await];
    let ticket = issue(lock(&giver).await).await;
    let start = Instant::now();
    let guard = redeem(&worker, &ticket).await.expect("the ticket is good");
    let longest = 4 * start.elapsed();
    guard.unlock().await.unwrap();
    let mut redeemed_rounds = 0;
    for round in 0..ROUNDS {
        let ticket = issue(lock(&giver).await).await;
        let later = longest * (round / 2) / (ROUNDS / 2);
        let delays = if round % 2 == 0 { [Duration::ZERO, later] } else { [later, Duration::ZERO] };
        let redeeming = async {
            tokio::time::sleep(delays[0]).await;
            worker.redeem(&ticket, LockOptions::new()).await
        };
        let releasing = async {
            tokio::time::sleep(delays[1]).await;
            giver.release(&ticket).await
        };
        let (redeemed, released) = bounded(async { tokio::join!(redeeming, releasing) }).await;
        assert!(released.is_ok_and(|replies: NodeReplies| replies.has_quorum()));
        match redeemed {
            Ok(Some(guard)) => {
                assert!(!is_free(&giver).await && bounded(guard.verify()).await.unwrap());
                redeemed_rounds += 1;
                guard.unlock().await.unwrap();
            }
            Ok(None) | Err(Error::NoQuorum(_)) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(redeem(&worker, &ticket).await.is_none(), "round {round}: the ticket was redeemed later");
        wait_for_holds(cluster.servers(), R, 0).await;
    }
    eprintln!("{redeemed_rounds} of {ROUNDS} tickets were redeemed");
}
