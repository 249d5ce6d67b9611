//! Fencing tokens, and what nodes can prove about the last of them.

use std::{sync::Mutex, time::Duration};

use redquorum::{FencingToken, LockOptions};
use redquorum_tests::{Cluster, ServerOptions};

use super::{WITH_TTL, client, on_all_nodes, trusting, unlocked_everywhere};

/// What a lock protects, and the other half of fencing: it refuses tokens smaller than the largest
/// it has seen.
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

/// Tokens increase from lease to lease, for any holders, while servers crash and come back
/// one at a time. They keep every vote, so nothing has to be guarded against.
#[tokio::test]
async fn tokens_increase_from_lease_to_lease_while_servers_come_and_go() {
    let cluster = Cluster::start_with(3, ServerOptions::persistent()).await;
    let clients = [trusting(&cluster).await, trusting(&cluster).await, trusting(&cluster).await];
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
        // Not waited for: the next lock is asked for while the unlock is on its way.
        drop(guard);
    }
}

/// A holder that was paused past the end of its lease does no harm to a ledger that looks at
/// tokens.
#[tokio::test]
async fn a_holder_that_slept_through_its_end_is_refused_by_what_it_protects() {
    let cluster = Cluster::start(3).await;
    let (paused, next) = (client(&cluster).await, client(&cluster).await);
    let ledger = Ledger::default();
    let ttl = Duration::from_millis(300);
    let old =
        paused.red_lock("r").options(LockOptions::new().ttl(ttl).without_renewal()).lock().await.unwrap();
    assert!(old.is_valid() && ledger.write(old.fencing_token()));
    // It looks at its lease, is paused here, and acts on what it saw.
    let new = next.red_lock("r").lock().await.unwrap();
    assert!(ledger.write(new.fencing_token()));
    assert!(!ledger.write(old.fencing_token()), "a write of the past was accepted");
    assert!(ledger.write(new.fencing_token()));
    assert!(!old.is_valid() && new.is_valid());
}

/// Nodes that forgot a lease may have granted another; that one is never proven away.
#[tokio::test]
async fn verify_does_not_prove_a_lease_whose_keys_another_held_in_between() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    on_all_nodes(&guard).await;
    assert!(guard.verify().await.unwrap());
    for server in cluster.servers() {
        server.command(&["DEL", "r"]).await;
    }
    let other = client(&cluster).await.red_lock("r").options(WITH_TTL).lock().await.unwrap();
    assert!(other.fencing_token() > guard.fencing_token());
    on_all_nodes(&other).await;
    other.unlock().await.unwrap();
    unlocked_everywhere(&cluster, "r").await;
    assert!(!guard.verify().await.unwrap());
}
