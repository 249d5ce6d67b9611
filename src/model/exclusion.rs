//! Two leases never overlap, with perfect clocks and nothing that expires.

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
fn leases_do_not_overlap_whatever_is_delayed() {
    let bounds = Bounds { attempts: full_or([2, 2, 0], [2, 1, 0]), ..BOUNDS };
    assert_holds(bounds, Rules::WHOLE);
}

#[test]
fn leases_do_not_overlap_although_they_are_renewed_and_a_request_arrives_twice() {
    assert_holds(Bounds { renewals: [1, 1, 0], duplicates: full_or(1, 0), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn leases_do_not_overlap_where_a_node_refuses_for_a_queue_and_is_asked_again() {
    let attempts = full_or([2, 1, 0], [1, 1, 0]);
    assert_holds(Bounds { attempts, is_queued: true, repeats: full_or(2, 1), ..BOUNDS }, Rules::WHOLE);
}

#[test]
fn with_an_owner_id_for_two_attempts_a_late_rollback_deletes_the_second_ones_vote() {
    let bounds = Bounds { attempts: [2, 1, 0], ..BOUNDS };
    shortest_break(bounds, Rules::without(Mutation::ReuseOwnerId));
}

#[test]
fn with_half_of_the_nodes_two_quorums_need_not_meet() {
    shortest_break(BOUNDS, Rules::without(Mutation::HalfIsQuorum));
}

#[test]
fn with_an_unlock_that_does_not_ask_whose_key_it_is_a_loser_deletes_the_holders() {
    shortest_break(Bounds { attempts: [2, 1, 0], ..BOUNDS }, Rules::without(Mutation::UnlockWithoutOwner));
}
