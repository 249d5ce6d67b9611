//! Every mixture of granting, refusing, failing and hanging nodes.

use std::time::Duration;

use super::{NONE, client, locked_nodes, thaw_all};
use crate::{
    LockOptions, MemoryCluster,
    algorithm::tally::Electorate,
    error::{Error, NodeError},
    node::memory::Behaviour,
};

const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// The n-th of the four behaviours to the power of nodes.
fn mask(nodes: usize, number: usize) -> Vec<Behaviour> {
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
    HeldByOthers,
    NoQuorum,
}

/// The outcome by the rule, computed only from the number of nodes of each kind.
fn expected(mask: &[Behaviour]) -> Expected {
    let count = |wanted: &dyn Fn(&Behaviour) -> bool| mask.iter().filter(|one| wanted(one)).count();
    let needed = Electorate::majority(mask.len());
    let granting = count(&|one| *one == Behaviour::Granting);
    let refusing = count(&|one| *one == Behaviour::Refusing);
    if granting >= needed {
        Expected::Locked
    } else if granting + refusing >= needed {
        Expected::HeldByOthers
    } else {
        Expected::NoQuorum
    }
}

async fn try_lock_under(mask: &[Behaviour]) {
    let cluster = MemoryCluster::new(mask.len());
    for (server, behaviour) in cluster.servers().iter().zip(mask) {
        server.behave(behaviour.clone());
    }
    let quorum = client(&cluster);
    let start = tokio::time::Instant::now();
    let outcome =
        quorum.red_lock("r").options(LockOptions::new().node_timeout(NODE_TIMEOUT)).try_lock().await;
    let took = start.elapsed();
    let found = match &outcome {
        Ok(Some(_)) => Expected::Locked,
        Ok(None) => Expected::HeldByOthers,
        Err(Error::NoQuorum(_)) => Expected::NoQuorum,
        Err(other) => panic!("{mask:?}: {other}"),
    };
    assert_eq!(found, expected(mask), "{mask:?}");
    if found == Expected::Locked {
        assert_eq!(took, Duration::ZERO, "{mask:?}: the call waits for a quorum alone");
    }
    assert!(took <= NODE_TIMEOUT, "{mask:?}: took {took:?}");
    drop(outcome);
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE, "{mask:?}: nothing is left");
}

async fn try_lock_under_every_mask_of(nodes: usize) {
    for number in 0..1 << (2 * nodes) {
        try_lock_under(&mask(nodes, number)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_node_with_every_behaviour() {
    try_lock_under_every_mask_of(1).await;
}

/// With an even number of nodes, halves that vote against each other are decided at once
/// too.
#[tokio::test(start_paused = true)]
async fn two_nodes_with_every_mixture_of_behaviours() {
    try_lock_under_every_mask_of(2).await;
}

#[tokio::test(start_paused = true)]
async fn three_nodes_with_every_mixture_of_behaviours() {
    try_lock_under_every_mask_of(3).await;
}

/// With an even number of nodes, halves that vote against each other are decided at once
/// too.
#[tokio::test(start_paused = true)]
async fn four_nodes_with_every_mixture_of_behaviours() {
    try_lock_under_every_mask_of(4).await;
}

#[tokio::test(start_paused = true)]
async fn five_nodes_with_every_mixture_of_behaviours() {
    try_lock_under_every_mask_of(5).await;
}

#[tokio::test(start_paused = true)]
async fn seven_nodes_with_every_mixture_of_behaviours() {
    try_lock_under_every_mask_of(7).await;
}
