//! Being leader, until that is over.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use super::{NONE, TTL, all_behave, client, election_on, leading, locked_nodes, pass, server, thaw_all};
use crate::{
    MemoryCluster,
    error::ClosedReason,
    error::{Error, LossReason, NodeError},
    mutation::{Mutation, break_rule},
    node::{Operation, memory::Behaviour},
};

/// 30 s less one percent and 2 ms.
const WINDOW: Duration = Duration::from_millis(29_698);

#[tokio::test(start_paused = true)]
async fn a_leader_leads_on_without_a_minority() {
    let cluster = MemoryCluster::new(5);
    let election = election_on(&cluster);
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
async fn a_leader_deposes_itself_before_the_nodes_elect_another_candidate() {
    let cluster = MemoryCluster::new(5);
    let election = election_on(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    let start = tokio::time::Instant::now();
    (0..3).for_each(|node| server(&cluster, node).behave(Behaviour::Hanging));
    assert_eq!(leadership.lost().await.reason, LossReason::Expired);
    assert!(start.elapsed() <= WINDOW, "{:?}", start.elapsed());
    pass(Duration::from_millis(2)).await;
    assert!(!leadership.is_valid() && leadership.remaining().is_zero());
    assert!(election_on(&cluster).try_campaign("host-2").await.is_err(), "no quorum yet");
    thaw_all(&cluster);
    let next = election_on(&cluster).campaign("host-2").await.unwrap();
    assert!(next.term() > leadership.term());
    let late = leadership.proclaim("late").await.unwrap_err();
    assert!(matches!(late, Error::LeaseLost(_)), "{late}");
    assert!(matches!(leadership.resign().await, Err(Error::LeaseLost(_))));
    assert_eq!(leading(&election).await.as_deref(), Some("host-2"));
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_while_its_leader_leads_and_no_longer() {
    let cluster = MemoryCluster::new(3);
    let leadership = election_on(&cluster).campaign("host-1").await.unwrap();
    let term = leadership.while_valid(async { leadership.fencing_token() }).await.unwrap();
    assert_eq!(term, leadership.term());
    assert!(leadership.is_valid(), "it leads on");
    let alive = Arc::new(());
    let inside = Arc::clone(&alive);
    let nodes = cluster.clone();
    let stopped = leadership.while_valid(async move {
        let _inside = inside;
        pass(10 * TTL).await;
        all_behave(&nodes, &Behaviour::Hanging);
        std::future::pending::<()>().await;
    });
    let Err(Error::LeaseLost(lost)) = stopped.await else { panic!("it leads on") };
    assert_eq!(lost.reason, LossReason::Expired);
    assert_eq!(Arc::strong_count(&alive), 1, "the work was not dropped");
}

#[tokio::test(start_paused = true)]
async fn a_leader_changes_its_value_and_keeps_its_term() {
    let cluster = MemoryCluster::new(3);
    let election = election_on(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    for value in ["host-1, busy", "", "host-1"] {
        leadership.proclaim(value).await.unwrap();
        let leader = election.leader().await.unwrap().unwrap();
        assert_eq!((leader.value(), leader.term()), (value.as_bytes(), leadership.term()));
    }
    let too_long = leadership.proclaim(vec![0; 64 * 1024 + 1]).await.unwrap_err();
    assert!(matches!(too_long, Error::Config(_)), "{too_long}");
    assert_eq!(leading(&election).await.as_deref(), Some("host-1"));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_no_quorum_records_is_an_error_and_sent_again() {
    let cluster = MemoryCluster::new(3);
    let election = election_on(&cluster);
    let leadership = election.campaign("old").await.unwrap();
    (0..2).for_each(|node| server(&cluster, node).behave(Behaviour::Failing(NodeError::OutOfMemory)));
    let Err(Error::NoQuorum(no_quorum)) = leadership.proclaim("new").await else {
        panic!("it was kept");
    };
    assert_eq!(no_quorum.node_replies().iter().count(), 3);
    (0..2).for_each(|node| server(&cluster, node).behave(Behaviour::Granting));
    pass(TTL / 3 + Duration::from_secs(1)).await;
    assert_eq!(leading(&election).await.as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_forgot_the_leader_know_it_again_after_a_third_of_the_ttl() {
    let cluster = MemoryCluster::new(5);
    let election = election_on(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    // All in turn, each with the time to heal: nobody knows any more what was said first.
    for node in 0..5 {
        server(&cluster, node).forget();
        pass(TTL / 3 + Duration::from_millis(1)).await;
    }
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!((leader.value(), leader.term()), (&b"host-1"[..], leadership.term()));
}

#[tokio::test(start_paused = true)]
async fn the_value_of_a_resigned_leader_is_not_returned_and_expires() {
    let cluster = MemoryCluster::new(3);
    let election = election_on(&cluster);
    election.campaign("host-1").await.unwrap().resign().await.unwrap();
    assert_eq!(locked_nodes(&cluster), NONE);
    assert_eq!(leading(&election).await, None);
    let guard = client(&cluster).red_lock("e").lock().await.unwrap();
    assert_eq!(leading(&election).await, None, "the next holder is not the last leader");
    {
        let _broken = break_rule(Some(Mutation::ObserveWithoutLock));
        assert_eq!(leading(&election).await.as_deref(), Some("host-1"), "nothing else prevents it");
    }
    drop(guard);
    assert!(server(&cluster, 0).has_leader("e"));
    pass(TTL + Duration::from_millis(1)).await;
    assert!(!server(&cluster, 0).has_leader("e"));
}

#[tokio::test(start_paused = true)]
async fn no_value_is_sent_after_a_leader_resigned_or_was_dropped() {
    let cluster = MemoryCluster::new(3);
    let election = election_on(&cluster);
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
async fn no_task_keeps_the_client_after_its_leadership() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let context = Arc::downgrade(&quorum.client().context);
    let leadership = quorum.election("e").campaign("host-1").await.unwrap();
    let observation = quorum.election("e").observe().unwrap();
    drop(quorum);
    pass(TTL).await;
    assert!(leadership.is_valid());
    drop((leadership, observation));
    pass(Duration::from_millis(1)).await;
    assert!(context.upgrade().is_none(), "a task keeps the connections");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_leadership() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let leadership = quorum.election("e").campaign("host-1").await.unwrap();
    let mut lost = std::pin::pin!(leadership.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    quorum.shutdown().await;
    assert_eq!(lost.await.reason, LossReason::Closed(ClosedReason::ShutDown));
    assert_eq!(leading(&election_on(&cluster)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_force_unlocked_leader_is_deposed_at_its_next_renewal() {
    let cluster = MemoryCluster::new(3);
    let election = election_on(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    crate::admin::force_unlock(&client(&cluster), "e").await.unwrap();
    assert_eq!(leading(&election).await, None);
    let start = tokio::time::Instant::now();
    assert_eq!(leadership.lost().await.reason, LossReason::Revoked);
    assert!(start.elapsed() <= TTL / 3 + Duration::from_millis(1));
    let next = election_on(&cluster).campaign("host-2").await.unwrap();
    assert!(next.term() > leadership.term());
}
