//! Restarting servers that keep nothing, under a lease that is to stay.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use redquorum::{FencingToken, RestartGuard};

use super::*;

/// The defaults, ten times as fast: 30 s, 60 s and 2 s.
const MAX_TTL: Duration = Duration::from_secs(6);
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(200);

/// A renewal has to come in between: they come at a third of the ttl, and count after an attempt timeout.
const SPACING: Duration = Duration::from_millis(1_000 + 200 + 300);

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

/// Does something to the servers under a lease while two others contend for it: what they were granted before it was over,
/// and whether it is still valid.
async fn under_a_lease(
    guard: RestartGuard,
    disturb: impl AsyncFnOnce(&Cluster, &LockGuard),
) -> (Vec<FencingToken>, bool) {
    let cluster = Cluster::start(5).await;
    let builder = builder(&cluster, guard);
    builder.clone().init().await.unwrap();
    let connect = || builder.clone().connect();
    let (holder, one, other) = (connect().await.unwrap(), connect().await.unwrap(), connect().await.unwrap());
    let held = holder.red_lock("r").lock().await.unwrap();
    let (token, owner) = (held.fencing_token(), held.owner().clone());
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
    assert!(tries.load(Ordering::Relaxed) > 50, "hardly anybody tried");
    if is_valid {
        assert_eq!((held.fencing_token(), held.owner()), (token, &owner));
        held.unlock().await.unwrap();
    }
    // Whatever was forgotten, it goes on after the quarantines.
    let next = one.red_lock("r").patience(MAX_TTL * 2).lock().await.unwrap();
    assert!(next.fencing_token() > token);
    (tokens, is_valid)
}

/// Restarts all servers, one after the other, so many times.
async fn roll(cluster: &Cluster, held: &LockGuard, rounds: usize) {
    for _ in 0..rounds {
        for server in cluster.servers() {
            server.restart_empty().await;
            // By the clock alone, as an operator does it: nobody looks whether the server counts again.
            tokio::time::sleep(SPACING).await;
            assert!(held.is_valid(), "{}", held.votes());
        }
    }
}

/// Twice round all of them, at a pace at which four are in quarantine at any time.
#[tokio::test]
async fn a_lease_survives_the_restart_of_every_server_one_after_the_other_and_nobody_gets_in() {
    let outcome =
        under_a_lease(RestartGuard::PerConnection, async |cluster, held| roll(cluster, held, 2).await).await;
    assert_eq!(outcome, (vec![], true));
}

/// All at once: the lease may be lost, but nobody has it beside its holder.
#[tokio::test]
async fn servers_that_restart_all_at_once_let_nobody_in_while_the_lease_may_be_valid() {
    broken_under(&[RestartGuard::Off], async |guard| {
        let (tokens, _) = under_a_lease(guard, async |cluster, held| {
            join_all(cluster.servers().iter().map(Server::restart_empty)).await;
            let restarted = Instant::now();
            while held.is_valid() && restarted.elapsed() < TTL * 3 / 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        !tokens.is_empty()
    })
    .await;
}
