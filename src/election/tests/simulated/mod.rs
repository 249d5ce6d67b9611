//! Elections under thousands of random schedules: at most one leads at any global instant, terms
//! only rise, and what observers see was proclaimed.

use proptest::prelude::*;

use self::case::Case;
use crate::sim::{Budget, Campaign, FailingCase, Schedules, Summary};

mod case;
mod mutations;
mod story;

/// So many schedules for each number of nodes.
const CASES: u64 = 1_000;

fn campaign(budget: Budget, nodes: usize, cases: u64) -> Result<Summary, Box<FailingCase<Case>>> {
    let schedules = Schedules::within_budget(budget).nodes([nodes]).processes(2..=5);
    Campaign::new(cases).seed(5).run(&Case::strategy(&schedules), Case::check)
}

fn at_most_one_leads(nodes: usize) {
    match campaign(Budget::Tolerated, nodes, CASES) {
        Ok(summary) => {
            assert_eq!(summary.runs, CASES);
            assert!(summary.grants > 2 * CASES, "hardly anybody was elected: {summary:?}");
        }
        Err(found) => panic!("{found}"),
    }
}

#[test]
fn at_most_one_leads_at_any_instant_with_one_node() {
    at_most_one_leads(1);
}

#[test]
fn at_most_one_leads_at_any_instant_with_three_nodes() {
    at_most_one_leads(3);
}

#[test]
fn at_most_one_leads_at_any_instant_with_five_nodes() {
    at_most_one_leads(5);
}

/// What the schedule leaves standing: the order of terms always.
#[test]
fn beyond_the_assumptions_terms_still_rise_and_observers_see_only_what_was_proclaimed() {
    for nodes in [1, 3, 4, 5] {
        if let Err(found) = campaign(Budget::Beyond, nodes, 400) {
            panic!("{found}");
        }
    }
}

/// A leader that stands still, is killed or cut off is followed by another, again and again,
/// however little time that takes.
#[test]
fn the_next_leader_is_elected_within_a_ttl_and_a_poll_once_all_is_calm() {
    let schedules = Schedules::tolerated().nodes([3, 5]).processes(2..=4).faults(6, 0);
    let cases = Case::strategy(&schedules).prop_map(Case::hurried);
    let check = |case: &Case| {
        let report = case.check()?;
        let elected = report.history.entries().iter().filter(|entry| story::is_election(&entry.event));
        let last = elected.map(|entry| entry.at).max().unwrap_or_default();
        assert!(last <= case.schedule.faults_end() + case::LONGEST_VACANCY, "elected at {last:?}: {case}");
        Ok(report)
    };
    let summary = Campaign::new(500).seed(7).run(&cases, check).unwrap_or_else(|found| panic!("{found}"));
    assert!(summary.grants > 1_000, "hardly anybody was elected: {summary:?}");
}
