//! Tests of attempts. Each test is one history of votes, times and steps.

use std::time::Duration;

use super::*;
use crate::{
    algorithm::{tally::Electorate, validity::Validity},
    mutation::break_rule,
};

const TTL: Duration = Duration::from_secs(10);

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn nodes(nodes: &[usize]) -> NodeSet {
    nodes.iter().copied().collect()
}

/// Returns the settings of an attempt that is not repeated.
pub(crate) fn config(count: usize) -> AttemptConfig {
    AttemptConfig {
        electorate: Electorate::new(count, Electorate::majority(count)),
        validity: Validity::with_drift(0.01).unwrap(),
        ttl: TTL,
        node_timeout: Duration::from_millis(1000),
        attempt_timeout: Duration::from_millis(2000),
        vote_timeout: Duration::from_millis(1000),
        hedge: Duration::from_millis(125),
    }
}

fn attempt(count: usize, plan: Plan) -> Attempt {
    Attempt::new(config(count), plan, SplitPatience::Hedge, at(0))
}

#[test]
fn a_quorum_of_equal_votes_wins_in_one_round() {
    let mut attempt = attempt(5, Plan::AllAtOnce(0));
    assert_eq!(attempt.step(at(0)), AttemptStep::Lock { nodes: NodeSet::first(5), ignores_queue: false });
    assert_eq!(attempt.step(at(0)), AttemptStep::Wait(at(1000)));
    for node in [4, 0, 2] {
        attempt.on_lock(node, LockVote::Granted(7));
    }
    assert_eq!(attempt.step(at(3)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

/// Returns an attempt of a waiting call, one of whose three nodes has granted. The attempt needs another vote.
fn one_grant_of_a_waiting_call() -> Attempt {
    let config = config(3).of_waiting_call(Duration::MAX);
    let mut attempt = Attempt::new(config, Plan::AllAtOnce(0), SplitPatience::Hedge, at(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    attempt
}

#[test]
fn a_waiting_call_waits_for_a_deciding_vote_until_the_attempt_timeout() {
    let mut attempt = one_grant_of_a_waiting_call();
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(2000)));
    attempt.on_lock(2, LockVote::Granted(7));
    assert_eq!(attempt.step(at(1999)), AttemptStep::Acquired { token: FencingToken::new(7) });
    assert_eq!(one_grant_of_a_waiting_call().step(at(2000)), AttemptStep::RollBack);
    let _broken = break_rule(Some(Mutation::ImpatientVotes));
    assert_eq!(one_grant_of_a_waiting_call().step(at(1)), AttemptStep::Wait(at(1000)));
}

#[test]
fn broken_connections_end_the_wait_for_votes_at_once() {
    let mut attempt = one_grant_of_a_waiting_call();
    attempt.on_lock(1, LockVote::NoAnswer);
    assert_eq!(attempt.step(at(5)), AttemptStep::Wait(at(2000)));
    attempt.on_lock(2, LockVote::NoAnswer);
    assert_eq!(attempt.step(at(6)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(6)), AttemptStep::Failed(FailureReason::NoQuorum));
}

/// A wait for a time that has passed would never end, because the driver repeats the step at once.
#[test]
fn the_wait_for_the_reason_of_a_failure_ends_with_the_attempt() {
    let config = config(3).of_waiting_call(Duration::MAX);
    let mut attempt = Attempt::new(config, Plan::AllAtOnce(0), SplitPatience::Hedge, at(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Deferred);
    attempt.on_queue(false);
    let again = AttemptStep::Lock { nodes: nodes(&[0]), ignores_queue: true };
    assert_eq!(attempt.step(at(5)), again, "the deadline of node 0 is now after the end of the attempt");
    attempt.on_lock(1, LockVote::Refused);
    attempt.on_lock(2, LockVote::Error);
    assert_eq!(attempt.step(at(126)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(126)), AttemptStep::Wait(at(2000)));
    assert_eq!(attempt.step(at(2000)), AttemptStep::Failed(FailureReason::NoQuorum));
}

#[test]
fn an_attempt_waits_longer_for_a_queue_node_that_usually_answers_late() {
    let asked_next = |usual: u64| {
        let config = config(5).with_usual_response_time(Duration::from_millis(usual));
        let plan = Plan::QueueNodeFirst(vec![4, 2]);
        let mut attempt = Attempt::new(config, plan, SplitPatience::Hedge, at(0));
        assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(4));
        attempt.step(at(0))
    };
    assert_eq!(asked_next(1), AttemptStep::Wait(at(125)));
    assert_eq!(asked_next(200), AttemptStep::Wait(at(800)));
    let _broken = break_rule(Some(Mutation::FixedHedge));
    assert_eq!(asked_next(200), AttemptStep::Wait(at(125)));
}

#[test]
fn differing_votes_lead_to_a_write_back_of_the_largest_vote() {
    let mut attempt = attempt(3, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(3));
    attempt.on_lock(1, LockVote::Granted(8));
    assert_eq!(attempt.step(at(1)), AttemptStep::WriteBack { token: 8, nodes: nodes(&[0]) });
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(1000)));
    attempt.on_write_back(0, true);
    assert_eq!(attempt.step(at(2)), AttemptStep::Acquired { token: FencingToken::new(8) });
}

#[test]
fn a_late_vote_equal_to_the_token_confirms_after_a_failed_write_back() {
    let mut attempt = attempt(3, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(3));
    attempt.on_lock(1, LockVote::Granted(8));
    attempt.step(at(1));
    attempt.on_write_back(0, false);
    assert_eq!(attempt.step(at(2)), AttemptStep::Wait(at(1000)));
    attempt.on_lock(2, LockVote::Granted(8));
    assert_eq!(attempt.step(at(3)), AttemptStep::Acquired { token: FencingToken::new(8) });
}

#[test]
fn a_late_vote_above_the_token_does_not_confirm() {
    let mut attempt = attempt(3, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(3));
    attempt.on_lock(1, LockVote::Granted(8));
    attempt.step(at(1));
    attempt.on_write_back(0, false);
    attempt.on_lock(2, LockVote::Granted(9));
    assert_eq!(attempt.step(at(3)), AttemptStep::RollBack);
    assert_eq!(attempt.to_roll_back().collect::<Vec<_>>(), [(0, true), (1, true), (2, true)]);
}

#[test]
fn a_downgrade_is_won_only_before_the_end_of_the_write_lease() {
    for (now, is_won) in [(4, true), (5, false)] {
        let mut attempt = attempt(3, Plan::Downgrade(at(5)));
        attempt.step(at(0));
        assert_eq!(attempt.step(at(0)), AttemptStep::Wait(at(5)));
        for node in [0, 1] {
            attempt.on_lock(node, LockVote::Granted(7));
        }
        let step = attempt.step(at(now));
        assert_eq!(matches!(step, AttemptStep::Acquired { .. }), is_won, "{step:?}");
    }
}

#[test]
fn votes_after_the_end_of_the_validity_do_not_win() {
    let mut config = attempt(1, Plan::AllAtOnce(0)).config;
    config.node_timeout = TTL;
    config.attempt_timeout = TTL;
    let mut attempt = Attempt::new(config, Plan::AllAtOnce(0), SplitPatience::Hedge, at(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(1));
    assert_eq!(attempt.step(at(9_899)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(9_899)), AttemptStep::Failed(FailureReason::Expired));
}

#[test]
fn a_lost_attempt_rolls_back_at_once_and_waits_for_its_reason() {
    let mut attempt = attempt(5, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Error);
    attempt.on_lock(1, LockVote::Refused);
    attempt.on_lock(2, LockVote::Refused);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(1000)));
    assert_eq!(attempt.to_roll_back().collect::<Vec<_>>(), [(0, true), (3, false), (4, false)]);
    attempt.on_lock(3, LockVote::Refused);
    assert_eq!(attempt.step(at(2)), AttemptStep::Failed(FailureReason::Contended));
}

#[test]
fn an_attempt_without_a_quorum_of_answers_fails_with_no_quorum() {
    let mut attempt = attempt(5, Plan::AllAtOnce(0));
    attempt.step(at(0));
    for (node, lock_vote) in [(0, LockVote::NotSent), (1, LockVote::Refused), (2, LockVote::Error)] {
        attempt.on_lock(node, lock_vote);
    }
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(1000)));
    assert_eq!(attempt.step(at(1000)), AttemptStep::Failed(FailureReason::NoQuorum));
}

#[test]
fn an_even_split_fails_at_once() {
    let mut attempt = attempt(4, Plan::AllAtOnce(3));
    attempt.step(at(0));
    for (node, lock_vote) in
        [(0, LockVote::Granted(1)), (1, LockVote::Granted(1)), (2, LockVote::Refused), (3, LockVote::Refused)]
    {
        attempt.on_lock(node, lock_vote);
    }
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Failed(FailureReason::Contended));
}

#[test]
fn a_rollback_covers_nodes_without_an_answer_and_omits_nodes_without_a_request() {
    let mut attempt = attempt(3, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::NotSent);
    attempt.on_lock(1, LockVote::NoAnswer);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.to_roll_back().collect::<Vec<_>>(), [(1, false), (2, false)]);
}

#[test]
fn no_vote_wins_after_the_rollback() {
    let mut attempt = attempt(3, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::NoAnswer);
    attempt.on_lock(1, LockVote::NoAnswer);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    for node in 0..3 {
        attempt.on_lock(node, LockVote::Granted(1));
    }
    assert!(matches!(attempt.step(at(2)), AttemptStep::Failed(_)));
}

#[test]
fn queue_nodes_are_asked_for_the_turn_until_a_grant_and_other_nodes_are_locked() {
    let mut attempt = attempt(5, Plan::QueueNodeFirst(vec![3, 1, 0, 2, 4]));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(3));
    assert_eq!(attempt.step(at(0)), AttemptStep::Wait(at(125)));
    assert_eq!(
        attempt.step(at(125)),
        AttemptStep::Enqueue(1),
        "the queue node has not answered within a hedge"
    );
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(126)), AttemptStep::Lock { nodes: nodes(&[0, 2, 4]), ignores_queue: true });
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(2, LockVote::Granted(7));
    assert_eq!(attempt.step(at(127)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn a_refusal_by_the_queue_node_ends_an_attempt_that_asks_the_queue_node_first() {
    let mut attempt = attempt(5, Plan::QueueNodeFirst(vec![3, 1, 0, 2, 4]));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Refused);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Failed(FailureReason::Contended));
}

/// Returns an attempt to redeem a ticket. The queue node was slow and has refused, and the next node is asked.
fn late_refusal_of_a_ticket() -> Attempt {
    let mut attempt = attempt(5, Plan::Redeem(vec![3, 1, 0, 2, 4]));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(3));
    assert_eq!(attempt.step(at(0)), AttemptStep::Wait(at(125)));
    assert_eq!(attempt.step(at(125)), AttemptStep::Enqueue(1));
    attempt.on_lock(3, LockVote::Refused);
    attempt
}

#[test]
fn a_late_refusal_does_not_end_a_redemption_while_another_node_may_grant() {
    let mut attempt = late_refusal_of_a_ticket();
    assert_eq!(attempt.step(at(126)), AttemptStep::Wait(at(250)));
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(127)), AttemptStep::Lock { nodes: nodes(&[0, 2, 4]), ignores_queue: true });
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(2, LockVote::Granted(7));
    assert_eq!(attempt.step(at(128)), AttemptStep::Acquired { token: FencingToken::new(7) });
    let _broken = break_rule(Some(Mutation::RedeemUntilFirstRefusal));
    assert_eq!(late_refusal_of_a_ticket().step(at(126)), AttemptStep::RollBack);
}

#[test]
fn a_redemption_ends_when_all_nodes_that_were_asked_have_refused() {
    let mut attempt = attempt(5, Plan::Redeem(vec![3, 1, 0, 2, 4]));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Refused);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Failed(FailureReason::Contended));
    let mut attempt = late_refusal_of_a_ticket();
    attempt.on_lock(1, LockVote::Refused);
    assert_eq!(attempt.step(at(126)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(126)), AttemptStep::Failed(FailureReason::Contended));
}

#[test]
fn a_redemption_asks_further_nodes_while_slow_nodes_may_grant() {
    let mut attempt = late_refusal_of_a_ticket();
    assert_eq!(attempt.step(at(250)), AttemptStep::Enqueue(0));
    attempt.on_lock(0, LockVote::Refused);
    assert_eq!(attempt.step(at(251)), AttemptStep::Wait(at(375)));
}

#[test]
fn a_woken_waiter_asks_the_waking_node_for_the_turn_and_locks_elsewhere() {
    let mut attempt = attempt(5, Plan::Woken(3));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(3));
    assert_eq!(attempt.step(at(0)), AttemptStep::Lock { nodes: nodes(&[0, 1, 2, 4]), ignores_queue: true });
    for node in [0, 3, 4] {
        attempt.on_lock(node, LockVote::Granted(7));
    }
    assert_eq!(attempt.step(at(1)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn an_attempt_after_a_wake_ends_when_the_waking_node_refuses() {
    let mut attempt = attempt(5, Plan::Woken(3));
    attempt.step(at(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(3, LockVote::Refused);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Failed(FailureReason::Contended));
    let to_roll_back: Vec<_> = attempt.to_roll_back().collect();
    assert_eq!(to_roll_back, [(0, true), (1, false), (2, false), (4, false)]);
}

fn refuse(attempt: &mut Attempt, nodes: impl IntoIterator<Item = usize>) {
    nodes.into_iter().for_each(|node| attempt.on_lock(node, LockVote::Refused));
}

#[test]
fn an_attempt_of_a_newcomer_ends_at_once_if_the_queue_node_has_waiters() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(3, LockVote::Deferred);
    attempt.on_queue(true);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Failed(FailureReason::Contended));
}

#[test]
fn a_quorum_of_grants_wins_even_if_the_queue_node_has_waiters() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    for node in [0, 1, 2] {
        attempt.on_lock(node, LockVote::Granted(7));
    }
    attempt.on_lock(3, LockVote::Deferred);
    attempt.on_queue(true);
    assert_eq!(attempt.step(at(1)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn a_refusal_by_the_queue_node_without_waiters_counts_as_one_vote() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    refuse(&mut attempt, [3]);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(1000)));
    for node in [0, 1, 2] {
        attempt.on_lock(node, LockVote::Granted(7));
    }
    assert_eq!(attempt.step(at(1)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn a_refused_newcomer_waits_for_the_queue_node_for_a_hedge() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    refuse(&mut attempt, [0, 1, 2]);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(125)));
    let mut silent = attempt.clone();
    assert_eq!(silent.step(at(125)), AttemptStep::RollBack);
    attempt.on_lock(3, LockVote::Granted(7));
    let refused = nodes(&[0, 1, 2]);
    assert_eq!(
        attempt.step(at(2)),
        AttemptStep::Lock { nodes: refused, ignores_queue: true },
        "the grant of the queue node gives the turn"
    );
}

#[test]
fn deferring_nodes_are_asked_again_once_the_queue_node_has_granted() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Deferred);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(125)));
    attempt.on_lock(3, LockVote::Granted(7));
    assert_eq!(attempt.step(at(2)), AttemptStep::Lock { nodes: nodes(&[0]), ignores_queue: true });
    assert_eq!(
        attempt.to_roll_back().collect::<Vec<_>>().len(),
        5,
        "node 0 has been asked again and may grant"
    );
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(3)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn a_client_at_its_turn_asks_refusing_nodes_again_until_a_hedge_is_over() {
    let mut attempt = attempt(5, Plan::Woken(3));
    attempt.step(at(0));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Granted(7));
    let (mut now, mut asked_at) = (0, Vec::new());
    loop {
        match attempt.step(at(now)) {
            AttemptStep::Wait(until) => {
                now = now.max(until.since_origin().as_millis().try_into().unwrap()).max(now + 1)
            }
            AttemptStep::Lock { nodes, ignores_queue: true } => {
                asked_at.push(now);
                now += 10;
                refuse(&mut attempt, nodes.iter());
            }
            AttemptStep::RollBack => break,
            other => panic!("{other:?}"),
        }
        if asked_at.is_empty() {
            now = 10;
            refuse(&mut attempt, [0, 1, 2, 4]);
        }
    }
    assert!(asked_at.first() == Some(&10) && asked_at.len() <= 6, "{asked_at:?}");
    assert!(asked_at.windows(3).all(|times| times[2] - times[1] >= times[1] - times[0]), "{asked_at:?}");
    assert_eq!(attempt.step(at(now)), AttemptStep::Failed(FailureReason::Contended));
    assert!(now <= 126, "{now}");
}

#[test]
fn refusing_nodes_are_asked_again_only_once_if_a_quorum_names_another_lease() {
    let mut attempt = attempt(5, Plan::Woken(3));
    attempt.step(at(0));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Granted(7));
    let again = AttemptStep::Lock { nodes: nodes(&[0, 1, 2, 4]), ignores_queue: true };
    for (now, next) in [(1, &again), (20, &AttemptStep::RollBack)] {
        refuse(&mut attempt, [0, 1, 2, 4]);
        attempt.on_holder(true);
        let step = attempt.step(at(now));
        let step = if let AttemptStep::Wait(until) = step { attempt.step(until) } else { step };
        assert_eq!(step, *next, "{now}");
    }
}

/// Returns an attempt at five nodes, of which two have granted, two have refused, and one has not answered.
fn split(plan: Plan, patience: SplitPatience) -> Attempt {
    let mut attempt = attempt(5, plan);
    attempt.split_patience = patience;
    attempt.step(at(0));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Granted(7));
    attempt.on_lock(0, LockVote::Granted(7));
    refuse(&mut attempt, [1, 2]);
    attempt
}

#[test]
fn a_split_vote_fails_after_a_hedge_or_a_node_timeout() {
    for (patience, until) in [(SplitPatience::Hedge, 125), (SplitPatience::NodeTimeout, 1000)] {
        let mut attempt = split(Plan::AllAtOnce(4), patience);
        assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(until)));
        assert_eq!(attempt.step(at(until)), AttemptStep::RollBack, "{patience:?}");
        assert_eq!(attempt.step(at(until)), AttemptStep::Failed(FailureReason::Contended));
    }
    let mut attempt = split(Plan::AllAtOnce(4), SplitPatience::Hedge);
    attempt.on_lock(4, LockVote::Granted(7));
    assert_eq!(attempt.step(at(124)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

/// The quorum answers after 160 ms, which is more than a hedge.
#[test]
fn a_split_vote_of_distant_nodes_waits_for_twice_the_time_of_a_quorum() {
    let split_at_160 = || {
        let mut attempt = split(Plan::AllAtOnce(4), SplitPatience::Hedge);
        assert_eq!(attempt.step(at(160)), AttemptStep::Wait(at(320)));
        attempt
    };
    let mut won = split_at_160();
    won.on_lock(4, LockVote::Granted(7));
    assert_eq!(won.step(at(180)), AttemptStep::Acquired { token: FencingToken::new(7) });
    assert_eq!(split_at_160().step(at(320)), AttemptStep::RollBack);
    let mut suspended = split(Plan::AllAtOnce(4), SplitPatience::Hedge);
    assert_eq!(suspended.step(at(900)), AttemptStep::Wait(at(1000)), "at most a node timeout");
    let _broken = break_rule(Some(Mutation::SplitEndsWithHedge));
    assert_eq!(split(Plan::AllAtOnce(4), SplitPatience::Hedge).step(at(160)), AttemptStep::RollBack);
}

#[test]
fn votes_of_fewer_nodes_than_a_quorum_are_not_split() {
    let mut attempt = attempt(5, Plan::AllAtOnce(4));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    refuse(&mut attempt, [1]);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(1000)));
}

#[test]
fn a_client_at_its_turn_asks_again_before_the_last_answer() {
    let mut attempt = split(Plan::Woken(3), SplitPatience::Hedge);
    let AttemptStep::Wait(retry) = attempt.step(at(1)) else { panic!("the last node may still answer") };
    assert!(retry < at(5), "{retry:?}");
    assert_eq!(attempt.step(retry), AttemptStep::Lock { nodes: nodes(&[1, 2]), ignores_queue: true });
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(6)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn the_hedge_for_repeated_requests_starts_at_the_request_to_the_last_queue_node() {
    let mut attempt = attempt(5, Plan::QueueNodeFirst(vec![4, 3, 0, 1, 2]));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(4));
    assert_eq!(attempt.step(at(125)), AttemptStep::Enqueue(3));
    attempt.on_lock(3, LockVote::Granted(7));
    let remaining = AttemptStep::Lock { nodes: nodes(&[0, 1, 2]), ignores_queue: true };
    assert_eq!(attempt.step(at(126)), remaining);
    refuse(&mut attempt, 0..3);
    assert_eq!(attempt.step(at(127)), remaining, "the nodes are asked again");
    attempt.on_lock(0, LockVote::Granted(7));
    refuse(&mut attempt, [1, 2]);
    let AttemptStep::Wait(until) = attempt.step(at(128)) else { panic!("the hedge has not ended") };
    assert!(until > at(128) && until < at(251), "{until:?}");
}

#[test]
fn deferring_nodes_are_asked_again_if_the_queue_node_has_no_waiters() {
    let mut attempt = attempt(3, Plan::AllAtOnce(1));
    attempt.step(at(0));
    for node in 0..3 {
        attempt.on_lock(node, LockVote::Deferred);
    }
    attempt.on_queue(false);
    assert_eq!(attempt.step(at(1)), AttemptStep::Lock { nodes: NodeSet::first(3), ignores_queue: true });
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(2)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

/// Returns an attempt at five nodes. All nodes except the queue node, node 3, have deferred the attempt. The queue node
/// has this vote; [`LockVote::NoAnswer`] if it has not answered.
fn deferred_by_all_but_queue_node(plan: Plan, queue_node_vote: LockVote) -> Attempt {
    let mut attempt = attempt(5, plan);
    attempt.step(at(0));
    for node in [0, 1, 2, 4] {
        attempt.on_lock(node, LockVote::Deferred);
    }
    if queue_node_vote != LockVote::NoAnswer {
        attempt.on_lock(3, queue_node_vote);
    }
    attempt
}

#[test]
fn deferring_nodes_are_asked_again_if_the_queue_node_cannot_answer() {
    let again = AttemptStep::Lock { nodes: nodes(&[0, 1, 2, 4]), ignores_queue: true };
    for vote in [LockVote::NotSent, LockVote::Error] {
        assert_eq!(deferred_by_all_but_queue_node(Plan::AllAtOnce(3), vote).step(at(1)), again);
    }
    let mut silent = deferred_by_all_but_queue_node(Plan::AllAtOnce(3), LockVote::NoAnswer);
    assert_eq!(silent.step(at(1)), AttemptStep::Wait(at(125)));
    assert_eq!(silent.step(at(125)), again);
}

#[test]
fn a_plan_for_a_quorum_is_refused_only_with_the_answers_of_a_quorum() {
    for (plan, expected) in [
        (Plan::AllAtOnce(3), AttemptStep::Failed(FailureReason::Contended)),
        (Plan::AllAtOnceForQuorum(3), AttemptStep::Wait(at(1000))),
    ] {
        let mut attempt = attempt(5, plan);
        attempt.step(at(0));
        attempt.on_lock(3, LockVote::Deferred);
        attempt.on_queue(true);
        assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
        assert_eq!(attempt.step(at(1)), expected);
    }
    for (refusals, reason) in [(2, FailureReason::Contended), (1, FailureReason::NoQuorum)] {
        let mut attempt = attempt(5, Plan::AllAtOnceForQuorum(3));
        attempt.step(at(0));
        attempt.on_lock(3, LockVote::Deferred);
        attempt.on_queue(true);
        (0..refusals).for_each(|node| attempt.on_lock(node, LockVote::Refused));
        assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
        attempt.step(at(1));
        assert_eq!(attempt.step(at(1000)), AttemptStep::Failed(reason));
    }
}

#[test]
fn only_an_attempt_without_a_queue_entry_is_of_a_newcomer() {
    assert!(attempt(3, Plan::AllAtOnce(0)).is_newcomer());
    assert!(attempt(3, Plan::AllAtOnceForQuorum(0)).is_newcomer());
    for plan in [Plan::QueueNodeFirst(vec![0]), Plan::Redeem(vec![0]), Plan::Woken(0), Plan::Downgrade(at(5))]
    {
        assert!(!attempt(3, plan.clone()).is_newcomer(), "{plan:?}");
    }
}

/// Returns a newcomer's attempt with a grant of the queue node, which other nodes have refused.
fn lost_after_the_queue_node_granted() -> Attempt {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Granted(7));
    refuse(&mut attempt, [0, 1, 2]);
    attempt
}

#[test]
fn no_node_is_asked_again_after_a_refusal_for_another_resource() {
    let again = AttemptStep::Lock { nodes: nodes(&[0, 1, 2]), ignores_queue: true };
    assert_eq!(lost_after_the_queue_node_granted().step(at(1)), again);
    let mut attempt = lost_after_the_queue_node_granted();
    attempt.refused_elsewhere();
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
}

#[test]
fn a_client_stood_still_if_a_wait_ends_more_than_the_shortest_hedge_too_late() {
    for (waits_until, has_stood_still) in [(999, false), (1000, false), (1125, false), (1126, true)] {
        let mut attempt = attempt(5, Plan::AllAtOnce(0));
        attempt.step(at(0));
        assert_eq!(attempt.step(at(0)), AttemptStep::Wait(at(1000)));
        assert!(!attempt.has_stood_still());
        attempt.step(at(waits_until));
        assert_eq!(attempt.has_stood_still(), has_stood_still, "{waits_until}");
        attempt.step(at(waits_until));
        assert_eq!(attempt.has_stood_still(), has_stood_still, "no later step changes this");
    }
}

#[test]
fn an_attempt_reports_the_votes_the_nodes_without_an_answer_and_its_hedge() {
    let mut attempt = attempt(3, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(1, LockVote::Error);
    assert_eq!(attempt.lock_votes(), [LockVote::Granted(7), LockVote::Error, LockVote::NoAnswer]);
    assert_eq!(attempt.pending(), nodes(&[2]));
    assert_eq!(attempt.answered(), nodes(&[0]), "an error is no answer");
    assert_eq!(attempt.hedge(), Duration::from_millis(125));
}

/// A wait for a time that has passed would never end, because the driver repeats the step at once.
#[test]
fn the_wait_for_a_silent_queue_node_ends_with_the_hedge() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Deferred);
    attempt.refused_elsewhere();
    assert_eq!(attempt.step(at(124)), AttemptStep::Wait(at(125)));
    assert_eq!(attempt.step(at(125)), AttemptStep::Wait(at(1000)));
}

#[test]
fn after_a_grant_the_last_node_is_locked_and_not_asked_for_the_turn() {
    let mut attempt = attempt(3, Plan::QueueNodeFirst(vec![2, 1, 0]));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(2));
    assert_eq!(attempt.step(at(125)), AttemptStep::Enqueue(1));
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(126)), AttemptStep::Lock { nodes: nodes(&[0]), ignores_queue: true });
}

/// The queue node order of a waiter omits nodes with an orphaned key.
#[test]
fn a_node_outside_of_the_queue_node_order_is_not_asked_for_the_turn() {
    let mut attempt = attempt(3, Plan::QueueNodeFirst(vec![1, 0]));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(1));
    assert_eq!(attempt.step(at(125)), AttemptStep::Enqueue(0));
    assert_eq!(attempt.step(at(250)), AttemptStep::Lock { nodes: nodes(&[2]), ignores_queue: true });
}

#[test]
fn a_lost_attempt_waits_for_its_queue_node_only_if_the_answer_may_decide() {
    let lost = |vote| {
        let mut attempt = attempt(5, Plan::AllAtOnce(4));
        attempt.step(at(0));
        attempt.on_lock(0, LockVote::Granted(7));
        attempt.on_lock(1, vote);
        refuse(&mut attempt, [2, 3]);
        attempt.step(at(1))
    };
    assert_eq!(lost(LockVote::Refused), AttemptStep::RollBack);
    assert_eq!(lost(LockVote::Deferred), AttemptStep::Wait(at(125)));
}

#[test]
fn a_write_back_without_an_answer_ends_after_a_node_timeout() {
    let mut attempt = attempt(3, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(3));
    attempt.on_lock(1, LockVote::Granted(8));
    assert_eq!(attempt.step(at(1)), AttemptStep::WriteBack { token: 8, nodes: nodes(&[0]) });
    assert_eq!(attempt.step(at(1000)), AttemptStep::Wait(at(1001)), "node 2 is out of time");
    assert_eq!(attempt.step(at(1001)), AttemptStep::RollBack);
}

#[test]
fn votes_are_not_split_while_a_deciding_node_is_asked_again() {
    let mut attempt = attempt(5, Plan::AllAtOnce(0));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(1, LockVote::Deferred);
    refuse(&mut attempt, [2]);
    assert_eq!(attempt.step(at(10)), AttemptStep::Lock { nodes: nodes(&[1]), ignores_queue: true });
    assert_eq!(attempt.step(at(10)), AttemptStep::Wait(at(1000)));
}

#[test]
fn only_a_newcomer_yields_to_waiters() {
    for (plan, yields) in
        [(Plan::AllAtOnce(0), true), (Plan::AllAtOnceForQuorum(0), true), (Plan::Downgrade(at(5)), false)]
    {
        let mut attempt = attempt(3, plan.clone());
        attempt.step(at(0));
        attempt.on_queue(true);
        assert_eq!(attempt.step(at(1)) == AttemptStep::RollBack, yields, "{plan:?}");
    }
}

#[test]
fn the_queue_node_of_a_plan_is_the_first_queue_node_that_the_attempt_asks() {
    for plan in [Plan::AllAtOnce(2), Plan::AllAtOnceForQuorum(2), Plan::Woken(2)] {
        assert_eq!(plan.queue_node(), Some(2));
    }
    assert_eq!(Plan::QueueNodeFirst(vec![2, 0]).queue_node(), Some(2));
    assert_eq!(Plan::Redeem(vec![2, 0]).queue_node(), Some(2));
    assert_eq!(Plan::Downgrade(at(5)).queue_node(), None);
}
