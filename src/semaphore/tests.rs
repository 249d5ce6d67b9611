//! Semaphores, and locks on any one of several resources, on in-memory nodes, in virtual time.

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
    lock::tests::{NONE, client, locked_nodes, pass, server, thaw_all},
    mutation::{Mutation, break_rule},
    node::memory::Behaviour,
};

const TTL: Duration = Duration::from_secs(30);

fn slots(permits: &[Permit]) -> BTreeSet<usize> {
    permits.iter().map(Permit::slot).collect()
}

#[tokio::test(start_paused = true)]
async fn all_clients_share_the_permits_and_each_permit_has_a_slot() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (client(&cluster), client(&cluster));
    let [mine, theirs] = [&one, &other].map(|quorum| quorum.semaphore("s", 3));
    let mut permits = vec![mine.acquire().await.unwrap(), theirs.acquire().await.unwrap()];
    assert_eq!(mine.available_permits().await.unwrap(), 1);
    permits.push(mine.try_acquire().await.unwrap().unwrap());
    assert_eq!(slots(&permits), BTreeSet::from([0, 1, 2]));
    assert_eq!(theirs.available_permits().await.unwrap(), 0);
    assert!(mine.try_acquire().await.unwrap().is_none() && theirs.try_acquire().await.unwrap().is_none());
    let mut waiting = Box::pin(theirs.acquire());
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
    assert_eq!(mine.available_permits().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn many_tasks_of_many_clients_are_all_served_and_leave_nothing() {
    let cluster = MemoryCluster::new(3);
    let quorums: Vec<Quorum> = (0..5).map(|_| client(&cluster)).collect();
    for permits in [1, 3, 7] {
        let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = quorums.iter().flat_map(|quorum| [quorum; 6]).map(|quorum| async {
            let semaphore = quorum.semaphore("s", permits);
            for _ in 0..3 {
                let permit = semaphore.acquire().await.unwrap();
                most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                pass(Duration::from_millis(5)).await;
                assert!(permit.is_valid());
                held.fetch_sub(1, Ordering::SeqCst);
            }
        });
        join_all(work).await;
        assert_eq!(most.into_inner(), permits as usize);
        pass(Duration::from_millis(10)).await;
        assert_eq!(locked_nodes(&cluster), NONE);
        assert_eq!(quorums[0].semaphore("s", permits).available_permits().await.unwrap(), permits as usize);
    }
}

/// Without another node to query, or without an answer, the call does not wait.
#[tokio::test(start_paused = true)]
async fn a_refused_try_acquire_returns_at_once() {
    let cluster = MemoryCluster::new(5);
    let (one, other) = (client(&cluster), client(&cluster));
    for permits in [1, 40] {
        let mine = one.semaphore("s", permits);
        let held = join_all((0..permits).map(|_| mine.acquire())).await;
        for down in [3, 4] {
            server(&cluster, down).behave(Behaviour::Failing(NodeError::Unreachable("down".into())));
        }
        let start = tokio::time::Instant::now();
        assert!(other.semaphore("s", permits).try_acquire().await.unwrap().is_none());
        assert!(start.elapsed() < Duration::from_millis(20), "{:?}", start.elapsed());
        thaw_all(&cluster);
        drop(held);
        pass(Duration::from_secs(1)).await;
    }
}

/// A node in quarantine does not know what is held, so it does not say what is vacant.
#[tokio::test(start_paused = true)]
async fn available_permits_is_an_error_after_a_majority_forgot_votes() {
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
async fn a_call_that_is_dropped_or_too_late_leaves_no_place_in_any_queue() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (client(&cluster), client(&cluster));
    let semaphore = one.semaphore("s", 2);
    let permits = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
    let theirs = other.semaphore("s", 2);
    let start = tokio::time::Instant::now();
    assert!(theirs.try_acquire_for(Duration::from_secs(1)).await.unwrap().is_none());
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    tokio::select! {
        _ = theirs.acquire() => panic!("there is no permit"),
        () = pass(Duration::from_secs(1)) => {}
    }
    drop(permits);
    pass(Duration::from_millis(2)).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 2, "nobody is queued");
}

#[tokio::test(start_paused = true)]
async fn the_slot_that_was_released_last_is_tried_first() {
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
async fn a_permit_without_renewal_is_lost_and_its_slot_free_after_the_ttl() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (client(&cluster), client(&cluster));
    let fixed = LockOptions::new().ttl(TTL).without_renewal();
    let gone = one.semaphore("s", 1).options(fixed).acquire().await.unwrap();
    let start = tokio::time::Instant::now();
    let next = other.semaphore("s", 1).acquire().await.unwrap();
    assert!(start.elapsed() < TTL + Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(gone.lost().await.reason, LossReason::Expired);
    assert!(gone.release().await.is_err());
    assert!(next.is_valid(), "a late unlock takes nothing from the next");
    pass(TTL * 3).await;
    assert!(next.is_valid(), "it is renewed");
}

#[tokio::test(start_paused = true)]
async fn a_smaller_number_of_permits_leaves_those_beyond_it_to_end() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let (many, few) = (quorum.semaphore("s", 3), quorum.semaphore("s", 1));
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(many.acquire().await.unwrap());
    }
    assert!(few.try_acquire().await.unwrap().is_none());
    permits.retain(|permit| permit.slot() > 0);
    assert_eq!(few.acquire().await.unwrap().slot(), 0);
}

#[tokio::test(start_paused = true)]
async fn numbers_of_permits_that_cannot_be_are_refused() {
    let quorum = client(&MemoryCluster::new(1));
    for given in [0, 1_025] {
        let refused = quorum.semaphore("s", given).acquire().await.unwrap_err();
        assert_eq!(refused.to_string(), format!("permits is {given}: expected 1 to 1024"));
    }
    assert!(quorum.semaphore("s", 1_024).acquire().await.is_ok());
    let nothing = quorum.any_of([""; 0]).lock().await.unwrap_err();
    assert_eq!(nothing.to_string(), "group: no resources: name at least one");
    let names: Vec<String> = (0..65).map(|name| name.to_string()).collect();
    let refused = quorum.any_of(&names).try_lock().await.unwrap_err();
    assert_eq!(refused.to_string(), "group: 65 resources: expected at most 64");
    let twice = quorum.any_of(["a", "b", "a"]).lock().await.unwrap_err();
    assert_eq!(twice.to_string(), "group: a stands twice: name each resource once");
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
async fn any_of_several_is_the_lock_of_one_of_them() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (client(&cluster), client(&cluster));
    let any = one.any_of(["a", "b", "c"]);
    let held = [other.red_lock("a").lock().await.unwrap(), other.red_lock("c").lock().await.unwrap()];
    let guard = any.lock().await.unwrap();
    assert_eq!(guard.resource().to_string(), "b");
    assert!(other.red_lock("b").try_lock().await.unwrap().is_none());
    assert!(any.try_lock().await.unwrap().is_none());
    let mut waiting = Box::pin(any.lock());
    assert!((&mut waiting).now_or_never().is_none());
    pass(Duration::from_secs(1)).await;
    drop(held);
    let next = waiting.await.unwrap();
    assert!(["a", "c"].contains(&next.resource().to_string().as_str()));
    drop((guard, next));
    pass(Duration::from_millis(2)).await;
    assert_eq!(locked_nodes(&cluster), NONE);
}

/// Returns the output of a future and the time until then. Panics after a minute.
async fn soon<T>(what: impl Future<Output = T>) -> (T, Duration) {
    let start = tokio::time::Instant::now();
    let value = tokio::time::timeout(Duration::from_secs(60), what).await.expect("it comes");
    (value, start.elapsed())
}

/// Asserts that a call waits for at least `lasts`.
async fn nothing_comes<T>(what: impl Future<Output = T>, lasts: Duration) {
    assert!(tokio::time::timeout(lasts, what).await.is_err(), "there is no permit");
}

/// Each waiter is in the queues of three slots only, but gets whichever slot is released, because one waiter after the
/// other is the release watcher.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_next_released_slot_of_any_index() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let semaphore = quorum.semaphore("s", 400);
    let mut permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let clients: Vec<Quorum> = (0..4).map(|_| client(&cluster)).collect();
    let mut waiting: FuturesUnordered<_> = clients
        .iter()
        .map(|quorum| {
            let theirs = quorum.semaphore("s", 400);
            async move { theirs.acquire().await.unwrap() }
        })
        .collect();
    for _ in 0..4 {
        nothing_comes(waiting.next(), Duration::from_secs(2)).await;
        permits.remove(permits.len() / 2).release().await.unwrap();
        let (permit, took) = soon(waiting.next()).await;
        permits.push(permit.unwrap());
        assert!(took < Duration::from_millis(20), "{took:?}");
    }
    drop(permits);
    pass(Duration::from_millis(5)).await;
    assert_eq!(locked_nodes(&cluster), NONE, "no release watcher is left");
}

/// The only waiter of the slot has left the queue. The holder does not know this, and leaves a mark for that waiter.
#[tokio::test(start_paused = true)]
async fn the_release_watcher_takes_a_slot_that_is_marked_for_a_waiter_that_left() {
    let cluster = MemoryCluster::new(3);
    let [one, gone, other] = [(); 3].map(|()| client(&cluster));
    let semaphore = one.semaphore("s", 400);
    let mut permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let theirs = other.semaphore("s", 400);
    let mut waiting = Box::pin(theirs.acquire());
    nothing_comes(&mut waiting, Duration::from_secs(2)).await;
    let permit = permits.swap_remove(200);
    let slot = gone.semaphore("s", 400).slot_resource(permit.slot()).unwrap();
    let slot = RedLock::new(Arc::clone(gone.client()), Ok(slot));
    nothing_comes(slot.lock(), Duration::from_millis(50)).await;
    permit.renew().await.unwrap();
    let mut waits_for_it = Box::pin(slot.lock());
    nothing_comes(&mut waits_for_it, Duration::from_millis(50)).await;
    permit.renew().await.unwrap();
    drop(waits_for_it);
    pass(Duration::from_millis(5)).await;
    permit.release().await.unwrap();
    let (_, took) = soon(waiting).await;
    assert!(took < Duration::from_millis(20), "{took:?}");
}

/// Another client becomes the release watcher when the lease of a dead watcher ends, and finds a slot whose lease expires
/// without a notice.
#[tokio::test(start_paused = true)]
async fn a_slot_that_expires_without_a_notice_is_found_although_the_release_watcher_died() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (client(&cluster), client(&cluster));
    let semaphore = one.semaphore("s", 400);
    let permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let all_have = |resource, ttl| {
        cluster.servers().iter().for_each(|server| server.hold(resource, "gone", ttl));
    };
    all_have("redquorum:release_watcher:{s}", TTL);
    let theirs = other.semaphore("s", 400);
    let mut waiting = Box::pin(theirs.acquire());
    nothing_comes(&mut waiting, TTL + Duration::from_secs(1)).await;
    let lost = permits[170].slot();
    all_have(&format!("redquorum:slot:{{s}}:{lost}"), Duration::from_millis(1));
    let (permit, took) = soon(waiting).await;
    assert_eq!(permit.unwrap().slot(), lost);
    assert!(took < Duration::from_secs(6), "{took:?}");
    drop(permits);
}

/// Each of five nodes gets one request in two seconds: for queue entries, the lease of the release watcher, and slots that
/// expire without a notice.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_sends_few_requests() {
    let cluster = MemoryCluster::new(5);
    let (one, other) = (client(&cluster), client(&cluster));
    let fixed = LockOptions::new().ttl(Duration::from_secs(60)).without_renewal();
    let semaphore = one.semaphore("s", 400).options(fixed);
    let permits = try_join_all((0..400).map(|_| semaphore.acquire())).await.unwrap();
    let theirs = other.semaphore("s", 400);
    let mut waiting = Box::pin(theirs.acquire());
    let asked = || -> usize { cluster.servers().iter().map(|server| server.take_log().len()).sum() };
    nothing_comes(&mut waiting, Duration::from_secs(2)).await;
    asked();
    nothing_comes(&mut waiting, Duration::from_secs(30)).await;
    let asked = asked();
    assert!((30..=100).contains(&asked), "{asked}");
    drop(permits);
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_had_at_once_or_none() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (client(&cluster), client(&cluster));
    let (mine, theirs) = (one.semaphore("s", 4), other.semaphore("s", 4));
    let single = theirs.acquire().await.unwrap();
    let mut waiting = Box::pin(mine.acquire_many(4));
    tokio::select! {
        _ = &mut waiting => panic!("another has one"),
        () = pass(Duration::from_secs(1)) => {}
    }
    assert!(theirs.try_acquire().await.unwrap().is_none(), "it keeps what it has");
    drop(waiting);
    pass(Duration::from_millis(5)).await;
    assert_eq!(mine.available_permits().await.unwrap(), 3, "and gives it back");
    let mut waiting = Box::pin(mine.acquire_many(4));
    tokio::select! {
        _ = &mut waiting => panic!("another has one"),
        () = pass(Duration::from_secs(1)) => {}
    }
    drop(single);
    let permits = waiting.await.unwrap();
    assert_eq!(slots(&permits), BTreeSet::from([0, 1, 2, 3]));
    drop(permits);
    pass(Duration::from_millis(5)).await;
    assert_eq!(locked_nodes(&cluster), NONE, "nobody has a turn any more");
}

/// Six clients want several of ten permits again and again: the most that were had at a time.
async fn acquire_several() -> usize {
    let cluster = MemoryCluster::new(3);
    let clients: Vec<Quorum> = (0..6).map(|_| client(&cluster)).collect();
    let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = clients.iter().zip([7, 1, 8, 10, 1, 6]).map(|(quorum, wanted)| {
        let (held, most) = (&held, &most);
        async move {
            let semaphore = quorum.semaphore("s", 10);
            for _ in 0..5 {
                let permits = semaphore.acquire_many(wanted).await.unwrap();
                assert_eq!(slots(&permits).len(), wanted as usize);
                most.fetch_max(
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
    most.into_inner()
}

/// Each client wants more than half of the permits, so two clients that keep their permits would wait forever.
#[tokio::test(start_paused = true)]
async fn those_who_want_several_do_not_wait_for_each_other() {
    let within = |time, work| tokio::time::timeout(time, work);
    assert!(within(Duration::from_secs(20), acquire_several()).await.unwrap() <= 10);
    let _broken = break_rule(Some(Mutation::ParallelPermits));
    // Now and then all happen to collect one after the other.
    let mut plays = 0..10;
    while within(Duration::from_secs(300), acquire_several()).await.is_ok() {
        assert!(plays.next().is_some(), "nobody ever stands still");
    }
}

/// The tasks of one owner would both have their turn, and wait for each other.
#[tokio::test(start_paused = true)]
async fn an_owner_has_its_turn_to_acquire_several_once() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let semaphore = quorum.semaphore("s", 4);
    let single = semaphore.acquire().await.unwrap();
    let owner = Owner::new();
    let several = || owner.scope(async { drop(semaphore.acquire_many(3).await.unwrap()) });
    let release = async {
        pass(Duration::from_secs(1)).await;
        drop(single);
    };
    let both = async { tokio::join!(several(), several(), several(), release) };
    tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
}

/// The first permits run out while the last is waited for, so they are acquired anew.
#[tokio::test(start_paused = true)]
async fn all_of_several_permits_are_valid_when_they_are_handed_out() {
    let cluster = MemoryCluster::new(3);
    let (one, other) = (client(&cluster), client(&cluster));
    let fixed = LockOptions::new().ttl(Duration::from_secs(2)).without_renewal();
    let mine = one.semaphore("s", 3).options(fixed);
    let theirs = other.semaphore("s", 3).acquire().await.unwrap();
    let mut waiting = Box::pin(mine.acquire_many(3));
    tokio::select! {
        _ = &mut waiting => panic!("another has one"),
        () = pass(Duration::from_secs(15)) => {}
    }
    drop(theirs);
    let permits = waiting.await.unwrap();
    assert!(permits.iter().all(|permit| permit.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn more_permits_at_once_than_there_are_are_refused() {
    let quorum = client(&MemoryCluster::new(1));
    for (permits, given, most) in [(3, 0, 3), (3, 4, 3), (100, 65, 64)] {
        let refused = quorum.semaphore("s", permits).acquire_many(given).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("permits at once is {given}: expected 1 to {most}"));
    }
}

/// The queue node of the slot answers that the slot is held, and the other nodes do not answer.
#[tokio::test(start_paused = true)]
async fn acquire_gives_up_after_its_quorum_timeout_although_one_node_says_held() {
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
