//! S31 to S39: re-entrancy, renewal, verification, and the loss of leases.

use std::pin::pin;

use futures::future::select;

use super::*;
use crate::{
    Owner,
    sim::{Direction, Verdict},
};

/// Whether a time is the end of a lease that was granted at the start and never renewed. A timer
/// may be set early by one microsecond.
fn is_end(at: Duration) -> bool {
    at + micros(1) >= VALIDITY && at <= VALIDITY
}

/// Process 0 locks, re-enters, unlocks the inner hold, and then unlocks the outer hold. The message
/// of this index has a fault at some nodes. Process 1 calls `try_lock` once during the outer hold.
fn reentered(nodes: &[usize], direction: Direction, index: u32, verdict: Verdict) -> Report {
    let at = |schedule: Schedule, node: &usize| schedule.with_message(0, *node, direction, index, verdict);
    run(nodes.iter().fold(steady(3, 2), at), |process| async move {
        let (quorum, owner) = (quorum(&process), Owner::new());
        if process.index() == 1 {
            process.sleep(2 * SECOND).await;
            drop(quorum.red_lock("r").try_lock().await);
            return;
        }
        let lock = quorum.red_lock("r").owned_by(&owner);
        let Ok(Some(outer)) = lock.try_lock().await else { return };
        process.sleep(millis(50)).await;
        if let Ok(Some(inner)) = lock.try_lock().await {
            process.reentered(&outer, &inner);
            process.sleep(millis(50)).await;
            drop(inner);
        }
        process.sleep(3 * SECOND).await;
        drop(outer);
    })
}

#[test]
fn s31_a_reentry_gets_the_token_of_its_lease_despite_lost_messages() {
    let mut reentries = 0;
    for index in 0..8 {
        for direction in [Direction::Request, Direction::Reply] {
            for verdict in [Verdict::Drop, Verdict::Delay(millis(200)), Verdict::Reset] {
                let report = reentered(&[0, 1], direction, index, verdict);
                assert_keeps(&report, &Promises::ALL);
                reentries += times_of(&report, 0, |event| matches!(event, Event::Reentered { .. })).len();
            }
        }
    }
    assert!(reentries > 10, "{reentries}");
}

#[test]
fn s32_a_duplicated_inner_unlock_does_not_release_the_outer_hold() {
    for index in 0..8 {
        for later in [millis(20), SECOND] {
            let report = reentered(&[0, 1, 2], Direction::Request, index, Verdict::Duplicate(later));
            assert_keeps(&report, &Promises::ALL);
            assert_eq!((granted(&report, 0).len(), granted(&report, 1).len()), (1, 0), "{}", report.schedule);
        }
    }
}

#[test]
fn s33_a_renewal_does_not_count_after_another_lease() {
    // The renewals to nodes 1 and 2 arrive after the keys there have expired and process 1 has
    // locked and unlocked.
    let schedule = cut(steady(3, 2), 0, &[1, 2], PartitionDirection::Requests, SECOND, millis(9_500));
    let report = run(schedule, |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * 2 * SECOND).await;
        let guard = quorum.red_lock("r").lock().await.unwrap();
        if process.index() == 0 {
            process.lost(&guard).await;
            process.sleep(SECOND).await;
            assert!(!process.check_valid(&guard));
        }
    });
    assert_keeps(&report, &Promises::ALL);
    let (first, second) = (ended(&report, 0)[0], ended(&report, 1)[0]);
    assert!(first < TTL && second < millis(10_500), "{first:?} {second:?}");
}

/// Steps the clocks of some nodes so that the keys of process 0 expire there. Process 1 locks and
/// unlocks. Then process 0 verifies its lease.
fn verified_too_late(schedule: Schedule, stepped: &[usize]) -> Report {
    let step =
        |schedule: Schedule, node: &usize| schedule.with(SECOND, Fault::Step { node: *node, by: 12_000 });
    run(stepped.iter().fold(schedule, step), |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * 2 * SECOND).await;
        let guard = quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
        if process.index() == 0 {
            process.sleep(millis(3_100)).await;
            drop(process.verify(&guard).await);
        }
        hold(&process, guard).await;
    })
}

#[test]
fn s33_a_verification_proves_nothing_after_another_lease() {
    let gap = || verified_too_late(steady(3, 2), &[1, 2]);
    let report = gap();
    assert!(breaks(&report, Promise::Exclusion));
    assert_keeps_the_rest(&report);
    assert!(times_of(&report, 0, |event| matches!(event, Event::Proven { .. })).is_empty());
    assert!(breaks(&breaking(Mutation::VerifyAboveToken, gap), Promise::Proof));
}

#[test]
fn s33b_a_vote_that_arrived_after_another_lease_proves_nothing() {
    // Process 0 has its lease on nodes 0 and 1. Process 1 locks on nodes 0 and 2. Then the lock
    // request of process 0 arrives at node 2.
    let late = || {
        let late = Verdict::Overtaken(millis(2_900));
        let schedule = steady(3, 2).with_message(0, 2, Direction::Request, 1, late);
        verified_too_late(cut(schedule, 0, &[0], PartitionDirection::Both, millis(1_500), 5 * SECOND), &[0])
    };
    let report = late();
    assert!(breaks(&report, Promise::Exclusion));
    assert_keeps_the_rest(&report);
    assert!(times_of(&report, 0, |event| matches!(event, Event::Proven { .. })).is_empty());
    assert!(breaks(&breaking(Mutation::VerifyAboveToken, late), Promise::Proof));
}

/// Partitions process 0 from some nodes for `lasts`. Process 0 holds its lease until the loss, but
/// for at most twenty seconds. Process 1 waits for the lock.
fn renewals_fail(nodes: usize, cut_off: &[usize], lasts: Duration) -> Report {
    let schedule = cut(steady(nodes, 2), 0, cut_off, PartitionDirection::Both, SECOND, lasts);
    let report = run(schedule, |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * SECOND / 2).await;
        let guard = quorum.red_lock("r").lock().await.unwrap();
        if process.index() == 0 {
            select(pin!(process.sleep(2 * TTL)), pin!(process.lost(&guard))).await;
        }
    });
    assert_keeps(&report, &Promises::ALL);
    report
}

#[test]
fn s34_a_lease_survives_failed_renewals_until_its_end() {
    let healed = renewals_fail(3, &[0, 1], 5 * SECOND);
    assert!(ended(&healed, 0)[0] >= 2 * TTL && granted(&healed, 1)[0] >= 2 * TTL);
    let not_healed = renewals_fail(3, &[0, 1], 15 * SECOND);
    assert!(is_end(ended(&not_healed, 0)[0]));
    assert!(granted(&not_healed, 1)[0] < TTL + SECOND);
}

/// Delays the request of this index to each of two nodes. For one index, the request is a renewal, which then
/// arrives after the unlock that was sent later.
fn renewal_after_unlock(index: u32) -> Report {
    let late = Verdict::Overtaken(millis(50));
    let at = |schedule: Schedule, node| schedule.with_message(0, node, Direction::Request, index, late);
    run((0..2).fold(steady(3, 1), at), |process| async move {
        // The default ttl is longer than the time until the check for residue.
        let quorum = process.with_whole_renewal_intervals().quorum().unwrap();
        let guard = quorum.red_lock("r").lock().await.unwrap();
        process.sleep(TTL + millis(5)).await;
        drop(guard);
    })
}

#[test]
fn s35_a_renewal_that_arrives_after_the_unlock_leaves_no_key() {
    for index in 0..5 {
        assert_keeps(&renewal_after_unlock(index), &Promises::ALL);
    }
    let without = || (0..5).any(|index| breaks(&renewal_after_unlock(index), Promise::Residue));
    assert!(breaking(Mutation::NoTombstoneForRenewal, without));
}

#[test]
fn s36_a_renewal_near_the_end_extends_the_lease_or_does_not_count() {
    let (mut extended, mut over) = (0, 0);
    for offset in 0..40 {
        let late = Verdict::Delay(millis(6_520 + 2 * offset));
        let at = |schedule: Schedule, node| schedule.with_message(0, node, Direction::Reply, 4, late);
        // Under this seed, the outcome of the renewal depends on these two replies.
        let schedule = Schedule { seed: 2, ..steady(3, 1) };
        let report = run((0..2).fold(schedule, at), |process| async move {
            let builder = Quorum::builder().ttl(TTL).max_ttl(2 * TTL).node_timeout(8 * SECOND);
            let quorum = builder.connect_simulated(&process.with_whole_renewal_intervals()).unwrap();
            let guard = quorum.red_lock("r").lock().await.unwrap();
            select(pin!(process.sleep(12 * SECOND)), pin!(process.lost(&guard))).await;
            let _is_valid = process.check_valid(&guard);
        });
        assert_keeps(&report, &Promises::ALL);
        match ended(&report, 0)[0] {
            at if is_end(at) => over += 1,
            at if at >= 12 * SECOND => extended += 1,
            at => panic!("ended at {at:?}"),
        }
    }
    assert!(extended > 5 && over > 5, "{extended} {over}");
}

/// Process 0 leaks its guard, in a task that never ends.
fn leaked(hold_at_most: Option<Duration>) -> Report {
    run(steady(3, 2), move |process| async move {
        let quorum = quorum(&process);
        process.sleep(process.index() as u32 * SECOND).await;
        let lock = quorum.red_lock("r");
        let lock = match hold_at_most {
            Some(longest) => lock.options(LockOptions::new().hold_at_most(longest)),
            None => lock,
        };
        let guard = lock.lock().await.unwrap();
        if process.index() == 0 {
            process.spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
        }
    })
}

#[test]
fn s37_hold_at_most_bounds_a_leaked_guard() {
    let limited = leaked(Some(25 * SECOND));
    assert_keeps(&limited, &Promises::ALL);
    let granted = granted(&limited, 1)[0];
    assert!(granted >= 25 * SECOND && granted < 26 * SECOND, "{granted:?}");
    assert!(breaks(&leaked(None), Promise::Liveness));
}

/// Hangs all nodes during a lease, so that its renewals have no outcome before the lease ends.
fn with_hanging_renewals() -> Report {
    let hang = |schedule: Schedule, node| schedule.with(SECOND, Fault::Hang { node, lasts: 15 * SECOND });
    run((0..3).fold(steady(3, 1), hang), |process| async move {
        let quorum = quorum(&process);
        let guard = quorum.red_lock("r").lock().await.unwrap();
        process.lost(&guard).await;
    })
}

#[test]
fn s38_a_loss_is_announced_at_the_lease_end_while_renewals_hang() {
    let report = with_hanging_renewals();
    assert_keeps(&report, &Promises::ALL);
    let announced = times_of(&report, 0, |event| matches!(event, Event::Announced { .. }));
    assert!(announced.len() == 1 && is_end(announced[0]), "{announced:?}");
    assert!(breaks(&breaking(Mutation::LossOnlyByRenewal, with_hanging_renewals), Promise::Honesty));
}

#[test]
fn s39_a_lease_renewed_by_a_minority_is_lost_once_at_its_end() {
    let report = renewals_fail(5, &[2, 3, 4], 15 * SECOND);
    let announced = times_of(&report, 0, |event| matches!(event, Event::Announced { .. }));
    assert!(is_end(ended(&report, 0)[0]));
    assert_eq!((ended(&report, 0).len(), announced), (1, ended(&report, 0)));
    assert!(granted(&report, 1)[0] < TTL + SECOND);
}
