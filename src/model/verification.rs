//! Searches for a false proof: a verification proves a lease although a lease with a larger token
//! had been granted before the verification began.
//!
//! Keys may expire at any moment. No proof is false if all rules hold and lost counters resume above
//! all earlier values. A proof may be false if a rule is broken, or if a lost counter resumes below
//! a granted token.

use crate::{
    model::{
        bounds::{Bounds, Expiries, ModelProperty, full_or_quick},
        rules::{BrokenRule, Rules},
        search::{assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

const BOUNDS: Bounds =
    Bounds { expiries: Expiries::Any, renewals: [1, 0, 0], ..Bounds::of(ModelProperty::ProofsHold) };

/// Returns [`BOUNDS`]. A quick search begins with the lease that is verified.
fn bounds() -> Bounds {
    Bounds { is_held_at_start: full_or_quick(false, true), ..BOUNDS }
}

#[test]
fn proofs_hold_despite_expiry_and_delays() {
    assert_holds(bounds(), Rules::WHOLE);
}

#[test]
fn a_node_whose_counter_is_above_the_token_proves_nothing() {
    assert_shortest_break(bounds(), Rules::broken_by(Mutation::VerifyAboveToken));
}

#[test]
fn a_node_that_lost_its_counter_proves_nothing() {
    let bounds = Bounds { losses: 1, is_regained_above: true, ..bounds() };
    assert_shortest_break(bounds, Rules::broken_by(Mutation::VerifyWithoutCounter));
}

#[test]
fn a_proof_holds_where_a_counter_was_lost() {
    let expiries = full_or_quick(Expiries::Any, Expiries::AtMost(1));
    assert_holds(Bounds { losses: 1, is_regained_above: true, expiries, ..bounds() }, Rules::WHOLE);
}

#[test]
fn a_proof_fails_where_a_counter_was_lost_and_comes_back_below_the_token() {
    assert_shortest_break(Bounds { losses: 1, ..bounds() }, Rules::WHOLE);
}

#[test]
fn the_key_alone_proves_nothing_when_votes_arrive_late() {
    assert_shortest_break(bounds(), Rules::breaking(BrokenRule::VerifyByKey));
}
