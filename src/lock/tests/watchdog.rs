//! The renewal calls of the watchdog: leases that are due together are renewed in one call to each node.

use std::time::Duration;

use super::{client, pass, server};
use crate::{
    LockGuard, LockOptions, MemoryCluster, Quorum,
    mutation::{Mutation, break_rule},
    node::{Operation, memory::Behaviour},
};

const TTL: Duration = Duration::from_secs(30);
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for which a renewal waits for a node: a quarter of the ttl.
const RENEWAL_TIMEOUT: Duration = Duration::from_millis(7_500);
const NODES: usize = 3;

fn options() -> LockOptions {
    LockOptions::new().ttl(TTL).node_timeout(NODE_TIMEOUT)
}

/// Locks `leases` resources, with the time `apart` between two locks.
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

/// Returns the number of renewals in each renewal call to a node since the last use of this function.
fn take_renewal_calls(cluster: &MemoryCluster, node: usize) -> Vec<usize> {
    let renewals = |operations: &[Operation]| {
        operations.iter().filter(|operation| matches!(operation, Operation::Renew(_))).count()
    };
    let calls = server(cluster, node).take_requests();
    calls.iter().map(|operations| renewals(operations)).filter(|renewals| *renewals > 0).collect()
}

/// Checks the sizes of the renewal calls for this number of leases, in five renewal intervals.
async fn assert_renewal_calls(leases: usize, calls: &[usize]) {
    let cluster = MemoryCluster::new(NODES);
    let quorum = client(&cluster);
    let guards = lock_many(&quorum, leases, Duration::from_millis(5)).await;
    for period in 1..=5 {
        pass(TTL / 3).await;
        for node in 0..NODES {
            assert_eq!(take_renewal_calls(&cluster, node), calls, "period {period}, node {node}");
        }
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn up_to_64_leases_that_are_due_together_are_renewed_in_one_call_per_node() {
    assert_renewal_calls(64, &[64]).await;
}

#[tokio::test(start_paused = true)]
async fn groups_are_renewed_in_calls_of_limited_size() {
    // A call has at most 256 resources, or one larger group. The expected calls renew the groups 1 and 2, 3, 4, 5 and
    // 6.
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
            assert_eq!(take_renewal_calls(&cluster, node), [2, 1, 1, 2], "period {period}, node {node}");
        }
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn more_than_64_leases_that_are_due_together_are_renewed_in_two_calls_per_node() {
    assert_renewal_calls(65, &[64, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn leases_due_two_seconds_apart_are_renewed_separately() {
    let cluster = MemoryCluster::new(NODES);
    let quorum = client(&cluster);
    let apart = Duration::from_secs(2);
    let _guards = lock_many(&quorum, 2, apart).await;
    pass(apart / 2).await;
    for _ in 0..5 {
        pass(TTL / 3 - apart).await;
        for node in 0..NODES {
            assert_eq!(take_renewal_calls(&cluster, node), [1]);
        }
        pass(apart).await;
        for node in 0..NODES {
            assert_eq!(take_renewal_calls(&cluster, node), [1]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_node_gets_the_next_renewal_call_when_the_last_call_times_out() {
    let cluster = MemoryCluster::new(NODES);
    let quorum = client(&cluster);
    // The leases need three calls. At the hanging node, two calls wait while one call is in flight.
    let guards = lock_many(&quorum, 2 * 64 + 1, Duration::ZERO).await;
    server(&cluster, 0).behave(Behaviour::Hanging);
    let step = Duration::from_millis(10);
    pass(TTL / 3 + step).await;
    for node in 1..NODES {
        assert_eq!(
            take_renewal_calls(&cluster, node),
            [64, 64, 1],
            "node {node} is delayed by the hanging node"
        );
    }
    for sent in 1..=3 {
        assert_eq!(server(&cluster, 0).pending_requests(), sent);
        pass(RENEWAL_TIMEOUT - 2 * step).await;
        assert_eq!(server(&cluster, 0).pending_requests(), sent, "two calls are in flight at once");
        pass(2 * step).await;
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

/// Locks a resource with [`TTL`], and then a resource with `ttl`, so that both are due after a third of [`TTL`].
async fn lock_due_together(quorum: &Quorum, ttl: Duration) -> [LockGuard; 2] {
    let long = quorum.red_lock("long").options(options()).lock().await.unwrap();
    pass((TTL - ttl) / 3).await;
    let short = quorum.red_lock("short").options(options().ttl(ttl)).lock().await.unwrap();
    [long, short]
}

#[tokio::test(start_paused = true)]
async fn a_lease_with_half_the_ttl_is_renewed_in_another_call() {
    for (ttl, calls) in [(20, vec![2]), (15, vec![1, 1])] {
        let cluster = MemoryCluster::new(NODES);
        let quorum = client(&cluster);
        let ttl = Duration::from_secs(ttl);
        let _guards = lock_due_together(&quorum, ttl).await;
        pass(ttl / 3 + Duration::from_millis(10)).await;
        assert_eq!(take_renewal_calls(&cluster, 0), calls, "{ttl:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_node_gets_short_renewals_while_a_long_renewal_is_in_flight() {
    for (rule, calls) in [(None, 2), (Some(Mutation::WaitForLongLeases), 1)] {
        let _broken = break_rule(rule);
        let cluster = MemoryCluster::new(NODES);
        let quorum = client(&cluster);
        let ttl = Duration::from_secs(9);
        let _guards = lock_due_together(&quorum, ttl).await;
        server(&cluster, 0).behave(Behaviour::Hanging);
        pass(ttl / 3 + Duration::from_millis(10)).await;
        assert_eq!(server(&cluster, 0).pending_requests(), calls, "{rule:?}");
    }
}

/// A long renewal that waited for a call in flight would be sent late.
#[tokio::test(start_paused = true)]
async fn a_hanging_node_gets_renewals_with_twice_the_timeout_of_the_renewal_in_flight() {
    let second = Duration::from_secs(1);
    for (ttl, calls) in [(2 * TTL - second, 1), (2 * TTL, 2)] {
        let cluster = MemoryCluster::new(NODES);
        let quorum = client(&cluster);
        let _long = quorum.red_lock("long").options(options().ttl(ttl)).lock().await.unwrap();
        // The short lease is due one second before the long lease.
        pass((ttl - TTL) / 3 - second).await;
        let _short = quorum.red_lock("short").options(options()).lock().await.unwrap();
        server(&cluster, 0).behave(Behaviour::Hanging);
        pass(TTL / 3 + second / 2).await;
        assert_eq!(server(&cluster, 0).pending_requests(), 1, "{ttl:?}");
        pass(second).await;
        assert_eq!(server(&cluster, 0).pending_requests(), calls, "{ttl:?}");
    }
}
