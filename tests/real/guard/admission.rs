//! Admission of new nodes: by `admin::init` or `admin::init_if_needed`, or at the end of a quarantine.
//!
//! Promise: if a node may have forgotten a lease, `init` does not end the quarantine of the node.
//! Numbers such as S19 are those of the scenarios in `docs/SIMULATION.md`.

use std::time::Instant;

use redis::cmd;
use redquorum::{
    LockOptions,
    admin::InitOutcome,
    error::{AdminError, NodeReply, Refusal},
    inspection::LockState,
};

use super::*;
use crate::real::behaviours::{calls_of, in_order};

/// The duration of a quarantine: `max_ttl`, with drift and margin.
const QUARANTINE: Duration = Duration::from_millis(3_000 + 30 + 2);

/// Returns the addresses of the nodes as errors show them.
fn addresses(cluster: &Cluster) -> Vec<String> {
    cluster.servers().iter().map(Server::address).collect()
}

/// Asserts that these servers have no key.
async fn assert_no_keys(servers: &[Server]) {
    for server in servers {
        assert!(server.keys().await.is_empty(), "{} has keys", server.url());
    }
}

/// S50: if all servers are empty, they may be new, or may all have lost their data.
#[tokio::test]
async fn the_error_of_new_servers_names_the_remaining_time_and_the_remedy() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let Err(error) = quorum.red_lock("r").try_lock().await else { panic!("a lock on new servers") };
    let Error::NoQuorum(error) = error else { panic!("{error}") };
    assert!(error.is_quarantined() && error.node_replies().needed() == 2, "{error}");
    let remaining = error.retry_after().unwrap();
    assert!(remaining > QUARANTINE / 2 && remaining <= QUARANTINE, "{remaining:?}");
    for hint in
        addresses(&cluster).iter().map(String::as_str).chain(["`redquorum init`", "`admin::init`", "new"])
    {
        assert!(error.to_string().contains(hint), "{error} does not name {hint}");
    }
}

#[tokio::test]
async fn a_lock_with_a_long_quorum_timeout_outlasts_the_quarantine_of_new_servers() {
    let cluster = Cluster::start(3).await;
    let begin = Instant::now();
    let lock = builder(cluster.urls()).connect().await.unwrap().red_lock("r");
    let impatient =
        lock.clone().options(LockOptions::new().quorum_timeout(Duration::from_millis(300))).lock().await;
    assert!(is_quarantined(&impatient), "{impatient:?}");
    let patient = Stopwatch::start();
    let guard = lock.options(LockOptions::new().quorum_timeout(QUARANTINE * 2)).lock().await.unwrap();
    assert!(begin.elapsed() >= QUARANTINE, "{:?}", begin.elapsed());
    // The last attempt is made when the quorum timeout ends.
    assert!(patient.undelayed() < QUARANTINE * 2 + Duration::from_secs(1), "{patient:?}");
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn initialized_servers_vote_at_once() {
    let cluster = Cluster::start(3).await;
    admin::init(&builder(cluster.urls())).await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    quorum.red_lock("r").try_lock().await.unwrap().unwrap().unlock().await.unwrap();
}

/// Servers that were initialized and then lost all data go into quarantine, like servers that were never initialized.
#[tokio::test]
async fn a_quorum_that_lost_all_data_votes_only_after_a_quarantine() {
    let cluster = Cluster::start(3).await;
    let [quorum, _] = two_clients(&cluster, RestartGuard::PerConnection).await;
    join_all(cluster.servers().iter().map(Server::restart_empty)).await;
    let lock = quorum.red_lock("r");
    let has_an_end = async || {
        let outcome = lock.try_lock().await;
        matches!(outcome, Err(Error::NoQuorum(error)) if error.retry_after().is_some())
    };
    eventually(SOON, "the servers are in quarantine", has_an_end).await;
    drop(lock_eventually(&lock).await);
}

#[tokio::test]
async fn a_second_init_is_refused() {
    let cluster = Cluster::start(3).await;
    admin::init(&builder(cluster.urls())).await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let again = admin::init(&builder(cluster.urls())).await;
    let Err(AdminError::NotNew { node, metadata, .. }) = again else { panic!("{again:?}") };
    assert_eq!(*node, addresses(&cluster)[0]);
    assert_eq!(
        &*metadata,
        "name=redquorum nodes=3 needed=2 max_ttl=3000ms attempt_timeout=600ms drift=0.01 protocol=3"
    );
    guard.renew().await.unwrap();
    assert!(quorum.red_lock("other").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn init_changes_nothing_if_a_server_belongs_to_another_quorum() {
    let cluster = Cluster::start(3).await;
    admin::init(&builder([cluster.server(2).url()]).name("other")).await.unwrap();
    let outcome = admin::init(&builder(cluster.urls())).await;
    let Err(AdminError::NotNew { node, metadata, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(*node, addresses(&cluster)[2]);
    assert!(metadata.starts_with("name=other nodes=1 "), "{metadata}");
    assert_no_keys(cluster.some(0..2)).await;
    let other_quorum = builder([cluster.server(2).url()]).name("other").connect().await.unwrap();
    assert!(other_quorum.red_lock("r").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn init_changes_nothing_while_a_server_is_down() {
    let cluster = Cluster::start(3).await;
    cluster.server(2).kill().await;
    let builder = builder(cluster.urls()).connect_timeout(Duration::from_secs(1));
    let outcome = admin::init(&builder).await;
    let Err(AdminError::Incomplete(replies)) = &outcome else { panic!("{outcome:?}") };
    assert!(
        matches!(in_order(replies)[..], [NodeReply::NotAsked, NodeReply::NotAsked, NodeReply::Failed(_)]),
        "{replies}"
    );
    assert_no_keys(cluster.some(0..2)).await;
    cluster.server(2).restart_empty().await;
    admin::init(&builder).await.unwrap();
}

/// The first registration of each server writes the node metadata and begins the quarantine. Later registrations change
/// neither.
#[tokio::test]
async fn clients_that_connect_to_new_servers_together_begin_one_quarantine() {
    for _ in 0..3 {
        let cluster = Cluster::start(3).await;
        let connect = || builder(cluster.urls()).connect();
        let (one, other) = tokio::join!(connect(), connect());
        let remaining =
            async |server: &Server| -> i64 { server.query(cmd("PTTL").arg("redquorum:quarantine")).await };
        let before = join_all(cluster.servers().iter().map(remaining)).await;
        let third = connect().await.unwrap();
        for (server, before) in cluster.servers().iter().zip(before) {
            let after = remaining(server).await;
            assert!(
                after > 0 && after <= before,
                "the quarantine was prolonged: {after} ms after {before} ms"
            );
            assert_eq!(calls_of(server, &["hset"]).await, 1, "more than one write of metadata");
            assert_eq!(calls_of(server, &["set"]).await, 1, "more than one quarantine");
        }
        for quorum in [one.unwrap(), other.unwrap(), third] {
            lock_eventually(&quorum.red_lock("r")).await.unlock().await.unwrap();
        }
    }
}

/// In the first quarantine of a quorum no client can have a lease, so `init` may end the quarantine.
#[tokio::test]
async fn init_ends_the_first_quarantine_of_servers_that_a_client_registered() {
    let cluster = Cluster::start(3).await;
    let early = builder(cluster.urls()).connect().await.unwrap();
    let outcome = early.red_lock("r").try_lock().await;
    assert!(is_quarantined(&outcome), "{outcome:?}");
    admin::init(&builder(cluster.urls())).await.unwrap();
    early.red_lock("r").try_lock().await.unwrap().unwrap().unlock().await.unwrap();
    let again = admin::init(&builder(cluster.urls())).await;
    assert!(matches!(again, Err(AdminError::NotNew { .. })), "{again:?}");
}

#[tokio::test]
async fn init_is_refused_after_a_renewal_of_a_lost_lease() {
    let cluster = Cluster::start(3).await;
    admin::init(&builder(cluster.urls())).await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    for server in cluster.servers() {
        server.command(&["FLUSHALL"]).await;
    }
    let renewed = guard.renew().await;
    assert!(renewed.is_err(), "a renewal counted on servers that lost the lease: {renewed:?}");
    let outcome = admin::init(&builder(cluster.urls())).await;
    assert!(matches!(outcome, Err(AdminError::NotNew { .. })), "{outcome:?}");
    let if_needed = admin::init_if_needed(&builder(cluster.urls())).await;
    assert!(matches!(if_needed, Ok(InitOutcome::AlreadyDone(_))), "{if_needed:?}");
    let other = quorum.red_lock("other").try_lock().await;
    assert!(is_quarantined(&other), "{other:?}");
}

#[tokio::test]
async fn a_read_only_client_leaves_new_servers_unchanged() {
    let cluster = Cluster::start(3).await;
    let observer = builder(cluster.urls()).read_only().connect().await.unwrap();
    assert_eq!(observer.inspect("r").await.unwrap().state(), LockState::Free);
    assert_eq!(observer.election("e").leader().await.unwrap(), None);
    assert_no_keys(cluster.servers()).await;
    admin::init(&builder(cluster.urls())).await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let found = observer.inspect("r").await.unwrap();
    assert_eq!(found.holder(), Some(guard.id()));
}

#[tokio::test]
async fn init_if_needed_initializes_once_and_then_finds_the_quorum() {
    let cluster = Cluster::start(3).await;
    let builder = builder(cluster.urls()).connect_timeout(Duration::from_secs(1));
    assert_eq!(admin::init_if_needed(&builder).await.unwrap(), InitOutcome::Created);
    let quorum = builder.clone().connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let found = async || match admin::init_if_needed(&builder).await.unwrap() {
        InitOutcome::AlreadyDone(replies) => in_order(&replies),
        other => panic!("{other:?}"),
    };
    assert_eq!(found().await, [NodeReply::Done, NodeReply::Done, NodeReply::Done]);
    cluster.server(2).kill().await;
    assert!(matches!(found().await[..], [NodeReply::Done, NodeReply::Done, NodeReply::Failed(_)]));
    // A server that returns empty may have forgotten votes.
    cluster.server(2).restart_empty().await;
    let replies = found().await;
    assert_eq!(replies[..2], [NodeReply::Done, NodeReply::Done]);
    let is_in_quarantine = |reply: &NodeReply| {
        matches!(reply, NodeReply::Refused(Refusal::Quarantined { remaining: Some(_), .. }))
    };
    assert!(is_in_quarantine(&replies[2]), "{replies:?}");
    assert!(cluster.server(2).keys().await.contains(&"redquorum:quarantine".to_owned()));
    guard.ensure().unwrap();
    let other = admin::init_if_needed(&builder.name("other")).await;
    assert!(matches!(other, Err(AdminError::NotNew { .. })), "{other:?}");
}

#[tokio::test]
async fn init_if_needed_changes_nothing_while_a_server_is_down() {
    let cluster = Cluster::start(3).await;
    cluster.server(2).kill().await;
    let outcome =
        admin::init_if_needed(&builder(cluster.urls()).connect_timeout(Duration::from_secs(1))).await;
    assert!(matches!(outcome, Err(AdminError::Incomplete(_))), "{outcome:?}");
    assert_no_keys(cluster.some(0..2)).await;
}
