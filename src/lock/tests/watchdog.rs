//! The batches of renewals.

use std::time::Duration;

use super::{client, pass, server};
use crate::{
    LockGuard, LockOptions, MemoryCluster, Quorum,
    node::{Operation, memory::Behaviour},
};

const TTL: Duration = Duration::from_secs(30);
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
const NODES: usize = 3;

fn options() -> LockOptions {
    LockOptions::new().ttl(TTL).node_timeout(NODE_TIMEOUT)
}

/// Locks that many resources, each so long after the one before.
async fn lock_many(quorum: &Quorum, leases: usize, apart: Duration) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in 0..leases {
        if number > 0 {
            pass(apart).await;
        }
        let lock = quorum.red_lock(format!("r{number}")).options(options());
        guards.push(lock.lock().await.unwrap());
    }
    guards
}

/// Returns the number of leases in each renewal call to a node since the last call.
fn renewal_calls(cluster: &MemoryCluster, node: usize) -> Vec<usize> {
    let renewals = |operations: &[Operation]| {
        operations.iter().filter(|operation| matches!(operation, Operation::Renew(_))).count()
    };
    let calls = server(cluster, node).take_requests();
    calls.iter().map(|operations| renewals(operations)).filter(|renewals| *renewals > 0).collect()
}

/// Looks after each of several renewals.
async fn renewed_in(leases: usize, calls: &[usize]) {
    let cluster = MemoryCluster::new(NODES);
    let quorum = client(&cluster);
    let guards = lock_many(&quorum, leases, Duration::from_millis(5)).await;
    for period in 1..=5 {
        pass(TTL / 3).await;
        for node in 0..NODES {
            assert_eq!(renewal_calls(&cluster, node), calls, "period {period}, node {node}");
        }
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn sixty_four_leases_of_about_the_same_time_are_renewed_in_one_call_per_node_and_period() {
    renewed_in(64, &[64]).await;
}

#[tokio::test(start_paused = true)]
async fn groups_are_renewed_in_calls_of_limited_size() {
    let cluster = MemoryCluster::new(NODES);
    let quorum = client(&cluster);
    let mut guards = Vec::new();
    for (number, size) in [100, 100, 100, 1000, 1, 255].into_iter().enumerate() {
        let group = quorum.multi_lock((0..size).map(|member| format!("{number}:{member}")));
        guards.push(group.options(options()).lock().await.unwrap());
        pass(Duration::from_millis(5)).await;
    }
    for period in 1..=3 {
        pass(TTL / 3).await;
        for node in 0..NODES {
            assert_eq!(renewal_calls(&cluster, node), [2, 1, 1, 2], "period {period}, node {node}");
        }
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn sixty_five_leases_of_about_the_same_time_take_two_calls_per_node_and_period() {
    renewed_in(65, &[64, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_due_far_apart_are_renewed_each_at_its_time() {
    let cluster = MemoryCluster::new(NODES);
    let quorum = client(&cluster);
    let apart = Duration::from_secs(2);
    let _guards = lock_many(&quorum, 2, apart).await;
    pass(apart / 2).await;
    for _ in 0..5 {
        pass(TTL / 3 - apart).await;
        for node in 0..NODES {
            assert_eq!(renewal_calls(&cluster, node), [1]);
        }
        pass(apart).await;
        for node in 0..NODES {
            assert_eq!(renewal_calls(&cluster, node), [1]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_gets_its_next_renewal_call_when_the_one_under_way_is_given_up() {
    let cluster = MemoryCluster::new(NODES);
    let quorum = client(&cluster);
    // More than two calls: two are waiting while one is under way.
    let guards = lock_many(&quorum, 2 * 64 + 1, Duration::ZERO).await;
    server(&cluster, 0).behave(Behaviour::Hanging);
    let step = Duration::from_millis(10);
    pass(TTL / 3 + step).await;
    for node in 1..NODES {
        assert_eq!(renewal_calls(&cluster, node), [64, 64, 1], "no other node is delayed");
    }
    for under_way in 1..=3 {
        assert_eq!(server(&cluster, 0).pending_requests(), under_way);
        pass(NODE_TIMEOUT - 2 * step).await;
        assert_eq!(server(&cluster, 0).pending_requests(), under_way, "one at a time");
        pass(2 * step).await;
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}
