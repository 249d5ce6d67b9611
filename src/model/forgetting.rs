//! Searches for overlapping leases of two writers, while keys end by their ttl and a node may forget
//! its votes.
//!
//! Leases do not overlap if a node that has forgotten its votes stays in quarantine. Leases overlap
//! without a restart guard, or if renewals count at once in quarantine.

use crate::{
    model::{
        bounds::{Bounds, ModelProperty, Timing, full_or_quick},
        rules::{BrokenRule, Rules},
        search::{assert_breaks, assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

const TIMING: Timing = Timing { ttl: 3, attempt_timeout: 3, horizon: 4 };
/// Twice the ttl, so that a second lease can begin after the end of a first lease and also end.
const LONG: Timing = Timing { horizon: 6, ..TIMING };

const BOUNDS: Bounds =
    Bounds { crashes: 1, timing: Some(TIMING), ..Bounds::of(ModelProperty::LeasesDoNotOverlap) };

#[test]
fn leases_do_not_overlap_while_keys_end_by_their_ttl() {
    let (renewals, timing) = full_or_quick(([1, 1, 0], LONG), ([0, 0, 0], TIMING));
    assert_holds(Bounds { renewals, timing: Some(timing), crashes: 0, ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn a_node_that_forgot_its_vote_gives_it_again() {
    assert_shortest_break(BOUNDS, Rules::WHOLE);
}

#[test]
fn leases_do_not_overlap_if_a_forgetful_node_stays_in_quarantine() {
    let timing = full_or_quick(LONG, TIMING);
    assert_holds(Bounds { timing: Some(timing), ..BOUNDS }, Rules::GUARDED);
}

#[test]
fn leases_do_not_overlap_if_renewals_count_after_older_attempts_are_decided() {
    let bounds = Bounds { renewals: [1, 0, 0], is_held_at_start: full_or_quick(false, true), ..BOUNDS };
    assert_holds(bounds, Rules::GUARDED);
}

#[test]
fn a_node_that_counts_at_once_replaces_its_forgotten_vote() {
    let bounds = Bounds { renewals: [1, 0, 0], is_held_at_start: full_or_quick(false, true), ..BOUNDS };
    let at_once = BrokenRule::Mutation(Mutation::CountInQuarantine);
    assert_breaks(bounds, Rules { broken_rule: Some(at_once), ..Rules::GUARDED });
}
