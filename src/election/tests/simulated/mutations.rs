//! Broken rules of elections, one at a time. The simulation has to detect each.

use std::time::Duration;

use proptest::{prelude::*, sample::select};

use super::case::{Case, Turn};
use crate::{
    RestartGuard,
    mutation::{Mutation, break_rule},
    sim::{Campaign, Direction, End, Schedule, Schedules, Verdict},
};

/// The largest number of cases in which a broken rule has to cause a failure.
const MAX_CASES: u64 = 5_000;

fn millis(range: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

/// Breaks a rule, and runs cases until one case fails. The failure must be a panic with a message that contains
/// `words`, and the same case must pass without the broken rule.
fn assert_detected(mutation: Mutation, words: &str, cases: &(impl Strategy<Value = Case> + Sync)) {
    let found = {
        let _broken = break_rule(Some(mutation));
        Campaign::new(MAX_CASES)
            .seed(1)
            .shrinks(100)
            .run(cases, Case::check)
            .expect_err("no case fails with the broken rule")
    };
    let End::Panicked(message) = &found.failure.report.end else { panic!("{found}") };
    assert!(message.contains(words), "{found}");
    if let Err(failure) = found.case.check() {
        panic!("the case also fails without the broken rule: {failure}");
    }
}

/// Returns cases with two leaders, one after the other. One request of the first leader, which may be a proclamation,
/// reaches each node late.
fn with_late_proclamations() -> impl Strategy<Value = Case> + Clone {
    let late = (2..=8_u32, millis(10..=20_000));
    let holds = (millis(0..=10_000), millis(1..=10_000));
    (any::<u64>().no_shrink(), select(vec![1_usize, 3]), late, holds).prop_map(
        |(seed, nodes, (index, by), (first, second))| {
            let without_faults = Schedule::without_faults(seed, nodes, 3);
            let schedule = (0..nodes).fold(without_faults, |schedule, node| {
                schedule.with_message(0, node, Direction::Request, index, Verdict::Overtaken(by))
            });
            let turn = |hold| Turn { rest: Duration::ZERO, hold, changes: 1, resigns: true };
            let second_turn = Turn { rest: Duration::from_millis(5), ..turn(second) };
            let candidates = vec![vec![turn(first)], vec![second_turn]];
            Case { schedule, candidates, guard: RestartGuard::PerConnection, checks_visibility: true }
        },
    )
}

/// If the rule is broken, a late proclamation of the first leader replaces the value of the second leader. A query
/// then returns no leader.
#[test]
fn the_simulation_detects_a_proclamation_without_the_lock() {
    assert_detected(
        Mutation::ProclaimWithoutLock,
        "a query does not return the leader",
        &with_late_proclamations(),
    );
}

#[test]
fn the_simulation_detects_an_observer_that_returns_older_values() {
    let schedules = Schedules::tolerated().nodes([3]).processes(2..=3);
    assert_detected(Mutation::ObserveBackwards, "went back", &Case::strategy(&schedules));
}
