//! S22 to S29: lost, late and repeated messages, rollbacks, and a hanging node.

use std::pin::pin;

use futures::future::{Either, select};

use super::*;
use crate::sim::{Direction, Verdict};

/// Applies a verdict to the message of this index between process 0 and each of several nodes.
fn with_verdict(
    nodes: &[usize],
    direction: Direction,
    index: u32,
    verdict: Verdict,
    schedule: Schedule,
) -> Schedule {
    let at = |schedule: Schedule, node: &usize| schedule.with_message(0, *node, direction, index, verdict);
    nodes.iter().fold(schedule, at)
}

/// Polls a future until the future is ready or `after` has passed. Then drops the future and its result.
async fn poll_for(process: &Process, future: impl Future, after: Duration) {
    if let Either::Left((won, _)) = select(pin!(future), pin!(process.sleep(after))).await {
        drop(won);
    }
}

/// Process 0 calls `try_lock` on three nodes. The reply of this index is lost from each of two nodes.
/// Process 1 locks three seconds later.
fn lost_reply(index: u32) -> Report {
    let schedule = with_verdict(&[0, 1], Direction::Reply, index, Verdict::Drop, steady(3, 2));
    run(schedule, |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * 3 * SECOND).await;
        let locked = quorum.red_lock("r").options(LockOptions::new().without_renewal());
        if process.index() == 1 {
            return hold(&process, locked.lock().await.unwrap()).await;
        }
        drop(locked.try_lock().await);
    })
}

#[test]
fn s22_a_rollback_deletes_a_vote_whose_reply_was_lost() {
    let is_prompt = |report: &Report| granted(report, 1)[0] < 3 * SECOND + millis(20);
    let reports: Vec<Report> = (0..8).map(lost_reply).collect();
    for report in &reports {
        assert_keeps(report, &Promises::ALL);
        assert!(is_prompt(report), "{}", report.schedule);
    }
    assert!(reports.iter().any(|report| granted(report, 0).is_empty()));
    let are_all_prompt = || (0..8).all(|index| is_prompt(&lost_reply(index)));
    assert!(!breaking(Mutation::RollbackSkipsSilent, are_all_prompt));
}

/// Two nodes refuse process 0 and the third node grants. The rollback to the third node is late.
/// Before the rollback arrives, process 0 tries again, partitioned from one of the two nodes that
/// have refused. Afterwards process 2 locks.
fn late_rollback() -> Report {
    let schedule = cut(steady(3, 3), 1, &[2], PartitionDirection::Both, Duration::ZERO, millis(50));
    let schedule = cut(schedule, 0, &[0], PartitionDirection::Both, millis(30), 5 * SECOND);
    let late = Verdict::Overtaken(millis(400));
    run(with_verdict(&[2], Direction::Request, 3, late, schedule), |process| async move {
        let quorum = quorum(&process);
        let lock = quorum.red_lock("r").options(LockOptions::new().without_renewal());
        match process.index() {
            1 => {
                let first = lock.lock().await.unwrap();
                process.sleep(millis(20)).await;
                return drop(first);
            }
            2 => {
                process.sleep(millis(800)).await;
                return hold(&process, lock.try_lock().await.unwrap().unwrap()).await;
            }
            _ => {}
        }
        process.sleep(millis(10)).await;
        assert!(matches!(lock.try_lock().await, Ok(None)));
        // For this time, the nodes refuse newcomers in favour of waiters.
        process.sleep(millis(200)).await;
        let second = lock.try_lock().await.unwrap();
        process.sleep(SECOND).await;
        drop(second);
    })
}

#[test]
fn s23_a_late_rollback_deletes_nothing_of_the_next_attempt() {
    let report = late_rollback();
    assert_keeps(&report, &Promises::ALL);
    // The key of the first attempt refuses the second attempt. With a reused lease id, the node grants to
    // the second attempt, and then the late rollback deletes the key.
    assert!(granted(&report, 0).is_empty() && granted(&report, 2).len() == 1);
    assert!(breaks(&breaking(Mutation::ReuseLeaseId, late_rollback), Promise::Exclusion));
}

/// Cancels a `try_lock` after 4.5 ms. The request of this index to each of two nodes has a fault. For one
/// index, this request is the lock, which then arrives after its rollback.
fn late_lock(index: u32, verdict: Verdict) -> Report {
    let schedule = with_verdict(&[0, 1], Direction::Request, index, verdict, steady(3, 1));
    run(schedule, |process| async move {
        // The default ttl is longer than the time until the check for residue.
        let quorum = process.quorum().unwrap();
        poll_for(&process, quorum.red_lock("r").try_lock(), micros(4_500)).await;
    })
}

#[test]
fn s24_a_lock_that_arrives_after_its_rollback_leaves_no_key() {
    for verdict in [Verdict::Overtaken(millis(50)), Verdict::Delay(20 * SECOND), Verdict::Reset] {
        for index in 0..7 {
            assert_keeps(&late_lock(index, verdict), &Promises::ALL);
        }
    }
    let overtaken = || late_lock(2, Verdict::Overtaken(millis(50)));
    assert!(breaks(&breaking(Mutation::NoTombstoneForLock, overtaken), Promise::Residue));
}

#[test]
fn s24_a_request_executed_after_the_unlock_deadline_ends_with_its_ttl() {
    // All nodes hang with pending renewals. The hang is much longer than `max_ttl`, the time for
    // which a client sends an unlock again.
    let hang = |schedule: Schedule, node| schedule.with(SECOND, Fault::Hang { node, lasts: 60 * SECOND });
    let report = run((0..3).fold(steady(3, 2), hang), |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * 62 * SECOND).await;
        let guard = quorum.red_lock("r").lock().await.unwrap();
        if process.index() == 0 {
            process.lost(&guard).await;
        }
    });
    assert_keeps(&report, &Promises::ALL);
    let granted = granted(&report, 1)[0];
    assert!(granted > 70 * SECOND && granted < 61 * SECOND + TTL + POLL, "{granted:?}");
}

/// Process 0 cancels its lock call after `after`. Process 1 calls `try_lock` once, a second later.
fn cancelled(seed: u64, after: Duration) -> Report {
    run(Schedule::without_faults(seed, 3, 2), move |process| async move {
        let quorum = quorum(&process);
        let lock = quorum.red_lock("r");
        if process.index() == 0 {
            return poll_for(&process, lock.lock(), after).await;
        }
        process.sleep(SECOND).await;
        drop(lock.try_lock().await);
    })
}

fn cancelled_at_any_time() -> Vec<Report> {
    (0..5).flat_map(|seed| (0..40).map(move |quarter| cancelled(seed, micros(250) * quarter))).collect()
}

#[test]
fn s25_a_cancelled_lock_is_rolled_back_on_every_node() {
    let reports = cancelled_at_any_time();
    for report in &reports {
        assert_keeps(report, &Promises::ALL);
        assert_eq!(granted(report, 1).len(), 1, "{}", report.schedule);
    }
    assert!(reports.iter().any(|report| !failed_attempts(report, 0).is_empty()));
    assert!(reports.iter().any(|report| !granted(report, 0).is_empty()));
    let skipping = breaking(Mutation::RollbackSkipsSilent, cancelled_at_any_time);
    assert!(skipping.iter().any(|report| granted(report, 1).is_empty()));
}

/// One process takes three leases in sequence. The message of this index between the process and each node
/// arrives twice, `later` after the first arrival.
fn repeated(direction: Direction, index: u32, later: Duration) -> Report {
    let schedule = with_verdict(&[0, 1, 2], direction, index, Verdict::Duplicate(later), steady(3, 1));
    run(schedule, |process| async move {
        let quorum = quorum(&process);
        for _ in 0..3 {
            let guard = quorum.red_lock("r").lock().await.unwrap();
            process.sleep(millis(100)).await;
            let _unlocked = guard.unlock().await.unwrap();
        }
    })
}

#[test]
fn s26_a_lock_that_arrives_twice_gets_the_same_vote() {
    let once = tokens(&repeated(Direction::Request, 1_000, SECOND));
    assert_eq!(once.len(), 3);
    for index in 0..8 {
        for direction in [Direction::Request, Direction::Reply] {
            let report = repeated(direction, index, millis(20));
            assert_keeps(&report, &Promises::ALL);
            assert_eq!(tokens(&report), once, "{}", report.schedule);
        }
    }
}

#[test]
fn s26_a_late_duplicate_blocks_for_at_most_a_ttl() {
    for index in 0..8 {
        for later in [millis(150), SECOND] {
            assert_keeps(&repeated(Direction::Request, index, later), &Promises::ALL);
        }
    }
}

/// Process 0 re-enters its lease just before a renewal. The requests of this index are late. If these are
/// the requests of the re-entry, which name the remaining ttl, they arrive after the renewal. Then process 0
/// is partitioned, and process 1 calls `try_lock` repeatedly.
fn late_shorter_ttl(index: u32) -> Report {
    let late = Verdict::Overtaken(millis(800));
    let schedule = with_verdict(&[0, 1, 2], Direction::Request, index, late, steady(3, 2));
    let schedule = cut(schedule, 0, &[0, 1, 2], PartitionDirection::Both, millis(4_100), 12 * SECOND);
    run(schedule, |process| async move {
        if process.index() == 1 {
            return probe(&process, TTL, millis(5)).await;
        }
        let (quorum, owner) = (quorum(&process.with_whole_renewal_intervals()), crate::Owner::new());
        let lock = quorum.red_lock("r").owned_by(&owner);
        let Ok(outer) = lock.lock().await else { return };
        process.sleep(millis(3_200)).await;
        drop(lock.try_lock().await);
        process.lost(&outer).await;
    })
}

#[test]
fn s27_a_late_request_never_shortens_a_later_ttl() {
    for index in 0..6 {
        assert_keeps(&late_shorter_ttl(index), &Promises::ALL);
    }
    let shortening = || (0..6).any(|index| breaks(&late_shorter_ttl(index), Promise::Exclusion));
    assert!(breaking(Mutation::ShortenTtl, shortening));
}

/// Process 0 is paused beyond the end of its lease and then unlocks. By then process 1 holds the
/// lock, and process 2 calls `try_lock` repeatedly.
fn late_unlock() -> Report {
    let schedule = steady(3, 3).with(millis(100), Fault::Pause { process: 0, lasts: 15 * SECOND });
    run(schedule, |process| async move {
        if process.index() == 2 {
            return probe(&process, 14 * SECOND, millis(20)).await;
        }
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * SECOND).await;
        let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        process.sleep(if process.index() == 0 { SECOND } else { 8 * SECOND }).await;
        let _unlocked = guard.unlock().await;
    })
}

#[test]
fn s28_a_late_unlock_does_not_affect_the_next_holder() {
    let report = late_unlock();
    assert_keeps(&report, &Promises::ALL);
    assert!(granted(&report, 1)[0] < 11 * SECOND && granted(&report, 2)[0] > 17 * SECOND);
    assert!(breaks(&breaking(Mutation::UnlockWithoutOwner, late_unlock), Promise::Exclusion));
}

#[test]
fn s29_calls_do_not_wait_for_a_hanging_node() {
    for node in 0..5 {
        for hangs_from in [Duration::ZERO, millis(50)] {
            let schedule = steady(5, 1).with(hangs_from, Fault::Hang { node, lasts: 60 * SECOND });
            let report = run(schedule, |process| async move {
                let quorum = quorum(&process);
                process.sleep(millis(100)).await;
                let guard = quorum.red_lock("r").lock().await.unwrap();
                let _unlocked = guard.unlock().await.unwrap();
            });
            assert_keeps(&report, &Promises::ALL);
            let began = times_of(&report, 0, |event| matches!(event, Event::Began { .. }));
            // One round trip, or two with a write-back.
            assert!(granted(&report, 0)[0] <= began[0] + millis(4), "{}", report.schedule);
        }
    }
}
