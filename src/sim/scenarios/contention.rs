//! S41, S43, S44, S46 to S49, and S57 to S59: contention, hand-offs, and the time for which a failed client blocks
//! a resource.

use super::*;
use crate::sim::{Direction, Memory, Verdict};

/// Returns the number of turns that directly follow a turn of the same process.
fn repeated(turns: &[usize]) -> usize {
    turns.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

/// Runs `processes` processes, each of which locks `rounds` times for five milliseconds, all at the
/// same time.
fn contended(seed: u64, nodes: usize, processes: usize, rounds: usize) -> Report {
    let report = run(Schedule::without_faults(seed, nodes, processes), move |process| async move {
        let quorum = quorum(&process);
        process.sleep(millis(50)).await;
        for _ in 0..rounds {
            let guard = quorum.red_lock("r").lock().await.unwrap();
            process.sleep(millis(5)).await;
            drop(guard);
        }
    });
    assert_keeps(&report, &Promises::ALL);
    report
}

#[test]
fn s41_a_split_vote_is_resolved_within_a_few_rounds() {
    let first =
        |report: &Report| (0..5).filter_map(|process| granted(report, process).first().copied()).min();
    let waits: Vec<Duration> =
        (0..100).map(|seed| first(&contended(seed, 5, 5, 1)).unwrap() - millis(50)).collect();
    let over = |bound| waits.iter().filter(|wait| **wait > bound).count();
    // A round trip takes at most 4 ms, and a write-back takes another round trip.
    assert!(over(millis(8)) > 0, "no vote was split");
    assert!(over(millis(50)) <= 10 && over(millis(250)) == 0, "{waits:?}");
}

#[test]
fn s43_a_waiter_notices_a_release_during_its_failing_attempt() {
    for quarter in 0..80 {
        let report = run(steady(3, 2), move |process| async move {
            let quorum = quorum(&process);
            process.sleep(millis(4) * process.index() as u32).await;
            let guard = quorum.red_lock("r").lock().await.unwrap();
            process.sleep(micros(250) * quarter).await;
            drop(guard);
        });
        assert_keeps(&report, &Promises::ALL);
        let hand_off = granted(&report, 1)[0].saturating_sub(ended(&report, 0)[0]);
        assert!(hand_off < millis(15), "{quarter}: {hand_off:?}");
    }
}

#[test]
fn s44_the_fallback_poll_covers_lost_notices() {
    let mut late = 0;
    for index in 0..12 {
        let lose =
            |schedule: Schedule, node| schedule.with_message(1, node, Direction::Reply, index, Verdict::Drop);
        let report = run((0..3).fold(steady(3, 2), lose), |process| async move {
            let quorum = quorum(&process);
            process.sleep(process.index() as u32 * SECOND).await;
            let guard = quorum.red_lock("r").lock().await.unwrap();
            process.sleep((1 - process.index() as u32) * 3 * SECOND).await;
            drop(guard);
        });
        assert_keeps(&report, &Promises::ALL);
        let hand_off = granted(&report, 1)[0].saturating_sub(ended(&report, 0)[0]);
        assert!(hand_off < POLL, "{index}: {hand_off:?}");
        late += usize::from(hand_off > millis(50));
    }
    assert!(late > 0, "no notice was lost");
}

#[test]
fn s46_orphaned_keys_block_the_resource_for_at_most_a_ttl() {
    let mut blocked = 0;
    for quarter in 0..24 {
        let schedule = steady(3, 2).with(micros(250) * quarter, Fault::Kill { process: 0 });
        let report = run(schedule, |process| async move {
            let quorum = quorum(&process);
            process.sleep(process.index() as u32 * SECOND).await;
            drop(quorum.red_lock("r").lock().await);
        });
        assert_keeps(&report, &Promises::ALL);
        let granted = granted(&report, 1)[0];
        assert!(granted < TTL + POLL, "{quarter}: {granted:?}");
        blocked += usize::from(granted > 5 * SECOND);
    }
    assert!(blocked > 0, "no key was left behind");
}

/// Runs one attempt of process 0 while `nodes` of five nodes are down, from the start, for five
/// seconds.
fn attempt_with_nodes_down(nodes: usize) -> Report {
    let crash = |schedule: Schedule, node| {
        schedule.with(Duration::ZERO, Fault::Crash { node, lasts: 5 * SECOND, memory: Memory::Kept })
    };
    let report = run((0..nodes).fold(steady(5, 1), crash), |process| async move {
        // The default ttl is longer than the time until the check for residue.
        let quorum = process.quorum().unwrap();
        process.sleep(millis(100)).await;
        let locked = quorum.red_lock("r").try_lock().await;
        process.sleep(millis(1)).await;
        drop(locked);
    });
    assert_keeps(&report, &Promises::ALL);
    report
}

#[test]
fn s47_a_dead_minority_costs_nothing_and_a_majority_leaves_no_residue() {
    assert!(granted(&attempt_with_nodes_down(2), 0)[0] <= millis(104));
    let majority = attempt_with_nodes_down(3);
    assert!(granted(&majority, 0).is_empty());
    assert!(failed_attempts(&majority, 0)[0] <= millis(104), "{:?}", failed_attempts(&majority, 0));
}

/// Partitions process 0 from all nodes in one direction for 30 s, while its lock is in flight. Process 1 locks a
/// second later.
fn one_way(way: PartitionDirection) -> Report {
    let schedule = cut(steady(3, 2), 0, &[0, 1, 2], way, micros(4_500), 30 * SECOND);
    let report = run(schedule, |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * SECOND).await;
        let lock = quorum.red_lock("r").options(LockOptions::new().without_renewal());
        if process.index() == 1 {
            return drop(lock.lock().await.unwrap());
        }
        drop(lock.try_lock().await);
    });
    assert_keeps(&report, &Promises::ALL);
    report
}

#[test]
fn s48_a_client_without_replies_rolls_back_and_without_requests_blocks_a_ttl() {
    let without_replies = one_way(PartitionDirection::Replies);
    assert!(
        granted(&without_replies, 0).is_empty() && granted(&without_replies, 1)[0] < 2 * SECOND,
        "{:?}",
        granted(&without_replies, 1)
    );
    let blocked = granted(&one_way(PartitionDirection::Requests), 1)[0];
    assert!(blocked > 5 * SECOND && blocked < TTL + POLL, "{blocked:?}");
}

#[test]
fn s49_each_partitioned_holder_blocks_the_resource_for_a_ttl() {
    let schedule = cut(steady(3, 3), 0, &[0, 1, 2], PartitionDirection::Both, millis(10), 60 * SECOND);
    let schedule = cut(schedule, 1, &[0, 1, 2], PartitionDirection::Both, 12 * SECOND, 60 * SECOND);
    let report = run(schedule, |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * 5_500 * millis(1)).await;
        let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        process.sleep(3 * SECOND).await;
        drop(guard);
    });
    assert_keeps(&report, &Promises::ALL);
    let (second, third) = (granted(&report, 1)[0], granted(&report, 2)[0]);
    assert!(second > 9 * SECOND && third > 18 * SECOND && third < 2 * TTL + POLL, "{second:?} {third:?}");
}

#[test]
fn s57_a_returning_holder_yields_to_the_waiters() {
    let twice_in_a_row = || {
        let report = run(steady(5, 3), move |process| async move {
            let quorum = quorum(&process);
            process.sleep(millis(20) * process.index() as u32).await;
            for _ in 0..20 {
                let guard = quorum.red_lock("r").lock().await.unwrap();
                process.sleep(millis(60)).await;
                guard.unlock().await.unwrap();
            }
        });
        assert_keeps(&report, &Promises::ALL);
        // The last turns are left out, because the last process has no waiters to yield to.
        repeated(&turns(&report)[..40])
    };
    assert_eq!(twice_in_a_row(), 0);
}

#[test]
fn s58_waiting_times_stay_even_under_steady_contention() {
    let tail = || {
        let mut schedule = steady(5, 8);
        schedule.latency = Latency::between(micros(40), micros(60));
        let report = run(schedule, move |process| async move {
            let quorum = quorum(&process);
            for _ in 0..100 {
                let guard = quorum.red_lock("r").lock().await.unwrap();
                process.sleep(millis(1)).await;
                guard.unlock().await.unwrap();
            }
        });
        assert_keeps(&report, &Promises::ALL);
        let waits = (0..8).flat_map(|process| {
            let came = std::iter::once(Duration::ZERO).chain(ended(&report, process));
            came.zip(granted(&report, process)).map(|(came, granted)| granted - came).collect::<Vec<_>>()
        });
        let mut waits: Vec<Duration> = waits.collect();
        waits.sort_unstable();
        assert_eq!(waits.len(), 800);
        waits[792].div_duration_f64(waits.iter().sum::<Duration>() / 800)
    };
    let (orderly, random) = (tail(), breaking(Mutation::GrantOutOfTurn, tail));
    // The ratio of the 99th percentile to the mean is 4.6, the logarithm of a hundred, if chance alone
    // decides. A process that returns has an advantage over chance.
    assert!(orderly < 1.5 && random > 2.0, "{orderly} {random}");
}

#[test]
fn s59_departed_waiters_do_not_give_one_client_repeated_turns() {
    for seed in 0..10 {
        let schedule = Schedule { seed, ..steady(5, 12) };
        let report = run(schedule, move |process| async move {
            let quorum = quorum(&process);
            // Process 0 holds the lock. Ten processes wait behind process 1, and have left when
            // process 0 waits again.
            process.sleep(millis(20) * process.index().min(2) as u32).await;
            let lock = quorum.red_lock("r");
            match process.index() {
                0 => {
                    let guard = lock.lock().await.unwrap();
                    process.sleep(SECOND).await;
                    guard.unlock().await.unwrap();
                }
                1 => {}
                _ => {
                    assert!(lock.try_lock_for(millis(970)).await.unwrap().is_none());
                    return;
                }
            }
            for _ in 0..10 {
                let guard = lock.lock().await.unwrap();
                process.sleep(millis(60)).await;
                guard.unlock().await.unwrap();
            }
        });
        assert_keeps(&report, &Promises::ALL);
        let turns = turns(&report);
        assert!(repeated(&turns[..18]) <= 1, "{turns:?}");
    }
}
