//! Tests of latches on in-memory nodes, in virtual time.

#![allow(clippy::disallowed_methods, reason = "these tests use tokio's paused time")]

use std::time::Duration;

use futures::FutureExt;

use crate::{
    MemoryCluster, Quorum,
    error::ClosedReason,
    error::{ConfigError, Error, NodeError},
    lock::tests::{all_behave, client, pass, server, traces::Traces},
    mutation::{Mutation, break_rule},
    node::memory::Behaviour,
};

const SECOND: Duration = Duration::from_secs(1);

fn make_unreachable(cluster: &MemoryCluster, nodes: &[usize]) {
    for node in nodes {
        server(cluster, *node).behave(Behaviour::Failing(NodeError::Unreachable("down".into())));
    }
}

fn make_reachable(cluster: &MemoryCluster, nodes: &[usize]) {
    nodes.iter().for_each(|node| server(cluster, *node).behave(Behaviour::Granting));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_any_answer_returns_no_quorum() {
    let cluster = MemoryCluster::new(3);
    let latch = client(&cluster).latch("l", 1);
    all_behave(&cluster, &Behaviour::Hanging);
    let failed = latch.wait_for(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(failed, Error::NoQuorum(_)), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_latch_opens_for_all_waiting_calls_when_its_count_is_reached() {
    let cluster = MemoryCluster::new(3);
    let clients: Vec<Quorum> = (0..4).map(|_| client(&cluster)).collect();
    let latches: Vec<_> = clients.iter().map(|quorum| quorum.latch("l", 3)).collect();
    let mut waiting: Vec<_> = latches.iter().map(|latch| latch.wait().boxed()).collect();
    for (arrived, latch) in (1..).zip(&latches[..3]) {
        for wait in &mut waiting {
            assert!(wait.now_or_never().is_none());
        }
        pass(10 * SECOND).await;
        latch.arrive().await.unwrap();
        latch.arrive().await.unwrap();
        assert_eq!(
            latches[3].arrivals().await.unwrap(),
            arrived,
            "two calls of one latch count as one arrival"
        );
    }
    let start = tokio::time::Instant::now();
    futures::future::try_join_all(waiting).await.unwrap();
    assert!(
        start.elapsed() < Duration::from_millis(5),
        "{:?}: notices wake the waiting calls",
        start.elapsed()
    );
    latches[3].arrive().await.unwrap();
    assert_eq!(latches[0].arrivals().await.unwrap(), 3, "an open latch counts no arrivals");
    assert_eq!(server(&cluster, 0).subscriptions(), 0, "the calls have ended their subscriptions");
}

#[tokio::test(start_paused = true)]
async fn an_arrival_under_an_id_counts_once_for_all_clients() {
    let cluster = MemoryCluster::new(3);
    let (first, second) = (client(&cluster), client(&cluster));
    first.latch("l", 2).arrive_as("job 1").await.unwrap();
    second.latch("l", 2).arrive_as("job 1").await.unwrap();
    assert_eq!(second.latch("l", 2).arrivals().await.unwrap(), 1);
    second.latch("l", 2).arrive_as("job 2").await.unwrap();
    assert!(first.latch("l", 2).wait_for(SECOND).await.unwrap());
}

/// A different quorum records each of the three arrivals. The call that waits merges the answers.
#[tokio::test(start_paused = true)]
async fn a_latch_opens_even_if_no_node_has_recorded_all_arrivals() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    for (number, unreachable) in [[0, 1], [2, 3], [4, 0]].iter().enumerate() {
        make_unreachable(&cluster, unreachable);
        quorum.latch("l", 3).arrive_as(number.to_string()).await.unwrap();
        make_reachable(&cluster, unreachable);
    }
    let late = client(&cluster);
    assert!(late.latch("l", 3).wait_for(SECOND).await.unwrap());
    for unreachable in [[0, 1], [2, 3], [3, 4]] {
        make_unreachable(&cluster, &unreachable);
        let latest = client(&cluster);
        assert!(latest.latch("l", 3).wait_for(Duration::from_millis(10)).await.unwrap());
        make_reachable(&cluster, &unreachable);
    }
}

/// Nodes 0 and 1 record the arrival `a`, and node 2 the arrival `b`. A first client passes with the
/// answers of nodes 0 and 2, and records both arrivals there. Returns whether a second client then
/// passes with the answers of nodes 0 and 1.
async fn second_client_passes() -> Result<bool, Error> {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    make_unreachable(&cluster, &[2]);
    quorum.latch("l", 2).arrive_as("a").await.unwrap();
    make_reachable(&cluster, &[2]);
    make_unreachable(&cluster, &[0, 1]);
    let latch = quorum.latch("l", 2);
    assert!(tokio::time::timeout(SECOND, latch.arrive_as("b")).await.is_err());
    make_reachable(&cluster, &[0, 1]);
    make_unreachable(&cluster, &[1]);
    assert!(client(&cluster).latch("l", 2).wait_for(SECOND).await.unwrap());
    // Requests that are still on the way to node 1 when the first client passes are lost.
    make_reachable(&cluster, &[1]);
    make_unreachable(&cluster, &[2]);
    client(&cluster).latch("l", 2).wait_for(SECOND).await
}

#[tokio::test(start_paused = true)]
async fn a_client_passes_only_after_a_quorum_has_recorded_the_open_latch() {
    assert_eq!(second_client_passes().await, Ok(true));
    let _broken = break_rule(Some(Mutation::PassWithoutRecord));
    assert_eq!(second_client_passes().await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_the_error_has_the_replies_of_unreachable_nodes() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.latch("l", 1).arrive().await.unwrap();
    make_unreachable(&cluster, &[0, 1]);
    for failed in [
        client(&cluster).latch("l", 1).wait().await.unwrap_err(),
        client(&cluster).latch("l", 1).arrive().await.unwrap_err(),
        client(&cluster).latch("l", 1).arrivals().await.unwrap_err(),
    ] {
        assert!(matches!(failed, Error::NoQuorum(_)), "{failed:?}");
        assert!(failed.to_string().contains("down"), "{failed}");
    }
    make_reachable(&cluster, &[0, 1]);
    assert!(client(&cluster).latch("l", 1).wait_for(SECOND).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_through_an_outage_of_20_s_succeed() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let (first, second) = (quorum.latch("l", 1), client(&cluster).latch("l", 1));
    make_unreachable(&cluster, &[0, 1]);
    let (arrived, waited, ()) = tokio::join!(first.arrive(), second.wait(), async {
        pass(20 * SECOND).await;
        make_reachable(&cluster, &[0, 1]);
    });
    assert_eq!((arrived, waited), (Ok(()), Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_second_of_waiting_for_a_latch_without_a_quorum_causes_one_warning() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let latches = [quorum.latch("l", 1), quorum.latch("m", 1)];
    make_unreachable(&cluster, &[0, 1]);
    let traces = Traces::begin();
    let waiting = futures::future::join_all(latches.iter().map(|latch| latch.wait()));
    let (_, ()) = tokio::join!(waiting, async {
        pass(SECOND * 9 / 10).await;
        assert!(traces.warned().is_empty(), "{:?}", traces.warned());
        pass(10 * SECOND).await;
        assert_eq!(traces.warned(), ["waiting without a quorum"], "one warning for all calls");
        let shortage = traces.only("waiting without a quorum").field("shortage").to_owned();
        assert!(shortage.contains("no quorum for the latch ") && shortage.contains("down"), "{shortage}");
        make_reachable(&cluster, &[0, 1]);
        for latch in &latches {
            latch.arrive().await.unwrap();
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_hanging_node_delays_calls_by_less_than_200_ms() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 0).behave(Behaviour::Hanging);
    let (first, second) = (client(&cluster).latch("l", 2), client(&cluster).latch("l", 2));
    let start = tokio::time::Instant::now();
    first.arrive().await.unwrap();
    let mut waiting = first.wait().boxed();
    assert!((&mut waiting).now_or_never().is_none());
    second.arrive().await.unwrap();
    waiting.await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_count_mismatch_is_an_error_with_both_counts() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.latch("l", 3).arrive().await.unwrap();
    let latch = quorum.latch("l", 2);
    for refused in [latch.arrive().await, latch.wait().await, latch.arrivals().await.map(drop)] {
        let Err(Error::Config(ConfigError::CountMismatch { given: 2, recorded: 3, .. })) = &refused else {
            panic!("{refused:?}")
        };
        assert!(refused.unwrap_err().to_string().contains("opens at 3 arrivals, not at 2"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_opens_a_latch_that_lacks_arrivals() {
    let cluster = MemoryCluster::new(3);
    make_unreachable(&cluster, &[2]);
    let (waiting, operator) = (client(&cluster).latch("l", 3), client(&cluster).latch("l", 3));
    waiting.arrive().await.unwrap();
    let mut wait = waiting.wait().boxed();
    assert!((&mut wait).now_or_never().is_none());
    operator.open().await.unwrap();
    tokio::time::timeout(SECOND, wait).await.unwrap().unwrap();
    // A later wait needs neither of the clients, and no answer of the third node.
    assert_eq!(client(&cluster).latch("l", 3).wait_for(Duration::ZERO).await, Ok(true));
    let refused = client(&cluster).latch("l", 2).open().await.unwrap_err();
    assert!(matches!(refused, Error::Config(ConfigError::CountMismatch { given: 2, recorded: 3, .. })));
    let refused = client(&cluster).latch("m", 2_000_000_000).open().await.unwrap_err();
    assert_eq!(refused.to_string(), "arrivals is 2000000000: expected 1 to 1024");
}

#[tokio::test(start_paused = true)]
async fn an_operator_makes_only_the_missing_arrivals() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.latch("l", 5).arrive_as("one").await.unwrap();
    make_unreachable(&cluster, &[2]);
    quorum.latch("l", 5).arrive_as("two").await.unwrap();
    make_reachable(&cluster, &[2]);
    make_unreachable(&cluster, &[0]);
    client(&cluster).latch("l", 5).open().await.unwrap();
    pass(SECOND).await;
    let inspection = quorum.inspect("l").await.unwrap();
    let arrivals: Vec<_> = inspection.nodes().map(|node| node.arrivals()).collect();
    assert_eq!(arrivals, [None, Some((5, 5)), Some((5, 5))]);
    let latch = inspection.latch().unwrap();
    let chosen: Vec<_> = latch.arrivals().filter(|id| [&b"one"[..], b"two"].contains(id)).collect();
    assert_eq!((chosen.len(), latch.is_open()), (2, true), "{latch:?}");
}

#[cfg(feature = "__command")]
#[tokio::test(start_paused = true)]
async fn all_arrivals_of_a_closed_latch_have_ids() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    for number in 0..40 {
        quorum.latch("l", 41).arrive_as(format!("job {number}")).await.unwrap();
    }
    let latch = quorum.latch("l", 41);
    assert!(!quorum.inspect("l").await.unwrap().latch().unwrap().names_all());
    let ids = latch.arrival_ids().await.unwrap().unwrap();
    assert!(ids.len() == 40 && ids.contains(&b"job 39"[..]), "{ids:?}");
    latch.arrive().await.unwrap();
    assert_eq!(latch.arrival_ids().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn an_inspection_has_the_arrivals_of_a_latch() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    assert_eq!(quorum.inspect("l").await.unwrap().latch(), None);
    quorum.latch("l", 3).arrive_as("one").await.unwrap();
    make_unreachable(&cluster, &[2]);
    quorum.latch("l", 3).arrive_as("two").await.unwrap();
    let inspection = quorum.inspect("l").await.unwrap();
    let latch = inspection.latch().unwrap();
    assert_eq!((latch.count(), latch.arrived(), latch.is_open(), latch.nodes()), (3, 2, false, 2));
    assert_eq!(latch.arrivals().collect::<Vec<_>>(), [b"one", b"two"]);
    assert!(latch.remaining() > 23 * 3600 * SECOND);
    let arrivals: Vec<_> = inspection.nodes().map(|node| node.arrivals()).collect();
    assert_eq!(arrivals, [Some((2, 3)), Some((2, 3)), None]);
    quorum.latch("l", 3).open().await.unwrap();
    assert!(quorum.inspect("l").await.unwrap().latch().unwrap().is_open());
}

#[tokio::test(start_paused = true)]
async fn wait_for_returns_false_if_the_latch_stays_shut() {
    let cluster = MemoryCluster::new(3);
    let latch = client(&cluster).latch("l", 3);
    latch.arrive().await.unwrap();
    assert!(!latch.wait_for(SECOND).await.unwrap());
    assert_eq!(latch.arrivals().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn nodes_delete_a_latch_one_retention_after_the_last_call() {
    let cluster = MemoryCluster::new(3);
    let latch = |name: &str| client(&cluster).latch(name, 2).retention(60 * SECOND);
    latch("left").arrive().await.unwrap();
    let waited = latch("waited for");
    waited.arrive().await.unwrap();
    let mut waiting = waited.wait().boxed();
    assert!((&mut waiting).now_or_never().is_none());
    tokio::select! {
        _ = &mut waiting => panic!("the latch opened before its count"),
        () = pass(100 * SECOND) => {}
    }
    assert_eq!(latch("left").arrivals().await.unwrap(), 0);
    assert_eq!(latch("waited for").arrivals().await.unwrap(), 1);
}

/// The latch is open, so each call passes at once. The calls continue for longer than the retention.
#[tokio::test(start_paused = true)]
async fn calls_prolong_the_retention_of_an_open_latch_and_never_shorten_it() {
    let cluster = MemoryCluster::new(3);
    let latch = || client(&cluster).latch("l", 1).retention(60 * SECOND);
    latch().arrive().await.unwrap();
    for _ in 0..5 {
        pass(40 * SECOND).await;
        assert!(latch().wait_for(SECOND).await.unwrap());
        assert!(latch().retention(SECOND).wait_for(SECOND).await.unwrap());
    }
    pass(61 * SECOND).await;
    assert_eq!(latch().arrivals().await.unwrap(), 0);
}

/// Node 2 lacks an arrival until a first client passes with the answers of nodes 1 and 2. A second client then passes
/// with the answers of node 0, which has forgotten the latch, and node 2.
#[tokio::test(start_paused = true)]
async fn a_client_that_passes_records_the_open_latch_at_a_node_that_lacks_arrivals() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.latch("l", 2).arrive_as("a").await.unwrap();
    make_unreachable(&cluster, &[2]);
    quorum.latch("l", 2).arrive_as("b").await.unwrap();
    make_reachable(&cluster, &[2]);
    make_unreachable(&cluster, &[0]);
    assert!(client(&cluster).latch("l", 2).wait_for(SECOND).await.unwrap());
    make_reachable(&cluster, &[0]);
    make_unreachable(&cluster, &[1]);
    server(&cluster, 0).forget();
    // Until the quarantine of node 0 ends, no quorum answers.
    pass(120 * SECOND).await;
    assert_eq!(client(&cluster).latch("l", 2).arrivals().await, Ok(2));
    assert!(client(&cluster).latch("l", 2).wait_for(SECOND).await.unwrap());
}

/// The latch has count 3 at node 0 and count 2 at node 1, because each arrival reached only one node. The third node
/// decides between the two counts.
#[tokio::test(start_paused = true)]
async fn a_different_count_on_a_minority_of_nodes_is_no_count_mismatch() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    for (count, unreachable) in [(3, [1, 2]), (2, [0, 2])] {
        make_unreachable(&cluster, &unreachable);
        let latch = quorum.latch("l", count);
        assert!(tokio::time::timeout(SECOND, latch.arrive()).await.is_err());
        make_reachable(&cluster, &unreachable);
    }
    make_unreachable(&cluster, &[2]);
    let Error::NoQuorum(split) = quorum.latch("l", 3).arrive().await.unwrap_err() else {
        panic!("the refusal of one node excludes no quorum")
    };
    assert!(split.to_string().contains("the latch has the count 2 there"), "{split}");
    make_reachable(&cluster, &[2]);
    quorum.latch("l", 3).arrive().await.unwrap();
    let refused = quorum.latch("l", 2).arrive().await.unwrap_err();
    assert!(
        matches!(refused, Error::Config(ConfigError::CountMismatch { given: 2, recorded: 3, .. })),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_only_client_may_query_a_latch_but_not_arrive_or_wait() {
    let cluster = MemoryCluster::new(3);
    client(&cluster).latch("l", 2).arrive().await.unwrap();
    let read_only = Quorum::builder().read_only().connect_in_memory(&cluster).unwrap();
    let latch = read_only.latch("l", 2);
    assert_eq!(latch.arrivals().await.unwrap(), 1);
    assert_eq!(latch.arrive().await, Err(Error::Config(ConfigError::ReadOnly)));
    assert_eq!(latch.wait().await, Err(Error::Config(ConfigError::ReadOnly)));
}

#[tokio::test(start_paused = true)]
async fn a_latch_survives_the_loss_of_one_node_s_data_and_opens_after_quarantine() {
    let cluster = MemoryCluster::new(3);
    let (first, second) = (client(&cluster), client(&cluster));
    first.latch("l", 2).arrive().await.unwrap();
    server(&cluster, 0).forget();
    assert_eq!(second.latch("l", 2).arrivals().await.unwrap(), 1);
    second.latch("l", 2).arrive().await.unwrap();
    server(&cluster, 1).forget();
    // Node 2 alone is no quorum, and nodes 0 and 1 are in quarantine.
    let failed = second.latch("l", 2).wait_for(SECOND).await.unwrap_err();
    assert!(matches!(failed, Error::NoQuorum(_)), "{failed:?}");
    pass(120 * SECOND).await;
    assert!(second.latch("l", 2).wait_for(SECOND).await.unwrap());
}

/// The quorum timeout is 30 s, and the quarantine lasts for 60.6 s.
#[tokio::test(start_paused = true)]
async fn calls_of_locks_and_latches_wait_until_a_quarantine_of_all_nodes_ends() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.latch("before", 1).arrive().await.unwrap();
    (0..3).for_each(|node| server(&cluster, node).forget());
    let start = tokio::time::Instant::now();
    let (lock, arriving, waiting) = (quorum.red_lock("r"), quorum.latch("l", 1), quorum.latch("l", 1));
    let (locked, arrived, opened) = tokio::join!(lock.lock(), arriving.arrive(), waiting.wait());
    assert_eq!((locked.map(drop), arrived, opened), (Ok(()), Ok(()), Ok(())));
    assert!((60 * SECOND..62 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
}

/// One node reports the end of its quarantine, but a quorum needs a node that is down.
#[tokio::test(start_paused = true)]
async fn a_call_without_enough_nodes_does_not_wait_for_the_end_of_a_quarantine() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    quorum.latch("before", 1).arrive().await.unwrap();
    server(&cluster, 0).forget();
    make_unreachable(&cluster, &[1, 2]);
    let start = tokio::time::Instant::now();
    let refused = quorum.latch("l", 1).arrive().await.unwrap_err();
    assert!(matches!(refused, Error::NoQuorum(_)), "{refused:?}");
    assert!((30 * SECOND..32 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_refused() {
    let quorum = client(&MemoryCluster::new(1));
    for given in [0, 1_025] {
        let refused = quorum.latch("l", given).arrive().await.unwrap_err();
        assert_eq!(refused.to_string(), format!("arrivals is {given}: expected 1 to 1024"));
    }
    for given in [Duration::ZERO, 31 * 24 * 3600 * SECOND] {
        let refused = quorum.latch("l", 1).retention(given).wait().await.unwrap_err();
        assert!(refused.to_string().ends_with(": expected 1s to 30d"), "{refused}");
    }
    for id in ["", "0123456789012345678901234567890123456789012345678"] {
        let refused = quorum.latch("l", 1).arrive_as(id).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("arrival id is {} bytes: expected 1 to 48 bytes", id.len()));
    }
    assert!(matches!(quorum.latch("", 1).arrive().await, Err(Error::Config(_))));
    quorum.shutdown().await;
    assert_eq!(quorum.latch("l", 1).arrive().await, Err(Error::Closed(ClosedReason::ShutDown)));
    assert_eq!(quorum.latch("l", 1).wait().await, Err(Error::Closed(ClosedReason::ShutDown)));
}

#[tokio::test(start_paused = true)]
async fn a_latch_with_the_largest_count_opens() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let latches: Vec<_> = (0..1_024).map(|_| quorum.latch("l", 1_024)).collect();
    let calls = latches.iter().map(|latch| async {
        latch.arrive().await.unwrap();
        latch.wait().await.unwrap();
    });
    futures::future::join_all(calls).await;
}
