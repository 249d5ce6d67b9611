//! Leaders after their election: their values, their resignation and the loss of their leases.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use super::{
    NONE, TTL, all_behave, client, election_of_new_client, leader_value, locked_nodes, pass, server, thaw_all,
};
use crate::{
    MemoryCluster,
    error::ClosedReason,
    error::{Error, LossReason, NodeError},
    mutation::{Mutation, break_rule},
    node::{Operation, memory::Behaviour},
};

/// The validity of a lease with a ttl of 30 s: the ttl minus drift (1 %) and margin (2 ms).
const VALIDITY: Duration = Duration::from_millis(29_698);

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_its_term_if_a_minority_of_nodes_fails() {
    let cluster = MemoryCluster::new(5);
    let election = election_of_new_client(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    server(&cluster, 0).behave(Behaviour::Hanging);
    server(&cluster, 3).behave(Behaviour::Failing(NodeError::OutOfMemory));
    for _ in 0..20 {
        pass(TTL).await;
        let leader = election.leader().await.unwrap().unwrap();
        assert_eq!(leader.term(), leadership.term());
    }
    assert!(leadership.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_quorum_loses_its_lease_before_the_next_election() {
    let cluster = MemoryCluster::new(5);
    let election = election_of_new_client(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    let start = tokio::time::Instant::now();
    (0..3).for_each(|node| server(&cluster, node).behave(Behaviour::Hanging));
    assert_eq!(leadership.lost().await.reason, LossReason::Expired);
    assert!(start.elapsed() <= VALIDITY, "{:?}", start.elapsed());
    pass(Duration::from_millis(2)).await;
    assert!(!leadership.is_valid() && leadership.remaining().is_zero());
    assert!(election_of_new_client(&cluster).try_campaign("host-2").await.is_err(), "no quorum answers yet");
    thaw_all(&cluster);
    let next = election_of_new_client(&cluster).campaign("host-2").await.unwrap();
    assert!(next.term() > leadership.term());
    let after_loss = leadership.proclaim("late").await.unwrap_err();
    assert!(matches!(after_loss, Error::LeaseLost(_)), "{after_loss}");
    assert!(matches!(leadership.resign().await, Err(Error::LeaseLost(_))));
    assert_eq!(leader_value(&election).await.as_deref(), Some("host-2"));
}

#[tokio::test(start_paused = true)]
async fn while_valid_drops_its_work_when_the_leader_loses_the_lease() {
    let cluster = MemoryCluster::new(3);
    let leadership = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    let term = leadership.while_valid(async { leadership.fencing_token() }).await.unwrap();
    assert_eq!(term, leadership.term());
    assert!(leadership.is_valid(), "the end of the work has ended the leadership");
    let captured = Arc::new(());
    let inside = Arc::clone(&captured);
    let nodes = cluster.clone();
    let work = leadership.while_valid(async move {
        let _inside = inside;
        pass(10 * TTL).await;
        all_behave(&nodes, &Behaviour::Hanging);
        std::future::pending::<()>().await;
    });
    let Err(Error::LeaseLost(lost)) = work.await else { panic!("the lease is not lost") };
    assert_eq!(lost.reason, LossReason::Expired);
    assert_eq!(Arc::strong_count(&captured), 1, "the work was not dropped");
}

#[tokio::test(start_paused = true)]
async fn a_leader_changes_its_value_and_keeps_its_term() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    for value in ["host-1, busy", "", "host-1"] {
        leadership.proclaim(value).await.unwrap();
        let leader = election.leader().await.unwrap().unwrap();
        assert_eq!((leader.value(), leader.term()), (value.as_bytes(), leadership.term()));
    }
    let too_long = leadership.proclaim(vec![0; 64 * 1024 + 1]).await.unwrap_err();
    assert!(matches!(too_long, Error::Config(_)), "{too_long}");
    assert_eq!(leader_value(&election).await.as_deref(), Some("host-1"));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_no_quorum_recorded_is_sent_again_after_a_renewal() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let leadership = election.campaign("old").await.unwrap();
    (0..2).for_each(|node| server(&cluster, node).behave(Behaviour::Failing(NodeError::OutOfMemory)));
    let Err(Error::NoQuorum(no_quorum)) = leadership.proclaim("new").await else {
        panic!("a quorum recorded the value");
    };
    assert_eq!(no_quorum.node_replies().iter().count(), 3);
    (0..2).for_each(|node| server(&cluster, node).behave(Behaviour::Granting));
    pass(TTL / 3 + Duration::from_secs(1)).await;
    assert_eq!(leader_value(&election).await.as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn nodes_without_data_get_the_value_after_the_next_renewal() {
    let cluster = MemoryCluster::new(5);
    let election = election_of_new_client(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    // The nodes lose their data one after the other. After each loss, the next renewal restores the lock at the node,
    // and then the leader sends the node its value again. At the end, each node has lost the value of the campaign
    // once.
    for node in 0..5 {
        server(&cluster, node).forget();
        pass(TTL / 3 + Duration::from_millis(1)).await;
    }
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!((leader.value(), leader.term()), (&b"host-1"[..], leadership.term()));
}

#[tokio::test(start_paused = true)]
async fn the_value_of_a_resigned_leader_is_hidden_and_expires_after_a_ttl() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    election.campaign("host-1").await.unwrap().resign().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
    assert_eq!(leader_value(&election).await, None);
    let guard = client(&cluster).red_lock("e").lock().await.unwrap();
    assert_eq!(
        leader_value(&election).await,
        None,
        "the query returns the value of the resigned leader while another lease holds the lock"
    );
    {
        let _broken = break_rule(Some(Mutation::ObserveWithoutLock));
        assert_eq!(
            leader_value(&election).await.as_deref(),
            Some("host-1"),
            "the query has to return the old value if the check of its lease id is switched off"
        );
    }
    drop(guard);
    assert!(server(&cluster, 0).has_leader("e"));
    pass(TTL + Duration::from_millis(1)).await;
    assert!(!server(&cluster, 0).has_leader("e"));
}

#[tokio::test(start_paused = true)]
async fn a_resigned_or_dropped_leadership_sends_no_requests() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    for is_dropped in [true, false] {
        let leadership = election.campaign("host-1").await.unwrap();
        pass(TTL).await;
        if is_dropped {
            drop(leadership);
        } else {
            leadership.resign().await.unwrap();
        }
        cluster.servers().iter().for_each(|server| drop(server.take_log()));
        pass(2 * TTL).await;
        for server in cluster.servers() {
            assert_eq!(server.take_log(), Vec::<Operation>::new());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_drop_of_leadership_and_observer_drops_the_client() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let context = Arc::downgrade(&quorum.client().context);
    let leadership = quorum.election("e").campaign("host-1").await.unwrap();
    let leaders = quorum.election("e").observe().unwrap();
    drop(quorum);
    pass(TTL).await;
    assert!(leadership.is_valid());
    drop((leadership, leaders));
    pass(Duration::from_millis(1)).await;
    assert!(context.upgrade().is_none(), "a background task still has the client context");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_term_of_a_leader() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let leadership = quorum.election("e").campaign("host-1").await.unwrap();
    let mut lost = std::pin::pin!(leadership.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    quorum.shutdown().await;
    assert_eq!(lost.await.reason, LossReason::Closed(ClosedReason::ShutDown));
    assert_eq!(leader_value(&election_of_new_client(&cluster)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlocked_leader_loses_its_lease_by_the_next_renewal() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    crate::admin::force_unlock(&client(&cluster), "e").await.unwrap();
    assert_eq!(leader_value(&election).await, None);
    let start = tokio::time::Instant::now();
    assert_eq!(leadership.lost().await.reason, LossReason::Revoked);
    assert!(start.elapsed() <= TTL / 3 + Duration::from_millis(1));
    let next = election_of_new_client(&cluster).campaign("host-2").await.unwrap();
    assert!(next.term() > leadership.term());
}
