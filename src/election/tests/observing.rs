//! Observers: the streams that `Election::observe` returns.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::{TTL, Traces, all_behave, client, election_of_new_client, server, thaw_all};
use crate::{
    MemoryCluster,
    election::{Leader, Leaders},
    error::ClosedReason,
    error::{Error, NodeError},
    mutation::{Mutation, break_rule},
    node::{Operation, memory::Behaviour},
};

/// Returns the next leader, which the stream has to return within 50 ms.
async fn next(leaders: &mut Leaders) -> Leader {
    let soon = tokio::time::timeout(Duration::from_millis(50), leaders.next()).await;
    soon.expect("no leader within 50 ms").expect("the observer has ended")
}

/// Checks that the stream returns no leader within ten ttls.
async fn assert_no_change(leaders: &mut Leaders) {
    assert!(tokio::time::timeout(10 * TTL, leaders.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_the_present_leader_and_all_later_changes() {
    let cluster = MemoryCluster::new(5);
    let first = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    let mut leaders = election_of_new_client(&cluster).observe().unwrap();
    assert_eq!((next(&mut leaders).await.value_str().as_ref(), first.is_valid()), ("host-1", true));
    assert_no_change(&mut leaders).await;
    first.proclaim("host-1, draining").await.unwrap();
    let draining = next(&mut leaders).await;
    assert_eq!((draining.value(), draining.term()), (&b"host-1, draining"[..], first.term()));
    first.resign().await.unwrap();
    assert_no_change(&mut leaders).await;
    let second = election_of_new_client(&cluster).campaign("host-2").await.unwrap();
    let leader = next(&mut leaders).await;
    assert_eq!((leader.value(), leader.term()), (&b"host-2"[..], second.term()));
    assert!(leader.term() > draining.term());
    assert_no_change(&mut leaders).await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_starts_before_the_election_receives_the_first_leader() {
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_of_new_client(&cluster).observe().unwrap();
    assert_no_change(&mut leaders).await;
    let _leadership = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    assert_eq!(next(&mut leaders).await.value_str(), "host-1");
}

#[tokio::test(start_paused = true)]
async fn a_second_of_observing_without_a_quorum_causes_one_warning() {
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_of_new_client(&cluster).observe().unwrap();
    all_behave(&cluster, &Behaviour::Failing(NodeError::Unreachable("down".into())));
    let traces = Traces::begin();
    assert!(tokio::time::timeout(Duration::from_millis(900), leaders.next()).await.is_err());
    assert!(traces.warned().is_empty(), "{:?}", traces.warned());
    assert!(tokio::time::timeout(Duration::from_secs(50), leaders.next()).await.is_err());
    assert_eq!(traces.warned(), ["waiting without a quorum"]);
    let shortage = traces.only("waiting without a quorum").field("shortage").to_owned();
    assert!(shortage.contains("no quorum") && shortage.contains("down"), "{shortage}");
    all_behave(&cluster, &Behaviour::Granting);
    let _leadership = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    let leader = tokio::time::timeout(10 * TTL, leaders.next()).await.unwrap().unwrap();
    assert_eq!(leader.value_str(), "host-1");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_observer_unsubscribes() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
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
        assert_no_change(&mut leaders).await;
    }
    thaw_all(&cluster);
    let _leadership = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    let leader = tokio::time::timeout(Duration::from_secs(8), leaders.next()).await.unwrap();
    assert_eq!(leader.unwrap().value_str(), "host-1", "the poll after the outage has to return the leader");
    let (ended, _) = tokio::join!(leaders.next(), quorum.shutdown());
    assert_eq!(ended, None);
    assert_eq!(StreamExt::next(&mut leaders).now_or_never(), Some(None));
    assert_eq!(quorum.election("e").observe().unwrap_err(), Error::Closed(ClosedReason::ShutDown));
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_notice_is_returned_by_the_next_poll() {
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_of_new_client(&cluster).observe().unwrap();
    assert!(leaders.next().now_or_never().is_none());
    // The stream is not polled when the notices arrive. When the stream handles the notices, the nodes answer queries
    // with errors, so only a later poll finds the leader.
    let leadership = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    all_behave(&cluster, &Behaviour::Failing(NodeError::Loading));
    assert!(tokio::time::timeout(TTL / 2, leaders.next()).await.is_err());
    thaw_all(&cluster);
    let poll = Duration::from_secs(8);
    let leader = tokio::time::timeout(poll, leaders.next())
        .await
        .expect("no leader within the time of a poll")
        .unwrap();
    assert_eq!(leader.value_str(), "host-1");
    drop(leadership);
}

#[tokio::test(start_paused = true)]
async fn an_observer_sends_few_queries_without_changes() {
    let cluster = MemoryCluster::new(5);
    let _leadership = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    let mut leaders = election_of_new_client(&cluster).observe().unwrap();
    next(&mut leaders).await;
    assert_no_change(&mut leaders).await;
    cluster.servers().iter().for_each(|server| drop(server.take_log()));
    assert_no_change(&mut leaders).await;
    let is_query = |operation: &Operation| matches!(operation, Operation::Observe(_));
    let log = cluster.servers().iter().flat_map(|server| server.take_log());
    let queries = u32::try_from(log.filter(is_query).count()).unwrap();
    let per_second = f64::from(queries) / (10 * TTL).as_secs_f64();
    assert!(per_second <= 1.5, "{per_second} queries per second at all nodes together");
}

/// Returns the values that an observer returns while nodes 1 and 2 have the value `1`, and node 0 has the value `2`.
/// First node 1 fails, so a query finds the new value at node 0. Then node 0 fails, so a query finds only the old
/// value.
async fn observed_while_nodes_disagree(leaders: &mut Leaders, cluster: &MemoryCluster) -> Vec<String> {
    let election = election_of_new_client(cluster);
    let leadership = election.campaign("1").await.unwrap();
    let mut observed = vec![next(leaders).await.value_str().into_owned()];
    // Only node 0 records the new value.
    (1..3).for_each(|node| server(cluster, node).behave(Behaviour::Failing(NodeError::OutOfMemory)));
    assert!(leadership.proclaim("2").await.is_err());
    (1..3).for_each(|node| server(cluster, node).behave(Behaviour::Granting));
    for failing in [1, 0] {
        server(cluster, failing).behave(Behaviour::Failing(NodeError::OutOfMemory));
        let next_leader = tokio::time::timeout(Duration::from_secs(8), leaders.next()).await;
        observed.extend(next_leader.into_iter().flatten().map(|leader| leader.value_str().into_owned()));
        server(cluster, failing).behave(Behaviour::Granting);
    }
    observed
}

#[tokio::test(start_paused = true)]
async fn an_observer_never_returns_an_older_value_after_a_newer_value() {
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_of_new_client(&cluster).observe().unwrap();
    assert_eq!(observed_while_nodes_disagree(&mut leaders, &cluster).await, ["1", "2"]);
    let _broken = break_rule(Some(Mutation::ObserveBackwards));
    let cluster = MemoryCluster::new(3);
    let mut leaders = election_of_new_client(&cluster).observe().unwrap();
    assert_eq!(observed_while_nodes_disagree(&mut leaders, &cluster).await, ["1", "2", "1"]);
}
