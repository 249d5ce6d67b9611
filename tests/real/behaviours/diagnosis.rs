//! What errors tell.

use std::time::Duration;

use redquorum::{
    LockOptions,
    error::{LossReason, NodeError, NodeReply, Refusal},
};
use redquorum_tests::Cluster;

use super::{client, hold_as, loss, replies_of};

/// A server that cannot be asked has said nothing. It is reported as such, beside what the
/// others said, and never makes a held resource look free.
#[tokio::test]
async fn a_server_that_cannot_be_asked_is_unknown_and_never_free() {
    let cluster = Cluster::start(3).await;
    let (holder, contender) = (client(&cluster).await, client(&cluster).await);
    let guard = holder.red_lock("r").lock().await.unwrap();
    cluster.server(1).kill().await;
    cluster.server(2).freeze().await;
    let outcome = contender.red_lock("r").try_lock().await;
    let replies = replies_of(outcome.unwrap_err());
    assert_eq!((replies.needed(), replies.done(), replies.iter().count()), (2, 0, 3));
    let replies: Vec<_> = replies.iter().map(|(_, reply)| reply).collect();
    let NodeReply::Refused(Refusal::Held { by, .. }) = replies[0] else { panic!("{replies:?}") };
    assert_eq!(by.as_ref(), Some(guard.id()));
    assert!(
        matches!(replies[1], NodeReply::Failed(NodeError::Unreachable(_) | NodeError::Disconnected)),
        "{replies:?}"
    );
    assert_eq!(*replies[2], NodeReply::Failed(NodeError::TimedOut));
}

/// An error reads as a sentence that names every node and what it said.
#[tokio::test]
async fn an_error_says_node_by_node_what_stood_in_the_way() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    // A lock without a ttl counts as one that is held for the longest ttl there is.
    hold_as(cluster.server(1), "invoice:42", "other:7", None).await;
    cluster.server(2).command(&["SET", "invoice:42", "not a lock"]).await;
    cluster.server(3).freeze().await;
    cluster.server(4).command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = quorum.red_lock("invoice:42").try_lock().await.unwrap_err();
    let node = |number: usize| format!("127.0.0.1:{}", cluster.server(number).port());
    let expected = format!(
        "no quorum for invoice:42: 3 of 5 nodes needed; \
         {}: done; \
         {}: held by other:7 for 60s; \
         {}: the key holds something that is not a lock (WRONGTYPE): name another resource, or delete the key; \
         {}: no answer within the node timeout; \
         {}: the node is out of memory (OOM): raise its maxmemory",
        node(0),
        node(1),
        node(2),
        node(3),
        node(4),
    );
    assert_eq!(error.to_string(), expected);
}

/// That others hold it, that nobody can be asked, that time ran out and that it was taken
/// away are four things.
#[tokio::test]
async fn held_unreachable_expired_and_taken_away_are_told_apart() {
    let cluster = Cluster::start(3).await;
    let (holder, contender) = (client(&cluster).await, client(&cluster).await);
    let guard = holder.red_lock("held").lock().await.unwrap();
    assert!(contender.red_lock("held").try_lock().await.unwrap().is_none());
    assert!(contender.red_lock("held").try_lock_for(Duration::from_millis(100)).await.unwrap().is_none());
    let inspection = contender.inspect("held").await.unwrap();
    assert_eq!(inspection.holder(), Some(guard.id()));
    assert!(
        inspection.to_string().contains(&format!("held by {}, 1 times, for ", guard.id())),
        "{inspection}"
    );

    let ttl = Duration::from_millis(300);
    let fixed = LockOptions::new().ttl(ttl).without_renewal();
    let expired = holder.red_lock("expired").options(fixed).lock().await.unwrap();
    expired.lost().await;
    let error = expired.renew().await.unwrap_err();
    assert_eq!(error.to_string(), "the lease on expired is lost: its validity ended");
    assert_eq!(loss(expired.unlock().await.unwrap_err()), LossReason::Expired);

    for server in cluster.servers() {
        hold_as(server, "held", "other:7", Some(Duration::from_secs(10))).await;
    }
    let error = guard.renew().await.unwrap_err();
    assert_eq!(error.to_string(), "the lease on held is lost: the nodes do not have it any more");
    assert_eq!(loss(error), LossReason::Revoked);

    for server in cluster.servers() {
        server.kill().await;
    }
    let outcome = contender.red_lock("unreachable").try_lock().await;
    let replies = replies_of(outcome.unwrap_err());
    // Two are enough to know; the third may not have been heard by then, which is not the same as
    // silent.
    let gone = |reply: &NodeReply| {
        matches!(reply, NodeReply::Failed(NodeError::Unreachable(_) | NodeError::Disconnected))
    };
    assert!(replies.iter().filter(|(_, reply)| gone(reply)).count() >= 2, "{replies}");
    assert!(replies.iter().all(|(_, reply)| gone(reply) || *reply == NodeReply::Pending), "{replies}");
}

/// A server that was not waited for, because the others had decided, is not called silent.
#[tokio::test]
async fn a_server_that_was_not_waited_for_is_not_called_silent() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    cluster.server(2).freeze().await;
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let replies = guard.node_replies();
    assert_eq!(replies.iter().last().map(|(_, reply)| reply), Some(&NodeReply::Pending), "{replies}");
    assert!(replies.to_string().ends_with(": no answer yet"), "{replies}");
}
