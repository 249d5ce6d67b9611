//! Attempts, step by step.

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn nodes(nodes: &[usize]) -> NodeSet {
    nodes.iter().copied().collect()
}

fn attempt(count: usize, plan: Plan) -> Attempt {
    let rules = Rules {
        electorate: Electorate::new(count, Electorate::majority(count)),
        validity: Validity::with_drift(0.01).unwrap(),
        ttl: TTL,
        node_timeout: Duration::from_millis(1000),
        attempt_timeout: Duration::from_millis(2000),
        plan,
    };
    Attempt::new(rules, at(0))
}

#[test]
fn a_quorum_of_equal_votes_wins_in_one_round() {
    let mut attempt = attempt(5, Plan::Parallel);
    assert_eq!(attempt.step(at(0)), Step::Lock(NodeSet::first(5)));
    assert_eq!(attempt.step(at(0)), Step::Wait(at(1000)));
    for node in [4, 0, 2] {
        attempt.on_lock(node, Ballot::Granted(7));
    }
    assert_eq!(attempt.step(at(3)), Step::Won { token: FencingToken::new(7) });
}

#[test]
fn differing_votes_are_raised_to_the_largest_and_the_raise_needs_its_quorum() {
    let mut attempt = attempt(3, Plan::Parallel);
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Granted(3));
    attempt.on_lock(1, Ballot::Granted(8));
    assert_eq!(attempt.step(at(1)), Step::Raise { token: 8, nodes: nodes(&[0]) });
    assert_eq!(attempt.step(at(1)), Step::Wait(at(1000)));
    attempt.on_raise(0, true);
    assert_eq!(attempt.step(at(2)), Step::Won { token: FencingToken::new(8) });
}

#[test]
fn a_late_equal_vote_confirms_instead_of_a_failed_raise() {
    let mut attempt = attempt(3, Plan::Parallel);
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Granted(3));
    attempt.on_lock(1, Ballot::Granted(8));
    attempt.step(at(1));
    attempt.on_raise(0, false);
    assert_eq!(attempt.step(at(2)), Step::Wait(at(1000)));
    attempt.on_lock(2, Ballot::Granted(8));
    assert_eq!(attempt.step(at(3)), Step::Won { token: FencingToken::new(8) });
}

#[test]
fn a_late_larger_vote_does_not_confirm() {
    let mut attempt = attempt(3, Plan::Parallel);
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Granted(3));
    attempt.on_lock(1, Ballot::Granted(8));
    attempt.step(at(1));
    attempt.on_raise(0, false);
    attempt.on_lock(2, Ballot::Granted(9));
    assert_eq!(attempt.step(at(3)), Step::Abandon);
    assert_eq!(attempt.to_roll_back().collect::<Vec<_>>(), [(0, true), (1, true), (2, true)]);
}

#[test]
fn votes_that_come_after_the_validity_are_not_enough() {
    let mut rules = attempt(1, Plan::Parallel).rules;
    rules.node_timeout = TTL;
    rules.attempt_timeout = TTL;
    let mut attempt = Attempt::new(rules, at(0));
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Granted(1));
    assert_eq!(attempt.step(at(9_899)), Step::Abandon);
    assert_eq!(attempt.step(at(9_899)), Step::Lost(Loss::Expired));
}

#[test]
fn lost_as_soon_as_it_can_be_and_the_reason_waits_for_a_quorum_of_answers() {
    let mut attempt = attempt(5, Plan::Parallel);
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Failed);
    attempt.on_lock(1, Ballot::Refused);
    attempt.on_lock(2, Ballot::Refused);
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    assert_eq!(attempt.step(at(1)), Step::Wait(at(1000)));
    assert_eq!(attempt.to_roll_back().collect::<Vec<_>>(), [(0, true), (3, false), (4, false)]);
    attempt.on_lock(3, Ballot::Refused);
    assert_eq!(attempt.step(at(2)), Step::Lost(Loss::Contended));
}

#[test]
fn a_majority_of_faults_is_no_quorum_whoever_else_refuses() {
    let mut attempt = attempt(5, Plan::Parallel);
    attempt.step(at(0));
    for (node, ballot) in [(0, Ballot::Unsent), (1, Ballot::Refused), (2, Ballot::Failed)] {
        attempt.on_lock(node, ballot);
    }
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    assert_eq!(attempt.step(at(1)), Step::Wait(at(1000)));
    assert_eq!(attempt.step(at(1000)), Step::Lost(Loss::NoQuorum));
}

#[test]
fn an_even_split_is_decided_at_once() {
    let mut attempt = attempt(4, Plan::Parallel);
    attempt.step(at(0));
    for (node, ballot) in
        [(0, Ballot::Granted(1)), (1, Ballot::Granted(1)), (2, Ballot::Refused), (3, Ballot::Refused)]
    {
        attempt.on_lock(node, ballot);
    }
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    assert_eq!(attempt.step(at(1)), Step::Lost(Loss::Contended));
}

#[test]
fn the_arbiter_is_asked_alone_and_its_refusal_ends_the_attempt() {
    let mut attempt = attempt(5, Plan::ArbiterFirst(vec![3, 1]));
    assert_eq!(attempt.step(at(0)), Step::Lock(nodes(&[3])));
    assert_eq!(attempt.step(at(0)), Step::Wait(at(125)));
    attempt.on_lock(3, Ballot::Refused);
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    assert_eq!(attempt.to_roll_back().count(), 0);
    assert_eq!(attempt.step(at(1)), Step::Lost(Loss::Contended));
}

#[test]
fn when_the_arbiter_grants_all_others_are_asked() {
    let mut attempt = attempt(5, Plan::ArbiterFirst(vec![3, 1]));
    attempt.step(at(0));
    attempt.on_lock(3, Ballot::Granted(4));
    assert_eq!(attempt.step(at(1)), Step::Lock(nodes(&[0, 1, 2, 4])));
    attempt.on_lock(0, Ballot::Granted(4));
    attempt.on_lock(1, Ballot::Granted(4));
    assert_eq!(attempt.step(at(2)), Step::Won { token: FencingToken::new(4) });
}

#[test]
fn a_silent_or_failing_arbiter_is_passed_over() {
    let mut attempt = attempt(5, Plan::ArbiterFirst(vec![3, 1, 2]));
    attempt.step(at(0));
    assert_eq!(attempt.step(at(125)), Step::Lock(nodes(&[1])), "3 is silent");
    attempt.on_lock(1, Ballot::Failed);
    assert_eq!(attempt.step(at(126)), Step::Wait(at(250)), "the next is asked when its time has come");
    assert_eq!(attempt.step(at(250)), Step::Lock(nodes(&[2])));
    attempt.on_lock(2, Ballot::Granted(1));
    assert_eq!(attempt.step(at(251)), Step::Lock(nodes(&[0, 4])));
}

#[test]
fn a_node_that_was_never_asked_needs_no_rollback_but_a_silent_one_does() {
    let mut attempt = attempt(3, Plan::Parallel);
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Unsent);
    attempt.on_lock(1, Ballot::Silent);
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    assert_eq!(attempt.to_roll_back().collect::<Vec<_>>(), [(1, false), (2, false)]);
}

#[test]
fn nothing_wins_after_it_was_abandoned() {
    let mut attempt = attempt(3, Plan::Parallel);
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Silent);
    attempt.on_lock(1, Ballot::Silent);
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    for node in 0..3 {
        attempt.on_lock(node, Ballot::Granted(1));
    }
    assert!(matches!(attempt.step(at(2)), Step::Lost(_)));
}

#[test]
fn whoever_keeps_the_line_is_asked_for_a_turn_and_the_others_to_lock() {
    let mut attempt = attempt(5, Plan::InLine(vec![3, 1, 0, 2, 4]));
    assert_eq!(attempt.step(at(0)), Step::LineUp(3));
    assert_eq!(attempt.step(at(0)), Step::Wait(at(125)));
    assert_eq!(attempt.step(at(125)), Step::LineUp(1), "a silent one is passed over");
    attempt.on_lock(1, Ballot::Granted(7));
    assert_eq!(attempt.step(at(126)), Step::Lock(nodes(&[0, 2, 4])));
    attempt.on_lock(0, Ballot::Granted(7));
    attempt.on_lock(2, Ballot::Granted(7));
    assert_eq!(attempt.step(at(127)), Step::Won { token: FencingToken::new(7) });
}

#[test]
fn a_line_whose_keeper_puts_off_ends_the_attempt() {
    let mut attempt = attempt(5, Plan::InLine(vec![3, 1, 0, 2, 4]));
    attempt.step(at(0));
    attempt.on_lock(3, Ballot::Refused);
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    assert_eq!(attempt.step(at(1)), Step::Lost(Loss::Contended));
}

#[test]
fn whoever_is_called_asks_the_caller_for_its_turn_and_all_others_beside_it() {
    let mut attempt = attempt(5, Plan::Called(3));
    assert_eq!(attempt.step(at(0)), Step::LineUp(3));
    assert_eq!(attempt.step(at(0)), Step::Lock(nodes(&[0, 1, 2, 4])));
    for node in [0, 3, 4] {
        attempt.on_lock(node, Ballot::Granted(7));
    }
    assert_eq!(attempt.step(at(1)), Step::Won { token: FencingToken::new(7) });
}

#[test]
fn a_call_that_the_caller_does_not_know_of_is_given_up_at_once() {
    let mut attempt = attempt(5, Plan::Called(3));
    attempt.step(at(0));
    attempt.step(at(0));
    attempt.on_lock(0, Ballot::Granted(7));
    attempt.on_lock(3, Ballot::Refused);
    assert_eq!(attempt.step(at(1)), Step::Abandon);
    assert_eq!(attempt.step(at(1)), Step::Lost(Loss::Contended));
    let to_roll_back: Vec<_> = attempt.to_roll_back().collect();
    assert_eq!(to_roll_back, [(0, true), (1, false), (2, false), (4, false)]);
}
