//! Following leaders.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::{TTL, all_behave, client, election_on, server, thaw_all};
use crate::{
    MemoryCluster,
    election::{Leader, Leaders},
    error::ClosedReason,
    error::{Error, NodeError},
    mutation::{Mutation, break_rule},
    node::{Operation, memory::Behaviour},
};

/// What comes next, soon.
async fn next(leaders: &mut Leaders) -> Leader {
    let soon = tokio::time::timeout(Duration::from_millis(50), leaders.next()).await;
    soon.expect("nothing new").expect("not the end")
}

/// Nothing comes for a long time.
async fn is_quiet(leaders: &mut Leaders) {
    assert!(tokio::time::timeout(10 * TTL, leaders.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_the_present_leader_and_every_change() {
    let cluster = MemoryCluster::new(5);
    let first = election_on(&cluster).campaign("host-1").await.unwrap();
    let mut leaders = election_on(&cluster).observe().unwrap();
    assert_eq!((next(&mut leaders).await.value_str().as_ref(), first.is_valid()), ("host-1", true));
    is_quiet(&mut leaders).await;
    first.proclaim("host-1, draining").await.unwrap();
    let draining = next(&mut leaders).await;
    assert_eq!((draining.value(), draining.term()), (&b"host-1, draining"[..], first.term()));
    first.resign().await.unwrap();
    is_quiet(&mut leaders).await;
    let second = election_on(&cluster).campaign("host-2").await.unwrap();
    let leader = next(&mut leaders).await;
    assert_eq!((leader.value(), leader.term()), (&b"host-2"[..], second.term()));
    assert!(leader.term() > draining.term());
    is_quiet(&mut leaders).await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_before_the_election_receives_the_first_leader() {
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_on(&cluster).observe().unwrap();
    is_quiet(&mut leaders).await;
    let _leadership = election_on(&cluster).campaign("host-1").await.unwrap();
    assert_eq!(next(&mut leaders).await.value_str(), "host-1");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_observer_unsubscribes() {
    let cluster = MemoryCluster::new(3);
    let election = election_on(&cluster);
    let leaders = [election.observe().unwrap(), election.observe().unwrap()];
    assert_eq!(server(&cluster, 0).subscriptions(), 2);
    drop(leaders);
    assert_eq!(server(&cluster, 0).subscriptions(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_a_shutdown_ends_an_observer() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let mut leaders = quorum.election("e").observe().unwrap();
    for behaviour in [Behaviour::Hanging, Behaviour::Failing(NodeError::ReadOnly)] {
        all_behave(&cluster, &behaviour);
        is_quiet(&mut leaders).await;
    }
    thaw_all(&cluster);
    let _leadership = election_on(&cluster).campaign("host-1").await.unwrap();
    let leader = tokio::time::timeout(Duration::from_secs(8), leaders.next()).await.unwrap();
    assert_eq!(leader.unwrap().value_str(), "host-1", "caught up with");
    let (ended, _) = tokio::join!(leaders.next(), quorum.shutdown());
    assert_eq!(ended, None);
    assert_eq!(StreamExt::next(&mut leaders).now_or_never(), Some(None));
    assert_eq!(quorum.election("e").observe().unwrap_err(), Error::Closed(ClosedReason::ShutDown));
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_notice_is_returned_by_the_next_poll() {
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_on(&cluster).observe().unwrap();
    assert!(leaders.next().now_or_never().is_none());
    // The notices come while nothing can be asked, and are of no use.
    let leadership = election_on(&cluster).campaign("host-1").await.unwrap();
    all_behave(&cluster, &Behaviour::Failing(NodeError::Loading));
    assert!(tokio::time::timeout(TTL / 2, leaders.next()).await.is_err());
    thaw_all(&cluster);
    let poll = Duration::from_secs(8);
    let leader = tokio::time::timeout(poll, leaders.next()).await.expect("later than a poll").unwrap();
    assert_eq!(leader.value_str(), "host-1");
    drop(leadership);
}

#[tokio::test(start_paused = true)]
async fn an_observer_sends_few_queries_without_changes() {
    let cluster = MemoryCluster::new(5);
    let _leadership = election_on(&cluster).campaign("host-1").await.unwrap();
    let mut leaders = election_on(&cluster).observe().unwrap();
    next(&mut leaders).await;
    is_quiet(&mut leaders).await;
    cluster.servers().iter().for_each(|server| drop(server.take_log()));
    is_quiet(&mut leaders).await;
    let asked = |operation: &Operation| matches!(operation, Operation::Observe(_));
    let log = cluster.servers().iter().flat_map(|server| server.take_log());
    let asked = u32::try_from(log.filter(asked).count()).unwrap();
    let per_second = f64::from(asked) / (10 * TTL).as_secs_f64();
    assert!(per_second <= 1.5, "{per_second} commands a second, all nodes together");
}

/// Two of three nodes have the old value; which of them are asked first decides what is seen.
async fn asks_while_a_value_is_under_way(leaders: &mut Leaders, cluster: &MemoryCluster) -> Vec<String> {
    let election = election_on(cluster);
    let leadership = election.campaign("1").await.unwrap();
    let mut seen = vec![next(leaders).await.value_str().into_owned()];
    // Only node 0 takes the new one.
    (1..3).for_each(|node| server(cluster, node).behave(Behaviour::Failing(NodeError::OutOfMemory)));
    assert!(leadership.proclaim("2").await.is_err());
    (1..3).for_each(|node| server(cluster, node).behave(Behaviour::Granting));
    for silent in [1, 0] {
        server(cluster, silent).behave(Behaviour::Failing(NodeError::OutOfMemory));
        let more = tokio::time::timeout(Duration::from_secs(8), leaders.next()).await;
        seen.extend(more.into_iter().flatten().map(|leader| leader.value_str().into_owned()));
        server(cluster, silent).behave(Behaviour::Granting);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn an_observer_never_returns_an_earlier_value() {
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_on(&cluster).observe().unwrap();
    assert_eq!(asks_while_a_value_is_under_way(&mut leaders, &cluster).await, ["1", "2"]);
    let _broken = break_rule(Some(Mutation::ObserveBackwards));
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_on(&cluster).observe().unwrap();
    assert_eq!(asks_while_a_value_is_under_way(&mut leaders, &cluster).await, ["1", "2", "1"]);
}
