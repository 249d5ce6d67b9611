//! S62: futures that are kept without polls, as in a `select!` in a loop.

use futures::{
    FutureExt,
    future::{BoxFuture, select},
    poll,
};

use super::*;

/// Process 0 polls the future of a lock call once, keeps the future for ten seconds without polls,
/// and then awaits it. From 100 ms on, a second task of process 0 and also process 1 lock the
/// resource. Process 2 holds the resource until `held_until`. The locks of process 0 are shared if
/// `is_shared` is true.
fn with_a_kept_future(is_shared: bool, begin: Duration, held_until: Duration) -> Report {
    run(steady(5, 3), move |process| async move {
        let quorum = quorum(&process);
        match process.index() {
            0 => {
                let alone = (!is_shared).then_some("r");
                let lock = quorum.multi_lock(alone).and_read(is_shared.then_some("r"));
                process.sleep(begin).await;
                let sibling = (process.clone(), lock.clone());
                process.spawn(async move {
                    let (process, lock) = sibling;
                    process.sleep(millis(100)).await;
                    let guard = lock.lock().await.unwrap();
                    assert!(process.check_valid(&guard));
                    process.sleep(millis(50)).await;
                });
                let mut kept = Box::pin(lock.lock());
                assert!(poll!(&mut kept).is_pending());
                process.sleep(10 * SECOND).await;
                if let Ok(guard) = kept.await {
                    assert!(process.check_valid(&guard), "the kept future returned an invalid guard");
                }
            }
            1 => {
                process.sleep(begin + millis(300)).await;
                drop(quorum.red_lock("r").lock().await.unwrap());
            }
            _ if held_until.is_zero() => {}
            _ => {
                let guard = quorum.red_lock("r").lock().await.unwrap();
                process.sleep(held_until).await;
                drop(guard);
            }
        }
    })
}

#[test]
fn s62_an_unpolled_future_blocks_neither_its_client_nor_other_clients() {
    // The three cases: the polls stop before the attempt begins, during the attempt, and while
    // process 2 holds the resource.
    let times = [(0, 0), (1_000, 0), (1_000, 3_000)];
    let each = [false, true].into_iter().flat_map(|is_shared| times.map(|times| (is_shared, times)));
    for (is_shared, (begin, held_until)) in each {
        let report = with_a_kept_future(is_shared, millis(begin), millis(held_until));
        assert_keeps(&report, &Promises::ALL);
        let free = millis(begin.max(held_until));
        let of_siblings = granted(&report, 0);
        let [sibling, kept] = &*of_siblings else { panic!("{of_siblings:?}") };
        assert!(*sibling <= free + millis(300), "the sibling did not take the turn: {of_siblings:?}");
        assert!(
            *kept >= millis(begin) + 10 * SECOND,
            "the unpolled future locked before its next poll: {of_siblings:?}"
        );
        assert!(granted(&report, 1)[0] <= free + millis(500), "{:?}", granted(&report, 1));
    }
}

#[test]
fn s62_without_a_stall_rollback_an_unpolled_future_blocks_other_clients() {
    let is_shared = false;
    let report =
        breaking(Mutation::NoStallRollback, || with_a_kept_future(is_shared, SECOND, Duration::ZERO));
    assert!(granted(&report, 1)[0] >= 11 * SECOND, "{:?}", granted(&report, 1));
}

#[test]
fn s62_an_unpolled_attempt_is_rolled_back_after_an_attempt_timeout() {
    let report = run(steady(5, 2), |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * millis(100)).await;
        if process.index() == 1 {
            drop(quorum.red_lock("r").lock().await.unwrap());
            return;
        }
        let lock = quorum.red_lock("r");
        let mut kept = Box::pin(lock.try_lock());
        assert!(poll!(&mut kept).is_pending());
        process.sleep(10 * SECOND).await;
        let guard = kept.await.unwrap().unwrap();
        assert!(process.check_valid(&guard), "the call returned the lease of its rolled-back attempt");
    });
    assert_keeps(&report, &Promises::ALL);
    let other = granted(&report, 1)[0];
    // The bounds: an attempt timeout until the rollback, and up to a hand-over until the next
    // attempt of the waiter.
    assert!(other > SECOND && other <= 2 * SECOND + millis(150), "{other:?}");
}

#[test]
fn s62_an_unpolled_future_delays_a_group_of_its_client_by_two_hand_overs() {
    let report = run(steady(5, 1), |process| async move {
        let quorum = quorum(&process);
        process.sleep(SECOND).await;
        let lock = quorum.red_lock("r");
        let mut kept = Box::pin(lock.lock());
        assert!(poll!(&mut kept).is_pending());
        let group = quorum.multi_lock(["q", "r"]);
        process.spawn(async move { drop(group.lock().await.unwrap()) });
        process.sleep(10 * SECOND).await;
        drop(kept);
    });
    assert_keeps(&report, &Promises::ALL);
    let grants = granted(&report, 0);
    assert!(grants[0] <= SECOND + millis(300), "{grants:?}");
}

/// A call of one process, with the handles and guards that the call uses.
type Call = fn(Process) -> BoxFuture<'static, ()>;

/// Polls the call of process 0 for `polled`, and then keeps the call for a minute without polls. Process 2 calls at the
/// beginning, and process 1 a second later. Returns the time of the last lease of process 1.
fn beside_a_kept_call(polled: Duration, [kept, other, first]: [Call; 3]) -> Duration {
    let report = run(steady(6, 3), move |process| async move {
        match process.index() {
            0 => {
                process.sleep(millis(100)).await;
                let mut kept = kept(process.clone());
                drop(select(&mut kept, Box::pin(process.sleep(polled))).await);
                process.sleep(60 * SECOND).await;
            }
            1 => {
                process.sleep(SECOND).await;
                other(process).await;
            }
            _ => first(process).await,
        }
    });
    assert_keeps(&report, &Promises::ALL);
    granted(&report, 1).last().copied().unwrap()
}

fn east_and_west(process: &Process) -> (Quorum, Quorum) {
    let connect = |name, nodes| {
        let builder = Quorum::builder().name(name).ttl(TTL).max_ttl(2 * TTL);
        builder.connect_simulated(&process.clone().with_nodes(nodes)).unwrap()
    };
    (connect("east", 0..3), connect("west", 3..6))
}

#[test]
fn s62_an_unpolled_lock_across_quorums_gives_up_the_leases_that_it_has() {
    let across: Call = |process| {
        async move {
            let (east, west) = east_and_west(&process);
            let both = crate::MultiLock::across([east.red_lock("x"), west.red_lock("y")]);
            drop(both.lock().await);
        }
        .boxed()
    };
    let east: Call = |process| {
        async move {
            let guard = east_and_west(&process).0.red_lock("x").lock().await.unwrap();
            hold(&process, guard).await;
        }
        .boxed()
    };
    let west: Call = |process| {
        async move {
            let guard = east_and_west(&process).1.red_lock("y").lock().await.unwrap();
            process.sleep(5 * SECOND).await;
            drop(guard);
        }
        .boxed()
    };
    let at = beside_a_kept_call(millis(500), [across, east, west]);
    assert!(at > SECOND + millis(10) && at < 8 * SECOND, "{at:?}");
}

#[test]
fn s62_an_unpolled_call_for_several_permits_gives_up_its_turn_and_permits() {
    let all: Call =
        |process| async move { drop(quorum(&process).semaphore("s", 3).acquire_many(3).await) }.boxed();
    let two: Call = |process| {
        async move {
            let permits = quorum(&process).semaphore("s", 3).acquire_many(2).await.unwrap();
            process.sleep(millis(1)).await;
            drop(permits);
        }
        .boxed()
    };
    let one: Call = |process| {
        async move {
            let permit = quorum(&process).semaphore("s", 3).acquire().await.unwrap();
            process.sleep(20 * SECOND).await;
            drop(permit);
        }
        .boxed()
    };
    let at = beside_a_kept_call(millis(500), [all, two, one]);
    assert!(at > SECOND + millis(10) && at < 12 * SECOND, "{at:?}");
}

#[test]
fn s62_an_unpolled_campaign_gives_up_its_election() {
    let campaign: Call =
        |process| async move { drop(quorum(&process).election("e").campaign("host").await) }.boxed();
    let nothing: Call = |_| async {}.boxed();
    let times =
        (0..48).map(|quarter| beside_a_kept_call(micros(250) * quarter, [campaign, campaign, nothing]));
    let at = times.max().unwrap();
    assert!(at > 2 * SECOND && at < 4 * SECOND, "{at:?}");
}

#[test]
fn s62_an_unpolled_downgrade_unlocks() {
    let downgrade: Call = |process| {
        async move {
            let guard = quorum(&process).rw_lock("r").write().await.unwrap();
            drop(guard.downgrade().await);
        }
        .boxed()
    };
    let write: Call = |process| {
        async move {
            let guard = quorum(&process).rw_lock("r").write().await.unwrap();
            hold(&process, guard).await;
        }
        .boxed()
    };
    let nothing: Call = |_| async {}.boxed();
    let times = (0..48).map(|quarter| beside_a_kept_call(micros(250) * quarter, [downgrade, write, nothing]));
    let at = times.max().unwrap();
    assert!(at > 2 * SECOND && at < 4 * SECOND, "{at:?}");
}
