//! When a waiter tries again, told as stories.

use super::*;
use crate::owner_id::OwnerId;

const PACING: Pacing = Pacing {
    first_poll: Duration::from_millis(500),
    longest_poll: Duration::from_secs(5),
    floor: Duration::from_millis(5),
    strategy: WaitingStrategy::ArbiterFirst,
};
const ROUND_TRIP: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn retry() -> Retry {
    Retry::new(Electorate::new(5, 3), PACING, vec![4, 2, 0, 1, 3], at(0), None)
}

fn after_letting_go(others: u32) -> Retry {
    Retry::new(Electorate::new(5, 3), PACING, vec![4, 2, 0, 1, 3], at(0), Some(others))
}

fn held(owner: &str, remaining: u64) -> Sighting {
    Sighting::Held {
        owner: Some(OwnerId::from_wire(owner.as_bytes())),
        remaining: Duration::from_millis(remaining),
    }
}

fn lose(retry: &mut Retry, seen: &[Sighting], now: u64) {
    lose_by(&Plan::Parallel, retry, seen, now);
}

fn lose_by(plan: &Plan, retry: &mut Retry, seen: &[Sighting], now: u64) {
    retry.attempt_begins(plan, at(now));
    retry.attempt_lost(Loss::Contended, seen, ROUND_TRIP, at(now), 0.5);
}

#[test]
fn a_waiter_wakes_when_a_quorum_is_believed_free() {
    let mut retry = retry();
    let remaining = [100, 300, 200, 400, 50];
    lose(&mut retry, &remaining.map(|remaining| held("a", remaining)), 0);
    assert_eq!(retry.next_wake(), Wake { at: at(200), plan: Plan::ArbiterFirst(vec![4, 2, 0]) });
    for node in [1, 3] {
        retry.notice(node, at(10));
    }
    assert_eq!(retry.next_wake().at, at(50));
    retry.notice(2, at(11));
    assert_eq!(retry.next_wake(), Wake { at: at(11), plan: Plan::ArbiterFirst(vec![2, 1, 3]) });
}

#[test]
fn a_notice_during_an_attempt_outlives_the_refusals_of_that_attempt() {
    let mut retry = retry();
    retry.attempt_begins(&Plan::Parallel, at(0));
    for node in 0..3 {
        retry.notice(node, at(1));
    }
    let seen = [1000; 5].map(|remaining| held("a", remaining));
    retry.attempt_lost(Loss::Contended, &seen, ROUND_TRIP, at(2), 0.5);
    assert_eq!(retry.next_wake().at, at(2));
}

#[test]
fn an_arbiters_refusal_speaks_for_the_nodes_that_were_not_asked() {
    let mut retry = retry();
    for node in 0..5 {
        retry.notice(node, at(0));
    }
    let mut seen = vec![Sighting::NotAsked; 5];
    seen[4] = held("b", 300);
    lose(&mut retry, &seen, 1);
    assert_eq!(retry.next_wake(), Wake { at: at(301), plan: Plan::ArbiterFirst(vec![4, 2, 0, 1, 3]) });
}

#[test]
fn a_split_vote_is_tried_again_after_a_jitter_of_one_round_trip_then_of_more() {
    let mut retry = retry();
    let seen = [held("a", 1000), held("a", 1000), held("b", 1000), Sighting::Free, Sighting::Free];
    lose(&mut retry, &seen, 0);
    let wake = retry.next_wake();
    assert_eq!(wake.at, at(0) + ROUND_TRIP / 2);
    assert!(matches!(wake.plan, Plan::ArbiterFirst(_)));
    lose(&mut retry, &seen, 10);
    assert_eq!(retry.next_wake().at, at(15));
}

#[test]
fn after_a_split_vote_the_arbiters_refusal_alone_is_doubted_twice() {
    let mut retry = retry();
    let split = [held("a", 9000), held("a", 9000), held("b", 9000), Sighting::Free, Sighting::Free];
    let mut refusal = vec![Sighting::NotAsked; 5];
    lose(&mut retry, &split, 0);
    let mut gaps = Vec::new();
    for (now, owner) in [(10, "a"), (100, "c"), (1000, "d")] {
        refusal[4] = held(owner, 9000);
        lose(&mut retry, &refusal, now);
        let wake = retry.next_wake();
        gaps.push(wake.at.saturating_duration_since(at(now)).as_millis());
        let is_whole = wake.plan == Plan::ArbiterFirst(vec![4, 2, 0, 1, 3]);
        assert_eq!(is_whole, now < 1000, "{:?} after {now} ms", wake.plan);
    }
    assert_eq!(gaps, [5, 10, 500]);
}

#[test]
fn after_a_split_vote_a_node_that_still_names_the_same_owner_is_left_out() {
    let split = |owner| {
        let other = held(owner, 9000);
        [other.clone(), Sighting::Free, other, Sighting::Free, held("stale", 9000)]
    };
    let mut refusal = vec![Sighting::NotAsked; 5];
    refusal[4] = held("stale", 9000);
    let others = Plan::ArbiterFirst(vec![2, 0, 1, 3]);
    let mut retry = retry();
    lose(&mut retry, &split("a"), 0);
    assert_eq!(retry.next_wake().plan, Plan::ArbiterFirst(vec![4, 2, 0, 1, 3]));
    lose(&mut retry, &refusal, 10);
    assert_eq!(retry.next_wake(), Wake { at: at(15), plan: others.clone() });
    lose(&mut retry, &split("b"), 100);
    assert_eq!(retry.next_wake().plan, others, "remembered at the next split");
    retry.notice(4, at(101));
    lose(&mut retry, &split("c"), 102);
    assert_eq!(retry.next_wake().plan, Plan::ArbiterFirst(vec![4, 2, 0, 1, 3]));
}

#[test]
fn two_owners_and_a_silent_node_may_hide_a_holder_so_it_is_no_split() {
    let mut retry = retry();
    let seen = [held("a", 9000), held("a", 9000), Sighting::Unknown, Sighting::Free, Sighting::Free];
    lose(&mut retry, &seen, 0);
    assert_eq!(retry.next_wake(), Wake { at: at(500), plan: Plan::Parallel });
}

/// A newcomer has asked all nodes while this waiter asked the arbiter, node 4.
fn overtaken() -> [Sighting; 5] {
    [Some(9000), Some(9000), Some(9000), Some(9000), None]
        .map(|remaining| remaining.map_or(Sighting::Free, |remaining| held("newcomer", remaining)))
}

fn arbiters() -> Plan {
    Plan::ArbiterFirst(vec![4, 2, 0, 1, 3])
}

fn woken_plan(retry: &mut Retry, now: u64) -> Plan {
    for node in 0..5 {
        retry.notice(node, at(now));
    }
    retry.next_wake().plan
}

#[test]
fn a_waiter_that_had_the_arbiter_and_was_overtaken_asks_all_at_once_from_then_on() {
    let mut retry = retry();
    lose_by(&arbiters(), &mut retry, &overtaken(), 0);
    assert_eq!(woken_plan(&mut retry, 10), Plan::Parallel);
    lose(&mut retry, &[9000; 5].map(|remaining| held("newcomer", remaining)), 11);
    assert_eq!(woken_plan(&mut retry, 20), Plan::Parallel);
}

#[test]
fn a_split_vote_or_a_lease_of_its_own_ends_the_pressing() {
    let split = [held("a", 9000), held("a", 9000), held("b", 9000), held("b", 9000), Sighting::Free];
    let mut retry = retry();
    lose_by(&arbiters(), &mut retry, &overtaken(), 0);
    lose(&mut retry, &split, 10);
    assert!(matches!(woken_plan(&mut retry, 20), Plan::ArbiterFirst(_)));
    lose_by(&arbiters(), &mut retry, &overtaken(), 21);
    retry.won(at(30), Duration::from_secs(30));
    assert!(matches!(woken_plan(&mut retry, 40), Plan::ArbiterFirst(_)));
}

#[test]
fn a_minority_of_votes_without_the_arbiter_is_no_reason_to_press() {
    let mut retry = retry();
    let [holder, ..] = overtaken();
    let seen = [Sighting::Free, holder.clone(), holder.clone(), holder.clone(), holder];
    lose_by(&arbiters(), &mut retry, &seen, 0);
    assert!(matches!(woken_plan(&mut retry, 10), Plan::ArbiterFirst(_)));
}

#[test]
fn the_arbiters_vote_for_a_poll_of_all_nodes_is_no_reason_to_press() {
    let mut retry = retry();
    lose_by(&Plan::Parallel, &mut retry, &overtaken(), 0);
    assert!(matches!(woken_plan(&mut retry, 10), Plan::ArbiterFirst(_)));
}

#[test]
fn whoever_is_passed_over_defers_to_those_who_were_so_more_often() {
    let mut retry = retry();
    lose(&mut retry, &[9000; 5].map(|remaining| held("0", remaining)), 0);
    let mut delays = Vec::new();
    for release in 1..=6 {
        let now = 10 * release;
        woken_plan(&mut retry, now);
        delays.push(retry.next_wake().at.saturating_duration_since(at(now)).as_micros());
        lose(&mut retry, &[9000; 5].map(|remaining| held(&release.to_string(), remaining)), now + 1);
    }
    assert_eq!(delays, [0, 656, 562, 468, 375, 281], "of a round trip, with a jitter of one half");
    retry.won(at(70), Duration::from_secs(30));
    woken_plan(&mut retry, 80);
    assert_eq!(retry.next_wake().at, at(80));
}

#[test]
fn releases_that_follow_each_other_faster_than_a_waiter_comes_do_not_keep_it_away() {
    let mut retry = after_letting_go(3);
    lose(&mut retry, &[9000; 5].map(|remaining| held("a", remaining)), 0);
    let first = at(10) + ROUND_TRIP * 9 / 8;
    for tenths in 0..11 {
        let now = at(10) + ROUND_TRIP * tenths / 10;
        (0..5).for_each(|node| retry.notice(node, now));
        assert_eq!(retry.next_wake().at, first);
    }
}

#[test]
fn whoever_has_seen_all_pass_that_it_let_go_first_asks_all_nodes_at_once() {
    let plans = |let_go, holders: [&str; 4]| {
        let mut retry = after_letting_go(let_go);
        let plans = holders.into_iter().zip(0..).map(|(holder, release)| {
            lose(&mut retry, &[9000; 5].map(|remaining| held(holder, remaining)), 10 * release);
            woken_plan(&mut retry, 10 * release + 5) == Plan::Parallel
        });
        plans.collect::<Vec<_>>()
    };
    assert_eq!(plans(1, ["a", "a", "b", "c"]), [true; 4]);
    assert_eq!(plans(2, ["a", "a", "a", "a"]), [false; 4]);
    assert_eq!(plans(3, ["a", "a", "b", "c"]), [false, false, false, true]);
}

#[test]
fn whoever_seemed_to_be_first_and_splits_the_votes_asks_one_node_first_again() {
    let mut retry = after_letting_go(1);
    for now in [0, 1] {
        lose(&mut retry, &[9000; 5].map(|remaining| held("a", remaining)), now);
        woken_plan(&mut retry, now);
    }
    let split = [held("b", 9000), held("b", 9000), held("c", 9000), Sighting::Free, Sighting::Free];
    lose(&mut retry, &split, 10);
    assert!(matches!(retry.next_wake().plan, Plan::ArbiterFirst(_)), "{:?}", retry.next_wake());
}

/// A new subscription counts as a notice, so everybody looks once more before waiting: also who is alone.
#[test]
fn the_look_after_subscribing_finds_the_same_holder_and_is_no_passing_over() {
    let mut retry = retry();
    for now in [0, 1] {
        woken_plan(&mut retry, now);
        lose(&mut retry, &[9000; 5].map(|remaining| held("a", remaining)), now);
    }
    woken_plan(&mut retry, 10);
    assert_eq!(retry.next_wake().at, at(10));
}

#[test]
fn a_poll_is_a_passing_over_only_if_it_finds_another_holder_than_before() {
    let mut retry = retry();
    for (holder, now, later) in
        [("a", 0, Duration::ZERO), ("a", 500, Duration::ZERO), ("b", 1500, ROUND_TRIP * 21 / 32)]
    {
        lose(&mut retry, &[9000; 5].map(|remaining| held(holder, remaining)), now);
        woken_plan(&mut retry, now + 100);
        assert_eq!(retry.next_wake().at, at(now + 100) + later, "{holder} at {now} ms");
    }
}

/// The vote of a client that died stays for its ttl at one node, which is then passed over as an arbiter.
#[test]
fn what_a_dead_client_keeps_at_one_node_is_no_holder_to_be_passed_over_by() {
    let mut retry = retry();
    let mut seen = [9000; 5].map(|remaining| held("a", remaining));
    lose(&mut retry, &seen, 0);
    let arbiter = retry.order[0];
    seen[arbiter] = held("dead", 9000);
    lose(&mut retry, &seen, 500);
    woken_plan(&mut retry, 600);
    assert_eq!(retry.next_wake().at, at(600));
}

#[test]
fn waiters_that_hear_no_notices_sleep_for_a_jitter_and_ask_all_at_once() {
    let mut retry = Retry::new(
        Electorate::new(5, 3),
        Pacing { strategy: WaitingStrategy::Jittered, ..PACING },
        vec![4, 2, 0, 1, 3],
        at(0),
        None,
    );
    lose(&mut retry, &[9000; 5].map(|remaining| held("a", remaining)), 10);
    assert_eq!(retry.next_wake(), Wake { at: at(110), plan: Plan::Parallel });
    lose(&mut retry, &vec![Sighting::Unknown; 5], 600);
    assert_eq!(retry.next_wake(), Wake { at: at(700), plan: Plan::Parallel });
}

#[test]
fn fallback_polls_are_parallel_and_grow_to_the_longest() {
    let mut retry = retry();
    let seen = [60_000; 5].map(|remaining| held("a", remaining));
    let mut now = 0;
    let mut gaps = Vec::new();
    lose(&mut retry, &seen, now);
    for _ in 0..6 {
        let wake = retry.next_wake();
        assert_eq!(wake.plan, Plan::Parallel);
        let next = u64::try_from(wake.at.since_origin().as_millis()).unwrap();
        gaps.push(next - now);
        now = next;
        lose(&mut retry, &seen, now);
    }
    assert_eq!(gaps, [500, 1000, 2000, 4000, 5000, 5000]);
}

#[test]
fn failures_are_tried_again_no_sooner_than_the_floor_and_ever_later() {
    let mut retry = retry();
    let mut delays = Vec::new();
    for _ in 0..9 {
        retry.attempt_begins(&Plan::Parallel, at(0));
        retry.attempt_lost(Loss::NoQuorum, &vec![Sighting::Unknown; 5], ROUND_TRIP, at(0), 0.0);
        delays.push(retry.next_wake().at.since_origin().as_millis());
    }
    assert_eq!(delays, [5, 5, 10, 20, 40, 80, 160, 250, 250], "half of each, at the least jitter");
}

#[test]
fn a_holder_about_to_expire_does_not_make_a_busy_loop() {
    let mut retry = retry();
    lose(&mut retry, &[0; 5].map(|remaining| held("a", remaining)), 0);
    assert_eq!(retry.next_wake().at, at(5));
}

#[test]
fn a_failure_is_tried_again_after_a_delay_that_grows_with_a_jitter_of_a_half_and_keeps_the_floor() {
    for (jitter, delays) in
        [(0.0, [5_000, 5_000, 10_000]), (0.5, [5_000, 10_000, 20_000]), (1.0, [7_500, 15_000, 30_000])]
    {
        let mut retry = retry();
        for delay in delays {
            retry.attempt_begins(&Plan::Parallel, at(0));
            retry.attempt_lost(Loss::NoQuorum, &[const { Sighting::Unknown }; 5], ROUND_TRIP, at(0), jitter);
            assert_eq!(retry.next_wake().at.saturating_duration_since(at(0)), Duration::from_micros(delay));
        }
    }
}
