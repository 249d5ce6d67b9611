//! Searches with tickets: the first client turns its lease into a ticket, and other clients redeem the ticket or
//! contend for the resource.
//!
//! No other lease is granted between the lease of the giver and the lease of the redeemer. Each of eight broken rules
//! admits such a lease, gives a token twice, lets leases overlap, or leaves a key.

use crate::{
    model::{
        bounds::{Bounds, Expiries, ModelProperty, Timing, full_or_quick, is_full_search},
        rules::Rules,
        search::{assert_breaks, assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

/// One holder that may issue a ticket, one client that redeems, and one client that redeems or contends.
const TICKET: Bounds = Bounds {
    may_issue_ticket: true,
    is_held_at_start: true,
    redeemers: [false, true, true],
    contenders: [false, false, true],
    attempts: [1, 1, 1],
    ..Bounds::of(ModelProperty::TicketsPassLocksOn)
};

/// One client that redeems, and one client that contends.
const ONE_OF_EACH: Bounds = Bounds { redeemers: [false, true, false], ..TICKET };

/// Long enough for a lease or a ticket to end after its successor began, and for another lease to follow.
const TIMING: Timing = Timing { ttl: 3, attempt_timeout: 3, horizon: 4 };
/// The giver, and a client that contends.
const UNREDEEMED: Bounds = Bounds { timing: Some(TIMING), attempts: [1, 0, 1], ..ONE_OF_EACH };

/// Two clients that redeem, for searches of keys that are left.
const RESIDUE: Bounds =
    Bounds { property: ModelProperty::NothingIsLeftBehind, contenders: [false; 3], ..TICKET };

#[test]
fn no_lease_comes_between_a_ticket_and_its_redemption() {
    assert_holds(full_or_quick(TICKET, ONE_OF_EACH), Rules::WHOLE);
    if is_full_search() {
        assert_holds(Bounds { attempts: [1, 1, 2], ..TICKET }, Rules::WHOLE);
    }
}

#[test]
fn no_lease_comes_between_although_the_giver_renews_late() {
    let attempts = full_or_quick([1, 1, 1], [1, 1, 0]);
    assert_holds(Bounds { renewals: [1, 0, 0], attempts, ..TICKET }, Rules::WHOLE);
}

#[test]
fn no_lease_comes_between_although_a_request_arrives_twice() {
    let attempts = full_or_quick([1, 1, 1], [1, 1, 0]);
    assert_holds(Bounds { duplicates: 1, attempts, ..ONE_OF_EACH }, Rules::WHOLE);
}

#[test]
fn no_larger_token_was_granted_before_a_redemption_although_keys_expire_at_any_moment() {
    let attempts = full_or_quick([1, 1, 1], [1, 1, 0]);
    assert_holds(Bounds { expiries: Expiries::AtMost(1), attempts, ..ONE_OF_EACH }, Rules::WHOLE);
    if is_full_search() {
        assert_holds(Bounds { expiries: Expiries::Any, ..ONE_OF_EACH }, Rules::WHOLE);
    }
}

#[test]
fn tickets_leave_no_key() {
    let attempts = full_or_quick([1, 1, 1], [1, 1, 0]);
    assert_holds(Bounds { attempts, ..RESIDUE }, Rules::WHOLE);
    let attempts = full_or_quick([1, 1, 0], [1, 0, 0]);
    assert_holds(Bounds { attempts, renewals: [1, 0, 0], ..RESIDUE }, Rules::WHOLE);
}

#[test]
fn a_redemption_with_the_lease_id_of_the_ticket_gives_two_leases() {
    assert_shortest_break(TICKET, Rules::broken_by(Mutation::RedeemAsTicket));
}

#[test]
fn a_redemption_with_the_token_of_the_ticket_repeats_a_token() {
    assert_shortest_break(TICKET, Rules::broken_by(Mutation::KeepTicketToken));
}

#[test]
fn a_redemption_without_proof_admits_a_lease_in_between() {
    assert_breaks(TICKET, Rules::broken_by(Mutation::RedeemWithoutProof));
}

#[test]
fn a_redemption_without_a_check_of_the_counter_admits_a_lease_in_between() {
    let bounds = Bounds { expiries: Expiries::AtMost(1), ..ONE_OF_EACH };
    assert_breaks(bounds, Rules::broken_by(Mutation::RedeemWithoutCounter));
}

#[test]
fn a_giver_that_continues_overlaps_with_the_redeemer() {
    assert_shortest_break(TICKET, Rules::broken_by(Mutation::GiverContinues));
}

#[test]
fn a_ticket_issued_after_the_end_of_its_lease_admits_a_lease_in_between() {
    assert_breaks(UNREDEEMED, Rules::broken_by(Mutation::DowngradeTooLate));
}

#[test]
fn a_redeemed_ticket_that_is_not_unlocked_leaves_a_key() {
    let bounds = Bounds { attempts: [1, 1, 0], ..RESIDUE };
    assert_shortest_break(bounds, Rules::broken_by(Mutation::LeaveTicket));
}

#[test]
fn a_release_without_tombstones_leaves_a_key() {
    let bounds = Bounds { attempts: [1, 0, 0], ..RESIDUE };
    assert_shortest_break(bounds, Rules::broken_by(Mutation::NoTombstoneForTicket));
}
