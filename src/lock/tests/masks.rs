//! One attempt of `try_lock` with each combination of granting, refusing, failing and hanging nodes.

use std::time::Duration;

use super::{NONE, client, locked_nodes, thaw_all};
use crate::{
    LockOptions, MemoryCluster,
    algorithm::tally::Electorate,
    error::{Error, NodeError},
    node::memory::Behaviour,
};

const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the behaviour of each node, as `number` encodes it: two bits for each node.
fn behaviours(nodes: usize, number: usize) -> Vec<Behaviour> {
    let behaviour = |node| match number >> (2 * node) & 3 {
        0 => Behaviour::Granting,
        1 => Behaviour::Refusing,
        2 => Behaviour::Failing(NodeError::ReadOnly),
        _ => Behaviour::Hanging,
    };
    (0..nodes).map(behaviour).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Locked,
    Held,
    NoQuorum,
}

/// Returns the expected outcome, which depends only on the number of nodes of each behaviour.
fn expected(behaviours: &[Behaviour]) -> Expected {
    let count =
        |wanted: &dyn Fn(&Behaviour) -> bool| behaviours.iter().filter(|behaviour| wanted(behaviour)).count();
    let needed = Electorate::majority(behaviours.len());
    let granting = count(&|behaviour| *behaviour == Behaviour::Granting);
    let refusing = count(&|behaviour| *behaviour == Behaviour::Refusing);
    if granting >= needed {
        Expected::Locked
    } else if granting + refusing >= needed {
        Expected::Held
    } else {
        Expected::NoQuorum
    }
}

/// Checks the outcome and the duration of `try_lock`, and that no key is left.
async fn check_try_lock(behaviours: &[Behaviour]) {
    let cluster = MemoryCluster::new(behaviours.len());
    for (server, behaviour) in cluster.servers().iter().zip(behaviours) {
        server.behave(behaviour.clone());
    }
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let outcome =
        quorum.red_lock("r").options(LockOptions::new().node_timeout(NODE_TIMEOUT)).try_lock().await;
    let took = start.elapsed();
    let actual = match &outcome {
        Ok(Some(_)) => Expected::Locked,
        Ok(None) => Expected::Held,
        Err(Error::NoQuorum(_)) => Expected::NoQuorum,
        Err(other) => panic!("{behaviours:?}: {other}"),
    };
    assert_eq!(actual, expected(behaviours), "{behaviours:?}");
    if actual == Expected::Locked {
        assert_eq!(took, Duration::ZERO, "{behaviours:?}: the call waits for more nodes than a quorum");
    }
    assert!(took <= NODE_TIMEOUT, "{behaviours:?}: took {took:?}");
    drop(outcome);
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE, "{behaviours:?}: a key is left");
}

async fn check_all_combinations(nodes: usize) {
    for number in 0..1 << (2 * nodes) {
        check_try_lock(&behaviours(nodes, number)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn try_lock_decides_for_each_behaviour_of_one_node() {
    check_all_combinations(1).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_decides_for_all_behaviours_of_two_nodes() {
    check_all_combinations(2).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_decides_for_all_behaviours_of_three_nodes() {
    check_all_combinations(3).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_decides_for_all_behaviours_of_four_nodes() {
    check_all_combinations(4).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_decides_for_all_behaviours_of_five_nodes() {
    check_all_combinations(5).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_decides_for_all_behaviours_of_seven_nodes() {
    check_all_combinations(7).await;
}
