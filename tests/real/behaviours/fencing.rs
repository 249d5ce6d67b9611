//! Fencing tokens on real servers: tokens grow from lease to lease, a store refuses smaller tokens, and
//! `verify` proves only the latest lease.

use std::{sync::Mutex, time::Duration};

use redquorum::{FencingToken, LockOptions};
use redquorum_tests::{Cluster, ServerOptions};

use super::{WITH_TTL, client, client_without_guard, wait_for_all_grants, wait_until_unlocked};

/// A store that a lock protects. The store refuses each token that is smaller than the largest token it has accepted.
#[derive(Debug, Default)]
struct Ledger {
    largest: Mutex<Option<FencingToken>>,
}

impl Ledger {
    fn write(&self, token: FencingToken) -> bool {
        let mut largest = self.largest.lock().unwrap();
        let is_accepted = largest.is_none_or(|largest| largest <= token);
        if is_accepted {
            *largest = Some(token);
        }
        is_accepted
    }
}

/// Tokens grow for all holders while servers crash and return one at a time. The servers keep each vote on
/// disk, so no restart guard is needed.
#[tokio::test]
async fn tokens_increase_from_lease_to_lease_while_servers_come_and_go() {
    let cluster = Cluster::start_with(3, ServerOptions::persistent()).await;
    let clients = [
        client_without_guard(&cluster).await,
        client_without_guard(&cluster).await,
        client_without_guard(&cluster).await,
    ];
    let mut last = None;
    for round in 0..60 {
        match round {
            10 => cluster.server(0).kill().await,
            20 => cluster.server(0).restart_keeping_data().await,
            30 => cluster.server(1).restart_keeping_data().await,
            40 => cluster.server(2).freeze().await,
            50 => cluster.server(2).thaw().await,
            _ => {}
        }
        let guard = clients[round % 3].red_lock("r").lock().await.unwrap();
        let token = Some(guard.fencing_token());
        assert!(token > last, "{token:?} after {last:?} in round {round}");
        last = token;
        // The next lock does not wait for this unlock to arrive.
        drop(guard);
    }
}

/// A write of a holder that was paused past the end of its lease is refused by a store that checks tokens.
#[tokio::test]
async fn a_store_refuses_a_holder_that_was_paused_past_its_lease() {
    let cluster = Cluster::start(3).await;
    let (paused, next) = (client(&cluster).await, client(&cluster).await);
    let ledger = Ledger::default();
    let ttl = Duration::from_millis(300);
    let old =
        paused.red_lock("r").options(LockOptions::new().ttl(ttl).without_renewal()).lock().await.unwrap();
    assert!(old.is_valid() && ledger.write(old.fencing_token()));
    // The holder checks its lease, is paused here, and then acts on the outdated check.
    let new = next.red_lock("r").lock().await.unwrap();
    assert!(ledger.write(new.fencing_token()));
    assert!(!ledger.write(old.fencing_token()), "a write with a stale token was accepted");
    assert!(ledger.write(new.fencing_token()));
    assert!(!old.is_valid() && new.is_valid());
}

/// If nodes lost the key of a lease and granted another lease, `verify` does not prove the first lease, even after the
/// unlock of the other lease.
#[tokio::test]
async fn verify_does_not_prove_a_lease_after_another_lease_on_the_resource() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    wait_for_all_grants(&guard).await;
    assert!(guard.verify().await.unwrap());
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let other = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    assert!(other.fencing_token() > guard.fencing_token());
    wait_for_all_grants(&other).await;
    other.unlock().await.unwrap();
    wait_until_unlocked(&cluster, "r").await;
    assert!(!guard.verify().await.unwrap());
}
