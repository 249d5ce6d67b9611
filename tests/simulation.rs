//! Thousands of random schedules over the real lock code: no promise is broken that its assumptions
//! allow to keep, and a broken one is seen.

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

/// The number of schedules for each of the six numbers of nodes. With the flag of the larger searches, 20,000 schedules
/// of all have readers.
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

/// Whether anything was read under a lease that other readers may share.
fn has_readers(report: &Report) -> bool {
    let began = |event: &Event| match event {
        Event::Began { attempt, shared, .. } if !shared.is_empty() => Some(*attempt),
        _ => None,
    };
    let events = || report.history.entries().iter().map(|entry| &entry.event);
    let readers: BTreeSet<_> = events().filter_map(began).collect();
    events().any(|event| matches!(event, Event::Granted { attempt, .. } if readers.contains(attempt)))
}

fn every_promise_holds(nodes: usize) {
    let cases = Case::strategy(&Schedules::tolerated().nodes([nodes]));
    let with_readers = AtomicU64::new(0);
    let count = |case: &Case| {
        let report = check(case)?;
        with_readers.fetch_add(u64::from(has_readers(&report)), Ordering::Relaxed);
        Ok(report)
    };
    let summary = Campaign::new(CASES).seed(1).run(&cases, count).unwrap_or_else(|found| panic!("{found}"));
    assert!(summary.grants > 3 * CASES, "hardly anything was locked: {summary:?}");
    let with_readers = with_readers.into_inner();
    eprintln!("{with_readers} of {CASES} with readers");
    assert!(with_readers > CASES * 4 / 5, "hardly anything was read: {with_readers}");
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
fn beyond_the_assumptions_the_other_promises_hold() {
    for nodes in [1, 2, 3, 4, 5, 7] {
        let cases = Case::strategy(&Schedules::beyond().nodes([nodes]));
        if let Err(found) = Campaign::new(500).seed(1).run(&cases, check) {
            panic!("{found}");
        }
    }
}

/// The smallest case of these, of 10,000 at most, in which leases overlap.
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
fn clocks_that_are_off_by_twice_the_drift_are_seen_to_break_exclusion() {
    let schedules = Schedules::beyond().nodes([3]).drift(0.02);
    let found = overlap(&Case::strategy(&schedules), |case| {
        let faults = &case.schedule.faults;
        faults.is_empty()
    });
    assert!(!found.case.promises().contains(Promise::Exclusion));
}

#[test]
fn a_node_that_forgets_is_seen_to_break_exclusion_without_a_restart_guard() {
    let unguarded = |case| Case { is_unguarded: true, ..case };
    let cases = Case::strategy(&Schedules::tolerated().nodes([3])).prop_map(unguarded);
    let mut found = overlap(&cases, |_| true);
    assert!(!found.case.promises().contains(Promise::Exclusion), "something else broke it");
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

/// As long as a waiter may sleep when notices are lost: the ttl of a lease that a killed client
/// left behind, and the longest fallback poll with its jitter.
const LONGEST_SLEEP: Duration = Duration::from_secs(20 + 8);

/// How long a node may be out of the votes that has forgotten some: the longest ttl of all, and the
/// drift.
const QUARANTINE: Duration = Duration::from_secs(40 + 1);

/// Until when, at the latest, the last waiter has its turn.
fn last_turn(schedule: &Schedule) -> Duration {
    let is_forgetful =
        schedule.faults.iter().any(|timed| matches!(timed.fault, Fault::Crash { .. } | Fault::Flush { .. }));
    schedule.faults_end() + LONGEST_SLEEP + if is_forgetful { QUARANTINE } else { Duration::ZERO }
}

/// Once all is calm, everybody gets the lock: after one longest sleep, all hand-offs are prompt.
#[test]
fn nobody_waits_for_longer_than_a_ttl_and_a_poll_once_all_is_calm() {
    let briefly = |mut case: Case| {
        for step in case.programs.iter_mut().flatten() {
            step.call = LockCall::Lock;
            step.targets = Targets::One;
            step.hold = step.hold.min(Duration::from_millis(20));
            step.rest = step.rest.min(Duration::from_millis(20));
            step.end = StepEnd::Unlock;
        }
        case
    };
    // Messages may be delayed at any time, so the schedules have none that are.
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
    assert!(summary.grants > 4_000, "hardly anything was locked: {summary:?}");
}

/// Where nothing goes wrong, a lock is never refused to one who waits, and every release wakes
/// somebody.
#[test]
fn in_a_calm_world_a_release_is_followed_by_a_grant_within_some_round_trips() {
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

/// Cases that once broke a promise, as they were found.
fn holds(case: &str) {
    if let Err(failure) = check(&case.parse().unwrap()) {
        panic!("{failure}");
    }
}

/// The node executed a lock when it thawed, 200 ms after the unlock needed no delivery any more.
/// That is as promised: the key ends one ttl after the node last executed something. The check was
/// too strict.
#[test]
fn a_node_that_hangs_for_longer_than_the_longest_ttl_may_keep_a_key_for_a_ttl() {
    holds(
        r#"{"schedule":{"seed":12388048288611328645,"nodes":4,"processes":2,"latency":{"shortest":200,"longest":2000},
        "faults":[{"at":697,"fault":{"Hang":{"node":0,"lasts":20676000}}},
        {"at":0,"fault":{"Crash":{"node":1,"lasts":1000,"memory":"Kept"}}},
        {"at":16161392,"fault":{"Hang":{"node":0,"lasts":24610000}}}]},
        "programs":[[{"rest":0,"targets":"One","call":"Lock","is_renewed":false,"hold":991000,"reenters":false,
        "verifies":false,"end":"Unlock"}],[{"rest":2000,"targets":"One","call":"Lock","is_renewed":false,"hold":0,
        "reenters":false,"verifies":false,"end":"Unlock"}]]}"#,
    );
}

/// A node came up with what it knew six seconds before, a key that had been unlocked since
/// included.
#[test]
fn a_node_that_goes_back_to_what_it_knew_may_bring_back_a_key_for_a_ttl() {
    holds(
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
