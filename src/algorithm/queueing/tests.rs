//! Waiting in the queue, told as stories.

use super::*;
use crate::{
    algorithm::{
        attempt::FailureReason,
        failed_attempt::{Deferral, FailedAttempt},
    },
    values::{NodeError, NodeReplies, Refusal},
};

const PACING: Pacing = Pacing {
    first_poll: Duration::from_millis(500),
    longest_poll: Duration::from_secs(5),
    floor: Duration::from_millis(5),
    ceiling: Duration::from_millis(500),
};
const ENTRY_TTL: Duration = Duration::from_secs(10);
const HAND_OVER: Duration = Duration::from_millis(100);
const ROUND_TRIP: Duration = Duration::from_millis(1);
const ORDER: [usize; 5] = [4, 2, 0, 1, 3];

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn queueing() -> Queueing {
    Queueing::new(Electorate::new(5, 3), PACING, ENTRY_TTL, HAND_OVER, ORDER.to_vec(), at(0))
}

fn owner(name: &str) -> LeaseId {
    LeaseId::from_wire(name.as_bytes())
}

/// One word a node: a name, `-` for ours and given back, `?` silent.
fn seen(nodes: &str) -> Vec<NodeReply> {
    let vote_of = |word: &str| match word {
        "-" => NodeReply::Done,
        "?" => NodeReply::Failed(NodeError::TimedOut),
        name => NodeReply::Refused(Refusal::Held {
            by: Some(owner(name)),
            remaining: Some(Duration::from_secs(30)),
        }),
    };
    nodes.split(' ').map(vote_of).collect()
}

/// Of the first in the queue, unless it says otherwise.
fn deferral(node: usize, holder: Option<&str>, patience: u64) -> Deferral {
    let patience = Duration::from_millis(patience);
    let holder = holder.map(|holder| (Some(owner(holder)), patience));
    Deferral { node, is_queued: true, rank: 0, patience, holder }
}

fn failed(reason: FailureReason, votes: &[NodeReply], deferral: Option<&Deferral>) -> FailedAttempt {
    let nodes = votes.iter().map(|_| "node".into()).collect();
    let replies = NodeReplies::new(nodes, votes.to_vec(), votes.len() / 2 + 1);
    FailedAttempt { reason, replies, hint: 0, took: ROUND_TRIP, deferral: deferral.cloned(), refused: None }
}

fn lose(
    queueing: &mut Queueing,
    reason: FailureReason,
    votes: &[NodeReply],
    deferral: Option<&Deferral>,
    now: u64,
) {
    queueing.attempt_begins(at(now));
    queueing.attempt_failed(&failed(reason, votes, deferral), at(now), 0.5);
}

fn put_off(queueing: &mut Queueing, deferral: &Deferral, now: u64) {
    lose(queueing, FailureReason::Contended, &seen("? ? ? ? ?"), Some(deferral), now);
}

fn queued(order: &[usize]) -> Plan {
    Plan::QueueNodeFirst(order.to_vec())
}

#[test]
fn a_queued_waiter_polls_until_it_is_woken_and_then_asks_all_at_once() {
    let mut queueing = queueing();
    put_off(&mut queueing, &deferral(4, Some("other"), 30_000), 0);
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(500), plan: queued(&ORDER) });
    queueing.woken(4, at(100));
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(0), plan: Plan::Woken(4) });
}

/// Each attempt took 10 s, as with a process that stood still in it.
#[test]
fn a_waiter_pauses_after_split_votes_for_no_longer_than_a_poll() {
    let mut queueing = queueing();
    let split = FailedAttempt {
        took: Duration::from_secs(10),
        ..failed(FailureReason::Contended, &seen("one one other other -"), None)
    };
    for second in 0..10 {
        let now = at(second * 100_000);
        queueing.attempt_begins(now);
        queueing.attempt_failed(&split, now, 0.5);
        let pause = queueing.next_attempt().at.saturating_duration_since(now);
        assert!(pause <= PACING.longest_poll, "{pause:?} after {} attempts", second + 1);
    }
}

#[test]
fn a_wake_of_a_node_in_whose_queue_it_is_not_is_a_reason_to_look() {
    let mut queueing = queueing();
    put_off(&mut queueing, &deferral(4, Some("other"), 30_000), 0);
    queueing.woken(2, at(100));
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(100), plan: queued(&ORDER) });
    let mut newcomer = Deferral { is_queued: false, ..deferral(4, Some("other"), 30_000) };
    put_off(&mut queueing, &newcomer, 100);
    newcomer.is_queued = true;
    queueing.woken(4, at(200));
    assert_eq!(queueing.next_attempt().plan, queued(&ORDER));
}

#[test]
fn the_first_comes_back_when_the_holder_ends_but_never_in_a_busy_loop() {
    let mut queueing = queueing();
    put_off(&mut queueing, &deferral(4, Some("other"), 200), 0);
    assert_eq!(queueing.next_attempt().at, at(200));
    put_off(&mut queueing, &deferral(4, Some("other"), 0), 200);
    assert_eq!(queueing.next_attempt().at, at(205));
}

#[test]
fn polls_grow_to_the_longest_and_keep_the_entry() {
    let mut queueing = queueing();
    let mut now = 0;
    for jitter in [0.0, 0.3, 0.6, 0.99, 0.99, 0.99, 0.99, 0.99] {
        queueing.attempt_begins(at(now));
        let deferral = deferral(4, Some("other"), 60_000);
        let failed = failed(FailureReason::Contended, &seen("? ? ? ? ?"), Some(&deferral));
        queueing.attempt_failed(&failed, at(now), jitter);
        let next = queueing.next_attempt().at.saturating_duration_since(at(now));
        assert!(next >= Duration::from_millis(250) && next < ENTRY_TTL, "{next:?}");
        now += u64::try_from(next.as_millis()).unwrap();
    }
    assert!(now > 25_000, "{now}");
}

#[test]
fn an_entry_is_kept_for_two_polls_and_for_no_longer_than_a_lock() {
    let longest = Duration::from_secs(60);
    assert_eq!(Queueing::entry_ttl(PACING, longest), ENTRY_TTL);
    let rare = Pacing { longest_poll: Duration::from_secs(300), ..PACING };
    assert_eq!(Queueing::entry_ttl(rare, longest), longest);
}

#[test]
fn a_lost_connection_to_the_queue_node_is_a_reason_to_look_and_one_to_another_node_is_none() {
    let mut queueing = queueing();
    put_off(&mut queueing, &deferral(4, Some("other"), 30_000), 0);
    queueing.interrupted(2, at(10));
    assert_eq!(queueing.next_attempt().at, at(500));
    queueing.interrupted(4, at(20));
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(20), plan: queued(&ORDER) });
    queueing.woken(4, at(20));
    assert_eq!(queueing.next_attempt().plan, queued(&ORDER), "nothing is known of a queue there");
}

#[test]
fn votes_lost_at_the_other_nodes_are_tried_again_at_once_and_then_after_growing_delays() {
    let mut queueing = queueing();
    let mut at_once = seen("other other - - -");
    at_once[2] = NodeReply::Failed(NodeError::TimedOut);
    let mut last = Duration::ZERO;
    for round in 0..6 {
        lose(&mut queueing, FailureReason::Contended, &at_once, None, 0);
        let delay = queueing.next_attempt().at.saturating_duration_since(at(0));
        assert!(if round == 0 { delay.is_zero() } else { delay > last }, "{round}: {delay:?}");
        last = delay;
    }
}

#[test]
fn failures_keep_the_floor() {
    let mut queueing = queueing();
    for least in [5, 10, 20, 40] {
        lose(&mut queueing, FailureReason::NoQuorum, &seen("? ? ? ? ?"), None, 0);
        queueing.look(1, at(0));
        assert!(queueing.next_attempt().at >= at(least));
    }
}

#[test]
fn a_waiter_that_polls_looks_once_for_an_owner_that_is_named_again_and_again() {
    let mut queueing = queueing();
    let deferral = deferral(4, Some("other"), 30_000);
    put_off(&mut queueing, &deferral, 0);
    queueing.look(4, at(100));
    put_off(&mut queueing, &deferral, 100);
    assert!(!queueing.wants_look(), "that was for news");
    put_off(&mut queueing, &deferral, 1000);
    assert!(queueing.wants_look());
    queueing.looked(&seen("other ? other ? other"), &[], ROUND_TRIP, at(1000));
    put_off(&mut queueing, &deferral, 5000);
    assert!(!queueing.wants_look(), "it is confirmed");
    let next = self::deferral(4, Some("next"), 30_000);
    put_off(&mut queueing, &next, 15_000);
    assert!(!queueing.wants_look(), "the lock moves");
    put_off(&mut queueing, &next, 25_000);
    assert!(queueing.wants_look());
}

#[test]
fn a_node_that_keeps_what_can_be_nobodys_is_passed_over_after_two_looks() {
    let mut queueing = queueing();
    let deferral = deferral(4, Some("gone"), 30_000);
    put_off(&mut queueing, &deferral, 0);
    put_off(&mut queueing, &deferral, 500);
    queueing.looked(&seen("- - - - gone"), &[], ROUND_TRIP, at(500));
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(505), plan: queued(&ORDER) });
    put_off(&mut queueing, &deferral, 505);
    assert!(queueing.wants_look(), "although it was not a poll");
    queueing.looked(&seen("- - - - gone"), &[], ROUND_TRIP, at(505));
    assert_eq!(queueing.next_attempt().plan, queued(&[2, 0, 1, 3]));
    queueing.look(4, at(600));
    assert_eq!(queueing.next_attempt().plan, queued(&ORDER), "something happened there");
}

#[test]
fn a_holder_that_was_met_while_it_locked_is_believed() {
    let mut queueing = queueing();
    let deferral = deferral(4, Some("holder"), 30_000);
    put_off(&mut queueing, &deferral, 0);
    put_off(&mut queueing, &deferral, 500);
    queueing.looked(&seen("- - - - holder"), &[], ROUND_TRIP, at(500));
    put_off(&mut queueing, &deferral, 505);
    queueing.looked(&seen("holder holder ? holder holder"), &[], ROUND_TRIP, at(505));
    assert_eq!(queueing.next_attempt().plan, queued(&ORDER));
    assert!(!queueing.wants_look());
}

#[test]
fn a_waiter_that_has_its_turn_at_a_node_that_knows_nothing_of_a_lease_only_waits_there_for_a_while() {
    let mut queueing = queueing();
    lose(&mut queueing, FailureReason::Contended, &seen("holder holder holder ? -"), None, 0);
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(0), plan: queued(&ORDER) });
    queueing.attempt_begins(at(0));
    assert!(queueing.only_queues(), "to be granted again would help nobody");
    let waits = Deferral { holder: None, ..deferral(4, None, 10_000) };
    let failed = failed(FailureReason::Contended, &seen("? ? ? ? ?"), Some(&waits));
    queueing.attempt_failed(&failed, at(1), 0.5);
    assert!(
        queueing.next_attempt().at <= at(10),
        "its unlock may have been on its way: {:?}",
        queueing.next_attempt()
    );
    queueing.attempt_begins(at(10));
    assert!(!queueing.only_queues());
}

#[test]
fn a_call_ends_what_was_known_of_another_lease() {
    let mut queueing = queueing();
    lose(&mut queueing, FailureReason::Contended, &seen("holder holder holder ? -"), None, 0);
    put_off(&mut queueing, &Deferral { holder: None, ..deferral(4, None, 10_000) }, 1);
    queueing.woken(4, at(2));
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(1), plan: Plan::Woken(4) });
    queueing.attempt_begins(at(2));
    assert!(!queueing.only_queues());
}

#[test]
fn a_waiter_that_is_woken_again_and_again_in_vain_follows_less_and_less_often() {
    let mut queueing = queueing();
    let (mut now, mut last) = (0, 0);
    for _ in 0..5 {
        lose(&mut queueing, FailureReason::Contended, &seen("holder holder holder ? -"), None, now);
        put_off(&mut queueing, &Deferral { holder: None, ..deferral(4, None, 10_000) }, now);
        queueing.woken(4, at(now));
        let pause = queueing.next_attempt().at.saturating_duration_since(at(now)).as_millis();
        assert!(pause > last, "{pause}");
        (now, last) = (now + u64::try_from(pause).unwrap(), pause);
    }
}

#[test]
fn a_release_calls_the_first_and_the_second_comes_if_nothing_follows() {
    for (rank, plan, after) in [(0, Plan::Woken(4), 0), (1, queued(&ORDER), 200)] {
        let mut queueing = queueing();
        put_off(&mut queueing, &Deferral { rank, ..deferral(4, Some("other"), 30_000) }, 0);
        assert!(queueing.listens());
        queueing.released(4, at(100));
        assert_eq!(queueing.next_attempt(), NextAttempt { at: at(after), plan }, "{rank}");
    }
    let mut second = queueing();
    put_off(&mut second, &Deferral { rank: 1, ..deferral(4, Some("other"), 30_000) }, 0);
    second.released(4, at(100));
    second.released(4, at(150));
    assert_eq!(second.next_attempt().at, at(250), "the first had it, and has unlocked");
}

#[test]
fn a_release_at_another_node_is_a_reason_to_look_if_no_call_follows() {
    let mut queueing = queueing();
    put_off(&mut queueing, &deferral(4, Some("other"), 30_000), 0);
    queueing.released(2, at(100));
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(200), plan: queued(&ORDER) });
    queueing.woken(4, at(110));
    assert_eq!(queueing.next_attempt().plan, Plan::Woken(4));
}

#[test]
fn only_the_first_two_come_when_the_holder_ends_and_the_second_a_little_later() {
    for (rank, comes) in [(0, 300), (1, 400), (2, 500)] {
        let mut queueing = queueing();
        let holder = Some((Some(owner("other")), Duration::from_millis(300)));
        put_off(&mut queueing, &Deferral { rank, holder, ..deferral(4, None, 10_000) }, 0);
        assert_eq!(queueing.next_attempt().at, at(comes), "{rank}");
        assert_eq!(queueing.listens(), rank < 2);
    }
}

#[test]
fn the_next_waiter_is_told_so_by_the_node_in_whose_queue_it_is() {
    let mut queueing = queueing();
    put_off(&mut queueing, &Deferral { rank: 7, ..deferral(4, Some("other"), 30_000) }, 0);
    queueing.comes_next(2);
    assert!(!queueing.listens());
    queueing.comes_next(4);
    assert!(queueing.listens());
    queueing.acquired(at(1));
    assert!(!queueing.listens());
    assert_eq!(queueing.next_attempt(), NextAttempt { at: at(1), plan: queued(&ORDER) });
}
