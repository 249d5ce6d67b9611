//! Nodes that forget their votes: leases do not overlap if such a node waits before the next vote.

use crate::{
    model::{
        bounds::{Bounds, ModelProperty, Timing, full_or},
        rules::{BrokenRule, Rules},
        search::{assert_breaks, assert_holds, shortest_break},
    },
    mutation::Mutation,
};

const TIMING: Timing = Timing { ttl: 3, attempt_timeout: 3, horizon: 4 };
/// Enough ticks for a lease and the next lease.
const LONG: Timing = Timing { horizon: 6, ..TIMING };

const BOUNDS: Bounds =
    Bounds { crashes: 1, timing: Some(TIMING), ..Bounds::of(ModelProperty::LeasesDoNotOverlap) };

#[test]
fn leases_do_not_overlap_while_keys_end_by_their_ttl() {
    let (renewals, timing) = full_or(([1, 1, 0], LONG), ([0, 0, 0], TIMING));
    assert_holds(Bounds { renewals, timing: Some(timing), crashes: 0, ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn a_node_that_forgot_its_vote_gives_it_again() {
    shortest_break(BOUNDS, Rules::WHOLE);
}

#[test]
fn a_node_in_quarantine_gives_no_vote_twice() {
    let timing = full_or(LONG, TIMING);
    assert_holds(Bounds { timing: Some(timing), ..BOUNDS }, Rules::GUARDED);
}

#[test]
fn a_quarantined_node_counts_for_renewals_once_older_attempts_are_decided() {
    let bounds = Bounds { renewals: [1, 0, 0], is_held_at_start: full_or(false, true), ..BOUNDS };
    assert_holds(bounds, Rules::GUARDED);
}

#[test]
fn a_node_that_counts_at_once_replaces_its_forgotten_vote() {
    let bounds = Bounds { renewals: [1, 0, 0], is_held_at_start: full_or(false, true), ..BOUNDS };
    let at_once = BrokenRule::Mutation(Mutation::CountInQuarantine);
    assert_breaks(bounds, Rules { broken_rule: Some(at_once), ..Rules::GUARDED });
}
