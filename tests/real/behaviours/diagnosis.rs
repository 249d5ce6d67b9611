//! Errors on real servers: the address of each node with its reply, and the cause of a failed call.

use std::time::Duration;

use redquorum::{
    LockOptions,
    error::{LossReason, NodeError, NodeReply, Refusal},
};
use redquorum_tests::Cluster;

use super::{client, loss, put_lock, replies_of};

/// A server without an answer is reported as unreachable or timed out, beside the replies of the other
/// servers. A held resource never looks free.
#[tokio::test]
async fn a_server_without_an_answer_is_reported_as_failed_and_never_as_free() {
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
        matches!(
            replies[1],
            NodeReply::Failed(
                NodeError::Unreachable(_) | NodeError::NotExecuted(_) | NodeError::Disconnected
            )
        ),
        "{replies:?}"
    );
    assert_eq!(*replies[2], NodeReply::Failed(NodeError::TimedOut));
}

/// The text of an error names each node with its reply.
#[tokio::test]
async fn an_error_names_each_node_with_its_reply() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    // A lock without a ttl counts as held for `max_ttl`.
    put_lock(cluster.server(1), "invoice:42", "other:7", None).await;
    cluster.server(2).command(&["SET", "invoice:42", "not a lock"]).await;
    cluster.server(3).freeze().await;
    cluster.server(4).command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = quorum.red_lock("invoice:42").try_lock().await.unwrap_err();
    let node = |number: usize| cluster.server(number).address();
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

/// Four causes have four different results: held by another client, no quorum reachable, validity ended, and
/// lease revoked.
#[tokio::test]
async fn held_unreachable_expired_and_revoked_have_different_results() {
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
        put_lock(server, "held", "other:7", Some(Duration::from_secs(10))).await;
    }
    let error = guard.renew().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the lease on held is lost: the nodes do not have it any more: it was force-unlocked, or its keys \
         were deleted or lost"
    );
    assert_eq!(loss(error), LossReason::Revoked);

    for server in cluster.servers() {
        server.kill().await;
    }
    let outcome = contender.red_lock("unreachable").try_lock().await;
    let replies = replies_of(outcome.unwrap_err());
    // Two unreachable nodes decide the call. If the third reply is outstanding at that time, it is `Pending`.
    let is_unreachable = |reply: &NodeReply| {
        matches!(
            reply,
            NodeReply::Failed(
                NodeError::Unreachable(_) | NodeError::NotExecuted(_) | NodeError::Disconnected
            )
        )
    };
    assert!(replies.iter().filter(|(_, reply)| is_unreachable(reply)).count() >= 2, "{replies}");
    assert!(
        replies.iter().all(|(_, reply)| is_unreachable(reply) || *reply == NodeReply::Pending),
        "{replies}"
    );
}

/// If the other servers decide a call before a server answers, the reply of this server is `Pending`, and not a
/// failure.
#[tokio::test]
async fn a_server_that_the_decision_did_not_need_is_reported_as_pending() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    cluster.server(2).freeze().await;
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let replies = guard.node_replies();
    assert_eq!(replies.iter().last().map(|(_, reply)| reply), Some(&NodeReply::Pending), "{replies}");
    assert!(replies.to_string().ends_with(": no answer before the end of the call"), "{replies}");
}
