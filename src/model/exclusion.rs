//! Exclusion: two leases never overlap, with perfect clocks and without expiry.

use crate::{
    model::{
        bounds::{Bounds, ModelProperty, full_or},
        rules::Rules,
        search::{assert_holds, shortest_break},
    },
    mutation::Mutation,
};

const BOUNDS: Bounds = Bounds::of(ModelProperty::LeasesDoNotOverlap);

#[test]
fn leases_do_not_overlap_despite_delays() {
    let bounds = Bounds { attempts: full_or([2, 2, 0], [2, 1, 0]), ..BOUNDS };
    assert_holds(bounds, Rules::WHOLE);
}

#[test]
fn leases_do_not_overlap_despite_renewals_and_a_duplicate() {
    assert_holds(Bounds { renewals: [1, 1, 0], duplicates: full_or(1, 0), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn leases_do_not_overlap_when_a_deferred_client_retries() {
    let attempts = full_or([2, 1, 0], [1, 1, 0]);
    assert_holds(Bounds { attempts, is_queued: true, repeats: full_or(2, 1), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn a_late_rollback_deletes_the_next_vote_of_a_reused_lease_id() {
    let bounds = Bounds { attempts: [2, 1, 0], ..BOUNDS };
    shortest_break(bounds, Rules::without(Mutation::ReuseLeaseId));
}

#[test]
fn half_of_the_nodes_is_no_quorum() {
    shortest_break(BOUNDS, Rules::without(Mutation::HalfIsQuorum));
}

#[test]
fn an_unlock_without_owner_check_deletes_the_holders_key() {
    shortest_break(Bounds { attempts: [2, 1, 0], ..BOUNDS }, Rules::without(Mutation::UnlockWithoutOwner));
}
