//! Elections under thousands of random schedules of faults. Under tolerated faults, at most one candidate leads at any
//! instant. Under every schedule, terms only grow, and observers return only proclaimed values.

use proptest::prelude::*;

use self::case::Case;
use crate::sim::{Budget, Campaign, FailingCase, Schedules, Summary};

mod case;
mod mutations;
mod record;

/// The number of schedules with tolerated faults for each number of nodes.
const CASES: u64 = 1_000;

/// Runs random cases, and returns the first failing case as an error.
fn run_cases(budget: Budget, nodes: usize, cases: u64) -> Result<Summary, Box<FailingCase<Case>>> {
    let schedules = Schedules::within_budget(budget).nodes([nodes]).processes(2..=5);
    Campaign::new(cases).seed(5).run(&Case::strategy(&schedules), Case::check)
}

/// Runs cases with tolerated faults. Panics if a case fails, or if there were too few elections.
fn check_at_most_one_leader(nodes: usize) {
    match run_cases(Budget::Tolerated, nodes, CASES) {
        Ok(summary) => {
            assert_eq!(summary.runs, CASES);
            assert!(summary.grants > 2 * CASES, "too few elections: {summary:?}");
        }
        Err(found) => panic!("{found}"),
    }
}

#[test]
fn at_most_one_leader_at_any_instant_with_one_node() {
    check_at_most_one_leader(1);
}

#[test]
fn at_most_one_leader_at_any_instant_with_three_nodes() {
    check_at_most_one_leader(3);
}

#[test]
fn at_most_one_leader_at_any_instant_with_five_nodes() {
    check_at_most_one_leader(5);
}

/// Under faults beyond the assumptions, two candidates may lead at once. Nevertheless, terms grow under every
/// schedule.
#[test]
fn terms_grow_and_observed_values_were_proclaimed_even_beyond_the_assumptions() {
    for nodes in [1, 3, 4, 5] {
        if let Err(found) = run_cases(Budget::Beyond, nodes, 400) {
            panic!("{found}");
        }
    }
}

/// Candidates lead only for a short time and then resign, so a later last election means that a faulty leader was not
/// replaced in time.
#[test]
fn the_next_leader_is_elected_within_a_ttl_and_a_poll_after_the_last_fault() {
    let schedules = Schedules::tolerated().nodes([3, 5]).processes(2..=4).faults(6, 0);
    let cases = Case::strategy(&schedules).prop_map(Case::with_short_leaderships);
    let check = |case: &Case| {
        let report = case.check()?;
        let elected = report.history.entries().iter().filter(|entry| record::is_election(&entry.event));
        let last = elected.map(|entry| entry.at).max().unwrap_or_default();
        assert!(last <= case.schedule.faults_end() + case::LONGEST_VACANCY, "elected at {last:?}: {case}");
        Ok(report)
    };
    let summary = Campaign::new(500).seed(7).run(&cases, check).unwrap_or_else(|found| panic!("{found}"));
    assert!(summary.grants > 1_000, "too few elections: {summary:?}");
}
