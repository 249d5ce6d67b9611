//! Searches for keys that are left when all clients are idle, all messages have been delivered, and no
//! key has expired.
//!
//! No key is left if all rules hold. A key may be left if a rule is broken, or if a lock request
//! arrives twice.

use crate::{
    model::{
        bounds::{Bounds, ModelProperty, full_or_quick},
        rules::Rules,
        search::{assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

const BOUNDS: Bounds = Bounds::of(ModelProperty::NothingIsLeftBehind);
/// One attempt of one client, without contention.
const ALONE: Bounds = Bounds { attempts: [1, 0, 0], ..BOUNDS };

#[test]
fn late_locks_leave_no_key() {
    assert_holds(Bounds { attempts: full_or_quick([2, 1, 0], [1, 1, 0]), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn late_renewals_leave_no_key() {
    assert_holds(Bounds { renewals: full_or_quick([2, 0, 0], [1, 0, 0]), ..ALONE }, Rules::WHOLE);
    assert_holds(Bounds { renewals: full_or_quick([1, 1, 0], [1, 0, 0]), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn a_deferred_client_that_retries_leaves_no_key() {
    assert_holds(Bounds { is_queued: true, repeats: full_or_quick(2, 1), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn without_rollback_a_silent_node_keeps_a_key() {
    assert_shortest_break(ALONE, Rules::broken_by(Mutation::RollbackSkipsSilent));
}

/// Real connections exclude this case. A connection delivers no message twice, and if a new
/// connection repeats a request, the request is sent before its unlock.
#[test]
fn a_duplicated_lock_after_its_unlock_leaves_a_key() {
    assert_shortest_break(Bounds { duplicates: 1, ..ALONE }, Rules::WHOLE);
}

#[test]
fn without_a_tombstone_a_late_lock_leaves_a_key() {
    assert_shortest_break(ALONE, Rules::broken_by(Mutation::NoTombstoneForLock));
}

#[test]
fn without_a_tombstone_a_late_renewal_leaves_a_key() {
    assert_shortest_break(
        Bounds { renewals: [1, 0, 0], ..ALONE },
        Rules::broken_by(Mutation::NoTombstoneForRenewal),
    );
}
