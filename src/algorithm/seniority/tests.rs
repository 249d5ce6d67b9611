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
        [600, 600, 400, 200, 0],
        "one has it, three wait"
    );
    assert_eq!(deferences(Some(100), ["a", "b", "c"]), [600, 525, 450], "eight are enough");
}

#[test]
fn whoever_knows_of_nobody_comes_at_once_until_it_is_passed_over() {
    assert_eq!(deferences(None, ["a", "a", "b", "c"]), [0, 0, 525, 450]);
}

#[test]
fn whoever_was_never_refused_comes_at_once() {
    assert_eq!(Seniority::new(Some(9)).deference(1.0), Duration::ZERO);
}

#[test]
fn chance_decides_over_one_half() {
    let mut seniority = Seniority::new(Some(9));
    seniority.refused(None, ROUND_TRIP);
    assert_eq!([0.0, 1.0].map(|jitter| seniority.deference(jitter)), [ROUND_TRIP / 2, ROUND_TRIP]);
}

#[test]
fn an_attempt_that_a_silent_node_made_long_is_no_round_trip() {
    let mut seniority = Seniority::new(Some(9));
    for took in [ROUND_TRIP * 3, ROUND_TRIP, ROUND_TRIP * 80] {
        seniority.refused(None, took);
    }
    assert_eq!(seniority.deference(1.0), ROUND_TRIP);
}
