//! Searches with writers that downgrade: a client replaces its write lease by a read lease.
//!
//! All properties of the model are checked beside downgrades. In addition, no other writer may have a lease
//! between the write lease and the read lease. Two broken rules admit such a writer.

use crate::{
    model::{
        bounds::{Bounds, Expiries, ModelProperty, Timing, full_or_quick, is_full_search},
        rules::{BrokenRule, Rules},
        search::{assert_breaks, assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

/// Two writers, each of which may downgrade.
const fn of(property: ModelProperty) -> Bounds {
    Bounds { may_downgrade: true, ..Bounds::of(property) }
}

/// One writer that may downgrade, and two readers. The second reader makes no attempt by default.
const fn with_readers(property: ModelProperty) -> Bounds {
    Bounds { readers: [false, true, true], ..of(property) }
}

const EXCLUSION: Bounds = of(ModelProperty::LeasesDoNotOverlap);

/// Twice the ttl, so that a second lease can begin after the end of a first lease and also end.
const TIMING: Timing = Timing { ttl: 3, attempt_timeout: 3, horizon: 6 };
const TIMED: Bounds = Bounds { timing: Some(TIMING), ..EXCLUSION };

#[test]
fn no_writer_comes_between_a_write_lease_and_its_downgrade() {
    assert_holds(Bounds { attempts: full_or_quick([1, 2, 0], [1, 1, 0]), ..EXCLUSION }, Rules::WHOLE);
    let with_readers = with_readers(ModelProperty::LeasesDoNotOverlap);
    assert_holds(Bounds { attempts: full_or_quick([1, 1, 1], [1, 1, 0]), ..with_readers }, Rules::WHOLE);
}

#[test]
fn no_writer_comes_between_although_leases_expire_or_a_node_forgets() {
    let (is_held_at_start, horizon) = full_or_quick((false, TIMING.horizon), (true, 4));
    let timing = Some(Timing { horizon, ..TIMING });
    assert_holds(Bounds { is_held_at_start, timing, ..TIMED }, Rules::WHOLE);
    if is_full_search() {
        assert_holds(Bounds { is_held_at_start: true, crashes: 1, ..TIMED }, Rules::GUARDED);
    }
}

#[test]
fn a_downgrade_has_a_larger_token_than_its_write_lease() {
    let (attempts, expiries) = full_or_quick(([1, 1, 0], Expiries::Any), ([1, 0, 0], Expiries::AtMost(1)));
    let bounds = Bounds { attempts, expiries, ..with_readers(ModelProperty::TokensAreUniqueAndGrow) };
    assert_holds(Bounds { is_held_at_start: true, ..bounds }, Rules::WHOLE);
}

#[test]
fn proofs_hold_beside_a_downgrade() {
    let expiries = full_or_quick(Expiries::Any, Expiries::AtMost(0));
    let bounds = Bounds { renewals: [1, 0, 0], expiries, ..with_readers(ModelProperty::ProofsHold) };
    assert_holds(Bounds { is_held_at_start: true, ..bounds }, Rules::WHOLE);
}

#[test]
fn keys_agree_with_readers_beside_a_downgrade() {
    let bounds = with_readers(ModelProperty::KeysAgreeWithReaders);
    assert_holds(Bounds { expiries: Expiries::Any, ..bounds }, Rules::WHOLE);
}

#[test]
fn a_downgrade_leaves_no_key() {
    let bounds = Bounds { attempts: [1, 0, 0], ..of(ModelProperty::NothingIsLeftBehind) };
    assert_holds(Bounds { renewals: full_or_quick([1, 0, 0], [0; 3]), ..bounds }, Rules::WHOLE);
}

#[test]
fn an_unlock_before_the_downgrade_admits_a_writer() {
    assert_shortest_break(EXCLUSION, Rules::breaking(BrokenRule::UnlockToDowngrade));
}

#[test]
fn a_downgrade_after_the_end_of_the_lease_admits_a_writer() {
    assert_breaks(Bounds { is_held_at_start: true, ..TIMED }, Rules::broken_by(Mutation::DowngradeTooLate));
}
