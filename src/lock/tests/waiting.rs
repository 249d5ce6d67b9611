//! Calls that wait for a held resource, for a quorum, or for the end of quarantines, and calls that are not polled.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{all_behave, client, lease_without_renewal, locked_nodes, pass, server, thaw_all};
use crate::{
    LockOptions, MemoryCluster, Quorum,
    error::{Error, NodeError},
    mutation::{Mutation, break_rule},
    node::{Enqueue, Operation, memory::Behaviour, names},
};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_at_once_after_the_unlock() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock("r").lock().await.unwrap();
    let lock = client(&cluster).red_lock("r");
    let waiting = tokio::spawn(async move { lock.lock().await.map(|guard| guard.fencing_token()) });
    pass(Duration::from_millis(20)).await;
    let token = guard.fencing_token();
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    assert!(waiting.await.unwrap().unwrap() > token);
    assert_eq!(start.elapsed(), Duration::ZERO, "the waiter was not woken");
}

/// The guard is leaked, as if the process of the holder were killed.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_when_the_ttl_of_a_killed_holder_ends() {
    let cluster = MemoryCluster::new(5);
    let ttl = Duration::from_millis(400);
    let guard = lease_without_renewal(&cluster, ttl).await;
    std::mem::forget(guard);
    let start = tokio::time::Instant::now();
    drop(client(&cluster).red_lock("r").lock().await.unwrap());
    assert!(start.elapsed() <= ttl + Duration::from_millis(5), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_client_get_the_lock_in_order_with_growing_tokens() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let guard = quorum.red_lock("r").lock().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..20 {
        let (lock, order) = (quorum.red_lock("r"), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            order.lock().unwrap().push((number, guard.fencing_token()));
            guard.unlock().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    guard.unlock().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().unwrap();
    assert!(order.iter().map(|(number, _)| *number).eq(0..20), "{order:?}");
    assert!(order.windows(2).all(|pair| pair[0].1 < pair[1].1), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn try_lock_for_returns_after_exactly_its_wait() {
    let cluster = MemoryCluster::new(3);
    let _guard = client(&cluster).red_lock("r").lock().await.unwrap();
    let start = tokio::time::Instant::now();
    let wait = Duration::from_secs(3);
    let outcome = client(&cluster).red_lock("r").try_lock_for(wait).await;
    assert!(matches!(outcome, Ok(None)), "{outcome:?}");
    assert_eq!(start.elapsed(), wait);
}

#[tokio::test(start_paused = true)]
async fn lock_waits_without_limit_for_a_held_resource() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").lock().await.unwrap();
    let lock =
        client(&cluster).red_lock("r").options(LockOptions::new().quorum_timeout(Duration::from_secs(1)));
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    pass(TTL * 20).await;
    assert!(!waiting.is_finished());
    guard.unlock().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn lock_fails_after_the_quorum_timeout_without_a_quorum() {
    for behaviour in [Behaviour::Hanging, Behaviour::Failing(NodeError::Busy)] {
        let cluster = MemoryCluster::new(3);
        all_behave(&cluster, &behaviour);
        let start = tokio::time::Instant::now();
        let timeout = Duration::from_secs(10);
        let outcome =
            client(&cluster).red_lock("r").options(LockOptions::new().quorum_timeout(timeout)).lock().await;
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
        let took = start.elapsed();
        assert!(took >= timeout && took <= timeout + Duration::from_secs(1), "{took:?}");
    }
}

/// The nodes fail without delay, so only the retry delay separates the attempts.
#[tokio::test(start_paused = true)]
async fn nodes_that_fail_at_once_do_not_cause_a_busy_loop() {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &Behaviour::Failing(NodeError::Loading));
    drop(client(&cluster).red_lock("r").try_lock_for(Duration::from_secs(10)).await);
    let is_attempt = |operation: &&Operation| matches!(operation, Operation::Lock(_) | Operation::Enqueue(_));
    let attempts = server(&cluster, 0).take_log().iter().filter(is_attempt).count();
    // Delays double from 5 to 500 ms, and jitter removes at most half of a delay: at most 8
    // attempts in the first 320 ms, 4 in each later second, and one at the end.
    assert!((2..=48).contains(&attempts), "{attempts} attempts in 10 s");
}

/// Returns the number of attempts of a waiter that is woken once a millisecond for two seconds. Every node refuses each
/// attempt.
async fn attempts_of_a_waiter_that_is_woken_in_vain() -> usize {
    let cluster = MemoryCluster::new(3);
    all_behave(&cluster, &Behaviour::Refusing);
    let lock = client(&cluster).red_lock("r");
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    let (mut attempts, mut topic) = (0, None);
    for _ in 0..2_000 {
        pass(Duration::from_millis(1)).await;
        for operation in cluster.servers().iter().flat_map(|server| server.take_log()) {
            if let Operation::Enqueue(Enqueue { lock, waiter, .. }) = operation {
                attempts += 1;
                topic = lock.resources.first().map(|resource| names::wake(resource, &waiter));
            }
        }
        let wake = |topic| cluster.servers().iter().for_each(|server| server.publish(topic));
        topic.iter().for_each(wake);
    }
    assert!(!waiting.is_finished());
    waiting.abort();
    attempts
}

/// The limit allows 16 attempts without a delay, and then one in each five milliseconds.
#[tokio::test(start_paused = true)]
async fn wakes_in_vain_do_not_cause_a_busy_loop() {
    let attempts = attempts_of_a_waiter_that_is_woken_in_vain().await;
    assert!((200..=16 + 400 + 2).contains(&attempts), "{attempts} attempts");
    let _broken = break_rule(Some(Mutation::NoAttemptLimit));
    let unlimited = attempts_of_a_waiter_that_is_woken_in_vain().await;
    assert!(unlimited > 900, "{unlimited} attempts");
}

#[tokio::test(start_paused = true)]
async fn sixteen_contending_clients_all_get_the_lock() {
    let cluster = MemoryCluster::new(5);
    let counter = Arc::new(Mutex::new((0_u32, 0_u64)));
    let clients: Vec<Quorum> = (0..16).map(|_| client(&cluster)).collect();
    let tasks: Vec<_> = clients
        .iter()
        .map(|quorum| {
            let (lock, counter) = (quorum.red_lock("r"), Arc::clone(&counter));
            tokio::spawn(async move {
                for _ in 0..20 {
                    let guard = lock.lock().await.unwrap();
                    let (count, last) = *counter.lock().unwrap();
                    pass(Duration::from_millis(1)).await;
                    let token = guard.fencing_token().as_u64();
                    assert!(token > last);
                    *counter.lock().unwrap() = (count + 1, token);
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(counter.lock().unwrap().0, 320);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_leaves_no_subscription() {
    let cluster = MemoryCluster::new(3);
    let holder = client(&cluster);
    let guard = holder.red_lock("r").lock().await.unwrap();
    let lock = client(&cluster).red_lock("r");
    // A client with a lease subscribes to notices of force-unlocks.
    assert_eq!(server(&cluster, 0).subscriptions(), 1);
    let (_, subscribed) = tokio::join!(lock.try_lock_for(Duration::from_secs(1)), async {
        pass(Duration::from_millis(10)).await;
        server(&cluster, 0).subscriptions()
    });
    assert_eq!(subscribed, 2);
    assert_eq!(server(&cluster, 0).subscriptions(), 1);
    drop((guard, holder));
    pass(Duration::from_millis(10)).await;
    assert_eq!(server(&cluster, 0).subscriptions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_after_a_long_wait_does_not_exhaust_the_quorum_timeout() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock("r").lock().await.unwrap();
    let lock =
        client(&cluster).red_lock("r").options(LockOptions::new().quorum_timeout(Duration::from_secs(4)));
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    pass(Duration::from_secs(60)).await;
    // Fallback polls are now up to 7.5 s apart. The outage lasts until one poll has failed.
    all_behave(&cluster, &Behaviour::Failing(NodeError::Busy));
    pass(Duration::from_secs(1)).await;
    while !server(&cluster, 0).take_log().iter().any(|operation| matches!(operation, Operation::Lock(_))) {
        pass(Duration::from_millis(100)).await;
    }
    all_behave(&cluster, &Behaviour::Granting);
    pass(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "the short outage has ended the call");
    drop(guard);
    waiting.await.unwrap().unwrap();
}

/// The call waits for longer than the default quorum timeout, because nodes report the rest of their quarantine. The
/// client attempts without and with a record of waiters for the resource.
#[tokio::test(start_paused = true)]
async fn a_lock_with_the_default_quorum_timeout_waits_for_the_end_of_quarantines() {
    let quarantine = Duration::from_millis(60_602);
    let tolerance = Duration::from_millis(100);
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    for has_waiters in [false, true] {
        let resources = [crate::Resource::new("r").unwrap()];
        let (index, queue_node) = (0, 0);
        quorum.client().context.waiter_cache.record(&resources.into(), index, queue_node, has_waiters);
        cluster.servers().iter().for_each(|server| server.forget());
        let lock = quorum.red_lock("r");
        let start = tokio::time::Instant::now();
        lock.lock().await.unwrap().unlock().await.unwrap();
        let took = start.elapsed();
        assert!(took >= quarantine && took <= quarantine + tolerance, "has waiters: {has_waiters}, {took:?}");
    }
    // Two of three nodes are in quarantine, and the third is unreachable. The call waits for the quarantines.
    all_behave(&cluster, &Behaviour::Granting);
    server(&cluster, 0).forget();
    server(&cluster, 1).forget();
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::Unreachable("down".into())));
    let start = tokio::time::Instant::now();
    drop(quorum.red_lock("s").lock().await.unwrap());
    assert!(start.elapsed() <= quarantine + tolerance, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_set_quorum_timeout_ends_before_a_longer_quarantine() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    cluster.servers().iter().for_each(|server| server.forget());
    let start = tokio::time::Instant::now();
    let Err(error) =
        quorum.red_lock("r").options(LockOptions::new().quorum_timeout(Duration::from_secs(5))).lock().await
    else {
        panic!("a quorum has voted despite the quarantine")
    };
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let Error::NoQuorum(no_quorum) = error else { panic!("{error}") };
    assert!(no_quorum.is_quarantined());
    let remaining = no_quorum.retry_after().unwrap();
    assert!(remaining > Duration::from_secs(55), "{remaining:?}");
}

/// The first call is polled until the call waits for nodes, and is then neither polled nor dropped. The stall watchdog
/// rolls the attempt of the first call back, and the next call in the local queue makes attempts.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_not_polled_does_not_block_other_calls() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    all_behave(&cluster, &Behaviour::Hanging);
    let lock = quorum.red_lock("r");
    let mut stalled = pin!(lock.lock());
    assert!(futures::poll!(&mut stalled).is_pending());
    thaw_all(&cluster);
    let start = tokio::time::Instant::now();
    let guard_of_other_call = quorum.red_lock("r").lock().await.unwrap();
    let hedge = Duration::from_millis(125);
    assert!(start.elapsed() >= hedge && start.elapsed() <= 2 * hedge, "{:?}", start.elapsed());
    drop(guard_of_other_call);
    let guard = stalled.await.unwrap();
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn try_lock_for_waits_its_whole_time_after_a_rollback_by_the_stall_watchdog() {
    let cluster = MemoryCluster::new(3);
    let (quorum, other) = (client(&cluster), client(&cluster));
    let held = other.red_lock("r").lock().await.unwrap();
    let wait = Duration::from_secs(10);
    let lock = quorum.red_lock("r");
    let start = tokio::time::Instant::now();
    let mut stalled = pin!(lock.try_lock_for(wait));
    assert!(futures::poll!(&mut stalled).is_pending());
    pass(Duration::from_secs(8)).await;
    assert!(stalled.await.unwrap().is_none(), "another client has the lock");
    assert_eq!(start.elapsed(), wait);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_polled_late_continues_if_no_other_call_waited() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    all_behave(&cluster, &Behaviour::Hanging);
    let lock = quorum.red_lock("r");
    let mut stalled = pin!(lock.try_lock());
    assert!(futures::poll!(&mut stalled).is_pending());
    thaw_all(&cluster);
    pass(Duration::from_millis(500)).await;
    assert_eq!(locked_nodes(&cluster), [0, 1, 2]);
    let guard = stalled.await.unwrap().unwrap();
    assert!(guard.is_valid());
}
