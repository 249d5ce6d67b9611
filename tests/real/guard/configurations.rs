//! Clients that are configured otherwise than their nodes, and nodes that are moved to another
//! configuration.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use redis::Value;
use redquorum::error::{AdminError, ConfigError, Refusal};

use super::*;
use crate::real::behaviours::{in_order, replies_of};

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
async fn a_client_with_other_settings_is_refused_with_the_difference() {
    let cluster = Cluster::start(5).await;
    let ours = of_three(&cluster);
    admin::init(&ours).await.unwrap();
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
        assert!(is_wrong_quorum(&outcome), "{outcome:?}");
        let metadata =
            "name=redquorum nodes=3 needed=2 max_ttl=3000ms attempt_timeout=600ms drift=0.01 protocol=3";
        let text = outcome.unwrap_err().to_string();
        let (field, _) = difference.split_once('=').unwrap();
        let in_metadata = metadata.split(' ').find(|of_metadata| of_metadata.starts_with(field)).unwrap();
        let (of_node, of_client) = text.split_once(", this client ").unwrap();
        assert!(of_node.contains(in_metadata) && of_client.contains(difference), "{text}");
        assert!(!text.contains("redquorum nodes"), "nothing else: {text}");
    }
    assert!(ours.connect().await.unwrap().red_lock("r").try_lock().await.unwrap().is_some());
}

/// S19: the keys of another protocol have other names, so its leases would be invisible.
#[tokio::test]
async fn a_client_is_refused_by_nodes_of_an_older_protocol() {
    let cluster = Cluster::start(3).await;
    let ours = of_three(&cluster);
    admin::init(&ours).await.unwrap();
    for server in cluster.some(0..3).iter() {
        let line =
            "name=redquorum nodes=3 needed=2 max_ttl=3000ms attempt_timeout=600ms drift=0.01 protocol=2";
        let stamp = "0123456789abcdef/";
        server.command(&["HSET", "redquorum:node", "fingerprint", line, "stamp", stamp]).await;
    }
    let text = ours.clone().connect().await.unwrap_err().to_string();
    assert!(
        text.contains("it has protocol=2, this client protocol=3; an older version of redquorum"),
        "{text}"
    );
    for server in cluster.some(0..3).iter() {
        server.command(&["DEL", "redquorum:node", "redquorum:quarantine"]).await;
    }
    admin::init(&ours).await.unwrap();
    drop(had(&ours.connect().await.unwrap().red_lock("r")).await);
}

/// Whether a client was refused because a node belongs to a quorum with other settings.
fn is_wrong_quorum(outcome: &Result<Quorum, Error>) -> bool {
    matches!(outcome, Err(Error::Config(ConfigError::WrongQuorum { .. })))
}

/// Whether so many nodes belong to a quorum with other settings that the client has no quorum.
fn is_shut_out(outcome: &Result<Option<LockGuard>, Error>) -> bool {
    let Err(Error::NoQuorum(error)) = outcome else { return false };
    in_order(error.node_replies())
        .iter()
        .filter(|reply| matches!(reply, NodeReply::Refused(Refusal::WrongQuorum { .. })))
        .count()
        >= 2
}

/// Nobody has a lock of either configuration until every lease of the old one is over: also one
/// that is renewed.
#[tokio::test]
async fn a_quorum_moves_to_more_nodes_and_a_longer_ttl_while_nobody_can_lock() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    let [holder, onlooker] = [old.clone().connect().await.unwrap(), old.clone().connect().await.unwrap()];
    let held = holder.red_lock("r").lock().await.unwrap();
    let begin = Instant::now();
    let is_over = AtomicBool::new(false);
    let moving = async {
        let moved = admin::reconfigure(&old, &new).await;
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
                assert!(is_wrong_quorum(&outcome), "{outcome:?}");
            }
        }
    };
    let (moved, ()) = tokio::join!(moving, watching);
    moved.unwrap();
    assert!(begin.elapsed() >= LONGER_TTL, "{:?}", begin.elapsed());
    let quorum = new.clone().connect().await.unwrap();
    let next =
        quorum.red_lock("r").options(LockOptions::new().ttl(LONGER_TTL)).try_lock().await.unwrap().unwrap();
    assert!(next.fencing_token() > held.fencing_token());
    assert_eq!(next.node_replies().iter().count(), 5);
    // Each reply, and the error of `connect`, shows old clients the new settings of the nodes.
    let replies = replies_of(onlooker.red_lock("x").try_lock().await.unwrap_err());
    let moved_on = |reply: &NodeReply| match reply {
        NodeReply::Refused(Refusal::WrongQuorum { fingerprint, .. }) => fingerprint.contains("nodes=5"),
        _ => false,
    };
    assert!(in_order(&replies).iter().filter(|reply| moved_on(reply)).count() >= 2, "{replies}");
    assert!(is_wrong_quorum(&old.connect().await));
    // The same move again changes nothing.
    admin::reconfigure(&new, &new).await.unwrap();
    next.renew().await.unwrap();
}

#[tokio::test]
async fn a_move_that_found_a_new_server_down_goes_on_when_it_is_repeated() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    let before = old.clone().connect().await.unwrap();
    let token = had(&before.red_lock("r")).await.fencing_token();
    cluster.server(4).kill().await;
    let outcome = admin::reconfigure(&old, &new).await;
    let Err(AdminError::Incomplete(replies)) = &outcome else { panic!("{outcome:?}") };
    let expected = [NodeReply::Done, NodeReply::Done, NodeReply::Done, NodeReply::Done];
    assert!(in_order(replies).starts_with(&expected), "{replies}");
    assert!(matches!(in_order(replies)[4], NodeReply::Failed(_)), "{replies}");
    cluster.server(4).restart_empty().await;
    admin::reconfigure(&old, &new).await.unwrap();
    let guard = new.connect().await.unwrap().red_lock("r").try_lock().await.unwrap().unwrap();
    assert!(guard.fencing_token() > token);
}

/// They could still be a quorum of the old configuration.
#[tokio::test]
async fn nothing_is_moved_while_so_many_old_servers_are_down_that_they_could_be_a_quorum() {
    let cluster = Cluster::start_with(5, ServerOptions::persistent()).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    let outcome = admin::reconfigure(&old, &new).await;
    assert!(matches!(outcome, Err(AdminError::Incomplete(_))), "{outcome:?}");
    assert!(cluster.server(4).keys().await.is_empty(), "a new node was made");
    for server in cluster.some(1..3) {
        server.restart_keeping_data().await;
    }
    admin::reconfigure(&old, &new).await.unwrap();
    drop(had(&new.connect().await.unwrap().red_lock("r")).await);
}

/// Nobody has connected to them since, so they have no metadata that could be changed.
#[tokio::test]
async fn old_servers_that_came_back_empty_are_moved_with_the_others() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    for server in cluster.some(1..3) {
        server.restart_empty().await;
    }
    admin::reconfigure(&old, &new).await.unwrap();
    drop(had(&new.connect().await.unwrap().red_lock("r")).await);
    assert!(is_wrong_quorum(&old.connect().await));
}

/// Clients with the old list would go on with a server that the move has not reached.
#[tokio::test]
async fn other_servers_under_the_same_name_and_numbers_are_no_move() {
    let cluster = Cluster::start(4).await;
    let old = of_three(&cluster);
    admin::init(&old).await.unwrap();
    let others = builder(cluster.some(1..4).iter().map(Server::url));
    let outcome = admin::reconfigure(&old, &others).await;
    let Err(AdminError::Config(error)) = &outcome else { panic!("{outcome:?}") };
    assert!(matches!(error, ConfigError::OutOfRange { setting: "name", .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "name is redquorum: expected a name of its own for the new configuration, because its other settings are \
         those of the old one and its nodes are not"
    );
    assert!(old.clone().connect().await.unwrap().red_lock("r").try_lock().await.unwrap().is_some());
    admin::reconfigure(&old, &others.clone().name("moved")).await.unwrap();
    drop(had(&others.name("moved").connect().await.unwrap().red_lock("r")).await);
}

/// It restarts empty, and a client with the old list makes it a node of the old configuration
/// again.
#[tokio::test]
async fn an_old_server_that_falls_back_during_the_move_is_closed_again() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
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
    let (moved, ()) = tokio::join!(admin::reconfigure(&old, &new), falling);
    moved.unwrap();
    assert!(begin.elapsed() >= 2 * LONGER_TTL, "{:?}", begin.elapsed());
    assert!(is_wrong_quorum(&old.connect().await));
    drop(had(&new.connect().await.unwrap().red_lock("r")).await);
}
