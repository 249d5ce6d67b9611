//! Searches for repeated and falling tokens of two writers, while keys may expire at any moment.
//!
//! Tokens are unique and grow if all rules hold and lost counters resume above all earlier values.
//! Tokens may repeat or fall if a rule is broken, or if a lost counter resumes below a granted token.

use crate::{
    model::{
        bounds::{Bounds, Expiries, IN_STEP, ModelProperty, NEARLY_IN_STEP, OUT_OF_STEP, full_or_quick},
        rules::Rules,
        search::{assert_breaks, assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

const BOUNDS: Bounds =
    Bounds { expiries: Expiries::Any, ..Bounds::of(ModelProperty::TokensAreUniqueAndGrow) };

#[test]
fn tokens_are_unique_and_grow_from_attempt_to_attempt() {
    assert_holds(BOUNDS, Rules::WHOLE);
    let (attempts, is_held_at_start) = (full_or_quick([2, 1, 0], [1, 1, 0]), true);
    assert_holds(Bounds { attempts, is_held_at_start, ..BOUNDS }, Rules::WHOLE);
    assert_holds(
        Bounds { attempts: full_or_quick([1, 2, 0], [1, 1, 0]), is_held_at_start, ..BOUNDS },
        Rules::WHOLE,
    );
}

#[test]
fn tokens_are_unique_and_grow_where_counters_differ() {
    assert_holds(Bounds { starts: full_or_quick(OUT_OF_STEP, NEARLY_IN_STEP), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn tokens_are_unique_and_grow_although_a_request_arrives_twice() {
    let (starts, expiries) = full_or_quick((NEARLY_IN_STEP, Expiries::Any), (IN_STEP, Expiries::AtMost(1)));
    assert_holds(Bounds { duplicates: 1, starts, expiries, ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn tokens_are_unique_and_grow_although_leases_are_renewed() {
    assert_holds(Bounds { renewals: full_or_quick([1, 1, 0], [1, 0, 0]), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn tokens_are_unique_and_grow_when_a_deferred_client_retries() {
    let starts = full_or_quick(NEARLY_IN_STEP, IN_STEP);
    assert_holds(Bounds { is_queued: true, repeats: 1, starts, ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn tokens_are_unique_and_grow_for_any_hints() {
    let starts = full_or_quick(NEARLY_IN_STEP, IN_STEP);
    for hints in [[2, 0, 0], [2, 2, 0], [3, 2, 0]] {
        assert_holds(Bounds { hints, starts, ..BOUNDS }, Rules::WHOLE);
    }
}

#[test]
fn without_a_write_back_the_next_quorum_may_miss_the_token() {
    assert_shortest_break(
        Bounds { starts: NEARLY_IN_STEP, ..BOUNDS },
        Rules::broken_by(Mutation::NoWriteBack),
    );
}

#[test]
fn a_write_back_without_owner_check_confirms_a_token_twice() {
    assert_shortest_break(
        Bounds { starts: &[[0, 1, 1]], ..BOUNDS },
        Rules::broken_by(Mutation::WriteBackWithoutOwner),
    );
}

#[test]
fn a_write_back_that_lowers_counters_repeats_a_token() {
    let bounds = Bounds { duplicates: 1, starts: &[[0, 1, 1]], ..BOUNDS };
    assert_breaks(bounds, Rules::broken_by(Mutation::WriteBackAboveToken));
}

#[test]
fn an_unconditional_write_back_repeats_a_token() {
    assert_shortest_break(
        Bounds { starts: &[[0, 1, 1]], ..BOUNDS },
        Rules::broken_by(Mutation::WriteBackUnconditionally),
    );
}

#[test]
fn a_node_that_lost_its_counter_votes_below_a_token() {
    assert_shortest_break(Bounds { losses: 1, ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn a_lost_counter_that_resumes_above_all_tokens_breaks_nothing() {
    let expiries = full_or_quick(Expiries::Any, Expiries::AtMost(1));
    assert_holds(Bounds { losses: 1, is_regained_above: true, expiries, ..BOUNDS }, Rules::WHOLE);
}
