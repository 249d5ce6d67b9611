//! The waiter schedule. Each test is one history of events.

use super::*;
use crate::values::{NodeError, NodeReplies, Refusal};

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

fn schedule() -> WaiterSchedule {
    let config = WaiterConfig {
        electorate: Electorate::new(5, 3),
        pacing: PACING,
        entry_ttl: ENTRY_TTL,
        hand_over: HAND_OVER,
        order: ORDER.to_vec(),
    };
    WaiterSchedule::new(config, at(0))
}

fn lease_id(name: &str) -> LeaseId {
    LeaseId::from_wire(name.as_bytes())
}

/// Parses replies, one word per node: the name of another lease, `-` for a grant, `?` for no answer.
fn votes(nodes: &str) -> Vec<NodeReply> {
    let vote_of = |word: &str| match word {
        "-" => NodeReply::Done,
        "?" => NodeReply::Failed(NodeError::TimedOut),
        name => NodeReply::Refused(Refusal::Held {
            by: Some(lease_id(name)),
            remaining: Some(Duration::from_secs(30)),
        }),
    };
    nodes.split(' ').map(vote_of).collect()
}

/// Returns a deferral of the first waiter in the queue by this node, for `patience` milliseconds.
fn deferral(node: usize, holder: Option<&str>, patience: u64) -> Deferral {
    let patience = Duration::from_millis(patience);
    let holder = holder.map(|holder| (Some(lease_id(holder)), patience));
    Deferral { node, is_queued: true, rank: 0, patience, holder }
}

fn failed(reason: FailureReason, votes: &[NodeReply], deferral: Option<&Deferral>) -> FailedAttempt {
    let nodes = votes.iter().map(|_| "node".into()).collect();
    let replies = NodeReplies::new(nodes, votes.to_vec(), votes.len() / 2 + 1);
    FailedAttempt { reason, replies, hint: 0, took: ROUND_TRIP, deferral: deferral.cloned(), refused: None }
}

/// Records an attempt that begins and fails at `now`.
fn fail_attempt(
    schedule: &mut WaiterSchedule,
    reason: FailureReason,
    votes: &[NodeReply],
    deferral: Option<&Deferral>,
    now: u64,
) {
    schedule.attempt_begins(at(now));
    schedule.attempt_failed(&failed(reason, votes, deferral), at(now), 0.5);
}

/// Records an attempt that begins and is deferred at `now`.
fn defer(schedule: &mut WaiterSchedule, deferral: &Deferral, now: u64) {
    fail_attempt(schedule, FailureReason::Contended, &votes("? ? ? ? ?"), Some(deferral), now);
}

fn queued(order: &[usize]) -> Plan {
    Plan::QueueNodeFirst(order.to_vec())
}

#[test]
fn a_wake_leads_to_an_attempt_at_all_nodes_at_once() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(500), plan: queued(&ORDER) });
    schedule.woken(4, at(100));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(0), plan: Plan::Woken(4) });
}

/// Each attempt takes 10 s, as if the process was suspended meanwhile.
#[test]
fn the_delay_after_split_votes_is_at_most_a_poll() {
    let mut schedule = schedule();
    let split = FailedAttempt {
        took: Duration::from_secs(10),
        ..failed(FailureReason::Contended, &votes("one one other other -"), None)
    };
    for second in 0..10 {
        let now = at(second * 100_000);
        schedule.attempt_begins(now);
        schedule.attempt_failed(&split, now, 0.5);
        let pause = schedule.next_attempt().at.saturating_duration_since(now);
        assert!(pause <= PACING.longest_poll, "{pause:?} after {} attempts", second + 1);
    }
}

#[test]
fn a_wake_from_another_node_leads_to_a_queued_attempt() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
    schedule.woken(2, at(100));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(100), plan: queued(&ORDER) });
    let mut newcomer = Deferral { is_queued: false, ..deferral(4, Some("other"), 30_000) };
    defer(&mut schedule, &newcomer, 100);
    newcomer.is_queued = true;
    schedule.woken(4, at(200));
    assert_eq!(schedule.next_attempt().plan, queued(&ORDER));
}

#[test]
fn the_first_waiter_retries_at_the_end_of_the_holder_s_ttl_and_keeps_the_floor() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 200), 0);
    assert_eq!(schedule.next_attempt().at, at(200));
    defer(&mut schedule, &deferral(4, Some("other"), 0), 200);
    assert_eq!(schedule.next_attempt().at, at(205));
}

#[test]
fn poll_intervals_grow_and_stay_below_the_entry_ttl() {
    let mut schedule = schedule();
    let mut now = 0;
    for jitter in [0.0, 0.3, 0.6, 0.99, 0.99, 0.99, 0.99, 0.99] {
        schedule.attempt_begins(at(now));
        let deferral = deferral(4, Some("other"), 60_000);
        let failed = failed(FailureReason::Contended, &votes("? ? ? ? ?"), Some(&deferral));
        schedule.attempt_failed(&failed, at(now), jitter);
        let next = schedule.next_attempt().at.saturating_duration_since(at(now));
        assert!(next >= Duration::from_millis(250) && next < ENTRY_TTL, "{next:?}");
        now += u64::try_from(next.as_millis()).unwrap();
    }
    assert!(now > 25_000, "{now}");
}

#[test]
fn the_entry_ttl_is_two_polls_and_at_most_the_longest_ttl() {
    let longest = Duration::from_secs(60);
    assert_eq!(PACING.entry_ttl(longest), ENTRY_TTL);
    let rare = Pacing { longest_poll: Duration::from_secs(300), ..PACING };
    assert_eq!(rare.entry_ttl(longest), longest);
}

#[test]
fn a_lost_connection_to_the_queue_node_leads_to_an_attempt_and_to_another_node_does_not() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
    schedule.interrupted(2, at(10));
    assert_eq!(schedule.next_attempt().at, at(500));
    schedule.interrupted(4, at(20));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(20), plan: queued(&ORDER) });
    schedule.woken(4, at(20));
    assert_eq!(schedule.next_attempt().plan, queued(&ORDER), "the entry may be gone");
}

#[test]
fn split_votes_are_retried_at_once_and_then_after_growing_delays() {
    let mut schedule = schedule();
    let mut at_once = votes("other other - - -");
    at_once[2] = NodeReply::Failed(NodeError::TimedOut);
    let mut last = Duration::ZERO;
    for round in 0..6 {
        fail_attempt(&mut schedule, FailureReason::Contended, &at_once, None, 0);
        let delay = schedule.next_attempt().at.saturating_duration_since(at(0));
        assert!(if round == 0 { delay.is_zero() } else { delay > last }, "{round}: {delay:?}");
        last = delay;
    }
}

#[test]
fn failures_keep_the_floor() {
    let mut schedule = schedule();
    for least in [5, 10, 20, 40] {
        fail_attempt(&mut schedule, FailureReason::NoQuorum, &votes("? ? ? ? ?"), None, 0);
        schedule.may_have_missed(1, at(0));
        assert!(schedule.next_attempt().at >= at(least));
    }
}

#[test]
fn a_poll_that_is_refused_for_the_same_lease_wants_one_holder_check() {
    let mut schedule = schedule();
    let deferral = deferral(4, Some("other"), 30_000);
    defer(&mut schedule, &deferral, 0);
    schedule.may_have_missed(4, at(100));
    defer(&mut schedule, &deferral, 100);
    assert!(!schedule.wants_holder_check(), "the attempt was requested");
    defer(&mut schedule, &deferral, 1000);
    assert!(schedule.wants_holder_check());
    schedule.holder_checked(&votes("other ? other ? other"), &[], ROUND_TRIP, at(1000));
    defer(&mut schedule, &deferral, 5000);
    assert!(!schedule.wants_holder_check(), "a quorum named the lease");
    let next = self::deferral(4, Some("next"), 30_000);
    defer(&mut schedule, &next, 15_000);
    assert!(!schedule.wants_holder_check(), "the holder changed");
    defer(&mut schedule, &next, 25_000);
    assert!(schedule.wants_holder_check());
}

#[test]
fn a_node_with_an_orphaned_key_is_skipped_after_two_holder_checks() {
    let mut schedule = schedule();
    let deferral = deferral(4, Some("gone"), 30_000);
    defer(&mut schedule, &deferral, 0);
    defer(&mut schedule, &deferral, 500);
    schedule.holder_checked(&votes("- - - - gone"), &[], ROUND_TRIP, at(500));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(505), plan: queued(&ORDER) });
    defer(&mut schedule, &deferral, 505);
    assert!(schedule.wants_holder_check(), "the first check was inconclusive");
    schedule.holder_checked(&votes("- - - - gone"), &[], ROUND_TRIP, at(505));
    assert_eq!(schedule.next_attempt().plan, queued(&[2, 0, 1, 3]));
    schedule.may_have_missed(4, at(600));
    assert_eq!(schedule.next_attempt().plan, queued(&ORDER), "the key may be new");
}

#[test]
fn a_holder_that_was_checked_during_its_attempt_is_confirmed_by_the_next_check() {
    let mut schedule = schedule();
    let deferral = deferral(4, Some("holder"), 30_000);
    defer(&mut schedule, &deferral, 0);
    defer(&mut schedule, &deferral, 500);
    schedule.holder_checked(&votes("- - - - holder"), &[], ROUND_TRIP, at(500));
    defer(&mut schedule, &deferral, 505);
    schedule.holder_checked(&votes("holder holder ? holder holder"), &[], ROUND_TRIP, at(505));
    assert_eq!(schedule.next_attempt().plan, queued(&ORDER));
    assert!(!schedule.wants_holder_check());
}

#[test]
fn a_futile_grant_of_the_queue_node_causes_a_pause_that_only_enqueues() {
    let mut schedule = schedule();
    fail_attempt(&mut schedule, FailureReason::Contended, &votes("holder holder holder ? -"), None, 0);
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(0), plan: queued(&ORDER) });
    schedule.attempt_begins(at(0));
    assert!(schedule.enqueues_only(), "the pause after a futile grant has not begun");
    let deferral_without_holder = Deferral { holder: None, ..deferral(4, None, 10_000) };
    let failed = failed(FailureReason::Contended, &votes("? ? ? ? ?"), Some(&deferral_without_holder));
    schedule.attempt_failed(&failed, at(1), 0.5);
    assert!(
        schedule.next_attempt().at <= at(10),
        "the unlock of the other lease may be on its way: {:?}",
        schedule.next_attempt()
    );
    schedule.attempt_begins(at(10));
    assert!(!schedule.enqueues_only());
}

#[test]
fn a_wake_ends_the_pause_after_a_futile_grant() {
    let mut schedule = schedule();
    fail_attempt(&mut schedule, FailureReason::Contended, &votes("holder holder holder ? -"), None, 0);
    defer(&mut schedule, &Deferral { holder: None, ..deferral(4, None, 10_000) }, 1);
    schedule.woken(4, at(2));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(1), plan: Plan::Woken(4) });
    schedule.attempt_begins(at(2));
    assert!(!schedule.enqueues_only());
}

#[test]
fn pauses_after_repeated_futile_grants_grow() {
    let mut schedule = schedule();
    let (mut now, mut last) = (0, 0);
    for _ in 0..5 {
        fail_attempt(&mut schedule, FailureReason::Contended, &votes("holder holder holder ? -"), None, now);
        defer(&mut schedule, &Deferral { holder: None, ..deferral(4, None, 10_000) }, now);
        schedule.woken(4, at(now));
        let pause = schedule.next_attempt().at.saturating_duration_since(at(now)).as_millis();
        assert!(pause > last, "{pause}");
        (now, last) = (now + u64::try_from(pause).unwrap(), pause);
    }
}

#[test]
fn a_release_wakes_the_first_waiter_and_the_second_a_hand_over_later() {
    for (rank, plan, after) in [(0, Plan::Woken(4), 0), (1, queued(&ORDER), 200)] {
        let mut schedule = schedule();
        defer(&mut schedule, &Deferral { rank, ..deferral(4, Some("other"), 30_000) }, 0);
        assert!(schedule.listens_for_releases());
        schedule.released(4, at(100));
        assert_eq!(schedule.next_attempt(), NextAttempt { at: at(after), plan }, "{rank}");
    }
    let mut second = schedule();
    defer(&mut second, &Deferral { rank: 1, ..deferral(4, Some("other"), 30_000) }, 0);
    second.released(4, at(100));
    second.released(4, at(150));
    assert_eq!(second.next_attempt().at, at(250), "the second release restarts the hand-over");
}

#[test]
fn a_release_at_another_node_leads_to_an_attempt_if_no_wake_follows() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
    schedule.released(2, at(100));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(200), plan: queued(&ORDER) });
    schedule.woken(4, at(110));
    assert_eq!(schedule.next_attempt().plan, Plan::Woken(4));
}

#[test]
fn the_first_two_waiters_retry_after_the_holder_s_ttl_a_hand_over_apart() {
    for (rank, expected) in [(0, 300), (1, 400), (2, 500)] {
        let mut schedule = schedule();
        let holder = Some((Some(lease_id("other")), Duration::from_millis(300)));
        defer(&mut schedule, &Deferral { rank, holder, ..deferral(4, None, 10_000) }, 0);
        assert_eq!(schedule.next_attempt().at, at(expected), "{rank}");
        assert_eq!(schedule.listens_for_releases(), rank < 2);
    }
}

#[test]
fn a_waiter_with_a_head_notice_listens_for_releases() {
    let mut schedule = schedule();
    defer(&mut schedule, &Deferral { rank: 7, ..deferral(4, Some("other"), 30_000) }, 0);
    schedule.reached_head(2);
    assert!(!schedule.listens_for_releases());
    schedule.reached_head(4);
    assert!(schedule.listens_for_releases());
    schedule.acquired(at(1));
    assert!(!schedule.listens_for_releases());
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(1), plan: queued(&ORDER) });
}
