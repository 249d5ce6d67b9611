//! Verification: before the verification of a lease began, no later lease had been granted.

use crate::{
    model::{
        bounds::{Bounds, Expiries, ModelProperty, full_or},
        rules::{BrokenRule, Rules},
        search::{assert_holds, shortest_break},
    },
    mutation::Mutation,
};

const BOUNDS: Bounds =
    Bounds { expiries: Expiries::Any, renewals: [1, 0, 0], ..Bounds::of(ModelProperty::ProofsHold) };

/// Returns the bounds. Quick searches begin with the lease that is verified.
fn bounds() -> Bounds {
    Bounds { is_held_at_start: full_or(false, true), ..BOUNDS }
}

#[test]
fn proofs_hold_despite_expiry_and_delays() {
    assert_holds(bounds(), Rules::WHOLE);
}

#[test]
fn a_node_whose_counter_is_above_the_token_proves_nothing() {
    shortest_break(bounds(), Rules::without(Mutation::VerifyAboveToken));
}

#[test]
fn a_node_that_lost_its_counter_proves_nothing() {
    let bounds = Bounds { losses: 1, is_regained_above: true, ..bounds() };
    shortest_break(bounds, Rules::without(Mutation::VerifyWithoutCounter));
}

#[test]
fn a_proof_holds_where_a_counter_was_lost() {
    let expiries = full_or(Expiries::Any, Expiries::AtMost(1));
    assert_holds(Bounds { losses: 1, is_regained_above: true, expiries, ..bounds() }, Rules::WHOLE);
}

#[test]
fn a_proof_fails_where_a_counter_was_lost_and_comes_back_below_the_token() {
    shortest_break(Bounds { losses: 1, ..bounds() }, Rules::WHOLE);
}

#[test]
fn the_key_alone_proves_nothing_when_votes_arrive_late() {
    shortest_break(bounds(), Rules::with(BrokenRule::VerifyByKey));
}
