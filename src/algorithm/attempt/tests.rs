//! Attempts, step by step.

use std::time::Duration;

use super::*;
use crate::algorithm::{tally::Electorate, validity::Validity};

const TTL: Duration = Duration::from_secs(10);

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn nodes(nodes: &[usize]) -> NodeSet {
    nodes.iter().copied().collect()
}

fn attempt(count: usize, plan: Plan) -> Attempt {
    let config = AttemptConfig {
        electorate: Electorate::new(count, Electorate::majority(count)),
        validity: Validity::with_drift(0.01).unwrap(),
        ttl: TTL,
        node_timeout: Duration::from_millis(1000),
        attempt_timeout: Duration::from_millis(2000),
    };
    Attempt::new(config, plan, SplitPatience::Hedge, at(0))
}

#[test]
fn a_quorum_of_equal_votes_wins_in_one_round() {
    let mut attempt = attempt(5, Plan::AllAtOnce(0));
    assert_eq!(attempt.step(at(0)), AttemptStep::Lock { nodes: NodeSet::first(5), has_turn: false });
    assert_eq!(attempt.step(at(0)), AttemptStep::Wait(at(1000)));
    for node in [4, 0, 2] {
        attempt.on_lock(node, LockVote::Granted(7));
    }
    assert_eq!(attempt.step(at(3)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn differing_votes_get_a_write_back_of_the_largest_which_needs_its_quorum() {
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
fn a_late_equal_vote_confirms_instead_of_a_failed_write_back() {
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
fn a_late_larger_vote_does_not_confirm() {
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
fn a_downgrade_is_won_before_the_write_lease_is_over_or_never() {
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
fn votes_that_come_after_the_validity_are_not_enough() {
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
fn lost_as_soon_as_it_can_be_and_the_reason_waits_for_a_quorum_of_answers() {
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
fn a_majority_of_faults_is_no_quorum_if_the_remaining_nodes_refuse() {
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
fn an_even_split_is_decided_at_once() {
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
fn a_node_that_was_never_asked_needs_no_rollback_but_a_silent_one_does() {
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
fn the_queue_node_is_asked_for_a_turn_and_other_nodes_to_lock() {
    let mut attempt = attempt(5, Plan::QueueNodeFirst(vec![3, 1, 0, 2, 4]));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(3));
    assert_eq!(attempt.step(at(0)), AttemptStep::Wait(at(125)));
    assert_eq!(attempt.step(at(125)), AttemptStep::Enqueue(1), "a silent one is passed over");
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(126)), AttemptStep::Lock { nodes: nodes(&[0, 2, 4]), has_turn: true });
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(2, LockVote::Granted(7));
    assert_eq!(attempt.step(at(127)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn a_refusal_by_the_queue_node_ends_an_attempt_that_asks_it_first() {
    let mut attempt = attempt(5, Plan::QueueNodeFirst(vec![3, 1, 0, 2, 4]));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Refused);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Failed(FailureReason::Contended));
}

#[test]
fn a_woken_waiter_asks_the_waking_node_for_its_turn_and_all_other_nodes_to_lock() {
    let mut attempt = attempt(5, Plan::Woken(3));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(3));
    assert_eq!(attempt.step(at(0)), AttemptStep::Lock { nodes: nodes(&[0, 1, 2, 4]), has_turn: true });
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
fn the_attempt_of_a_newcomer_ends_at_once_if_the_queue_node_has_waiters() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(3, LockVote::Deferred);
    attempt.on_queue(true);
    assert_eq!(attempt.step(at(1)), AttemptStep::RollBack);
    assert_eq!(attempt.step(at(1)), AttemptStep::Failed(FailureReason::Contended));
}

#[test]
fn a_quorum_of_grants_wins_although_the_queue_node_has_waiters() {
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
fn a_queue_node_with_a_key_of_another_lease_has_one_vote() {
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
fn a_newcomer_without_votes_waits_a_hedge_for_the_queue_node() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    refuse(&mut attempt, [0, 1, 2]);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(125)));
    let mut silent = attempt.clone();
    assert_eq!(silent.step(at(125)), AttemptStep::RollBack);
    attempt.on_lock(3, LockVote::Granted(7));
    let refused = nodes(&[0, 1, 2]);
    assert_eq!(attempt.step(at(2)), AttemptStep::Lock { nodes: refused, has_turn: true }, "it is its turn");
}

#[test]
fn deferring_nodes_are_asked_again_once_the_queue_node_has_granted() {
    let mut attempt = attempt(5, Plan::AllAtOnce(3));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Deferred);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(125)));
    attempt.on_lock(3, LockVote::Granted(7));
    assert_eq!(attempt.step(at(2)), AttemptStep::Lock { nodes: nodes(&[0]), has_turn: true });
    assert_eq!(attempt.to_roll_back().collect::<Vec<_>>().len(), 5, "it is asked, and may grant");
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(3)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn a_client_at_its_turn_asks_refusing_nodes_again_with_growing_pauses_for_a_hedge() {
    let mut attempt = attempt(5, Plan::Woken(3));
    attempt.step(at(0));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Granted(7));
    let (mut now, mut asked) = (0, Vec::new());
    loop {
        match attempt.step(at(now)) {
            AttemptStep::Wait(until) => {
                now = now.max(until.since_origin().as_millis().try_into().unwrap()).max(now + 1)
            }
            AttemptStep::Lock { nodes, has_turn: true } => {
                asked.push(now);
                now += 10;
                refuse(&mut attempt, nodes.iter());
            }
            AttemptStep::RollBack => break,
            other => panic!("{other:?}"),
        }
        if asked.is_empty() {
            now = 10;
            refuse(&mut attempt, [0, 1, 2, 4]);
        }
    }
    assert!(asked.first() == Some(&10) && asked.len() <= 6, "{asked:?}");
    assert!(asked.windows(3).all(|three| three[2] - three[1] >= three[1] - three[0]), "{asked:?}");
    assert_eq!(attempt.step(at(now)), AttemptStep::Failed(FailureReason::Contended));
    assert!(now <= 126, "{now}");
}

#[test]
fn an_attempt_asks_once_more_if_a_quorum_names_another_lease() {
    let mut attempt = attempt(5, Plan::Woken(3));
    attempt.step(at(0));
    attempt.step(at(0));
    attempt.on_lock(3, LockVote::Granted(7));
    let again = AttemptStep::Lock { nodes: nodes(&[0, 1, 2, 4]), has_turn: true };
    for (now, next) in [(1, &again), (20, &AttemptStep::RollBack)] {
        refuse(&mut attempt, [0, 1, 2, 4]);
        attempt.on_holder(true);
        let step = attempt.step(at(now));
        let step = if let AttemptStep::Wait(until) = step { attempt.step(until) } else { step };
        assert_eq!(step, *next, "{now}");
    }
}

/// Two of five nodes have granted, two have refused, and one is silent.
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
fn a_split_vote_is_given_up_after_a_hedge_or_by_an_only_attempt_after_a_node_timeout() {
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

#[test]
fn fewer_answers_than_a_quorum_are_no_split() {
    let mut attempt = attempt(5, Plan::AllAtOnce(4));
    attempt.step(at(0));
    attempt.on_lock(0, LockVote::Granted(7));
    refuse(&mut attempt, [1]);
    assert_eq!(attempt.step(at(1)), AttemptStep::Wait(at(1000)));
}

#[test]
fn a_client_at_its_turn_asks_again_although_a_silent_node_might_grant() {
    let mut attempt = split(Plan::Woken(3), SplitPatience::Hedge);
    let AttemptStep::Wait(soon) = attempt.step(at(1)) else { panic!("the silent node may answer") };
    assert!(soon < at(5), "{soon:?}");
    assert_eq!(attempt.step(soon), AttemptStep::Lock { nodes: nodes(&[1, 2]), has_turn: true });
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(6)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

#[test]
fn the_hedge_to_ask_again_starts_after_a_silent_queue_node() {
    let mut attempt = attempt(5, Plan::QueueNodeFirst(vec![4, 3, 0, 1, 2]));
    assert_eq!(attempt.step(at(0)), AttemptStep::Enqueue(4));
    assert_eq!(attempt.step(at(125)), AttemptStep::Enqueue(3));
    attempt.on_lock(3, LockVote::Granted(7));
    let others = AttemptStep::Lock { nodes: nodes(&[0, 1, 2]), has_turn: true };
    assert_eq!(attempt.step(at(126)), others);
    refuse(&mut attempt, 0..3);
    assert_eq!(attempt.step(at(127)), others, "it asks again");
    attempt.on_lock(0, LockVote::Granted(7));
    refuse(&mut attempt, [1, 2]);
    let AttemptStep::Wait(until) = attempt.step(at(128)) else { panic!("it has time") };
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
    assert_eq!(attempt.step(at(1)), AttemptStep::Lock { nodes: NodeSet::first(3), has_turn: true });
    attempt.on_lock(0, LockVote::Granted(7));
    attempt.on_lock(1, LockVote::Granted(7));
    assert_eq!(attempt.step(at(2)), AttemptStep::Acquired { token: FencingToken::new(7) });
}

/// All nodes but the queue node have deferred the attempt.
fn deferred_by_all_but(plan: Plan, queue_node: LockVote) -> Attempt {
    let mut attempt = attempt(5, plan);
    attempt.step(at(0));
    for node in [0, 1, 2, 4] {
        attempt.on_lock(node, LockVote::Deferred);
    }
    if queue_node != LockVote::NoAnswer {
        attempt.on_lock(3, queue_node);
    }
    attempt
}

#[test]
fn deferring_nodes_are_asked_again_if_the_queue_node_cannot_answer() {
    let again = AttemptStep::Lock { nodes: nodes(&[0, 1, 2, 4]), has_turn: true };
    for queue_node in [LockVote::NotSent, LockVote::Error] {
        assert_eq!(deferred_by_all_but(Plan::AllAtOnce(3), queue_node).step(at(1)), again);
    }
    let mut silent = deferred_by_all_but(Plan::AllAtOnce(3), LockVote::NoAnswer);
    assert_eq!(silent.step(at(1)), AttemptStep::Wait(at(125)));
    assert_eq!(silent.step(at(125)), again);
}

#[test]
fn after_an_attempt_without_a_quorum_the_word_of_the_queue_node_alone_decides_no_refusal() {
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
