//! Clients that are configured otherwise than their nodes, and nodes that are moved to another
//! configuration.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use redis::Value;
use redquorum::{
    Vote,
    admin::AdmissionError,
    error::{ConnectError, Refusal},
};

use super::*;
use crate::real::behaviours::in_order;

/// More than [`TTL`].
const LONGER_TTL: Duration = Duration::from_secs(4);

/// A quorum of the first three servers.
fn of_three(cluster: &Cluster) -> QuorumBuilder {
    builder(cluster.some(0..3).iter().map(Server::url)).connect_timeout(Duration::from_secs(2))
}

/// The configuration that it is to be moved to: two servers more, and a longer ttl.
fn of_five(cluster: &Cluster) -> QuorumBuilder {
    builder(cluster.urls()).max_ttl(LONGER_TTL).connect_timeout(Duration::from_secs(2))
}

/// S19: with other nodes or numbers there would be majorities that do not meet; with another
/// longest ttl or attempt timeout, quarantines that are too short.
#[tokio::test]
async fn a_client_that_is_configured_otherwise_than_its_nodes_is_refused_with_both_configurations() {
    let cluster = Cluster::start(5).await;
    let ours = of_three(&cluster);
    ours.clone().init().await.unwrap();
    let others = [
        ("nodes=5", builder(cluster.urls())),
        ("needed=3", ours.clone().votes_needed(3)),
        ("max_ttl=4000ms", ours.clone().max_ttl(LONGER_TTL)),
        ("attempt_timeout=700ms", ours.clone().attempt_timeout(Duration::from_millis(700))),
        ("drift=0.02", ours.clone().drift(0.02)),
        ("name=other", ours.clone().name("other")),
    ];
    for (difference, other) in others {
        let outcome = other.connect().await;
        let Err(ConnectError::OtherQuorum { ours, theirs, .. }) = &outcome else { panic!("{outcome:?}") };
        let metadata =
            "name=redquorum nodes=3 needed=2 max_ttl=3000ms attempt_timeout=600ms drift=0.01 protocol=1";
        assert_eq!(theirs.as_str(), metadata);
        assert!(ours.as_str().contains(difference), "{ours}");
        let message = outcome.unwrap_err().to_string();
        let (field, _) = difference.split_once('=').unwrap();
        let in_metadata = metadata.split(' ').find(|of_metadata| of_metadata.starts_with(field)).unwrap();
        let (of_node, of_client) = message.split_once(", this client ").unwrap();
        assert!(of_node.contains(in_metadata) && of_client.contains(difference), "{message}");
        assert!(!message.contains("redquorum nodes"), "nothing else: {message}");
    }
    assert!(ours.connect().await.unwrap().red_lock("r").try_lock().await.unwrap().is_some());
}

/// Whether so many nodes belong to something else that the client has no quorum.
fn is_shut_out(outcome: &Result<Option<LockGuard>, LockError>) -> bool {
    let Err(LockError::NoQuorum { votes, .. }) = outcome else { return false };
    in_order(votes).iter().filter(|vote| matches!(vote, Vote::Refused(Refusal::OtherQuorum { .. }))).count()
        >= 2
}

/// Nobody has a lock of either configuration until every lease of the old one is over: also one
/// that is renewed.
#[tokio::test]
async fn a_quorum_moves_to_more_nodes_and_a_longer_ttl_while_nobody_can_lock() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    old.clone().init().await.unwrap();
    let [holder, onlooker] = [old.clone().connect().await.unwrap(), old.clone().connect().await.unwrap()];
    let held = holder.red_lock("r").lock().await.unwrap();
    let begin = Instant::now();
    let is_over = AtomicBool::new(false);
    let moving = async {
        let moved = new.clone().reconfigure(old.clone()).await;
        assert!(!held.is_valid(), "it is open while an old lease is valid");
        is_over.store(true, Ordering::Relaxed);
        moved
    };
    let watching = async {
        let closed = async || is_shut_out(&onlooker.red_lock("other").try_lock().await);
        eventually(SOON, "the old nodes are closed", closed).await;
        assert!(held.is_valid(), "leases are not taken away");
        while begin.elapsed() < TTL && !is_over.load(Ordering::Relaxed) {
            let outcome = onlooker.red_lock("other").try_lock().await;
            assert!(is_shut_out(&outcome), "{outcome:?}");
            for builder in [&old, &new] {
                let outcome = builder.clone().connect().await;
                assert!(matches!(outcome, Err(ConnectError::OtherQuorum { .. })), "{outcome:?}");
            }
        }
    };
    let (moved, ()) = tokio::join!(moving, watching);
    moved.unwrap();
    assert!(begin.elapsed() >= LONGER_TTL, "{:?}", begin.elapsed());
    let quorum = new.clone().connect().await.unwrap();
    let next = quorum.red_lock("r").ttl(LONGER_TTL).try_lock().await.unwrap().unwrap();
    assert!(next.fencing_token() > held.fencing_token());
    assert_eq!(next.votes().nodes(), 5);
    // Clients of before are told by every vote, and when they connect, what the nodes are now.
    let Err(LockError::NoQuorum { votes, .. }) = onlooker.red_lock("x").try_lock().await else {
        panic!("a lock")
    };
    let moved_on = |vote: &Vote| match vote {
        Vote::Refused(Refusal::OtherQuorum { theirs }) => theirs.as_str().contains("nodes=5"),
        _ => false,
    };
    assert!(in_order(&votes).iter().filter(|vote| moved_on(vote)).count() >= 2, "{votes}");
    assert!(matches!(old.connect().await, Err(ConnectError::OtherQuorum { .. })));
    // And once more changes nothing.
    new.clone().reconfigure(new).await.unwrap();
    next.renew().await.unwrap();
}

#[tokio::test]
async fn a_move_that_found_a_new_server_down_goes_on_when_it_is_repeated() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    old.clone().init().await.unwrap();
    let before = old.clone().connect().await.unwrap();
    let token = had(&before.red_lock("r")).await.fencing_token();
    cluster.server(4).kill().await;
    let outcome = new.clone().reconfigure(old.clone()).await;
    let Err(AdmissionError::Incomplete { votes }) = &outcome else { panic!("{outcome:?}") };
    let expected = [Vote::Granted, Vote::Granted, Vote::Granted, Vote::Granted];
    assert!(in_order(votes).starts_with(&expected), "{votes}");
    assert!(matches!(in_order(votes)[4], Vote::Unknown(_)), "{votes}");
    cluster.server(4).restart_empty().await;
    new.clone().reconfigure(old).await.unwrap();
    let guard = new.connect().await.unwrap().red_lock("r").try_lock().await.unwrap().unwrap();
    assert!(guard.fencing_token() > token);
}

/// They could still be a quorum of the old configuration.
#[tokio::test]
async fn nothing_is_moved_while_so_many_old_servers_are_down_that_they_could_be_a_quorum() {
    let cluster = Cluster::start_with(5, ServerOptions::persistent()).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    old.clone().init().await.unwrap();
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    let outcome = new.clone().reconfigure(old.clone()).await;
    assert!(matches!(outcome, Err(AdmissionError::Incomplete { .. })), "{outcome:?}");
    assert!(cluster.server(4).keys().await.is_empty(), "a new node was made");
    for server in cluster.some(1..3) {
        server.restart_keeping_data().await;
    }
    new.clone().reconfigure(old).await.unwrap();
    drop(had(&new.connect().await.unwrap().red_lock("r")).await);
}

/// Nobody has connected to them since, so they have no metadata that could be changed.
#[tokio::test]
async fn old_servers_that_came_back_empty_are_moved_with_the_others() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    old.clone().init().await.unwrap();
    for server in cluster.some(1..3) {
        server.restart_empty().await;
    }
    new.clone().reconfigure(old.clone()).await.unwrap();
    drop(had(&new.connect().await.unwrap().red_lock("r")).await);
    assert!(matches!(old.connect().await, Err(ConnectError::OtherQuorum { .. })));
}

/// Clients with the old list would go on with a server that the move has not reached.
#[tokio::test]
async fn other_servers_under_the_same_name_and_numbers_are_no_move() {
    let cluster = Cluster::start(4).await;
    let old = of_three(&cluster);
    old.clone().init().await.unwrap();
    let others = builder(cluster.some(1..4).iter().map(Server::url));
    let outcome = others.clone().reconfigure(old.clone()).await;
    assert!(matches!(&outcome, Err(AdmissionError::SameConfiguration { .. })), "{outcome:?}");
    assert!(old.clone().connect().await.unwrap().red_lock("r").try_lock().await.unwrap().is_some());
    others.clone().name("moved").reconfigure(old).await.unwrap();
    drop(had(&others.name("moved").connect().await.unwrap().red_lock("r")).await);
}

/// It restarts empty, and a client with the old list makes it a node of the old configuration
/// again.
#[tokio::test]
async fn an_old_server_that_falls_back_during_the_move_is_closed_again() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    old.clone().init().await.unwrap();
    let onlooker = old.clone().connect().await.unwrap();
    let begin = Instant::now();
    let falling = async {
        let closed = async || is_shut_out(&onlooker.red_lock("other").try_lock().await);
        eventually(SOON, "the old nodes are closed", closed).await;
        let server = cluster.server(0);
        server.restart_empty().await;
        let metadata = async || match server.command(&["HGET", "redquorum:node", "fingerprint"]).await {
            Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
            _ => String::new(),
        };
        eventually(SOON, "it has fallen back", async || metadata().await.contains("nodes=3")).await;
        assert!(begin.elapsed() < LONGER_TTL, "too late to be of any interest");
    };
    let (moved, ()) = tokio::join!(new.clone().reconfigure(old.clone()), falling);
    moved.unwrap();
    assert!(begin.elapsed() >= 2 * LONGER_TTL, "{:?}", begin.elapsed());
    assert!(matches!(old.connect().await, Err(ConnectError::OtherQuorum { .. })));
    drop(had(&new.connect().await.unwrap().red_lock("r")).await);
}
