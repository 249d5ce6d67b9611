//! Nothing is left behind, with nothing that expires.

use crate::{
    model::{
        bounds::{Bounds, ModelProperty, full_or},
        rules::Rules,
        search::{assert_holds, shortest_break},
    },
    mutation::Mutation,
};

const BOUNDS: Bounds = Bounds::of(ModelProperty::NothingIsLeftBehind);
/// One client, with nobody in its way.
const ALONE: Bounds = Bounds { attempts: [1, 0, 0], ..BOUNDS };

#[test]
fn no_key_is_left_behind_by_locks_that_arrive_late() {
    assert_holds(Bounds { attempts: full_or([2, 1, 0], [1, 1, 0]), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn no_key_is_left_behind_by_renewals_that_arrive_late() {
    assert_holds(Bounds { renewals: full_or([2, 0, 0], [1, 0, 0]), ..ALONE }, Rules::WHOLE);
    assert_holds(Bounds { renewals: full_or([1, 1, 0], [1, 0, 0]), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn no_key_is_left_behind_where_a_node_refuses_for_a_queue_and_is_asked_again() {
    assert_holds(Bounds { is_queued: true, repeats: full_or(2, 1), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn without_a_rollback_where_it_did_not_answer_a_node_keeps_a_key() {
    shortest_break(ALONE, Rules::without(Mutation::RollbackSkipsSilent));
}

/// A connection delivers nothing twice, and a request that a new connection repeats is repeated
/// before its unlock.
#[test]
fn a_lock_that_arrives_again_after_it_was_answered_and_unlocked_leaves_a_key() {
    shortest_break(Bounds { duplicates: 1, ..ALONE }, Rules::WHOLE);
}

#[test]
fn without_a_tombstone_a_lock_that_arrives_after_its_unlock_is_nobodys() {
    shortest_break(ALONE, Rules::without(Mutation::NoTombstoneForLock));
}

#[test]
fn without_a_tombstone_a_renewal_that_arrives_after_its_unlock_is_nobodys() {
    shortest_break(Bounds { renewals: [1, 0, 0], ..ALONE }, Rules::without(Mutation::NoTombstoneForRenewal));
}
