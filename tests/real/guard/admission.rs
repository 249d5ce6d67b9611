//! How nodes come to vote for the first time: admitted by an administrator, or after a quarantine.

use std::time::Instant;

use redis::cmd;
use redquorum::{
    LockOptions, Vote,
    admin::{AdmissionError, Initialized},
    error::Refusal,
    inspection::LockState,
};

use super::*;
use crate::real::behaviours::{calls_of, in_order};

/// How long a node is out of votes: as clocks may differ, a little longer than the longest ttl.
const QUARANTINE: Duration = Duration::from_millis(3_000 + 30 + 2);

/// The addresses of the nodes as errors show them.
fn addresses(cluster: &Cluster) -> Vec<String> {
    cluster.servers().iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
}

/// Nothing at all is on these servers.
async fn are_untouched(servers: &[Server]) {
    for server in servers {
        assert!(server.keys().await.is_empty(), "{} is not as it was", server.url());
    }
}

/// S50: "all of them are empty" may also mean that all of them have crashed.
#[tokio::test]
async fn new_servers_that_nobody_admitted_say_so_with_the_time_that_is_left_and_the_way_out() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let Err(error) = quorum.red_lock("r").try_lock().await else { panic!("a lock on new servers") };
    let LockError::Quarantined { needed: 2, remaining: Some(remaining), .. } = error else {
        panic!("{error}")
    };
    assert!(remaining > QUARANTINE / 2 && remaining <= QUARANTINE, "{remaining:?}");
    for hint in addresses(&cluster).iter().map(String::as_str).chain([
        "`redquorum init`",
        "`QuorumBuilder::init`",
        "new",
    ]) {
        assert!(error.to_string().contains(hint), "{error} does not name {hint}");
    }
}

#[tokio::test]
async fn a_lock_with_a_long_quorum_timeout_waits_out_the_quarantine_of_new_servers() {
    let cluster = Cluster::start(3).await;
    let begin = Instant::now();
    let lock = builder(cluster.urls()).connect().await.unwrap().red_lock("r");
    let impatient =
        lock.clone().options(LockOptions::new().quorum_timeout(Duration::from_millis(300))).lock().await;
    assert!(matches!(impatient, Err(LockError::Quarantined { .. })), "{impatient:?}");
    let patient = Instant::now();
    let guard = lock.options(LockOptions::new().quorum_timeout(QUARANTINE * 2)).lock().await.unwrap();
    assert!(begin.elapsed() >= QUARANTINE, "{:?}", begin.elapsed());
    // The last attempt is made when the quorum timeout ends.
    assert!(patient.elapsed() < QUARANTINE * 2 + Duration::from_secs(1), "{:?}", patient.elapsed());
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn servers_that_are_made_a_quorum_vote_at_once() {
    let cluster = Cluster::start(3).await;
    builder(cluster.urls()).init().await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    quorum.red_lock("r").try_lock().await.unwrap().unwrap().unlock().await.unwrap();
}

/// Servers that were made a quorum and lost everything are no new ones to a client.
#[tokio::test]
async fn a_quorum_that_has_lost_everything_is_not_taken_for_a_new_one() {
    let cluster = Cluster::start(3).await;
    let [quorum, _] = two_clients(&cluster, RestartGuard::PerConnection).await;
    join_all(cluster.servers().iter().map(Server::restart_empty)).await;
    let lock = quorum.red_lock("r");
    let is_told =
        async || matches!(lock.try_lock().await, Err(LockError::Quarantined { remaining: Some(_), .. }));
    eventually(SOON, "the servers are in quarantine", is_told).await;
    drop(had(&lock).await);
}

#[tokio::test]
async fn a_quorum_is_made_once() {
    let cluster = Cluster::start(3).await;
    builder(cluster.urls()).init().await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let again = builder(cluster.urls()).init().await;
    let Err(AdmissionError::NotNew { node, theirs }) = again else { panic!("{again:?}") };
    assert_eq!(*node, addresses(&cluster)[0]);
    assert_eq!(
        theirs.as_str(),
        "name=redquorum nodes=3 needed=2 max_ttl=3000ms attempt_timeout=600ms drift=0.01 protocol=1"
    );
    guard.renew().await.unwrap();
    assert!(quorum.red_lock("other").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn nothing_is_changed_where_one_of_the_servers_belongs_to_a_quorum_already() {
    let cluster = Cluster::start(3).await;
    builder([cluster.server(2).url()]).name("theirs").init().await.unwrap();
    let outcome = builder(cluster.urls()).init().await;
    let Err(AdmissionError::NotNew { node, theirs }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(*node, addresses(&cluster)[2]);
    assert!(theirs.as_str().starts_with("name=theirs nodes=1 "), "{theirs}");
    are_untouched(cluster.some(0..2)).await;
    let owner = builder([cluster.server(2).url()]).name("theirs").connect().await.unwrap();
    assert!(owner.red_lock("r").try_lock().await.unwrap().is_some());
}

#[tokio::test]
async fn no_quorum_is_made_while_one_of_its_servers_is_down() {
    let cluster = Cluster::start(3).await;
    cluster.server(2).kill().await;
    let builder = builder(cluster.urls()).connect_timeout(Duration::from_secs(1));
    let outcome = builder.clone().init().await;
    let Err(AdmissionError::Incomplete { votes }) = &outcome else { panic!("{outcome:?}") };
    assert!(matches!(in_order(votes)[..], [Vote::NotAsked, Vote::NotAsked, Vote::Unknown(_)]), "{votes}");
    are_untouched(cluster.some(0..2)).await;
    cluster.server(2).restart_empty().await;
    builder.init().await.unwrap();
}

/// One of them finds metadata that is a moment old, and leaves it as it is.
#[tokio::test]
async fn clients_that_find_new_servers_at_the_same_time_begin_one_quarantine() {
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
            assert!(after > 0 && after <= before, "prolonged: {after} after {before}");
            assert_eq!(calls_of(server, &["hset"]).await, 1, "one write of metadata");
            assert_eq!(calls_of(server, &["set"]).await, 1, "one quarantine");
        }
        for quorum in [one.unwrap(), other.unwrap(), third] {
            had(&quorum.red_lock("r")).await.unlock().await.unwrap();
        }
    }
}

/// Nobody can have a lease of a quorum that is in its first quarantine.
#[tokio::test]
async fn servers_that_a_client_has_found_before_are_made_a_quorum_and_vote_at_once() {
    let cluster = Cluster::start(3).await;
    let early = builder(cluster.urls()).connect().await.unwrap();
    let outcome = early.red_lock("r").try_lock().await;
    assert!(matches!(outcome, Err(LockError::Quarantined { .. })), "{outcome:?}");
    builder(cluster.urls()).init().await.unwrap();
    early.red_lock("r").try_lock().await.unwrap().unwrap().unlock().await.unwrap();
    let again = builder(cluster.urls()).init().await;
    assert!(matches!(again, Err(AdmissionError::NotNew { .. })), "{again:?}");
}

#[tokio::test]
async fn servers_that_forgot_a_lease_are_not_made_a_quorum_once_its_holder_has_renewed_it() {
    let cluster = Cluster::start(3).await;
    builder(cluster.urls()).init().await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    for server in cluster.servers() {
        server.command(&["FLUSHALL"]).await;
    }
    let renewed = guard.renew().await;
    assert!(renewed.is_err(), "they forgot: {renewed:?}");
    let outcome = builder(cluster.urls()).init().await;
    assert!(matches!(outcome, Err(AdmissionError::NotNew { .. })), "{outcome:?}");
    let if_needed = builder(cluster.urls()).init_if_needed().await;
    assert!(matches!(if_needed, Ok(Initialized::Before { .. })), "{if_needed:?}");
    let other = quorum.red_lock("other").try_lock().await;
    assert!(matches!(other, Err(LockError::Quarantined { .. })), "{other:?}");
}

#[tokio::test]
async fn a_client_that_only_looks_leaves_new_servers_untouched_and_they_can_be_made_a_quorum() {
    let cluster = Cluster::start(3).await;
    let looking = builder(cluster.urls()).read_only().connect().await.unwrap();
    assert_eq!(looking.red_lock("r").inspect().await.unwrap().state(), LockState::Free);
    assert_eq!(looking.election("e").leader().await.unwrap(), None);
    are_untouched(cluster.servers()).await;
    builder(cluster.urls()).init().await.unwrap();
    let quorum = builder(cluster.urls()).connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let found = looking.red_lock("r").inspect().await.unwrap();
    assert_eq!(found.owner(), Some(guard.owner()));
}

#[tokio::test]
async fn a_quorum_that_is_needed_is_made_once_and_found_from_then_on() {
    let cluster = Cluster::start(3).await;
    let builder = builder(cluster.urls()).connect_timeout(Duration::from_secs(1));
    assert_eq!(builder.clone().init_if_needed().await.unwrap(), Initialized::Now);
    let quorum = builder.clone().connect().await.unwrap();
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let found = async || match builder.clone().init_if_needed().await.unwrap() {
        Initialized::Before { votes } => in_order(&votes),
        other => panic!("{other:?}"),
    };
    assert_eq!(found().await, [Vote::Granted, Vote::Granted, Vote::Granted]);
    cluster.server(2).kill().await;
    assert!(matches!(found().await[..], [Vote::Granted, Vote::Granted, Vote::Unknown(_)]));
    // What comes back empty may have forgotten.
    cluster.server(2).restart_empty().await;
    let votes = found().await;
    let joins = Vote::Granted;
    assert_eq!(votes[..2], [joins.clone(), joins]);
    assert!(matches!(votes[2], Vote::Refused(Refusal::Quarantined { remaining: Some(_) })), "{votes:?}");
    assert!(cluster.server(2).keys().await.contains(&"redquorum:quarantine".to_owned()));
    guard.ensure().unwrap();
    let other = builder.name("other").init_if_needed().await;
    assert!(matches!(other, Err(AdmissionError::NotNew { .. })), "{other:?}");
}

#[tokio::test]
async fn a_quorum_is_not_made_if_needed_while_a_server_is_down_that_may_know_of_one() {
    let cluster = Cluster::start(3).await;
    cluster.server(2).kill().await;
    let outcome = builder(cluster.urls()).connect_timeout(Duration::from_secs(1)).init_if_needed().await;
    assert!(matches!(outcome, Err(AdmissionError::Incomplete { .. })), "{outcome:?}");
    are_untouched(cluster.some(0..2)).await;
}
