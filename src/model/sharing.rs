//! Searches with readers and writers, for all properties: readers share the resource, and a writer
//! excludes readers and other writers.

use crate::{
    model::{
        bounds::{
            Bounds, Expiries, IN_STEP, ModelProperty, NEARLY_IN_STEP, Timing, full_or_quick, is_full_search,
        },
        rules::{BrokenRule, Rules},
        search::{assert_breaks, assert_holds, assert_shortest_break},
    },
    mutation::Mutation,
};

// The clients that lock as readers, of three clients, by the place of the writer.
const WRITER_FIRST: [bool; 3] = [false, true, true];
const WRITER_BETWEEN: [bool; 3] = [true, false, true];
const WRITER_LAST: [bool; 3] = [true, true, false];

const ALL: [u8; 3] = [1, 1, 1];

const fn of(property: ModelProperty) -> Bounds {
    Bounds { readers: WRITER_FIRST, ..Bounds::of(property) }
}

/// Bounds with any number of expiries, so that the result does not depend on a clock.
const fn of_any_clock(property: ModelProperty) -> Bounds {
    Bounds { expiries: Expiries::Any, ..of(property) }
}

const EXCLUSION: Bounds = of(ModelProperty::LeasesDoNotOverlap);
const ORDER: Bounds = of_any_clock(ModelProperty::TokensAreUniqueAndGrow);
const PROOFS: Bounds = of_any_clock(ModelProperty::ProofsHold);
const RESIDUE: Bounds = of(ModelProperty::NothingIsLeftBehind);

/// Leases that begin at tick 0 and at tick 1 both end within the horizon.
const TIMING: Timing = Timing { ttl: 2, attempt_timeout: 2, horizon: 3 };

/// Three clients with one attempt each, of which the first has its lease at the start. Ticks pass
/// between the actions.
const TIMED: Bounds = Bounds { attempts: ALL, is_held_at_start: true, timing: Some(TIMING), ..EXCLUSION };

#[test]
fn no_reader_has_a_lease_beside_a_writer() {
    for attempts in full_or_quick(&[[1, 2, 0], [2, 1, 0], ALL][..], &[[1, 1, 0]]) {
        assert_holds(Bounds { attempts: *attempts, ..EXCLUSION }, Rules::WHOLE);
    }
}

#[test]
fn no_reader_has_a_lease_beside_a_writer_although_a_request_arrives_twice() {
    assert_holds(
        Bounds { attempts: full_or_quick(ALL, [1, 1, 0]), duplicates: 1, ..EXCLUSION },
        Rules::WHOLE,
    );
}

#[test]
fn no_reader_has_a_lease_beside_a_writer_although_leases_are_renewed() {
    let attempts = full_or_quick(ALL, [1, 1, 0]);
    assert_holds(Bounds { attempts, renewals: ALL, ..EXCLUSION }, Rules::WHOLE);
}

#[test]
fn no_reader_has_a_lease_beside_a_writer_while_each_ends_by_its_own_ttl() {
    assert_holds(TIMED, Rules::WHOLE);
    if is_full_search() {
        assert_holds(Bounds { readers: WRITER_LAST, ..TIMED }, Rules::WHOLE);
    }
}

#[test]
fn no_reader_has_a_lease_beside_a_writer_although_a_node_forgets() {
    let timing = Some(Timing { ttl: 3, attempt_timeout: 3, horizon: 4 });
    let bounds = Bounds { is_held_at_start: true, crashes: 1, timing, ..EXCLUSION };
    let readers = [true, false, false];
    assert_holds(Bounds { readers, renewals: full_or_quick([1, 0, 0], [0; 3]), ..bounds }, Rules::GUARDED);
}

#[test]
fn tokens_of_readers_and_writers_grow_and_differ() {
    let (starts, expiries) = full_or_quick((NEARLY_IN_STEP, Expiries::Any), (IN_STEP, Expiries::AtMost(1)));
    assert_holds(Bounds { starts, expiries, ..ORDER }, Rules::WHOLE);
    if is_full_search() {
        for readers in [WRITER_FIRST, WRITER_BETWEEN] {
            assert_holds(Bounds { readers, attempts: ALL, is_held_at_start: true, ..ORDER }, Rules::WHOLE);
        }
    }
}

#[test]
fn tokens_of_readers_and_writers_grow_and_differ_although_leases_are_renewed() {
    let (starts, expiries) = full_or_quick((NEARLY_IN_STEP, Expiries::Any), (IN_STEP, Expiries::AtMost(1)));
    assert_holds(Bounds { starts, expiries, renewals: [1, 1, 0], ..ORDER }, Rules::WHOLE);
}

#[test]
fn tokens_of_readers_and_writers_grow_and_differ_although_a_request_arrives_twice() {
    let expiries = full_or_quick(Expiries::Any, Expiries::AtMost(0));
    assert_holds(Bounds { expiries, duplicates: 1, ..ORDER }, Rules::WHOLE);
}

#[test]
fn tokens_grow_although_a_node_restarts_with_older_readers() {
    let expiries = full_or_quick(Expiries::Any, Expiries::AtMost(0));
    assert_holds(Bounds { restarts: 1, expiries, ..ORDER }, Rules::WHOLE);
}

#[test]
fn proofs_of_readers_and_writers_hold() {
    for renewals in [[1, 0, 0], [0, 1, 0]] {
        for losses in full_or_quick(&[0, 1][..], &[0]) {
            let bounds = Bounds { renewals, losses: *losses, is_regained_above: true, ..PROOFS };
            assert_holds(bounds, Rules::WHOLE);
        }
    }
}

#[test]
fn proofs_of_readers_hold_when_a_reader_follows_a_writer() {
    let expiries = full_or_quick(Expiries::AtMost(1), Expiries::AtMost(0));
    let bounds = Bounds { readers: WRITER_BETWEEN, attempts: ALL, renewals: [1, 0, 0], ..PROOFS };
    assert_holds(Bounds { is_held_at_start: true, expiries, ..bounds }, Rules::WHOLE);
}

#[test]
fn a_key_is_shared_exactly_while_a_reader_holds_the_resource() {
    let expiries = full_or_quick(Expiries::Any, Expiries::AtMost(1));
    let bounds = of(ModelProperty::KeysAgreeWithReaders);
    assert_holds(Bounds { attempts: full_or_quick(ALL, [0, 1, 1]), expiries, ..bounds }, Rules::WHOLE);
    if is_full_search() {
        assert_holds(Bounds { timing: Some(TIMING), ..bounds }, Rules::WHOLE);
    }
}

#[test]
fn readers_leave_no_key() {
    assert_holds(
        Bounds { attempts: [0, 1, 1], renewals: full_or_quick([0, 1, 1], [0; 3]), ..RESIDUE },
        Rules::WHOLE,
    );
    assert_holds(Bounds { renewals: full_or_quick([1, 1, 0], [0; 3]), ..RESIDUE }, Rules::WHOLE);
}

#[test]
fn half_of_the_nodes_is_no_quorum_of_readers() {
    assert_shortest_break(EXCLUSION, Rules::broken_by(Mutation::HalfIsQuorum));
}

#[test]
fn a_reader_that_deletes_the_key_of_a_writer_breaks_exclusion() {
    assert_shortest_break(
        Bounds { attempts: [1, 2, 0], ..EXCLUSION },
        Rules::broken_by(Mutation::UnshareAnyKey),
    );
}

#[test]
fn a_reader_that_unlocks_for_all_admits_a_writer() {
    assert_shortest_break(Bounds { attempts: ALL, ..EXCLUSION }, Rules::broken_by(Mutation::UnshareForAll));
}

#[test]
fn a_late_rollback_removes_the_next_reader_of_a_reused_lease_id() {
    assert_shortest_break(
        Bounds { attempts: [1, 2, 0], ..EXCLUSION },
        Rules::broken_by(Mutation::ReuseLeaseId),
    );
}

#[test]
fn one_end_for_all_readers_admits_a_writer_too_early() {
    let bounds = Bounds { readers: WRITER_LAST, ..TIMED };
    assert_breaks(bounds, Rules::broken_by(Mutation::OneEndForReaders));
}

#[test]
fn a_node_that_counts_at_once_replaces_a_readers_forgotten_vote() {
    let timing = Some(Timing { ttl: 3, attempt_timeout: 3, horizon: 4 });
    let bounds = Bounds { readers: [true, false, false], renewals: [1, 0, 0], crashes: 1, ..EXCLUSION };
    let at_once = Some(BrokenRule::Mutation(Mutation::CountInQuarantine));
    let rules = Rules { broken_rule: at_once, ..Rules::GUARDED };
    assert_breaks(Bounds { is_held_at_start: true, timing, ..bounds }, rules);
}

#[test]
fn without_a_write_back_of_readers_a_writer_repeats_their_token() {
    let rules = Rules::breaking(BrokenRule::ReadersWriteNothingBack);
    assert_shortest_break(Bounds { starts: NEARLY_IN_STEP, ..ORDER }, rules);
}

#[test]
fn a_first_reader_that_repeats_the_counter_has_the_token_of_a_writer() {
    let rules = Rules::broken_by(Mutation::FirstReaderRepeats);
    assert_shortest_break(Bounds { starts: &[[1, 1, 1]], ..ORDER }, rules);
}

#[test]
fn a_write_back_of_no_reader_confirms_a_token_twice() {
    let rules = Rules::broken_by(Mutation::WriteBackOfNoReader);
    assert_shortest_break(Bounds { starts: &[[0, 1, 1]], ..ORDER }, rules);
}

#[test]
fn a_write_back_to_readers_that_came_after_a_writer_confirms_its_token_again() {
    let rules = Rules::broken_by(Mutation::WriteBackBelowPhase);
    assert_breaks(Bounds { starts: NEARLY_IN_STEP, duplicates: 1, ..ORDER }, rules);
}

#[test]
fn a_stale_phase_proves_too_much() {
    let bounds = Bounds { readers: WRITER_BETWEEN, attempts: ALL, renewals: [1, 0, 0], ..PROOFS };
    assert_breaks(Bounds { is_held_at_start: true, ..bounds }, Rules::broken_by(Mutation::StalePhase));
}
