//! Restarting servers that keep nothing, under a lease that is to stay.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use redis::cmd;
use redquorum::{FencingToken, LockOptions, RestartGuard};

use super::*;
use crate::real::behaviours::NODE_METADATA;
use crate::real::servers::owners;

const NODES: usize = 5;
const QUORUM: usize = 3;

/// Twice the ttl, as it is by default.
const MAX_TTL: Duration = Duration::from_secs(6);

/// Long beside what a server needs to be back and registered, so that the pace is that of the
/// attempt timeout.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// What a server that is back may need, beyond the attempt timeout, until it counts for renewals,
/// on a machine at ease.
const LITTLE: Duration = Duration::from_millis(300);

/// A counter that was lost begins at the node's time in whole seconds, times this. Votes are above
/// that.
const STEPS_PER_SECOND: u64 = 1_000_000;

fn builder(cluster: &Cluster, guard: RestartGuard) -> QuorumBuilder {
    let builder = super::builder(cluster.urls()).restart_guard(guard);
    builder.max_ttl(MAX_TTL).attempt_timeout(ATTEMPT_TIMEOUT)
}

/// Tries all the time, and gives a lock back that it gets. The tokens that it was granted.
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

/// The tries of contenders below which a test has shown nothing.
const ENOUGH_TRIES: u64 = 50;

/// The result of a disturbance under a lease.
struct Disturbed {
    /// The tokens that contenders were granted before the disturbance ended.
    tokens: Vec<FencingToken>,
    tries: u64,
    /// Whether the lease was valid at the end of the disturbance.
    is_valid: bool,
}

/// Disturbs the servers under a lease while two other clients contend for the resource.
async fn under_a_lease(guard: RestartGuard, disturb: impl AsyncFnOnce(&Cluster, &LockGuard)) -> Disturbed {
    let cluster = Cluster::start(NODES).await;
    let builder = builder(&cluster, guard);
    admin::init(&builder).await.unwrap();
    let connect = || builder.clone().connect();
    let (holder, one, other) = (connect().await.unwrap(), connect().await.unwrap(), connect().await.unwrap());
    // A server that voted in the next second would count from there, above the token.
    let is_early = async || time_of(cluster.server(0)).await.subsec_millis() < 500;
    eventually(SOON, "the first half of a second", is_early).await;
    let held = holder.red_lock("r").lock().await.unwrap();
    let token = held.fencing_token();
    // Nobody else is to have a vote of a server that had yet to hear of the lease.
    eventually(SOON, "every server has voted for it, or heard of it", async || {
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
    // Whatever was forgotten, it goes on after the quarantines.
    let next =
        one.red_lock("r").options(LockOptions::new().quorum_timeout(MAX_TTL * 2)).lock().await.unwrap();
    assert!(next.fencing_token() > token);
    Disturbed { tokens, tries: tries.into_inner(), is_valid }
}

/// Restarts all servers, one after the other, so many times: each as soon as the one before may
/// count for renewals.
async fn roll(cluster: &Cluster, held: &LockGuard, rounds: usize) {
    // From here on, a counter that begins anew begins above the token.
    let is_later = async || time_of(cluster.server(0)).await.as_secs() * STEPS_PER_SECOND > token_of(held);
    eventually(SOON, "the second of the token is over", is_later).await;
    let mut shortest = Duration::MAX;
    for _ in 0..rounds {
        for server in cluster.servers() {
            server.restart_empty().await;
            let back = Instant::now();
            may_count(server).await;
            assert!(held.is_valid(), "{}", held.node_replies());
            let is_held = async || held_on(cluster, held).await >= QUORUM;
            eventually(TTL, "a quorum of servers has the lock", is_held).await;
            shortest = shortest.min(back.elapsed());
        }
    }
    assert!(shortest <= ATTEMPT_TIMEOUT + LITTLE, "the pace is that of something else: {shortest:?}");
    let is_held = async || held_on(cluster, held).await == NODES;
    eventually(TTL, "every server has the lock again", is_held).await;
    assert!(held.is_valid(), "{}", held.node_replies());
}

/// Waits until a client has registered the server in its present incarnation, and renewals may
/// count there by the server's own clock.
async fn may_count(server: &Server) {
    let run_id = server.run_id().await;
    let is_registered = async || {
        let incarnation: Option<String> =
            server.query(cmd("HGET").arg(NODE_METADATA).arg("incarnation")).await;
        incarnation.is_some_and(|incarnation| incarnation.starts_with(&run_id))
    };
    eventually(SOON, "a client has registered it", is_registered).await;
    let renewals_from: u64 = server.query(cmd("GET").arg("redquorum:quarantine")).await;
    let may_count = async || time_of(server).await > Duration::from_millis(renewals_from);
    eventually(SOON, "renewals may count", may_count).await;
}

/// On how many servers the lock is the guard's. None has it for anybody else, nor has given a vote
/// above its token.
async fn held_on(cluster: &Cluster, held: &LockGuard) -> usize {
    let (owner, token) = (held.id().to_string(), token_of(held));
    let mut count = 0;
    for server in cluster.servers() {
        let owners = owners(server, "r").await;
        assert!(owners.iter().all(|(found, _)| *found == owner), "{owners:?} in place of {owner}");
        count += owners.len();
        let counter: Option<u64> = server.query(cmd("GET").arg("redisson_lock_token:{r}")).await;
        // A renewal that found no counter began a new one, above the token; a vote would have
        // counted on from there.
        let is_voteless = |counter: u64| counter <= token || counter.is_multiple_of(STEPS_PER_SECOND);
        assert!(counter.is_none_or(is_voteless), "a vote above {token}: {counter:?}");
    }
    count
}

fn token_of(held: &LockGuard) -> u64 {
    held.fencing_token().as_u64()
}

/// A server's time of day.
async fn time_of(server: &Server) -> Duration {
    let (seconds, microseconds): (u64, u64) = server.query(&cmd("TIME")).await;
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}

/// Twice round all of them, at a pace at which four are in quarantine at any time.
#[tokio::test]
async fn a_lease_survives_the_restart_of_every_server_one_after_the_other_and_nobody_gets_in() {
    let Disturbed { tokens, tries, is_valid } =
        under_a_lease(RestartGuard::PerConnection, async |cluster, held| roll(cluster, held, 2).await).await;
    assert_eq!((tokens, is_valid), (vec![], true));
    assert!(tries > ENOUGH_TRIES, "too few tries: {tries}");
}

/// All at once: the lease may be lost, but nobody has it beside its holder.
#[tokio::test]
async fn servers_that_restart_all_at_once_let_nobody_in_while_the_lease_may_be_valid() {
    broken_under(&[RestartGuard::Off], async |Play { guard, .. }| {
        let mut sum = 0;
        // A busy machine makes few tries in the time of one lease.
        while sum <= ENOUGH_TRIES {
            let Disturbed { tokens, tries, .. } = under_a_lease(guard, async |cluster, held| {
                // Whether a contender or the renewal reaches the empty servers first is a matter of luck.
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
