//! Quorums with too few, unreachable or repeated servers, on real servers.
//!
//! Promises: each server has one vote, and the majority is that of all configured servers, reachable or not.

use std::time::Duration;

use redquorum::{
    Error, Quorum,
    error::{ConfigError, NodeError, NodeReply},
};
use redquorum_tests::{Cluster, Direction, Proxy, eventually};

use super::{
    SOON, WITH_TTL, client, hash, in_order, replies_of, wait_until_unlocked, wait_until_unlocked_on,
};

/// If a server with two addresses were not refused, the server would have two votes.
#[tokio::test]
async fn a_server_behind_two_addresses_is_refused_at_connect() {
    let cluster = Cluster::start(2).await;
    let proxy = Proxy::before(cluster.server(0)).await;
    let run_id = cluster.server(0).run_id().await;
    let by_name = cluster.server(0).url().replace("127.0.0.1", "localhost");
    for other in [proxy.url(), &by_name] {
        let builder = Quorum::builder().admit_new_nodes().nodes(cluster.urls()).nodes([other]);
        // `connect` does not wait for each address. If the second address answers late, `connect` succeeds.
        let refused = async {
            loop {
                if let Err(error) = builder.clone().connect().await {
                    break error;
                }
            }
        };
        let refused = tokio::time::timeout(SOON, refused).await.expect("the second address was not refused");
        let Error::Config(error @ ConfigError::Server { .. }) = refused else {
            panic!("{other}: {refused:?}")
        };
        let address = other.strip_prefix("redis://").unwrap();
        let expected = format!(
            "127.0.0.1:{}: the same server as {address} (run_id {run_id}): each server has one vote, name it once",
            cluster.server(0).port()
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// An address that answers only after `connect` has returned is checked as well.
#[tokio::test]
async fn a_second_address_of_a_server_that_answers_late_is_not_used() {
    let cluster = Cluster::start(2).await;
    let proxy = Proxy::before(cluster.server(0)).await;
    proxy.hold(Direction::Requests);
    let builder = Quorum::builder().admit_new_nodes().nodes(cluster.urls()).nodes([proxy.url()]);
    let quorum = builder.connect().await.unwrap();
    proxy.open(Direction::Requests);
    let is_refused = async || {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        let reply = in_order(&guard.node_replies())[2].clone();
        guard.unlock().await.unwrap();
        let NodeReply::Failed(NodeError::Handshake(cause)) = reply else { return false };
        matches!(*cause, NodeError::SameServer { .. } | NodeError::SameCluster { .. })
    };
    eventually(Duration::from_secs(20), "the second address is refused", is_refused).await;
}

/// The majority is a majority of all configured servers, even if most are unreachable when a client connects.
#[tokio::test]
async fn a_client_that_reaches_a_minority_of_its_servers_has_no_quorum() {
    let cluster = Cluster::start(5).await;
    for server in cluster.some(2..5) {
        server.kill().await;
    }
    let outcome = Quorum::builder().admit_new_nodes().nodes(cluster.urls()).connect().await;
    let replies = replies_of(outcome.unwrap_err());
    assert_eq!((replies.needed(), replies.done(), replies.iter().count()), (3, 2, 5));
    assert_eq!(replies.to_string().matches(": done").count(), 2, "{replies}");
    assert_eq!(
        replies.iter().filter(|(_, reply)| matches!(reply, NodeReply::Failed(_))).count(),
        3,
        "{replies}"
    );
}

/// The majority also stays the same when servers die after `connect`.
#[tokio::test]
async fn the_majority_does_not_shrink_when_servers_die() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    for server in cluster.some(2..5) {
        server.kill().await;
    }
    for _ in 0..3 {
        let outcome = quorum.red_lock("r").try_lock().await;
        let replies = replies_of(outcome.unwrap_err());
        assert_eq!((replies.needed(), replies.iter().count()), (3, 5));
    }
    wait_until_unlocked_on(cluster.some(0..2), "r").await;
}

/// A quorum of one node.
#[tokio::test]
async fn a_single_server_makes_a_plain_lock() {
    let cluster = Cluster::start(1).await;
    let (one, other) = (client(&cluster).await, client(&cluster).await);
    let guard = one.red_lock("r").lock().await.unwrap();
    assert_eq!(guard.node_replies().done(), 1);
    assert_eq!(hash(cluster.server(0), "r").await, [(guard.id().to_string(), "1".to_owned())]);
    assert!(other.red_lock("r").try_lock().await.unwrap().is_none());
    let token = guard.fencing_token();
    let unlocked = guard.unlock().await.unwrap();
    assert_eq!((unlocked.done(), unlocked.iter().count()), (1, 1));
    let next = other.red_lock("r").try_lock().await.unwrap().unwrap();
    assert!(next.fencing_token() > token);
}

/// Two servers need two votes, so locks fail if one server is dead. The attempt leaves no key on the other server.
#[tokio::test]
async fn one_dead_server_of_two_prevents_locks() {
    let cluster = Cluster::start(2).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("r").lock().await.unwrap();
    assert_eq!(guard.node_replies().done(), 2);
    guard.unlock().await.unwrap();
    cluster.server(1).kill().await;
    let outcome = quorum.red_lock("r").try_lock().await;
    let replies = replies_of(outcome.unwrap_err());
    assert_eq!(replies.needed(), 2);
    assert!(replies.done() <= 1, "{replies}");
    wait_until_unlocked_on(cluster.some(0..1), "r").await;
}

/// Four servers need three votes: as with three servers, only one may be down. Two of four are half, and no
/// quorum.
#[tokio::test]
async fn four_servers_lock_with_one_dead_and_not_with_two_dead() {
    let cluster = Cluster::start(4).await;
    let quorum = client(&cluster).await;
    cluster.server(3).kill().await;
    let guard = quorum.red_lock("r").options(WITH_TTL).try_lock().await.unwrap().unwrap();
    assert_eq!(guard.node_replies().done(), 3);
    guard.unlock().await.unwrap();
    cluster.server(2).kill().await;
    let outcome = quorum.red_lock("r").options(WITH_TTL).try_lock().await;
    assert_eq!(replies_of(outcome.unwrap_err()).needed(), 3);
    wait_until_unlocked_on(cluster.some(0..2), "r").await;
    cluster.server(2).restart_empty().await;
    cluster.server(3).restart_empty().await;
    wait_until_unlocked(&cluster, "r").await;
}
