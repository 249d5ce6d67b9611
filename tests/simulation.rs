//! Thousands of random schedules in the simulator, with the real lock code.
//!
//! Each schedule is checked for the promises whose assumptions it keeps (`docs/SIMULATION.md`). Other tests
//! break an assumption, and assert that the checker then reports a broken promise.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use proptest::strategy::Strategy;
use redquorum::sim::{
    Campaign, FailingCase, Failure, Fault, Memory, Promise, Promises, Report, Schedule, Schedules,
    Simulation, history::Event,
};

use self::workload::{Case, LockCall, StepEnd, Targets};

#[path = "../examples/campaign/workload.rs"]
mod workload;

/// The number of schedules for each of the six numbers of nodes. With `--cfg redquorum_model`, which selects
/// larger searches, about 20,000 schedules in total have readers.
const CASES: u64 = if cfg!(redquorum_model) { 3_800 } else { 800 };

/// Runs a case, and checks the promises whose assumptions its schedule keeps.
fn check(case: &Case) -> Result<Report, Box<Failure>> {
    check_promises(case, &case.promises())
}

fn check_promises(case: &Case, promises: &Promises) -> Result<Report, Box<Failure>> {
    let report = case.run();
    report.check(promises)?;
    Ok(report)
}

/// Whether a process has acquired a shared lease.
fn has_readers(report: &Report) -> bool {
    let began = |event: &Event| match event {
        Event::Began { attempt, shared, .. } if !shared.is_empty() => Some(*attempt),
        _ => None,
    };
    let events = || report.history.entries().iter().map(|entry| &entry.event);
    let readers: BTreeSet<_> = events().filter_map(began).collect();
    events().any(|event| matches!(event, Event::Granted { attempt, .. } if readers.contains(attempt)))
}

/// Whether a process has redeemed a ticket.
fn has_redemption(report: &Report) -> bool {
    report.history.entries().iter().any(|entry| matches!(entry.event, Event::Redeemed { .. }))
}

/// Runs random schedules with this number of nodes, and checks each promise whose assumptions hold.
fn every_promise_holds(nodes: usize) {
    let cases = Case::strategy(&Schedules::tolerated().nodes([nodes]));
    let (with_readers, with_redemption) = (AtomicU64::new(0), AtomicU64::new(0));
    let count = |case: &Case| {
        let report = check(case)?;
        with_readers.fetch_add(u64::from(has_readers(&report)), Ordering::Relaxed);
        with_redemption.fetch_add(u64::from(has_redemption(&report)), Ordering::Relaxed);
        Ok(report)
    };
    let summary = Campaign::new(CASES).seed(1).run(&cases, count).unwrap_or_else(|found| panic!("{found}"));
    assert!(summary.grants > 3 * CASES, "too few locks: {summary:?}");
    let (with_readers, with_redemption) = (with_readers.into_inner(), with_redemption.into_inner());
    eprintln!("{with_readers} of {CASES} with readers, {with_redemption} with a redeemed ticket");
    assert!(with_readers > CASES * 4 / 5, "too few reads: {with_readers}");
    assert!(with_redemption > CASES / 100, "too few redemptions: {with_redemption}");
}

#[test]
fn no_promise_is_broken_with_one_node() {
    every_promise_holds(1);
}

#[test]
fn no_promise_is_broken_with_two_nodes() {
    every_promise_holds(2);
}

#[test]
fn no_promise_is_broken_with_three_nodes() {
    every_promise_holds(3);
}

#[test]
fn no_promise_is_broken_with_four_nodes() {
    every_promise_holds(4);
}

#[test]
fn no_promise_is_broken_with_five_nodes() {
    every_promise_holds(5);
}

#[test]
fn no_promise_is_broken_with_seven_nodes() {
    every_promise_holds(7);
}

#[test]
fn promises_hold_whose_assumptions_a_schedule_keeps() {
    for nodes in [1, 2, 3, 4, 5, 7] {
        let cases = Case::strategy(&Schedules::beyond().nodes([nodes]));
        if let Err(found) = Campaign::new(500).seed(1).run(&cases, check) {
            panic!("{found}");
        }
    }
}

/// Returns the smallest case with overlapping leases, among at most 10,000 cases.
fn overlap(
    cases: &(impl Strategy<Value = Case> + Sync),
    is_wanted: impl Fn(&Case) -> bool + Sync,
) -> FailingCase<Case> {
    let exclusion = Promises::NONE.with(Promise::Exclusion);
    let found = Campaign::new(10_000)
        .seed(1)
        .shrinks(300)
        .run(cases, |case| if is_wanted(case) { check_promises(case, &exclusion) } else { Ok(case.run()) });
    *found.expect_err("no leases overlap")
}

#[test]
fn clocks_with_twice_the_drift_break_exclusion() {
    let schedules = Schedules::beyond().nodes([3]).drift(0.02);
    let found = overlap(&Case::strategy(&schedules), |case| {
        let faults = &case.schedule.faults;
        faults.is_empty()
    });
    assert!(!found.case.promises().contains(Promise::Exclusion));
}

#[test]
fn lost_votes_break_exclusion_without_a_restart_guard() {
    let unguarded = |case| Case { is_unguarded: true, ..case };
    let cases = Case::strategy(&Schedules::tolerated().nodes([3])).prop_map(unguarded);
    let mut found = overlap(&cases, |_| true);
    assert!(
        !found.case.promises().contains(Promise::Exclusion),
        "the schedule keeps the assumptions of exclusion"
    );
    let guarded = Case { is_unguarded: false, ..found.case.clone() };
    if let Err(failure) = check(&guarded) {
        panic!("also with a restart guard: {failure}");
    }
    for timed in &mut found.case.schedule.faults {
        if let Fault::Crash { memory, .. } = &mut timed.fault {
            *memory = Memory::Kept;
        }
    }
    found.case.schedule.faults.retain(|timed| !matches!(timed.fault, Fault::Flush { .. }));
    if let Err(failure) = check(&found.case) {
        panic!("also with nodes that remember: {failure}");
    }
}

/// The longest sleep of a waiter whose notices are lost: the ttl of a lease of a killed client, and the
/// longest fallback poll with its jitter.
const LONGEST_SLEEP: Duration = Duration::from_secs(20 + 8);

/// The longest time for which a node that has lost votes abstains: `max_ttl` and drift.
const QUARANTINE: Duration = Duration::from_secs(40 + 1);

/// Returns the latest time at which the last waiter has to have the lock.
fn last_turn(schedule: &Schedule) -> Duration {
    let is_forgetful =
        schedule.faults.iter().any(|timed| matches!(timed.fault, Fault::Crash { .. } | Fault::Flush { .. }));
    schedule.faults_end() + LONGEST_SLEEP + if is_forgetful { QUARANTINE } else { Duration::ZERO }
}

/// After the last fault, each waiter gets the lock within one longest sleep. From then on, each release wakes
/// the next waiter.
#[test]
fn after_the_last_fault_a_waiter_waits_at_most_a_ttl_and_a_poll() {
    let briefly = |mut case: Case| {
        for step in case.programs.iter_mut().flatten() {
            step.call = LockCall::Lock;
            step.targets = Targets::One;
            step.hold = step.hold.min(Duration::from_millis(20));
            step.rest = step.rest.min(Duration::from_millis(20));
            step.end = StepEnd::Unlock;
            // A ticket that no process redeems would hold the lock until the end of its ttl.
            step.issues_ticket = false;
        }
        case
    };
    // The schedules have no random delays of messages, because these delays may also happen after the last fault.
    let schedules = Schedules::tolerated().nodes([3, 5]).processes(2..=4).faults(6, 0);
    let cases = Case::strategy(&schedules).prop_map(briefly);
    let check_end = |case: &Case| {
        let report = check(case)?;
        let end = report.history.entries().last().map(|entry| entry.at).unwrap_or_default();
        assert!(end <= last_turn(&case.schedule), "the last event is at {end:?}: {case}");
        Ok(report)
    };
    let summary =
        Campaign::new(1_500).seed(3).run(&cases, check_end).unwrap_or_else(|found| panic!("{found}"));
    assert!(summary.grants > 4_000, "too few locks: {summary:?}");
}

/// Without faults, a waiter's attempt is never refused, and each release wakes the next waiter.
#[test]
fn without_faults_a_grant_follows_a_release_within_some_round_trips() {
    let schedules = Schedules::tolerated().nodes([1, 3, 5, 7]).processes(2..=6).faults(0, 0);
    let check = |schedule: &Schedule| {
        let report = Simulation::new(schedule.clone()).run(|process| async move {
            let lock = process.quorum().unwrap().rw_lock("r");
            for turn in 0..5 {
                if process.random(turn) % 3 == 0 {
                    let reader = lock.read().await.unwrap();
                    process.sleep(Duration::from_millis(5)).await;
                    reader.unlock().await.unwrap();
                } else {
                    let writer = lock.write().await.unwrap();
                    process.sleep(Duration::from_millis(5)).await;
                    writer.unlock().await.unwrap();
                }
            }
        });
        report.check(&Promises::ALL)?;
        let end = report.history.entries().last().map(|entry| entry.at).unwrap_or_default();
        let turns = u32::try_from(5 * schedule.processes).unwrap();
        let round_trip = 2 * schedule.latency.longest;
        assert!(
            end <= turns * (Duration::from_millis(25) + 12 * round_trip),
            "{end:?} for {turns}: {schedule}"
        );
        Ok(report)
    };
    let summary =
        Campaign::new(1_000).run(&schedules.strategy(), check).unwrap_or_else(|found| panic!("{found}"));
    assert!(summary.grants >= 10_000, "{summary:?}");
}

/// Asserts that no promise is broken in a case. The text has the format of a printed failure. The cases of the tests
/// below have failed once.
fn assert_promises_hold(case: &str) {
    if let Err(failure) = check(&case.parse().unwrap()) {
        panic!("{failure}");
    }
}

/// The node thawed and executed a lock 200 ms after the client dropped the pending unlock. The promise allows this,
/// because the key ends one ttl after the node last executed a request. The check was too strict at that time.
#[test]
fn a_node_that_hangs_beyond_the_longest_ttl_may_keep_a_key_for_a_ttl() {
    assert_promises_hold(
        r#"{"schedule":{"seed":12388048288611328645,"nodes":4,"processes":2,"latency":{"shortest":200,"longest":2000},
        "faults":[{"at":697,"fault":{"Hang":{"node":0,"lasts":20676000}}},
        {"at":0,"fault":{"Crash":{"node":1,"lasts":1000,"memory":"Kept"}}},
        {"at":16161392,"fault":{"Hang":{"node":0,"lasts":24610000}}}]},
        "programs":[[{"rest":0,"targets":"One","call":"Lock","is_renewed":false,"hold":991000,"reenters":false,
        "verifies":false,"end":"Unlock"}],[{"rest":2000,"targets":"One","call":"Lock","is_renewed":false,"hold":0,
        "reenters":false,"verifies":false,"end":"Unlock"}]]}"#,
    );
}

/// The node restarted with its data from six seconds before, including a key that had been unlocked since.
#[test]
fn a_node_restored_to_earlier_data_may_have_an_unlocked_key_for_a_ttl() {
    assert_promises_hold(
        r#"{"schedule":{"seed":11380492841604323859,"nodes":1,"processes":3,"latency":{"shortest":200,"longest":2000},
        "process_rates":[0,869,-10000],
        "faults":[{"at":15027000,"fault":{"Crash":{"node":0,"lasts":1000,"memory":{"AsOf":6000}}}},
        {"at":8918000,"fault":{"Crash":{"node":0,"lasts":5271000,"memory":{"AsOf":1000}}}}]},
        "programs":[[{"rest":4000,"targets":"One","call":"Lock","is_renewed":false,"hold":14000,"reenters":true,
        "verifies":false,"end":"Unlock"}],[{"rest":26000,"targets":"One","call":"Lock","is_renewed":false,"hold":0,
        "reenters":false,"verifies":false,"end":"Unlock"}],[{"rest":4000,"targets":"One","call":{"Cancel":5000},
        "is_renewed":false,"hold":0,"reenters":false,"verifies":false,"end":"Unlock"},{"rest":1000,"targets":"One",
        "call":"Lock","is_renewed":false,"hold":7558000,"reenters":false,"verifies":false,"end":"Unlock"},
        {"rest":0,"targets":"One","call":"Lock","is_renewed":false,"hold":2615000,"reenters":true,"verifies":false,
        "end":"Unlock"}]]}"#,
    );
}
