//! Rules of elections are broken, one at a time, and each time it is seen.

use std::time::Duration;

use proptest::{prelude::*, sample::select};

use super::case::{Case, Turn};
use crate::{
    RestartGuard,
    mutation::{Mutation, break_rule},
    sim::{Campaign, Direction, End, Schedule, Schedules, Verdict},
};

/// So many cases at most until a broken rule shows.
const MOST_CASES: u64 = 5_000;

fn millis(range: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

/// Breaks a rule and runs cases until one fails with these words; the same case must be in order
/// with the rule whole.
fn is_caught(mutation: Mutation, words: &str, cases: &(impl Strategy<Value = Case> + Sync)) {
    let found = {
        let _broken = break_rule(Some(mutation));
        Campaign::new(MOST_CASES).seed(1).shrinks(100).run(cases, Case::check).expect_err("it is not seen")
    };
    let End::Panicked(message) = &found.failure.report.end else { panic!("{found}") };
    assert!(message.contains(words), "{found}");
    if let Err(failure) = found.case.check() {
        panic!("also with the rule whole: {failure}");
    }
}

/// One leader after the other, of which the first one's proclamations come late, at all nodes.
fn of_late_proclamations() -> impl Strategy<Value = Case> + Clone {
    let late = (2..=8_u32, millis(10..=20_000));
    let holds = (millis(0..=10_000), millis(1..=10_000));
    (any::<u64>().no_shrink(), select(vec![1_usize, 3]), late, holds).prop_map(
        |(seed, nodes, (index, by), (first, second))| {
            let calm = Schedule::without_faults(seed, nodes, 3);
            let schedule = (0..nodes).fold(calm, |schedule, node| {
                schedule.with_message(0, node, Direction::Request, index, Verdict::Overtaken(by))
            });
            let turn = |hold| Turn { rest: Duration::ZERO, hold, changes: 1, resigns: true };
            let second = Turn { rest: Duration::from_millis(5), ..turn(second) };
            let candidates = vec![vec![turn(first)], vec![second]];
            Case { schedule, candidates, guard: RestartGuard::PerConnection, is_shown: true }
        },
    )
}

/// A proclamation of a deposed leader would replace what the next one said, and nobody would be
/// shown.
#[test]
fn a_proclamation_of_one_who_does_not_lead_any_more_is_caught() {
    is_caught(Mutation::ProclaimWithoutLock, "a leader is not shown", &of_late_proclamations());
}

#[test]
fn an_observer_that_goes_back_is_caught() {
    let schedules = Schedules::tolerated().nodes([3]).processes(2..=3);
    is_caught(Mutation::ObserveBackwards, "went back", &Case::strategy(&schedules));
}
