//! Searches for overlapping leases of two writers, while no key expires and no node forgets.
//!
//! Leases do not overlap if all rules hold, and overlap if one of three rules is broken.

use crate::{
    model::{
        bounds::{Bounds, ModelProperty, full_or_quick},
        rules::Rules,
        search::{assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

const BOUNDS: Bounds = Bounds::of(ModelProperty::LeasesDoNotOverlap);

#[test]
fn leases_do_not_overlap_despite_delays() {
    let bounds = Bounds { attempts: full_or_quick([2, 2, 0], [2, 1, 0]), ..BOUNDS };
    assert_holds(bounds, Rules::WHOLE);
}

#[test]
fn leases_do_not_overlap_despite_renewals_and_a_duplicate() {
    assert_holds(Bounds { renewals: [1, 1, 0], duplicates: full_or_quick(1, 0), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn leases_do_not_overlap_when_a_deferred_client_retries() {
    let attempts = full_or_quick([2, 1, 0], [1, 1, 0]);
    assert_holds(Bounds { attempts, is_queued: true, repeats: full_or_quick(2, 1), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn a_late_rollback_deletes_the_next_vote_of_a_reused_lease_id() {
    let bounds = Bounds { attempts: [2, 1, 0], ..BOUNDS };
    assert_shortest_break(bounds, Rules::broken_by(Mutation::ReuseLeaseId));
}

#[test]
fn half_of_the_nodes_is_no_quorum() {
    assert_shortest_break(BOUNDS, Rules::broken_by(Mutation::HalfIsQuorum));
}

#[test]
fn an_unlock_without_owner_check_deletes_the_holders_key() {
    assert_shortest_break(
        Bounds { attempts: [2, 1, 0], ..BOUNDS },
        Rules::broken_by(Mutation::UnlockWithoutOwner),
    );
}
