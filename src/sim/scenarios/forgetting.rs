//! S10 to S13, S16, S17, S20 and S21: nodes that forget without a restart guard, and half of an even number of
//! nodes.

use super::*;
use crate::RestartGuard;
use crate::sim::{Memory, history::Violation};

fn quorum(process: &Process) -> Quorum {
    unguarded(process)
}

fn assert_keeps_the_rest(report: &Report) {
    assert_keeps(report, &report.schedule.promises(DRIFT, RestartGuard::Off));
}

fn crash(node: usize, lasts: Duration, memory: Memory) -> Fault {
    Fault::Crash { node, lasts, memory }
}

/// Applies a fault to node 2 while process 0 holds the lock. Without the fault, only node 2 keeps
/// process 1 from a quorum.
fn at_node_2(at: Duration, fault: Fault) -> Report {
    let report = two_holders_of(meeting_at_node_2(1).with(at, fault), quorum);
    assert_keeps_the_rest(&report);
    report
}

#[test]
fn s10_only_a_node_that_restarts_without_memory_grants_a_held_lock() {
    let kept = at_node_2(SECOND, crash(2, SECOND / 2, Memory::Kept));
    assert_keeps(&kept, &Promises::ALL);
    let lost = at_node_2(SECOND, crash(2, SECOND / 2, Memory::Lost));
    assert!(breaks(&lost, Promise::Exclusion));
    // A node without a counter votes by its clock. No clock of a node was stepped back, so tokens grow,
    // and the store refuses the older holder.
    assert!(!breaks(&lost, Promise::Order) && !breaks(&lost, Promise::Register));
    assert_eq!((writes(&lost, 0), writes(&lost, 1)), (vec![false], vec![true]));
}

#[test]
fn s11_a_loss_of_the_last_second_grants_only_locks_of_that_second_twice() {
    let cut = crash(2, Duration::ZERO, Memory::AsOf(SECOND));
    let report = run(meeting_at_node_2(1).with(millis(1_500), cut), |process| async move {
        let quorum = quorum(&process);
        let (older, younger) = (quorum.red_lock("older"), quorum.red_lock("younger"));
        let [older, younger] =
            [older, younger].map(|lock| lock.options(LockOptions::new().without_renewal()));
        if process.index() == 0 {
            let older = older.lock().await.unwrap();
            process.sleep(millis(1_200)).await;
            let younger = younger.lock().await.unwrap();
            process.lost(&older).await;
            process.lost(&younger).await;
        } else {
            process.sleep(2 * SECOND).await;
            hold(&process, younger.lock().await.unwrap()).await;
            hold(&process, older.lock().await.unwrap()).await;
        }
    });
    assert_keeps_the_rest(&report);
    let violations = report.history.check(&Promises::NONE.with(Promise::Exclusion)).unwrap_err();
    let of_younger = |violation: &Violation| match violation {
        Violation::Overlap { resource, .. } => resource.as_bytes() == b"younger",
        _ => false,
    };
    assert!(violations.as_slice().iter().all(of_younger), "{violations}");
}

#[test]
fn s12_an_old_backup_restores_an_unlocked_key_for_its_ttl() {
    let back = |schedule: Schedule, node| {
        schedule.with(2 * SECOND, crash(node, Duration::ZERO, Memory::AsOf(SECOND)))
    };
    let report = run((0..2).fold(steady(3, 2), back), |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * 3 * SECOND).await;
        let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        process.sleep(millis(1_500)).await;
        drop(guard);
    });
    assert_keeps_the_rest(&report);
    let granted = granted(&report, 1)[0];
    assert!(granted > TTL - SECOND && granted < TTL + POLL, "{granted:?}");
}

#[test]
fn s12_an_old_backup_on_enough_nodes_repeats_a_token() {
    let back = |schedule: Schedule, node| {
        schedule.with(2 * SECOND, crash(node, Duration::ZERO, Memory::AsOf(SECOND)))
    };
    let report = run((0..3).fold(steady(3, 2), back), |process| async move {
        let quorum = quorum(&process);
        let rests = if process.index() == 0 { [Duration::ZERO, millis(1_500)] } else { [3 * SECOND; 2] };
        for rest in rests {
            process.sleep(rest).await;
            drop(quorum.red_lock("r").lock().await.unwrap());
        }
    });
    assert!(breaks(&report, Promise::Order));
    assert_keeps_the_rest(&report);
}

#[test]
fn s13_a_promoted_replica_that_lags_behind_the_vote_grants_a_held_lock() {
    let promoted = |lag| at_node_2(millis(150), crash(2, millis(20), Memory::AsOf(lag)));
    assert!(!breaks(&promoted(millis(50)), Promise::Exclusion));
    assert!(breaks(&promoted(millis(150)), Promise::Exclusion));
}

#[test]
fn s16_a_flushed_node_grants_a_held_lock() {
    let flushed = at_node_2(SECOND, Fault::Flush { node: 2 });
    assert!(breaks(&flushed, Promise::Exclusion));
    assert_eq!((writes(&flushed, 0), writes(&flushed, 1)), (vec![false], vec![true]));
}

#[test]
fn s17_an_evicting_node_grants_a_held_lock_but_keeps_the_order() {
    let evicted = at_node_2(SECOND, Fault::Evict { node: 2 });
    assert!(breaks(&evicted, Promise::Exclusion));
    assert_eq!(
        evicted.schedule.promises(DRIFT, RestartGuard::Off),
        Promises::ALL.without(Promise::Exclusion)
    );
}

#[test]
fn s20_a_node_restored_from_a_snapshot_grants_a_held_lock() {
    let restored = at_node_2(SECOND, crash(2, Duration::ZERO, Memory::AsOf(2 * SECOND)));
    assert!(breaks(&restored, Promise::Exclusion));
}

/// Runs two processes with four nodes. Process 0 reaches two of the nodes, and process 1 reaches the other two
/// nodes.
fn halves() -> Report {
    let schedule = cut(steady(4, 2), 0, &[2, 3], PartitionDirection::Both, Duration::ZERO, 60 * SECOND);
    let schedule = cut(schedule, 1, &[0, 1], PartitionDirection::Both, Duration::ZERO, 60 * SECOND);
    run(schedule, |process| async move {
        let quorum = quorum(&process);
        if let Ok(Some(guard)) = quorum.red_lock("r").try_lock().await {
            process.sleep(3 * SECOND).await;
            drop(guard);
        }
    })
}

#[test]
fn s21_half_of_an_even_number_of_nodes_is_no_quorum() {
    let report = halves();
    assert_keeps(&report, &Promises::ALL);
    assert!(tokens(&report).is_empty());
    assert!(breaks(&breaking(Mutation::HalfIsQuorum, halves), Promise::Exclusion));
}
