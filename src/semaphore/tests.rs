//! Tests of semaphores and of locks of any one of several resources, on in-memory nodes, in virtual time.

#![allow(clippy::disallowed_methods, reason = "these tests pass the virtual time")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::{join_all, try_join_all},
    stream::FuturesUnordered,
};

use crate::{
    LockOptions, MemoryCluster, Owner, Permit, Quorum, RedLock,
    error::ClosedReason,
    error::{Error, LossReason, NodeError},
    lock::tests::{NONE, client, locked_nodes, pass, server, thaw_all, traces::Traces},
    mutation::{Mutation, break_rule},
    node::{Operation, memory::Behaviour},
};

const TTL: Duration = Duration::from_secs(30);

/// Returns the slots of the permits.
fn slots(permits: &[Permit]) -> BTreeSet<usize> {
    permits.iter().map(Permit::slot).collect()
}

#[tokio::test(start_paused = true)]
async fn clients_that_count_different_numbers_of_permits_warn_once_each() {
    let cluster = MemoryCluster::new(3);
    let (first, second, third) = (client(&cluster), client(&cluster), client(&cluster));
    // One node is down, and the warning needs only one of the other nodes.
    server(&cluster, 2).behave(Behaviour::Failing(NodeError::Unreachable("down".into())));
    let traces = Traces::begin();
    let acquire = async |quorum: &Quorum, permits| {
        let semaphore = quorum.semaphore("gpu", permits);
        semaphore.acquire().await.unwrap().release().await.unwrap();
        pass(Duration::from_millis(10)).await;
        semaphore.count_mismatch()
    };
    assert_eq!(acquire(&first, 4).await, None);
    assert_eq!(traces.warned(), [""; 0]);
    assert_eq!(acquire(&second, 5).await, Some(4));
    assert_eq!(traces.warned(), ["another client counts a different number of permits"]);
    let warning = traces.only("another client counts a different number of permits");
    assert_eq!(["semaphore", "permits", "elsewhere"].map(|name| warning.field(name)), ["gpu", "5", "4"]);
    // The first client compares the numbers again after a minute, and each client warns once.
    assert_eq!(acquire(&first, 4).await, None);
    for _ in 0..3 {
        pass(Duration::from_secs(61)).await;
        assert_eq!(acquire(&first, 4).await, Some(5));
        assert_eq!(acquire(&second, 5).await, Some(4));
    }
    assert_eq!(traces.warned().len(), 2, "{:?}", traces.warned());
    // A number that is no longer counted is no mismatch, also if a client saw it once.
    pass(Duration::from_secs(61)).await;
    assert_eq!(acquire(&second, 5).await, None);
    assert_eq!(traces.warned().len(), 2, "{:?}", traces.warned());
    // Other semaphores are compared on their own, and an old number is forgotten.
    assert!(third.semaphore("other", 5).acquire().await.unwrap().slot() < 5);
    pass(Duration::from_secs(601)).await;
    assert_eq!(acquire(&third, 7).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_check_without_answers_leaves_a_different_number() {
    let cluster = MemoryCluster::new(3);
    let [first, second] = [4, 5].map(|permits| client(&cluster).semaphore("gpu", permits));
    for semaphore in [&first, &second] {
        semaphore.acquire().await.unwrap().release().await.unwrap();
        pass(Duration::from_millis(10)).await;
    }
    assert_eq!(second.count_mismatch(), Some(4));
    for index in 0..3 {
        server(&cluster, index).behave(Behaviour::Failing(NodeError::Unreachable("down".into())));
    }
    pass(Duration::from_secs(61)).await;
    cluster.servers().iter().for_each(|server| drop(server.take_log()));
    assert!(second.try_acquire().await.is_err());
    pass(Duration::from_secs(1)).await;
    let is_check = |operation: &Operation| matches!(operation, Operation::CountPermits(_));
    let is_checked = cluster.servers().iter().any(|server| server.take_log().iter().any(is_check));
    assert!(is_checked, "the check was due");
    assert_eq!(second.count_mismatch(), Some(4));
}

/// A client checks once a minute, in the message of its first lock request.
#[tokio::test(start_paused = true)]
async fn the_check_of_the_number_of_permits_costs_one_operation_a_minute() {
    let cluster = MemoryCluster::new(3);
    let gpus = client(&cluster).semaphore("gpu", 4);
    cluster.servers().iter().for_each(|server| drop(server.take_log()));
    for _ in 0..20 {
        gpus.acquire().await.unwrap().release().await.unwrap();
        assert!(gpus.try_acquire().await.unwrap().is_some());
    }
    let is_check = |operation: &Operation| matches!(operation, Operation::CountPermits(_));
    let logs: Vec<Vec<Operation>> = cluster.servers().iter().map(|server| server.take_log()).collect();
    let mut checks: Vec<usize> =
        logs.iter().map(|log| log.iter().filter(|operation| is_check(operation)).count()).collect();
    checks.sort_unstable();
    assert_eq!(checks, [0, 1, 1], "two nodes record the number");
    for log in logs.iter().filter(|log| log.iter().any(is_check)) {
        let first_lock = log.iter().position(|operation| matches!(operation, Operation::Lock(_)));
        assert!(log.iter().position(is_check) < first_lock, "the check is sent first");
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_permits_are_valid_than_the_larger_number() {
    let cluster = MemoryCluster::new(3);
    let (few, many) = (client(&cluster).semaphore("gpu", 2), client(&cluster).semaphore("gpu", 5));
    let mut permits = Vec::new();
    for _ in 0..6 {
        for semaphore in [&few, &many] {
            permits.extend(semaphore.try_acquire().await.unwrap());
        }
    }
    assert_eq!(permits.len(), 5);
    assert_eq!(slots(&permits), (0..5).collect());
}

#[tokio::test(start_paused = true)]
async fn all_clients_share_the_permits_and_each_permit_has_its_own_slot() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let [semaphore_a, semaphore_b] = [&client_a, &client_b].map(|quorum| quorum.semaphore("s", 3));
    let mut permits = vec![semaphore_a.acquire().await.unwrap(), semaphore_b.acquire().await.unwrap()];
    assert_eq!(semaphore_a.available_permits().await.unwrap(), 1);
    permits.push(semaphore_a.try_acquire().await.unwrap().unwrap());
    assert_eq!(slots(&permits), BTreeSet::from([0, 1, 2]));
    assert_eq!(semaphore_b.available_permits().await.unwrap(), 0);
    assert!(
        semaphore_a.try_acquire().await.unwrap().is_none()
            && semaphore_b.try_acquire().await.unwrap().is_none()
    );
    let mut waiting = Box::pin(semaphore_b.acquire());
    assert!((&mut waiting).now_or_never().is_none());
    let released = permits.remove(0);
    let (slot, token) = (released.slot(), released.fencing_token());
    released.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert_eq!(next.slot(), slot);
    assert!(next.fencing_token() > token);
    drop((permits, next));
    pass(Duration::from_millis(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
    assert_eq!(semaphore_a.available_permits().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_several_clients_all_get_permits_and_leave_no_keys() {
    let cluster = MemoryCluster::new(3);
    let quorums: Vec<Quorum> = (0..5).map(|_| client(&cluster)).collect();
    for permits in [1, 3, 7] {
        let (held, maximum) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = quorums.iter().flat_map(|quorum| [quorum; 6]).map(|quorum| async {
            let semaphore = quorum.semaphore("s", permits);
            for _ in 0..3 {
                let permit = semaphore.acquire().await.unwrap();
                maximum.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                pass(Duration::from_millis(5)).await;
                assert!(permit.is_valid());
                held.fetch_sub(1, Ordering::SeqCst);
            }
        });
        join_all(work).await;
        assert_eq!(maximum.into_inner(), permits as usize);
        pass(Duration::from_millis(10)).await;
        assert_eq!(locked_nodes(&cluster), NONE);
        assert_eq!(quorums[0].semaphore("s", permits).available_permits().await.unwrap(), permits as usize);
    }
}

/// Two of five nodes are down. The call does not wait for these nodes.
#[tokio::test(start_paused = true)]
async fn a_refused_try_acquire_returns_at_once() {
    let cluster = MemoryCluster::new(5);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    for permits in [1, 40] {
        let semaphore_a = client_a.semaphore("s", permits);
        let held = join_all((0..permits).map(|_| semaphore_a.acquire())).await;
        for down in [3, 4] {
            server(&cluster, down).behave(Behaviour::Failing(NodeError::Unreachable("down".into())));
        }
        let start = tokio::time::Instant::now();
        assert!(client_b.semaphore("s", permits).try_acquire().await.unwrap().is_none());
        assert!(start.elapsed() < Duration::from_millis(20), "{:?}", start.elapsed());
        thaw_all(&cluster);
        drop(held);
        pass(Duration::from_secs(1)).await;
    }
}

/// A node in quarantine may have lost keys, so its answer about vacant slots does not count.
#[tokio::test(start_paused = true)]
async fn available_permits_returns_no_quorum_if_a_majority_lost_votes() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let semaphore = quorum.semaphore("s", 4);
    let permit = semaphore.acquire().await.unwrap();
    for node in [0, 1] {
        server(&cluster, node).forget();
    }
    let unknown = semaphore.available_permits().await.unwrap_err();
    assert!(matches!(unknown, Error::NoQuorum(_)), "{unknown:?}");
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_or_timed_out_call_leaves_no_queue_entry() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let semaphore = client_a.semaphore("s", 2);
    let permits = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
    let semaphore_b = client_b.semaphore("s", 2);
    let start = tokio::time::Instant::now();
    assert!(semaphore_b.try_acquire_for(Duration::from_secs(1)).await.unwrap().is_none());
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    tokio::select! {
        _ = semaphore_b.acquire() => panic!("the call ended without a vacant slot"),
        () = pass(Duration::from_secs(1)) => {}
    }
    drop(permits);
    pass(Duration::from_millis(2)).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 2, "a queue entry or a yield mark is left");
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_first_attempts_the_slot_that_it_released_last() {
    let cluster = MemoryCluster::new(3);
    let semaphore = client(&cluster).semaphore("s", 1000);
    let slot = semaphore.acquire().await.unwrap().slot();
    for _ in 0..5 {
        assert_eq!(semaphore.acquire().await.unwrap().slot(), slot);
    }
    assert_eq!(semaphore.run(async |permit| permit.slot()).await.unwrap(), slot);
    assert_eq!(semaphore.acquire().await.unwrap().slot(), slot);
}

#[tokio::test(start_paused = true)]
async fn a_permit_without_renewal_is_lost_and_its_slot_is_vacant_after_the_ttl() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let fixed = LockOptions::new().ttl(TTL).without_renewal();
    let expiring = client_a.semaphore("s", 1).options(fixed).acquire().await.unwrap();
    let start = tokio::time::Instant::now();
    let next = client_b.semaphore("s", 1).acquire().await.unwrap();
    assert!(start.elapsed() < TTL + Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(expiring.lost().await.reason, LossReason::Expired);
    assert!(expiring.release().await.is_err());
    assert!(next.is_valid(), "the late unlock has deleted the key of the next lease");
    pass(TTL * 3).await;
    assert!(next.is_valid(), "the next permit was not renewed");
}

#[tokio::test(start_paused = true)]
async fn slots_beyond_a_smaller_number_of_permits_remain_until_released() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let (of_three, of_one) = (quorum.semaphore("s", 3), quorum.semaphore("s", 1));
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(of_three.acquire().await.unwrap());
    }
    assert!(of_one.try_acquire().await.unwrap().is_none());
    permits.retain(|permit| permit.slot() > 0);
    assert_eq!(of_one.acquire().await.unwrap().slot(), 0);
    assert!(permits.iter().all(|permit| permit.is_valid()), "a slot beyond the number has ended");
}

#[tokio::test(start_paused = true)]
async fn invalid_numbers_of_permits_or_resources_are_refused() {
    let quorum = client(&MemoryCluster::new(1));
    for given in [0, 1_025] {
        let refused = quorum.semaphore("s", given).acquire().await.unwrap_err();
        assert_eq!(refused.to_string(), format!("permits is {given}: expected 1 to 1024"));
    }
    assert!(quorum.semaphore("s", 1_024).acquire().await.is_ok());
    let refused = quorum.any_of([""; 0]).lock().await.unwrap_err();
    assert_eq!(refused.to_string(), "group: no resources: name at least one");
    let names: Vec<String> = (0..65).map(|name| name.to_string()).collect();
    let refused = quorum.any_of(&names).try_lock().await.unwrap_err();
    assert_eq!(refused.to_string(), "group: 65 resources: expected at most 64");
    let twice = quorum.any_of(["a", "b", "a"]).lock().await.unwrap_err();
    assert_eq!(twice.to_string(), "group: a is named twice: name each resource once");
    quorum.shutdown().await;
    assert_eq!(
        quorum.semaphore("s", 1).try_acquire().await.unwrap_err(),
        Error::Closed(ClosedReason::ShutDown)
    );
    assert_eq!(
        quorum.semaphore("s", 1).available_permits().await.unwrap_err(),
        Error::Closed(ClosedReason::ShutDown)
    );
}

#[tokio::test(start_paused = true)]
async fn any_of_locks_one_free_resource() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let any_of = client_a.any_of(["a", "b", "c"]);
    let held = [client_b.red_lock("a").lock().await.unwrap(), client_b.red_lock("c").lock().await.unwrap()];
    let guard = any_of.lock().await.unwrap();
    assert_eq!(guard.resource().to_string(), "b");
    assert!(client_b.red_lock("b").try_lock().await.unwrap().is_none());
    assert!(any_of.try_lock().await.unwrap().is_none());
    let mut waiting = Box::pin(any_of.lock());
    assert!((&mut waiting).now_or_never().is_none());
    pass(Duration::from_secs(1)).await;
    drop(held);
    let next = waiting.await.unwrap();
    assert!(["a", "c"].contains(&next.resource().to_string().as_str()));
    drop((guard, next));
    pass(Duration::from_millis(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// Returns the output and the duration of a future, which has to be ready within a minute.
async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let start = tokio::time::Instant::now();
    let value = tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("the future is ready within a minute");
    (value, start.elapsed())
}

/// Polls a call for `duration`, and checks that the call does not end.
async fn assert_pending_for<T>(future: impl Future<Output = T>, duration: Duration) {
    assert!(tokio::time::timeout(duration, future).await.is_err(), "the call ended without a vacant slot");
}

/// Each waiter is in the queues of only two of 400 slots. One waiter at a time is the release watcher, and gets the
/// next released slot.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_next_released_slot_even_outside_of_its_queues() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let semaphore = quorum.semaphore("s", 400);
    let mut permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let clients: Vec<Quorum> = (0..4).map(|_| client(&cluster)).collect();
    let mut waiting: FuturesUnordered<_> = clients
        .iter()
        .map(|quorum| {
            let semaphore = quorum.semaphore("s", 400);
            async move { semaphore.acquire().await.unwrap() }
        })
        .collect();
    for _ in 0..4 {
        assert_pending_for(waiting.next(), Duration::from_secs(2)).await;
        permits.remove(permits.len() / 2).release().await.unwrap();
        let (permit, took) = timed(waiting.next()).await;
        permits.push(permit.unwrap());
        assert!(took < Duration::from_millis(20), "{took:?}");
    }
    drop(permits);
    pass(Duration::from_millis(5)).await;
    assert_eq!(locked_nodes(&cluster), NONE, "the key of a release watcher is left");
}

/// The only waiter in the queue of the slot has left the queue. The client of the permit still has a record of this
/// waiter, so the release of the permit sets a yield mark.
#[tokio::test(start_paused = true)]
async fn the_release_watcher_takes_a_slot_despite_its_yield_mark() {
    let cluster = MemoryCluster::new(3);
    let [client_a, leaving, client_b] = [(); 3].map(|()| client(&cluster));
    let semaphore = client_a.semaphore("s", 400);
    let mut permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let semaphore_b = client_b.semaphore("s", 400);
    let mut waiting = Box::pin(semaphore_b.acquire());
    assert_pending_for(&mut waiting, Duration::from_secs(2)).await;
    let permit = permits.swap_remove(200);
    let slot = leaving.semaphore("s", 400).slot_resource(permit.slot()).unwrap();
    let lock_of_slot = RedLock::new(Arc::clone(leaving.client()), Ok(slot));
    assert_pending_for(lock_of_slot.lock(), Duration::from_millis(50)).await;
    permit.renew().await.unwrap();
    let mut waiting_for_slot = Box::pin(lock_of_slot.lock());
    assert_pending_for(&mut waiting_for_slot, Duration::from_millis(50)).await;
    permit.renew().await.unwrap();
    drop(waiting_for_slot);
    pass(Duration::from_millis(5)).await;
    permit.release().await.unwrap();
    let (_, took) = timed(waiting).await;
    assert!(took < Duration::from_millis(20), "{took:?}");
}

/// A slot expires without a notice, and the lease of a dead release watcher has ended. The next vacancy poll finds the
/// slot: at most 6.5 s after the previous poll, and some milliseconds for the requests.
#[tokio::test(start_paused = true)]
async fn a_waiter_finds_an_expired_slot_after_the_death_of_the_release_watcher() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let semaphore = client_a.semaphore("s", 400);
    let permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let hold_at_all_nodes = |resource, ttl| {
        cluster.servers().iter().for_each(|server| server.hold(resource, "dead", ttl));
    };
    hold_at_all_nodes("redquorum:release_watcher:{s}:400", TTL);
    let semaphore_b = client_b.semaphore("s", 400);
    let mut waiting = Box::pin(semaphore_b.acquire());
    assert_pending_for(&mut waiting, TTL + Duration::from_secs(1)).await;
    let expired = permits[170].slot();
    hold_at_all_nodes(&format!("redquorum:slot:{{s}}:{expired}"), Duration::from_millis(1));
    let (permit, took) = timed(waiting).await;
    assert_eq!(permit.unwrap().slot(), expired);
    assert!(took < Duration::from_millis(6_550), "{took:?}");
    drop(permits);
}

/// The ttl is 10 s, or four node timeouts if this is longer, and at most the ttl of the permits.
#[tokio::test(start_paused = true)]
async fn the_ttl_of_the_release_watcher_depends_on_the_options_of_the_permits() {
    let seconds = Duration::from_secs;
    for (options, ttl) in [
        (LockOptions::new(), seconds(10)),
        (LockOptions::new().ttl(seconds(4)), seconds(4)),
        (LockOptions::new().node_timeout(seconds(3)), seconds(12)),
        (LockOptions::new().node_timeout(seconds(12)), TTL),
    ] {
        let cluster = MemoryCluster::new(3);
        let (client_a, client_b) = (client(&cluster), client(&cluster));
        let semaphore_a = client_a.semaphore("s", 5);
        let permits = try_join_all((0..5).map(|_| semaphore_a.acquire())).await.unwrap();
        let semaphore_b = client_b.semaphore("s", 5).options(options);
        let mut waiting = Box::pin(semaphore_b.acquire());
        assert_pending_for(&mut waiting, seconds(2)).await;
        let role = client_a.inspect("redquorum:release_watcher:{s}:5").await.unwrap();
        let remaining = role.remaining().unwrap();
        assert!((ttl / 2..=ttl).contains(&remaining), "{remaining:?} of {ttl:?}");
        drop(permits);
    }
}

/// In 30 s, all five nodes together receive 30 to 100 requests: for queue entries, for the lease of the release
/// watcher, and to find slots that expired without a notice.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_sends_few_requests() {
    let cluster = MemoryCluster::new(5);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let fixed = LockOptions::new().ttl(Duration::from_secs(60)).without_renewal();
    let semaphore = client_a.semaphore("s", 400).options(fixed);
    let permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let semaphore_b = client_b.semaphore("s", 400);
    let mut waiting = Box::pin(semaphore_b.acquire());
    let take_requests = || -> usize { cluster.servers().iter().map(|server| server.take_log().len()).sum() };
    assert_pending_for(&mut waiting, Duration::from_secs(2)).await;
    take_requests();
    assert_pending_for(&mut waiting, Duration::from_secs(30)).await;
    let requests = take_requests();
    assert!((30..=100).contains(&requests), "{requests} requests");
    drop(permits);
}

/// Returns the number of queries of a release watcher in two seconds in which every node publishes a release notice of one
/// slot once a millisecond, although no slot is vacant.
async fn queries_of_a_watcher_that_is_notified_in_vain() -> usize {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let semaphore = client_a.semaphore("s", 5);
    let permits = try_join_all((0..5).map(|_| semaphore.acquire())).await.unwrap();
    let semaphore_b = client_b.semaphore("s", 5);
    let mut waiting = Box::pin(semaphore_b.acquire());
    assert_pending_for(&mut waiting, Duration::from_secs(2)).await;
    let slot = semaphore.slot_resource(0).unwrap();
    let take_queries = || -> usize {
        let operations = cluster.servers().iter().flat_map(|server| server.take_log());
        operations.filter(|operation| matches!(operation, Operation::Vacant(_))).count()
    };
    take_queries();
    for _ in 0..2_000 {
        cluster.servers().iter().for_each(|server| server.publish(&slot));
        assert_pending_for(&mut waiting, Duration::from_millis(1)).await;
    }
    drop(permits);
    take_queries()
}

/// The limit allows 16 queries without a delay, and then one in each five milliseconds. A vacancy poll adds up to three
/// requests.
#[tokio::test(start_paused = true)]
async fn a_flood_of_release_notices_does_not_cause_a_flood_of_queries() {
    let queries = queries_of_a_watcher_that_is_notified_in_vain().await;
    assert!((200..=16 + 400 + 2 + 3).contains(&queries), "{queries} queries");
    let _broken = break_rule(Some(Mutation::NoAttemptLimit));
    let unlimited = queries_of_a_watcher_that_is_notified_in_vain().await;
    assert!(unlimited > 900, "{unlimited} queries");
}

#[tokio::test(start_paused = true)]
async fn acquire_many_keeps_permits_until_it_has_all_or_is_dropped() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let (semaphore_a, semaphore_b) = (client_a.semaphore("s", 4), client_b.semaphore("s", 4));
    let single = semaphore_b.acquire().await.unwrap();
    let mut waiting = Box::pin(semaphore_a.acquire_many(4));
    tokio::select! {
        _ = &mut waiting => panic!("all permits were acquired while another client has a permit"),
        () = pass(Duration::from_secs(1)) => {}
    }
    assert!(
        semaphore_b.try_acquire().await.unwrap().is_none(),
        "the waiting call has not kept its first permits"
    );
    drop(waiting);
    pass(Duration::from_millis(5)).await;
    assert_eq!(
        semaphore_a.available_permits().await.unwrap(),
        3,
        "the dropped call has not released its permits"
    );
    let mut waiting = Box::pin(semaphore_a.acquire_many(4));
    tokio::select! {
        _ = &mut waiting => panic!("all permits were acquired while another client has a permit"),
        () = pass(Duration::from_secs(1)) => {}
    }
    drop(single);
    let permits = waiting.await.unwrap();
    assert_eq!(slots(&permits), BTreeSet::from([0, 1, 2, 3]));
    drop(permits);
    pass(Duration::from_millis(5)).await;
    assert_eq!(locked_nodes(&cluster), NONE, "the multi-permit lock is left");
}

/// Lets six clients repeatedly acquire permits of a semaphore with ten permits. Returns the largest number of permits
/// that were held at the same time.
async fn acquire_repeatedly() -> usize {
    let cluster = MemoryCluster::new(3);
    let clients: Vec<Quorum> = (0..6).map(|_| client(&cluster)).collect();
    let (held, maximum) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = clients.iter().zip([7, 1, 8, 10, 1, 6]).map(|(quorum, wanted)| {
        let (held, maximum) = (&held, &maximum);
        async move {
            let semaphore = quorum.semaphore("s", 10);
            for _ in 0..5 {
                let permits = semaphore.acquire_many(wanted).await.unwrap();
                assert_eq!(slots(&permits).len(), wanted as usize);
                maximum.fetch_max(
                    held.fetch_add(permits.len(), Ordering::SeqCst) + permits.len(),
                    Ordering::SeqCst,
                );
                pass(Duration::from_millis(5)).await;
                assert!(permits.iter().all(|permit| permit.is_valid()));
                held.fetch_sub(permits.len(), Ordering::SeqCst);
            }
        }
    });
    join_all(work).await;
    maximum.into_inner()
}

/// Most clients want more than half of the permits. Without the multi-permit lock, two clients could each keep
/// permits that the other client needs, and wait forever.
#[tokio::test(start_paused = true)]
async fn calls_of_acquire_many_do_not_wait_for_each_other_forever() {
    let with_timeout = |time, work| tokio::time::timeout(time, work);
    assert!(with_timeout(Duration::from_secs(20), acquire_repeatedly()).await.unwrap() <= 10);
    let _broken = break_rule(Some(Mutation::ParallelPermits));
    // By chance, the clients may all acquire their permits one after the other, so several runs may
    // be needed.
    let mut runs = 0..10;
    while with_timeout(Duration::from_secs(300), acquire_repeatedly()).await.is_ok() {
        assert!(runs.next().is_some(), "no run hangs without the multi-permit lock");
    }
}

/// If the calls of one owner re-entered the multi-permit lock, each call could keep permits that the other calls need.
#[tokio::test(start_paused = true)]
async fn calls_of_acquire_many_by_one_owner_take_turns() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let semaphore = quorum.semaphore("s", 4);
    let single = semaphore.acquire().await.unwrap();
    let owner = Owner::new();
    let acquire_and_release = || owner.scope(async { drop(semaphore.acquire_many(3).await.unwrap()) });
    let release = async {
        pass(Duration::from_secs(1)).await;
        drop(single);
    };
    let all =
        async { tokio::join!(acquire_and_release(), acquire_and_release(), acquire_and_release(), release) };
    tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
}

/// The first permits expire during the wait for the last permit, and are acquired again.
#[tokio::test(start_paused = true)]
async fn all_permits_of_acquire_many_are_valid_when_the_call_returns() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let fixed = LockOptions::new().ttl(Duration::from_secs(2)).without_renewal();
    let semaphore_a = client_a.semaphore("s", 3).options(fixed);
    let single = client_b.semaphore("s", 3).acquire().await.unwrap();
    let mut waiting = Box::pin(semaphore_a.acquire_many(3));
    tokio::select! {
        _ = &mut waiting => panic!("all permits were acquired while another client has a permit"),
        () = pass(Duration::from_secs(15)) => {}
    }
    drop(single);
    let permits = waiting.await.unwrap();
    assert!(permits.iter().all(|permit| permit.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn acquire_many_refuses_invalid_numbers_of_permits() {
    let quorum = client(&MemoryCluster::new(1));
    for (permits, given, maximum) in [(3, 0, 3), (3, 4, 3), (100, 65, 64)] {
        let refused = quorum.semaphore("s", permits).acquire_many(given).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("permits at once is {given}: expected 1 to {maximum}"));
    }
}

/// One node answers that the slot is held, and the other two nodes do not answer. The cases are each node as the
/// answering node, without and with a waiter of another client.
#[tokio::test(start_paused = true)]
async fn acquire_ends_at_its_quorum_timeout_although_one_node_answers() {
    for (answering, has_waiter) in (0..3).flat_map(|node| [(node, false), (node, true)]) {
        let cluster = MemoryCluster::new(3);
        let (holder, waiter) = (client(&cluster), client(&cluster));
        let _permit = holder.semaphore("s", 1).acquire().await.unwrap();
        let semaphore = waiter.semaphore("s", 1);
        let mut waiting = Box::pin(semaphore.acquire());
        if has_waiter {
            assert!((&mut waiting).now_or_never().is_none());
            pass(Duration::from_millis(100)).await;
            assert!((&mut waiting).now_or_never().is_none());
        }
        (0..3)
            .filter(|node| *node != answering)
            .for_each(|node| server(&cluster, node).behave(Behaviour::Hanging));
        let options = LockOptions::new().quorum_timeout(Duration::from_millis(500));
        let start = tokio::time::Instant::now();
        let outcome = client(&cluster).semaphore("s", 1).options(options).acquire().await;
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "node {answering}, with a waiter: {has_waiter}: {took:?}");
    }
}
