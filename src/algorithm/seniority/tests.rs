//! Who defers for how long.

use super::*;

const ROUND_TRIP: Duration = Duration::from_micros(800);

/// The microseconds of deference after each refusal, with a jitter of one half.
fn deferences<const N: usize>(let_go: Option<u32>, holders: [&str; N]) -> [u128; N] {
    let mut seniority = Seniority::new(let_go);
    holders.map(|holder| {
        seniority.refused(Some(&OwnerId::from_wire(holder.as_bytes())), ROUND_TRIP);
        seniority.deference(0.5).as_micros()
    })
}

#[test]
fn whoever_let_others_go_first_defers_until_it_has_seen_so_many_pass() {
    assert_eq!(deferences(Some(1), ["a", "b", "c"]), [0, 0, 0], "the only other one has it now");
    assert_eq!(
        deferences(Some(4), ["a", "a", "b", "c", "d"]),
        [900, 900, 900, 600, 0],
        "one has it, three wait"
    );
    assert_eq!(deferences(Some(100), ["a", "b", "c"]), [900, 900, 900]);
}

#[test]
fn whoever_knows_of_nobody_comes_at_once_until_it_is_passed_over_and_then_within_a_round_trip() {
    assert_eq!(deferences(None, ["a", "a", "b", "c"]), [0, 0, 525, 450]);
}

#[test]
fn whoever_was_never_refused_comes_at_once() {
    assert_eq!(Seniority::new(Some(9)).deference(1.0), Duration::ZERO);
}

#[test]
fn chance_decides_over_one_half() {
    let mut seniority = Seniority::new(Some(2));
    seniority.refused(None, ROUND_TRIP);
    assert_eq!([0.0, 1.0].map(|jitter| seniority.deference(jitter)), [ROUND_TRIP / 2, ROUND_TRIP]);
}

#[test]
fn an_attempt_that_a_silent_node_made_long_is_no_round_trip() {
    let mut seniority = Seniority::new(Some(2));
    for took in [ROUND_TRIP * 3, ROUND_TRIP, ROUND_TRIP * 80] {
        seniority.refused(None, took);
    }
    assert_eq!(seniority.deference(1.0), ROUND_TRIP);
}

/// Whether it is first after each refusal.
fn firsts<const N: usize>(let_go: Option<u32>, holders: [&str; N]) -> [bool; N] {
    let mut seniority = Seniority::new(let_go);
    assert!(!seniority.is_first(), "before it knows who has it");
    holders.map(|holder| {
        seniority.refused(Some(&OwnerId::from_wire(holder.as_bytes())), ROUND_TRIP);
        seniority.is_first()
    })
}

#[test]
fn whoever_has_seen_all_pass_that_it_let_go_is_first() {
    assert_eq!(firsts(Some(1), ["a", "a"]), [true, true]);
    assert_eq!(firsts(Some(3), ["a", "a", "b", "c"]), [false, false, false, true]);
    assert_eq!(firsts(None, ["a", "b", "c", "d"]), [false; 4], "how many came before is unknown");
}

#[test]
fn nobody_is_first_any_more_when_the_votes_were_split_with_another() {
    let mut seniority = Seniority::new(Some(1));
    seniority.refused(Some(&OwnerId::from_wire(b"a")), ROUND_TRIP);
    seniority.split();
    seniority.refused(Some(&OwnerId::from_wire(b"b")), ROUND_TRIP);
    assert!(!seniority.is_first());
}
