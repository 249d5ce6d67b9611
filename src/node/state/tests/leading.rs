//! The proclamations of leaders that nodes store.

use super::*;
use crate::node::{QuorumParameters, RestartGuard, names, operation::samples::observe};

#[test]
fn a_node_stores_proclamations_of_the_holder_only() {
    let mut node = Fixture::new();
    assert_eq!(
        node.ask_without_change(&proclaim("a", proclamation("1", 7, 1, "v"), 5000)),
        Answer::NotLeader
    );
    node.ask(&lock("a", "2", 5000, 0));
    assert_eq!(
        node.ask_without_change(&proclaim("a", proclamation("1", 7, 1, "v"), 5000)),
        Answer::NotLeader
    );
    assert_eq!(node.ask(&proclaim("a", proclamation("2", 8, 1, "w"), 5000)), Answer::Proclaimed);
    let Answer::Observed(seen) = node.ask_without_change(&observe("a")) else { panic!("not observed") };
    assert_eq!((seen.lease_id, seen.proclamation), (Some(lease_id("2")), Some(proclamation("2", 8, 1, "w"))));
    assert_eq!(seen.remaining, Some(Duration::from_secs(5)));
}

#[test]
fn an_older_proclamation_does_not_replace_a_newer_one() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "1", 60_000, 0));
    let topic = names::leader(&resource("a"));
    for (number, notices) in [(1, 1), (3, 2), (2, 2), (3, 2), (1, 2)] {
        let proclamation = proclamation("1", 7, number, &number.to_string());
        assert_eq!(node.ask(&proclaim("a", proclamation, 5000)), Answer::Proclaimed);
        assert_eq!(node.notices, vec![topic.clone(); notices]);
    }
    let Answer::Observed(seen) = node.ask_without_change(&observe("a")) else { panic!("not observed") };
    assert_eq!(seen.proclamation, Some(proclamation("1", 7, 3, "3")));
    // A new leader replaces the value of an earlier leader, even by a smaller number.
    node.ask(&unlock("a", "1", true, false));
    node.ask(&lock("a", "2", 60_000, 0));
    node.ask(&proclaim("a", proclamation("2", 8, 1, "next"), 5000));
    let Answer::Observed(seen) = node.ask_without_change(&observe("a")) else { panic!("not observed") };
    assert_eq!(seen.proclamation, Some(proclamation("2", 8, 1, "next")));
}

#[test]
fn a_proclamation_expires_one_ttl_after_its_last_repetition() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "1", 60_000, 0));
    let operation = proclaim("a", proclamation("1", 7, 1, "v"), 5000);
    node.ask(&operation);
    node.milliseconds += 3000;
    node.ask(&operation);
    node.milliseconds += 5000;
    assert!(node.state.leader(&resource("a"), node.now()).is_some());
    node.milliseconds += 1;
    assert!(node.state.leader(&resource("a"), node.now()).is_none());
    node.state.sweep(node.now());
    node.ask(&operation);
    assert_eq!(node.notices.len(), 2, "observers get a notice when an expired value is stored again");
}

#[test]
fn an_abstaining_node_stores_proclamations_and_a_node_of_another_quorum_does_not() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "1", 60_000, 0));
    let parameters = QuorumParameters { guard: RestartGuard::PerVote, ..parameters() };
    let operation = proclaim("a", proclamation("1", 7, 1, "v"), 5000);
    let now = node.now();
    assert_eq!(node.state.apply(&parameters, &operation, now).answer, Answer::Proclaimed);
    node.set_metadata(0, "other");
    let expected = Answer::WrongQuorum { fingerprint: Fingerprint::new("other") };
    assert_eq!(node.ask_without_change(&operation), expected);
}
