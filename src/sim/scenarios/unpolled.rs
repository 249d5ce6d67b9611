//! S62: futures that are kept without polls, as in a `select!` in a loop.

use futures::poll;

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
                    assert!(process.check_valid(&guard), "the guard is valid");
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
        assert!(*sibling <= free + millis(300), "the sibling takes the turn: {of_siblings:?}");
        assert!(
            *kept >= millis(begin) + 10 * SECOND,
            "the kept future locks after its next poll: {of_siblings:?}"
        );
        assert!(granted(&report, 1)[0] <= free + millis(500), "{:?}", granted(&report, 1));
    }
}

#[test]
fn s62_a_missing_stall_rollback_shows() {
    let report = breaking(Mutation::NoStallRollback, || with_a_kept_future(false, SECOND, Duration::ZERO));
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
        assert!(process.check_valid(&guard), "the call made another attempt");
    });
    assert_keeps(&report, &Promises::ALL);
    let other = granted(&report, 1)[0];
    // The bounds: an attempt timeout until the rollback, and up to a hand-over until the next
    // attempt of the waiter.
    assert!(other > SECOND && other <= 2 * SECOND + millis(150), "{other:?}");
}
