//! What errors tell.

use std::time::Duration;

use redquorum::{
    Vote,
    error::{LockError, LossReason, NodeError, Refusal, RenewError, UnlockError},
};
use redquorum_tests::Cluster;

use super::{client, hold_as};

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
    let Err(LockError::NoQuorum { needed, votes, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((needed, votes.granted(), votes.nodes()), (2, 0, 3));
    let votes: Vec<_> = votes.iter().map(|(_, vote)| vote).collect();
    let Vote::Refused(Refusal::Held { owner, .. }) = votes[0] else { panic!("{votes:?}") };
    assert_eq!(owner.as_ref(), Some(guard.owner()));
    assert!(
        matches!(votes[1], Vote::Unknown(NodeError::Unreachable(_) | NodeError::Disconnected)),
        "{votes:?}"
    );
    assert_eq!(*votes[2], Vote::Unknown(NodeError::TimedOut));
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
        "no quorum for invoice:42: 3 votes needed; \
         {}: granted; \
         {}: held by other:7 for 60s; \
         {}: the key holds something that is not a lock (WRONGTYPE); \
         {}: no answer within the node timeout; \
         {}: the node is out of memory (OOM)",
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
    let outcome = contender.red_lock("held").try_lock_for(Duration::from_millis(100)).await;
    let Err(LockError::TimedOut { votes, waited, .. }) = &outcome else { panic!("{outcome:?}") };
    let names_the_holder = |vote: &Vote| match vote {
        Vote::Refused(Refusal::Held { owner, .. }) => owner.as_ref() == Some(guard.owner()),
        _ => false,
    };
    assert!(votes.iter().any(|(_, vote)| names_the_holder(vote)), "{votes}");
    let message = outcome.as_ref().unwrap_err().to_string();
    assert_eq!(message, format!("held was not free within {waited:.1?}; {votes}"));

    let ttl = Duration::from_millis(300);
    let expired = holder.red_lock("expired").ttl(ttl).without_renewal().lock().await.unwrap();
    expired.lost().await;
    let error = expired.renew().await.unwrap_err();
    assert_eq!(error.to_string(), "the lease on expired is lost: its validity ended");
    let Err(UnlockError::LeaseLost { lost, .. }) = expired.unlock().await else { panic!("unlocked") };
    assert_eq!(lost.reason, LossReason::Expired);

    for server in cluster.servers() {
        hold_as(server, "held", "other:7", Some(Duration::from_secs(10))).await;
    }
    let Err(RenewError::LeaseLost(lost)) = guard.renew().await else { panic!("renewed") };
    assert_eq!(lost.to_string(), "the lease on held is lost: the nodes do not have it any more");

    for server in cluster.servers() {
        server.kill().await;
    }
    let outcome = contender.red_lock("unreachable").try_lock().await;
    let Err(LockError::NoQuorum { votes, .. }) = outcome else { panic!("{outcome:?}") };
    // Two are enough to know; the third may not have been heard by then, which is not the same as
    // silent.
    let gone =
        |vote: &Vote| matches!(vote, Vote::Unknown(NodeError::Unreachable(_) | NodeError::Disconnected));
    assert!(votes.iter().filter(|(_, vote)| gone(vote)).count() >= 2, "{votes}");
    assert!(votes.iter().all(|(_, vote)| gone(vote) || *vote == Vote::Pending), "{votes}");
}

/// A server that was not waited for, because the others had decided, is not called silent.
#[tokio::test]
async fn a_server_that_was_not_waited_for_is_not_called_silent() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    cluster.server(2).freeze().await;
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let votes = guard.votes();
    assert_eq!(votes.iter().last().map(|(_, vote)| vote), Some(&Vote::Pending), "{votes}");
    assert!(votes.to_string().ends_with(": no answer yet"), "{votes}");
}
