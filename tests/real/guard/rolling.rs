//! Restarts of servers without persistence under a lease: one after the other, and all at once. The lease has to
//! survive only the restarts one after the other. No restarts may admit a second holder.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use redis::cmd;
use redquorum::{FencingToken, LockOptions, RestartGuard};

use super::*;
use crate::real::behaviours::NODE_METADATA;
use crate::real::servers::leases;

const NODES: usize = 5;
const QUORUM: usize = 3;

/// Twice the ttl, as in the default settings.
const MAX_TTL: Duration = Duration::from_secs(6);

/// Much longer than a server needs to start and to be registered, so the attempt timeout limits the pace of
/// restarts.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// The additional time after the attempt timeout until a restarted server counts for renewals, on an idle
/// machine.
const REGISTRATION_TIME: Duration = Duration::from_millis(300);

/// A missing counter begins at the node's time in whole seconds, times this number. Votes are larger.
const STEPS_PER_SECOND: u64 = 1_000_000;

/// Returns settings with the `max_ttl` and attempt timeout of these tests.
fn builder(cluster: &Cluster, guard: RestartGuard) -> QuorumBuilder {
    let builder = super::builder(cluster.urls()).restart_guard(guard);
    builder.max_ttl(MAX_TTL).attempt_timeout(ATTEMPT_TIMEOUT)
}

/// Makes attempts without a pause, and unlocks each acquired lock. Returns the tokens.
async fn contend(quorum: Quorum, is_over: &AtomicBool, tries: &AtomicU64) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        tries.fetch_add(1, Ordering::Relaxed);
        if let Ok(Some(guard)) = quorum.red_lock("r").try_lock().await {
            tokens.push(guard.fencing_token());
            guard.unlock().await.ok();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokens
}

/// The number of attempts of contenders below which a test shows nothing.
const ENOUGH_TRIES: u64 = 50;

/// The result of a disturbance under a lease.
struct Outcome {
    /// The tokens of all leases that contenders acquired before the end of the disturbance.
    tokens: Vec<FencingToken>,
    /// The number of attempts of contenders.
    tries: u64,
    /// Whether the lease was valid at the end of the disturbance.
    is_valid: bool,
}

/// Disturbs the servers under a lease while two other clients contend for the resource.
async fn disturb_under_lease(
    guard: RestartGuard,
    disturb: impl AsyncFnOnce(&Cluster, &LockGuard),
) -> Outcome {
    let cluster = Cluster::start(NODES).await;
    let builder = builder(&cluster, guard);
    admin::init(&builder).await.unwrap();
    let connect = || builder.clone().connect();
    let (holder, one, other) = (connect().await.unwrap(), connect().await.unwrap(), connect().await.unwrap());
    // If a server voted in the next second, the server would begin its counter above the token.
    let is_early = async || time_of(cluster.server(0)).await.subsec_millis() < 500;
    eventually(SOON, "the first half of a second", is_early).await;
    let held = holder.red_lock("r").lock().await.unwrap();
    let token = held.fencing_token();
    // Otherwise a contender could get a vote of a server that has not received the lease yet.
    eventually(SOON, "each server has the lease", async || {
        held.renew().await.unwrap();
        held.node_replies().done() == NODES
    })
    .await;
    let (is_over, tries) = (AtomicBool::new(false), AtomicU64::new(0));
    let disturbing = async {
        disturb(&cluster, &held).await;
        let is_valid = held.is_valid();
        is_over.store(true, Ordering::Relaxed);
        is_valid
    };
    let contending = async |quorum| contend(quorum, &is_over, &tries).await;
    let (mut tokens, more, is_valid) =
        tokio::join!(contending(one.clone()), contending(other.clone()), disturbing);
    tokens.extend(more);
    if is_valid {
        held.unlock().await.unwrap();
    }
    // After the quarantines, the resource can be locked in any case.
    let next =
        one.red_lock("r").options(LockOptions::new().quorum_timeout(MAX_TTL * 2)).lock().await.unwrap();
    assert!(next.fencing_token() > token);
    Outcome { tokens, tries: tries.into_inner(), is_valid }
}

/// Restarts all servers one after the other, `rounds` times. The next server is restarted as soon as renewals may count
/// on the server before it.
async fn restart_one_by_one(cluster: &Cluster, held: &LockGuard, rounds: usize) {
    // From here on, a new counter begins above the token.
    let is_later = async || time_of(cluster.server(0)).await.as_secs() * STEPS_PER_SECOND > token_of(held);
    eventually(SOON, "the second of the token is over", is_later).await;
    let mut shortest = Duration::MAX;
    for _ in 0..rounds {
        for server in cluster.servers() {
            server.restart_empty().await;
            let back = Instant::now();
            wait_until_renewals_count(server).await;
            assert!(held.is_valid(), "{}", held.node_replies());
            let is_held = async || held_on(cluster, held).await >= QUORUM;
            eventually(TTL, "a quorum of servers has the lock", is_held).await;
            shortest = shortest.min(back.elapsed());
        }
    }
    assert!(
        shortest <= ATTEMPT_TIMEOUT + REGISTRATION_TIME,
        "the attempt timeout does not limit the pace: {shortest:?}"
    );
    let is_held = async || held_on(cluster, held).await == NODES;
    eventually(TTL, "each server has the lock again", is_held).await;
    assert!(held.is_valid(), "{}", held.node_replies());
}

/// Waits until a client has registered the present incarnation of the server, and until renewals may count on the
/// server. The clock of the server decides when renewals may count.
async fn wait_until_renewals_count(server: &Server) {
    let run_id = server.run_id().await;
    let is_registered = async || {
        let incarnation: Option<String> =
            server.query(cmd("HGET").arg(NODE_METADATA).arg("incarnation")).await;
        incarnation.is_some_and(|incarnation| incarnation.starts_with(&run_id))
    };
    eventually(SOON, "a client has registered the server", is_registered).await;
    let renewals_from: u64 = server.query(cmd("GET").arg("redquorum:quarantine")).await;
    let do_renewals_count = async || time_of(server).await > Duration::from_millis(renewals_from);
    eventually(SOON, "renewals may count", do_renewals_count).await;
}

/// Returns the number of servers that have the key of the guard's lease. Asserts that no server has the key of
/// another lease, and that no server has given a vote above the token.
async fn held_on(cluster: &Cluster, held: &LockGuard) -> usize {
    let (lease_id, token) = (held.id().to_string(), token_of(held));
    let mut count = 0;
    for server in cluster.servers() {
        let leases = leases(server, "r").await;
        assert!(leases.iter().all(|(found, _)| *found == lease_id), "{leases:?} in place of {lease_id}");
        count += leases.len();
        let counter: Option<u64> = server.query(cmd("GET").arg("redisson_lock_token:{r}")).await;
        // A renewal that finds no counter begins a new counter at a whole second, which may be above the token. The
        // next vote would be larger, and not a whole second.
        let is_voteless = |counter: u64| counter <= token || counter.is_multiple_of(STEPS_PER_SECOND);
        assert!(counter.is_none_or(is_voteless), "a vote above {token}: {counter:?}");
    }
    count
}

fn token_of(held: &LockGuard) -> u64 {
    held.fencing_token().as_u64()
}

/// Returns the time of a server's clock.
async fn time_of(server: &Server) -> Duration {
    let (seconds, microseconds): (u64, u64) = server.query(&cmd("TIME")).await;
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}

/// Two rounds over all servers. The restarts follow so fast that up to four of five servers are in quarantine at a
/// time.
#[tokio::test]
async fn a_lease_survives_restarts_of_all_servers_in_turn_without_a_second_holder() {
    let Outcome { tokens, tries, is_valid } =
        disturb_under_lease(RestartGuard::PerConnection, async |cluster, held| {
            restart_one_by_one(cluster, held, 2).await
        })
        .await;
    assert_eq!((tokens, is_valid), (vec![], true));
    assert!(tries > ENOUGH_TRIES, "too few tries: {tries}");
}

/// All servers restart together. The lease may be lost, but no other client may lock while the lease is valid.
#[tokio::test]
async fn servers_that_restart_together_admit_no_second_holder() {
    assert_exclusion_broken_under(&[RestartGuard::Off], async |Variant { guard, .. }| {
        let (mut sum, mut leases) = (0, 0);
        // On a machine under load, contenders make few attempts during one lease. Without the guard, chance may spare
        // the lock several times.
        while sum <= ENOUGH_TRIES || (guard == RestartGuard::Off && leases < 10) {
            leases += 1;
            let Outcome { tokens, tries, .. } = disturb_under_lease(guard, async |cluster, held| {
                // Chance decides whether a contender or a renewal reaches the empty servers first.
                for _ in 0..3 {
                    join_all(cluster.servers().iter().map(Server::restart_empty)).await;
                    let restarted = Instant::now();
                    while held.is_valid() && restarted.elapsed() < TTL / 2 {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            })
            .await;
            if !tokens.is_empty() {
                return Some(true);
            }
            sum += tries;
        }
        Some(false)
    })
    .await;
}
