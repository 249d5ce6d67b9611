//! Quorum parameters that differ between clients and nodes, and `admin::reconfigure`.
//!
//! Promise: two configurations of a quorum never have valid leases at the same time.
//! Numbers such as S19 are those of the scenarios in `docs/SIMULATION.md`.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use redis::Value;
use redquorum::error::{AdminError, ConfigError, Refusal};

use super::*;
use crate::real::behaviours::{in_order, replies_of};

/// Longer than [`TTL`].
const LONGER_TTL: Duration = Duration::from_secs(4);

/// Returns the settings of a quorum of the first three servers.
fn of_three(cluster: &Cluster) -> QuorumBuilder {
    builder(cluster.some(0..3).iter().map(Server::url)).connect_timeout(Duration::from_secs(2))
}

/// Returns the new settings: two more servers, and a longer `max_ttl`.
fn of_five(cluster: &Cluster) -> QuorumBuilder {
    builder(cluster.urls()).max_ttl(LONGER_TTL).connect_timeout(Duration::from_secs(2))
}

/// S19: with another number of nodes or votes, two majorities might not overlap. With another `max_ttl` or
/// attempt timeout, quarantines would be too short.
#[tokio::test]
async fn a_client_with_other_settings_is_refused_with_the_difference() {
    let cluster = Cluster::start(5).await;
    let original = of_three(&cluster);
    admin::init(&original).await.unwrap();
    let differing = [
        ("nodes=5", builder(cluster.urls())),
        ("needed=3", original.clone().votes_needed(3)),
        ("max_ttl=4000ms", original.clone().max_ttl(LONGER_TTL)),
        ("attempt_timeout=700ms", original.clone().attempt_timeout(Duration::from_millis(700))),
        ("drift=0.02", original.clone().drift(0.02)),
        ("name=other", original.clone().name("other")),
    ];
    for (difference, other) in differing {
        let outcome = other.connect().await;
        assert!(is_wrong_quorum(&outcome), "{outcome:?}");
        let metadata =
            "name=redquorum nodes=3 needed=2 max_ttl=3000ms attempt_timeout=600ms drift=0.01 protocol=3";
        let text = outcome.unwrap_err().to_string();
        let (field, _) = difference.split_once('=').unwrap();
        let in_metadata = metadata.split(' ').find(|of_metadata| of_metadata.starts_with(field)).unwrap();
        let (of_node, of_client) = text.split_once(", this client ").unwrap();
        assert!(of_node.contains(in_metadata) && of_client.contains(difference), "{text}");
        assert!(!text.contains("redquorum nodes"), "the error names more than the difference: {text}");
    }
    assert!(original.connect().await.unwrap().red_lock("r").try_lock().await.unwrap().is_some());
}

/// S19: another protocol version has other key names, so its leases would be invisible.
#[tokio::test]
async fn a_client_is_refused_by_nodes_of_an_older_protocol() {
    let cluster = Cluster::start(3).await;
    let original = of_three(&cluster);
    admin::init(&original).await.unwrap();
    for server in cluster.some(0..3).iter() {
        let line =
            "name=redquorum nodes=3 needed=2 max_ttl=3000ms attempt_timeout=600ms drift=0.01 protocol=2";
        let stamp = "0123456789abcdef/";
        server.command(&["HSET", "redquorum:node", "fingerprint", line, "stamp", stamp]).await;
    }
    let text = original.clone().connect().await.unwrap_err().to_string();
    assert!(
        text.contains("it has protocol=2, this client protocol=3; an older version of redquorum"),
        "{text}"
    );
    for server in cluster.some(0..3).iter() {
        server.command(&["DEL", "redquorum:node", "redquorum:quarantine"]).await;
    }
    admin::init(&original).await.unwrap();
    drop(lock_eventually(&original.connect().await.unwrap().red_lock("r")).await);
}

/// Whether a client was refused because a node belongs to a quorum with other settings.
fn is_wrong_quorum(outcome: &Result<Quorum, Error>) -> bool {
    matches!(outcome, Err(Error::Config(ConfigError::WrongQuorum { .. })))
}

/// Whether the client has no quorum, because at least two nodes belong to a quorum with other settings.
fn has_lost_quorum_to_other_settings(outcome: &Result<Option<LockGuard>, Error>) -> bool {
    let Err(Error::NoQuorum(error)) = outcome else { return false };
    in_order(error.node_replies())
        .iter()
        .filter(|reply| matches!(reply, NodeReply::Refused(Refusal::WrongQuorum { .. })))
        .count()
        >= 2
}

/// No client can lock with either configuration until all leases of the old one have ended, including renewed
/// leases.
#[tokio::test]
async fn a_reconfiguration_admits_no_lock_until_all_old_leases_have_ended() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    let [holder, observer] = [old.clone().connect().await.unwrap(), old.clone().connect().await.unwrap()];
    let held = holder.red_lock("r").lock().await.unwrap();
    let begin = Instant::now();
    let is_over = AtomicBool::new(false);
    let moving = async {
        let moved = admin::reconfigure(&old, &new).await;
        assert!(!held.is_valid(), "the reconfiguration ended while an old lease is valid");
        is_over.store(true, Ordering::Relaxed);
        moved
    };
    let watching = async {
        let closed = async || has_lost_quorum_to_other_settings(&observer.red_lock("other").try_lock().await);
        eventually(SOON, "the old nodes refuse old clients", closed).await;
        assert!(held.is_valid(), "the reconfiguration revoked a lease");
        while begin.elapsed() < TTL && !is_over.load(Ordering::Relaxed) {
            let outcome = observer.red_lock("other").try_lock().await;
            assert!(has_lost_quorum_to_other_settings(&outcome), "{outcome:?}");
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
    // Replies of the nodes, and the error of `connect`, show the new settings to old clients.
    let replies = replies_of(observer.red_lock("x").try_lock().await.unwrap_err());
    let moved_on = |reply: &NodeReply| match reply {
        NodeReply::Refused(Refusal::WrongQuorum { fingerprint, .. }) => fingerprint.contains("nodes=5"),
        _ => false,
    };
    assert!(in_order(&replies).iter().filter(|reply| moved_on(reply)).count() >= 2, "{replies}");
    assert!(is_wrong_quorum(&old.connect().await));
    // Repeating the reconfiguration changes nothing.
    admin::reconfigure(&new, &new).await.unwrap();
    next.renew().await.unwrap();
}

#[tokio::test]
async fn a_reconfiguration_that_found_a_new_server_down_can_be_repeated() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    let before = old.clone().connect().await.unwrap();
    let token = lock_eventually(&before.red_lock("r")).await.fencing_token();
    cluster.server(4).kill().await;
    let outcome = admin::reconfigure(&old, &new).await;
    let Err(AdminError::Incomplete(replies)) = &outcome else { panic!("{outcome:?}") };
    let expected = [NodeReply::NotAsked, NodeReply::NotAsked, NodeReply::NotAsked, NodeReply::NotAsked];
    assert!(in_order(replies).starts_with(&expected), "{replies}");
    assert!(matches!(in_order(replies)[4], NodeReply::Failed(_)), "{replies}");
    // No node was closed.
    drop(lock_eventually(&before.red_lock("r")).await);
    cluster.server(4).restart_empty().await;
    admin::reconfigure(&old, &new).await.unwrap();
    let guard = new.connect().await.unwrap().red_lock("r").try_lock().await.unwrap().unwrap();
    assert!(guard.fencing_token() > token);
}

#[tokio::test]
async fn a_reconfiguration_that_is_given_up_leaves_the_quorum_to_old_clients() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    let observer = old.clone().connect().await.unwrap();
    let interrupted = async {
        let closed = async || has_lost_quorum_to_other_settings(&observer.red_lock("other").try_lock().await);
        eventually(SOON, "the old nodes refuse old clients", closed).await;
    };
    tokio::select! {
        moved = admin::reconfigure(&old, &new) => panic!("{moved:?}"),
        () = interrupted => {}
    }
    admin::give_up_reconfigure(&old, &new).await.unwrap();
    drop(lock_eventually(&observer.red_lock("other")).await);
    admin::reconfigure(&old, &new).await.unwrap();
    drop(lock_eventually(&new.clone().connect().await.unwrap().red_lock("r")).await);
    let late = admin::give_up_reconfigure(&old, &new).await;
    assert!(matches!(late, Err(AdminError::TooLate { .. })), "{late:?}");
}

/// The unreachable servers could still be a quorum of the old configuration.
#[tokio::test]
async fn a_reconfiguration_is_refused_while_a_quorum_of_old_servers_is_down() {
    let cluster = Cluster::start_with(5, ServerOptions::persistent()).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    let outcome = admin::reconfigure(&old, &new).await;
    assert!(matches!(outcome, Err(AdminError::Incomplete(_))), "{outcome:?}");
    assert!(cluster.server(4).keys().await.is_empty(), "a new node was registered");
    for server in cluster.some(1..3) {
        server.restart_keeping_data().await;
    }
    admin::reconfigure(&old, &new).await.unwrap();
    drop(lock_eventually(&new.connect().await.unwrap().red_lock("r")).await);
}

/// No client has connected since the restart, so the servers have no metadata. The list of old servers may be wrong.
#[tokio::test]
async fn a_quorum_of_empty_old_servers_is_reconfigured_only_after_a_registration() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    for server in cluster.some(1..3) {
        server.restart_empty().await;
    }
    let outcome = admin::reconfigure(&old, &new).await;
    assert!(matches!(outcome, Err(AdminError::Incomplete(_))), "{outcome:?}");
    assert!(cluster.server(1).keys().await.is_empty(), "an empty node was registered");
    let observer = old.clone().connect().await.unwrap();
    admin::reconfigure(&old, &new).await.unwrap();
    drop(observer);
    drop(lock_eventually(&new.connect().await.unwrap().red_lock("r")).await);
    assert!(is_wrong_quorum(&old.connect().await));
}

/// With equal settings under the same name, a client with the old node list would continue to use a server
/// that the reconfiguration has not reached.
#[tokio::test]
async fn other_servers_with_equal_settings_need_another_name() {
    let cluster = Cluster::start(4).await;
    let old = of_three(&cluster);
    admin::init(&old).await.unwrap();
    let other_servers = builder(cluster.some(1..4).iter().map(Server::url));
    let outcome = admin::reconfigure(&old, &other_servers).await;
    let Err(AdminError::Config(error)) = &outcome else { panic!("{outcome:?}") };
    assert!(matches!(error, ConfigError::OutOfRange { setting: "name", .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "name is redquorum: expected a name of its own for the new configuration, because its other settings are \
         those of the old one and its nodes are not"
    );
    assert!(old.clone().connect().await.unwrap().red_lock("r").try_lock().await.unwrap().is_some());
    admin::reconfigure(&old, &other_servers.clone().name("moved")).await.unwrap();
    drop(lock_eventually(&other_servers.name("moved").connect().await.unwrap().red_lock("r")).await);
}

/// The server restarts empty, and a client with the old node list registers it in the old configuration
/// again.
#[tokio::test]
async fn a_server_that_changes_back_during_a_reconfiguration_is_changed_again() {
    let cluster = Cluster::start(5).await;
    let (old, new) = (of_three(&cluster), of_five(&cluster));
    admin::init(&old).await.unwrap();
    let observer = old.clone().connect().await.unwrap();
    let begin = Instant::now();
    let changing_back = async {
        let closed = async || has_lost_quorum_to_other_settings(&observer.red_lock("other").try_lock().await);
        eventually(SOON, "the old nodes refuse old clients", closed).await;
        let server = cluster.server(0);
        server.restart_empty().await;
        let metadata = async || match server.command(&["HGET", "redquorum:node", "fingerprint"]).await {
            Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
            _ => String::new(),
        };
        eventually(SOON, "the server has its old settings again", async || {
            metadata().await.contains("nodes=3")
        })
        .await;
        assert!(begin.elapsed() < LONGER_TTL, "the server changed back after the reconfiguration");
    };
    let (moved, ()) = tokio::join!(admin::reconfigure(&old, &new), changing_back);
    moved.unwrap();
    assert!(begin.elapsed() >= 2 * LONGER_TTL, "{:?}", begin.elapsed());
    assert!(is_wrong_quorum(&old.connect().await));
    drop(lock_eventually(&new.connect().await.unwrap().red_lock("r")).await);
}
