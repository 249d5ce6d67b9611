//! S1 to S9: wrong clocks, paused processes, and late votes and writes.

use super::*;
use crate::RestartGuard;
use crate::error::Error;

/// For calls that access the store with a token.
const FENCED: bool = true;

/// For calls that access the store without a token.
const UNFENCED: bool = false;

/// Runs a schedule of two processes. Process 0 holds its lease until the validity ends. From shortly before that time
/// on, process 1 calls `try_lock` repeatedly.
fn towards_the_end(schedule: Schedule) -> Report {
    run(schedule, |process| async move {
        if process.index() == 1 {
            return probe(&process, TTL - millis(200), micros(200)).await;
        }
        let quorum = quorum(&process);
        // The attempt begins after the connections are open. Then the nodes write their keys soon after the
        // start of the attempt, and only the rule of the validity separates the two leases.
        process.sleep(millis(100)).await;
        let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        process.lost(&guard).await;
    })
}

/// Makes the clock of process 0 slow and the clocks of all nodes fast, each by `rate` millionths.
fn with_opposite_rates(rate: i32) -> Schedule {
    let mut schedule = steady(3, 2);
    schedule.process_rates = vec![-rate];
    schedule.node_rates = vec![rate; 3];
    schedule
}

#[test]
fn s01_a_node_clock_that_steps_forward_may_break_exclusion_but_never_order() {
    for seed in 0..20 {
        let report = two_holders(meeting_at_node_2(seed).with(SECOND, Fault::Step { node: 2, by: 12_000 }));
        assert!(breaks(&report, Promise::Exclusion), "seed {seed}: the checker reports no overlap");
        assert_keeps_the_rest(&report);
        assert_eq!(
            report.schedule.promises(DRIFT, RestartGuard::default()),
            Promises::ALL.without(Promise::Exclusion)
        );
    }
}

#[test]
fn s01_a_step_within_the_margin_breaks_nothing_at_maximal_drift() {
    let stepped = |by| {
        let step = |schedule: Schedule, node| schedule.with(SECOND, Fault::Step { node, by });
        towards_the_end((0..3).fold(with_opposite_rates(5_000), step))
    };
    assert_keeps(&stepped(2), &Promises::ALL);
    assert!(breaks(&stepped(20), Promise::Exclusion));
}

#[test]
fn s02_a_backward_step_blocks_for_at_most_the_step_and_a_ttl() {
    let back = |schedule: Schedule, node| schedule.with(SECOND, Fault::Step { node, by: -30_000 });
    let schedule = (0..2).fold(steady(3, 2), back).with(2 * SECOND, Fault::Kill { process: 0 });
    let report = run(schedule, |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * 3 * SECOND).await;
        let _guard = quorum.red_lock("r").lock().await.unwrap();
        if process.index() == 0 {
            std::future::pending::<()>().await;
        }
    });
    assert_keeps(&report, &Promises::ALL);
    let granted = granted(&report, 1)[0];
    assert!(granted > 39 * SECOND && granted < 30 * SECOND + TTL + POLL, "{granted:?}");
}

#[test]
fn s03_leases_overlap_only_above_half_the_drift_on_each_side() {
    for rate in [0, 2_500, 5_000] {
        assert_keeps(&towards_the_end(with_opposite_rates(rate)), &Promises::ALL);
    }
    for rate in [6_000, 10_000, 20_000] {
        let report = towards_the_end(with_opposite_rates(rate));
        assert!(breaks(&report, Promise::Exclusion), "{rate}: the checker reports no overlap");
        assert_keeps_the_rest(&report);
    }
}

/// Process 0 reads, is stopped by a fault for two ttls, checks its lease, and writes. Process 1
/// locks during the stop.
fn stopped_holder(fault: Fault, is_fenced: bool) -> Report {
    run(steady(3, 2).with(millis(500), fault), move |process| async move {
        let (quorum, store) = (quorum(&process), process.store("r"));
        let lock = quorum.red_lock("r").options(LockOptions::new().without_renewal());
        process.sleep(process.index() as u32 * SECOND).await;
        let guard = lock.lock().await.unwrap();
        let token = guard.fencing_token();
        let value = if is_fenced { store.read(token).await.unwrap() } else { store.read_unfenced().await };
        if process.index() == 0 {
            process.sleep(SECOND).await;
            let _is_valid = process.check_valid(&guard);
        }
        if is_fenced {
            let _is_accepted = store.write(token, value + 1).await;
        } else {
            store.write_unfenced(value + 1).await;
        }
    })
}

#[test]
fn s04_a_paused_holder_sees_its_loss_and_its_write_is_refused() {
    let pause = Fault::Pause { process: 0, lasts: 2 * TTL };
    let fenced = stopped_holder(pause.clone(), FENCED);
    assert_keeps(&fenced, &Promises::ALL);
    assert_eq!((validity_checks(&fenced, 0), writes(&fenced, 0)), (vec![true, false], vec![false]));
    // If process 0 ignores its check and writes without a token, the write overwrites the update of
    // process 1.
    let unfenced = stopped_holder(pause, UNFENCED);
    assert!(breaks(&unfenced, Promise::Register));
    assert_keeps(&unfenced, &Promises::ALL.without(Promise::Register));
}

#[test]
fn s05_a_frozen_clock_hides_the_loss_and_the_token_shows_it() {
    let report = stopped_holder(Fault::Freeze { process: 0, lasts: 2 * TTL }, FENCED);
    assert!(breaks(&report, Promise::Exclusion), "the checker reports no overlap");
    assert_eq!((validity_checks(&report, 0), writes(&report, 0)), (vec![true, true], vec![false]));
    assert_keeps_the_rest(&report);
    assert_eq!(
        report.schedule.promises(DRIFT, RestartGuard::default()),
        Promises::ALL.without(Promise::Exclusion)
    );
}

/// Pauses process 0 at many moments of its attempt. Process 1 locks later.
fn paused_while_locking() -> Vec<Report> {
    let at = |seed, quarter| {
        let pause = Fault::Pause { process: 0, lasts: 2 * TTL };
        let schedule = Schedule::without_faults(seed, 3, 2).with(micros(250) * quarter, pause);
        run(schedule, |process| async move {
            let quorum = quorum(&process);
            process.sleep(process.index() as u32 * 3 * TTL).await;
            if let Ok(Some(guard)) =
                quorum.red_lock("r").options(LockOptions::new().without_renewal()).try_lock().await
            {
                hold(&process, guard).await;
            }
        })
    };
    (0..5).flat_map(|seed| (0..24).map(move |quarter| at(seed, quarter))).collect()
}

#[test]
fn s06_a_client_paused_after_its_votes_gets_no_lease_and_rolls_back() {
    let reports = paused_while_locking();
    for report in &reports {
        assert_keeps(report, &Promises::ALL);
        assert_eq!(granted(report, 1).len(), 1, "{}", report.schedule);
    }
    assert!(reports.iter().any(|report| failed_attempts(report, 0).iter().any(|at| *at > TTL)));
    let unchecked = breaking(Mutation::SkipLastValidityCheck, paused_while_locking);
    assert!(unchecked.iter().any(|report| breaks(report, Promise::Honesty)));
}

/// Two of three nodes take longer to vote than the validity lasts. Afterwards process 1 calls
/// `try_lock` once.
fn slow_votes() -> Report {
    let slow = |schedule: Schedule, node| {
        let by = VALIDITY + millis(2);
        schedule.with(millis(50), Fault::Slow { node, lasts: TTL - millis(50), by })
    };
    run((0..2).fold(steady(3, 2), slow), |process| async move {
        let builder = Quorum::builder().ttl(TTL).max_ttl(2 * TTL);
        let patient = builder.node_timeout(VALIDITY + millis(50)).attempt_timeout(TTL);
        let quorum = patient.connect_simulated(&process).unwrap();
        process.sleep(if process.index() == 0 { millis(100) } else { TTL + SECOND }).await;
        let locked = quorum.red_lock("r").options(LockOptions::new().without_renewal()).try_lock().await;
        let is_late = matches!(&locked, Err(Error::NoQuorum(error)) if error.is_late());
        assert!(process.index() == 1 || is_late, "{locked:?}");
    })
}

#[test]
fn s07_votes_after_the_validity_are_no_lease_and_are_rolled_back() {
    let report = slow_votes();
    assert_keeps(&report, &Promises::ALL);
    assert_eq!((granted(&report, 0).len(), granted(&report, 1).len()), (0, 1));
}

/// Process 0 checks its lease just before the validity ends. The write that follows arrives two
/// seconds later.
fn late_write(is_fenced: bool) -> Report {
    run(steady(3, 2), move |process| async move {
        let (quorum, store) = (quorum(&process), process.store("r"));
        process.sleep(process.index() as u32 * SECOND).await;
        let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        let token = guard.fencing_token();
        let value = if is_fenced { store.read(token).await.unwrap() } else { store.read_unfenced().await };
        if process.index() == 0 {
            process.sleep(guard.remaining() - millis(1)).await;
            assert!(process.check_valid(&guard));
            process.sleep(2 * SECOND).await;
        }
        if is_fenced {
            let _is_accepted = store.write(token, value + 1).await;
        } else {
            store.write_unfenced(value + 1).await;
        }
    })
}

#[test]
fn s08_only_the_token_protects_a_write_that_arrives_late() {
    let fenced = late_write(FENCED);
    assert_keeps(&fenced, &Promises::ALL);
    assert_eq!((writes(&fenced, 0), writes(&fenced, 1)), (vec![false], vec![true]));
    assert!(breaks(&late_write(UNFENCED), Promise::Register));
}

/// Process 0 reads, and is then so late that its write arrives between the read and the write of
/// process 1.
fn late_write_between(is_read_fenced: bool) -> Report {
    run(steady(3, 2), move |process| async move {
        let (quorum, store) = (quorum(&process), process.store("r"));
        process.sleep(process.index() as u32 * SECOND).await;
        let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        let token = guard.fencing_token();
        let value =
            if is_read_fenced { store.read(token).await.unwrap() } else { store.read_unfenced().await };
        process.sleep(if process.index() == 0 { TTL + SECOND } else { 2 * SECOND }).await;
        let _is_accepted = store.write(token, value + 1).await;
    })
}

#[test]
fn s09_a_read_must_claim_the_store() {
    let claimed = late_write_between(FENCED);
    assert_keeps(&claimed, &Promises::ALL);
    assert_eq!((writes(&claimed, 0), writes(&claimed, 1)), (vec![false], vec![true]));
    // If reads claim nothing, the register accepts both writes, and the first update is lost.
    let unclaimed = late_write_between(UNFENCED);
    assert_eq!((writes(&unclaimed, 0), writes(&unclaimed, 1)), (vec![true], vec![true]));
    assert!(breaks(&unclaimed, Promise::Register));
}
