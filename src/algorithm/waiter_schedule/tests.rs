//! Tests of the waiter schedule. Each test is one history of events.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    mutation::break_rule,
    values::{NodeError, NodeReplies, Refusal},
};

const PACING: Pacing = Pacing {
    first_poll: Duration::from_millis(500),
    longest_poll: Duration::from_secs(5),
    floor: Duration::from_millis(5),
    ceiling: Duration::from_millis(500),
};
const ENTRY_TTL: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(30);
const NODE_TIMEOUT: Duration = Duration::from_millis(800);
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
        ttl: TTL,
        node_timeout: NODE_TIMEOUT,
        order: ORDER.to_vec(),
    };
    WaiterSchedule::new(config, at(0))
}

fn lease_id(name: &str) -> LeaseId {
    LeaseId::from_wire(name.as_bytes())
}

/// Parses the replies of the nodes, one word for each node: the name of another lease, `-` for a grant, `?` for no
/// answer in time, `.` for an answer that is still expected, `!` for a broken connection, `x` for an unresponsive node.
fn votes(nodes: &str) -> Vec<NodeReply> {
    let vote_of = |word: &str| match word {
        "-" => NodeReply::Done,
        "?" => NodeReply::Failed(NodeError::TimedOut),
        "." => NodeReply::Pending,
        "x" => NodeReply::Failed(NodeError::Unresponsive),
        "!" => NodeReply::Failed(NodeError::Disconnected),
        name => NodeReply::Refused(Refusal::Held {
            by: Some(lease_id(name)),
            remaining: Some(Duration::from_secs(30)),
        }),
    };
    nodes.split(' ').map(vote_of).collect()
}

/// Returns the deferral of the first waiter by this node. `patience`, in milliseconds, is also the remaining ttl of the
/// holder.
fn deferral(node: usize, holder: Option<&str>, patience: u64) -> Deferral {
    let patience = Duration::from_millis(patience);
    let holder = holder.map(|holder| (Some(lease_id(holder)), patience));
    Deferral { node, is_queued: true, rank: 0, patience, holder }
}

fn failed(reason: FailureReason, votes: &[NodeReply], deferral: Option<&Deferral>) -> FailedAttempt {
    let nodes = votes.iter().map(|_| "node".into()).collect();
    let replies = NodeReplies::new(nodes, votes.to_vec(), votes.len() / 2 + 1);
    let (took, deferral) = (ROUND_TRIP, deferral.cloned());
    FailedAttempt {
        reason,
        replies,
        hint: 0,
        took,
        has_stood_still: false,
        is_overloaded: false,
        deferral,
        refused: None,
    }
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

fn queue_node_first(order: &[usize]) -> Plan {
    Plan::QueueNodeFirst(order.to_vec())
}

#[test]
fn a_wake_leads_to_an_attempt_at_all_nodes_at_once() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(500), plan: queue_node_first(&ORDER) });
    schedule.woken(4, at(100));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(0), plan: Plan::Woken(4) });
}

/// Each attempt takes 10 s, as if the process was suspended during the attempt.
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

/// Any attempt may take an hour, as if the process was suspended during the attempt, and any event may follow.
#[test]
fn no_history_delays_the_next_attempt_beyond_the_longest_poll() {
    const HOUR: Duration = Duration::from_secs(3600);
    let longest = PACING.longest_poll.mul_f64(1.5);
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut schedule, mut now) = (schedule(), at(0));
        for step in 0..40 {
            let node = random.random_range(0..5);
            match random.random_range(0..9) {
                0 => schedule.woken(node, now),
                1 => schedule.released(node, now),
                2 => schedule.reached_head(node),
                3 => schedule.may_have_missed(node, now),
                4 => schedule.interrupted(node, now),
                5 => schedule.holder_checked(&votes("one - - two ?"), &[], HOUR, now),
                _ => {
                    schedule.attempt_begins(now);
                    let took = HOUR.mul_f64(random.random_range(0.0..1.0));
                    let reason = [FailureReason::Contended, FailureReason::NoQuorum, FailureReason::Expired]
                        [random.random_range(0..3)];
                    let replies = ["one one other other -", "one one one ? -", "? ? ? ? -"];
                    let votes = votes(replies[random.random_range(0..3)]);
                    let rank = random.random_range(0..20);
                    let deferral = Deferral { rank, ..deferral(node, Some("one"), 3_600_000) };
                    let deferral = random.random_bool(0.4).then_some(deferral);
                    let failed = FailedAttempt { took, ..failed(reason, &votes, deferral.as_ref()) };
                    now = now + took;
                    schedule.attempt_failed(&failed, now, random.random_range(0.0..1.0));
                }
            }
            let delay = schedule.next_attempt().at.saturating_duration_since(now);
            assert!(delay <= longest, "seed {seed}, step {step}: {delay:?}");
            now = now + Duration::from_millis(random.random_range(0..500));
        }
    }
}

#[test]
fn a_wake_by_a_node_without_a_queue_entry_does_not_count_as_the_turn() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
    schedule.woken(2, at(100));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(100), plan: queue_node_first(&ORDER) });
    let without_entry = Deferral { is_queued: false, ..deferral(4, Some("other"), 30_000) };
    defer(&mut schedule, &without_entry, 100);
    schedule.woken(4, at(200));
    assert_eq!(schedule.next_attempt().plan, queue_node_first(&ORDER));
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
fn only_the_loss_of_the_connection_to_the_queue_node_leads_to_an_attempt() {
    let mut schedule = schedule();
    defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
    schedule.interrupted(2, at(10));
    assert_eq!(schedule.next_attempt().at, at(500));
    schedule.interrupted(4, at(20));
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(20), plan: queue_node_first(&ORDER) });
    schedule.woken(4, at(20));
    assert_eq!(schedule.next_attempt().plan, queue_node_first(&ORDER), "the entry may be gone");
}

#[test]
fn split_votes_are_retried_at_once_and_then_after_growing_delays() {
    let mut schedule = schedule();
    let split = votes("other other ? - -");
    let mut last = Duration::ZERO;
    for round in 0..6 {
        fail_attempt(&mut schedule, FailureReason::Contended, &split, None, 0);
        let delay = schedule.next_attempt().at.saturating_duration_since(at(0));
        assert!(if round == 0 { delay.is_zero() } else { delay > last }, "{round}: {delay:?}");
        last = delay;
    }
}

#[test]
fn a_missed_notice_does_not_shorten_the_delays_without_a_quorum() {
    let mut schedule = schedule();
    for least in [5, 10, 20, 40] {
        fail_attempt(&mut schedule, FailureReason::NoQuorum, &votes("? ? ? ? ?"), None, 0);
        schedule.may_have_missed(1, at(0));
        assert!(schedule.next_attempt().at >= at(least));
    }
}

/// Returns the delays of the next attempts, in milliseconds, after attempts of a second with these replies.
fn delays_after(schedule: &mut WaiterSchedule, replies: &str, attempts: usize) -> Vec<u128> {
    let took = Duration::from_secs(1);
    let failed = FailedAttempt { took, ..failed(FailureReason::NoQuorum, &votes(replies), None) };
    let mut delay = || {
        schedule.attempt_begins(at(0));
        schedule.attempt_failed(&failed, at(0), 0.5);
        schedule.woken(4, at(0));
        schedule.next_attempt().at.saturating_duration_since(at(0)).as_millis()
    };
    (0..attempts).map(|_| delay()).collect()
}

#[test]
fn delays_after_late_answers_double_from_the_duration_of_the_attempt() {
    assert_eq!(delays_after(&mut schedule(), "- ? ? ? -", 4), [1_000, 2_000, 2_500, 2_500]);
    let _broken = break_rule(Some(Mutation::NoDelayAfterLateAnswers));
    assert_eq!(delays_after(&mut schedule(), "- ? ? ? -", 4), [5, 10, 20, 40]);
}

#[test]
fn an_answer_of_a_quorum_ends_the_delays_after_late_answers() {
    let mut schedule = schedule();
    delays_after(&mut schedule, "- ? ? ? -", 3);
    fail_attempt(&mut schedule, FailureReason::Contended, &votes("other other other ? ?"), None, 0);
    assert_eq!(delays_after(&mut schedule, "- ? ? ? -", 1), [1_000]);
    schedule.acquired(at(0));
    assert_eq!(delays_after(&mut schedule, "- ? ? ? -", 1), [1_000]);
}

#[test]
fn nodes_that_are_not_late_cause_only_short_delays() {
    assert_eq!(delays_after(&mut schedule(), "- ! ! ! -", 3), [5, 10, 20]);
}

#[test]
fn an_answer_that_is_still_expected_is_late_after_a_node_timeout_unless_connections_broke() {
    let was_late = |replies: &str, took| {
        let failed = FailedAttempt { took, ..failed(FailureReason::NoQuorum, &votes(replies), None) };
        failed.was_late(NODE_TIMEOUT)
    };
    assert!(!was_late("x x x . -", ROUND_TRIP));
    assert!(was_late("x x x . -", NODE_TIMEOUT));
    assert!(!was_late("! ! x . -", 5 * NODE_TIMEOUT));
    assert!(was_late("! ! x ? -", 5 * NODE_TIMEOUT));
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
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(505), plan: queue_node_first(&ORDER) });
    defer(&mut schedule, &deferral, 505);
    assert!(schedule.wants_holder_check(), "the first check was inconclusive");
    schedule.holder_checked(&votes("- - - - gone"), &[], ROUND_TRIP, at(505));
    assert_eq!(schedule.next_attempt().plan, queue_node_first(&[2, 0, 1, 3]));
    schedule.may_have_missed(4, at(600));
    assert_eq!(schedule.next_attempt().plan, queue_node_first(&ORDER), "the key may be new");
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
    assert_eq!(schedule.next_attempt().plan, queue_node_first(&ORDER));
    assert!(!schedule.wants_holder_check());
}

#[test]
fn a_futile_grant_of_the_queue_node_causes_a_pause_that_only_enqueues() {
    let mut schedule = schedule();
    fail_attempt(&mut schedule, FailureReason::Contended, &votes("holder holder holder ? -"), None, 0);
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(0), plan: queue_node_first(&ORDER) });
    schedule.attempt_begins(at(0));
    assert!(schedule.enqueues_only());
    let deferral_without_holder = deferral(4, None, 10_000);
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

/// The waiter of a group moves between the queues of two resources at the same node.
#[test]
fn pauses_after_futile_grants_grow_from_queue_to_queue() {
    let mut former = schedule();
    let mut last = Duration::ZERO;
    for number in 0..5 {
        let now = at(number * 1_000);
        former.attempt_begins(now);
        assert!(!former.enqueues_only(), "the last pause has ended");
        let mut moved = schedule();
        moved.request_attempt(now);
        let futile = failed(FailureReason::Contended, &votes("holder holder holder ? -"), None);
        moved.continue_after(&former, &futile, now, 0.5);
        moved.attempt_begins(now);
        assert!(moved.enqueues_only());
        let behind = failed(FailureReason::Contended, &votes("? ? ? ? ?"), Some(&deferral(4, None, 10_000)));
        moved.attempt_failed(&behind, now, 0.5);
        let pause = moved.next_attempt().at.saturating_duration_since(now);
        assert!(pause > last, "{pause:?}");
        (former, last) = (moved, pause);
    }
}

#[test]
fn a_wake_ends_the_pause_after_a_futile_grant() {
    let mut schedule = schedule();
    fail_attempt(&mut schedule, FailureReason::Contended, &votes("holder holder holder ? -"), None, 0);
    defer(&mut schedule, &deferral(4, None, 10_000), 1);
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
        defer(&mut schedule, &deferral(4, None, 10_000), now);
        schedule.woken(4, at(now));
        let pause = schedule.next_attempt().at.saturating_duration_since(at(now)).as_millis();
        assert!(pause > last, "{pause}");
        (now, last) = (now + u64::try_from(pause).unwrap(), pause);
    }
}

#[test]
fn after_a_release_the_second_waiter_attempts_a_hand_over_later_than_the_first() {
    for (rank, plan, after) in [(0, Plan::Woken(4), 0), (1, queue_node_first(&ORDER), 200)] {
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
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(200), plan: queue_node_first(&ORDER) });
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
    assert_eq!(schedule.next_attempt(), NextAttempt { at: at(1), plan: queue_node_first(&ORDER) });
}

/// The first waiter is a writer that waits for readers, so the resource is free only for the second waiter, a reader.
#[test]
fn the_second_waiter_attempts_rarely_while_the_first_leaves_the_resource_free() {
    let mut schedule = schedule();
    let behind = Deferral { rank: 1, ..deferral(4, None, 10_000) };
    let mut now = 0;
    for expected in [100, 200, 400, 800, 800, 800] {
        fail_attempt(&mut schedule, FailureReason::Contended, &votes("? ? ? ? ?"), Some(&behind), now);
        let next = schedule.next_attempt().at.saturating_duration_since(at(now));
        assert!(next <= Duration::from_millis(expected), "{next:?}");
        assert!(expected > 400 || next == Duration::from_millis(expected), "{next:?}");
        now += 1_000;
    }
    schedule.woken(4, at(now));
    defer(&mut schedule, &behind, now);
    assert_eq!(schedule.next_attempt().at, at(now + 100), "a wake resets the delay");
}

#[test]
fn a_holder_check_without_a_quorum_of_answers_leads_to_an_attempt_at_all_nodes() {
    for (answers, plan) in [
        ("other other ? ? ?", Plan::AllAtOnceForQuorum(4)),
        ("other other ? ? -", queue_node_first(&ORDER)),
        ("other other ? - -", queue_node_first(&ORDER)),
    ] {
        let mut schedule = schedule();
        defer(&mut schedule, &deferral(4, Some("other"), 30_000), 0);
        schedule.holder_checked(&votes(answers), &[], ROUND_TRIP, at(1000));
        assert_eq!(schedule.next_attempt().plan, plan, "{answers}");
    }
}

#[test]
fn one_of_the_first_two_waiters_for_a_free_resource_attempts_after_a_hand_over() {
    for (is_queued, rank, next) in [(true, 1, 100), (true, 2, 300), (true, 7, 300), (false, 0, 300)] {
        let mut schedule = schedule();
        let deferral = Deferral { is_queued, rank, ..deferral(4, None, 300) };
        defer(&mut schedule, &deferral, 0);
        assert_eq!(schedule.next_attempt().at, at(next), "{is_queued} {rank}");
    }
}

#[test]
fn an_acquired_lock_ends_the_suspicion_of_an_inconclusive_holder_check() {
    let mut schedule = schedule();
    let deferral = deferral(4, Some("gone"), 30_000);
    defer(&mut schedule, &deferral, 0);
    defer(&mut schedule, &deferral, 500);
    schedule.holder_checked(&votes("- - - - gone"), &[], ROUND_TRIP, at(500));
    schedule.acquired(at(600));
    for now in [600, 700] {
        schedule.request_attempt(at(now));
        defer(&mut schedule, &deferral, now);
    }
    assert!(!schedule.wants_holder_check());
}

#[test]
fn a_waiter_without_a_queue_entry_attempts_at_once_after_a_release() {
    for (is_queued, next) in [(true, 200), (false, 100)] {
        let mut schedule = schedule();
        let deferral = Deferral { is_queued, rank: 1, ..deferral(4, Some("other"), 30_000) };
        defer(&mut schedule, &deferral, 0);
        schedule.released(2, at(100));
        assert_eq!(schedule.next_attempt().at, at(next));
    }
}
