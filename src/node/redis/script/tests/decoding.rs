//! Tests of the decoding of replies, including replies that the script never returns.

use std::time::Duration;

use redis::Value;

use crate::{
    node::{
        Answer, ObserveAnswer, Operation, Queued,
        operation::samples::{
            enqueue, inspect, lease_id, lock, observe, proclaim, proclamation, renew, unlock, write_back,
        },
        redis::script::{CallReply, Script},
    },
    values::NodeError,
};

/// Decodes a reply without an unpublished notice.
fn decode(operations: &[Operation], reply: Value) -> Vec<Answer> {
    let CallReply { answers, unpublished, violation } = Script::standalone().decode(operations, reply);
    assert_eq!(unpublished, None);
    let is_misshapen = answers.iter().all(|answer| matches!(answer, Answer::Error(NodeError::Protocol(_))));
    assert!(is_misshapen || violation.is_none(), "{violation:?}");
    answers
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[test]
fn a_reply_without_one_answer_per_operation_is_a_protocol_error_for_each_operation() {
    let operations = [lock("a", "me", 1, 0), inspect("a")];
    let one = Value::Array(vec![Value::Array(vec![text("tombstone")])]);
    for reply in [Value::Nil, Value::Okay, Value::Int(1), one, Value::Array(vec![])] {
        let CallReply { answers, violation, .. } = Script::standalone().decode(&operations, reply);
        assert_eq!(answers.len(), 2);
        assert!(answers.iter().all(|answer| matches!(answer, Answer::Error(NodeError::Protocol(_)))));
        assert!(matches!(violation, Some(NodeError::Protocol(_))), "the connection goes on");
    }
}

/// The error follows the answers, and is not an answer.
#[test]
fn an_unpublished_notice_changes_no_answer() {
    let operations = [unlock("a", "me", true, false), unlock("b", "me", true, false)];
    let error = |tag: &str, more: Option<&str>| {
        let words = [tag, "ERR The user executing the script can't publish to the channel"];
        Value::Array(words.into_iter().chain(more).map(text).collect())
    };
    let reply = |beside: &[Value]| {
        let answers = [Value::Int(1), Value::Int(0)];
        Script::standalone().decode(&operations, Value::Array([&answers, beside].concat()))
    };
    let CallReply { answers, unpublished, .. } = reply(&[error("unpublished", None)]);
    assert_eq!(answers, [Answer::Unlocked { deleted: 1 }, Answer::Unlocked { deleted: 0 }]);
    assert!(matches!(unpublished, Some(NodeError::NoPermission(_))), "{unpublished:?}");
    for beside in [
        vec![Value::Nil],
        vec![error("published", None)],
        vec![error("unpublished", Some("more"))],
        vec![error("unpublished", None), error("unpublished", None)],
    ] {
        let CallReply { answers, unpublished, .. } = reply(&beside);
        assert_eq!((answers.len(), unpublished), (2, None));
        assert!(
            answers.iter().all(|answer| matches!(answer, Answer::Error(NodeError::Protocol(_)))),
            "{beside:?}: {answers:?}"
        );
    }
}

#[test]
fn an_answer_of_the_wrong_kind_is_a_protocol_error() {
    let operations = [
        lock("a", "me", 1, 0),
        write_back("a", "me", 1),
        renew("a", "me", 1, 1, 1),
        unlock("a", "me", false, false),
        inspect("a"),
        proclaim("a", proclamation("me", 1, 1, "v"), 1),
        observe("a"),
    ];
    let wrong = [
        vec![text("written_back")],
        vec![Value::Int(1)],
        vec![text("held"), Value::Int(1), Value::Nil, Value::Int(1), Value::Int(1)],
        vec![text("tombstone")],
        vec![Value::Nil],
        vec![text("written_back")],
        vec![text("observed"), Value::Nil],
    ];
    let reply = Value::Array(wrong.into_iter().map(Value::Array).collect());
    for answer in decode(&operations, reply) {
        assert!(matches!(answer, Answer::Error(NodeError::Protocol(_))), "{answer:?}");
    }
    let numbers = Value::Array(vec![Value::Int(-1), Value::Int(1), Value::Int(2), Value::Int(-1)]);
    for answer in decode(&operations[..4], numbers) {
        assert!(matches!(answer, Answer::Error(NodeError::Protocol(_))), "{answer:?}");
    }
}

#[test]
fn an_answer_with_waiters_is_decoded_around_the_inner_answer() {
    let operations =
        [renew("a", "me", 1, 1, 1), unlock("a", "me", false, false), enqueue("a", "me", "w", 0, 1)];
    let with_waiters = |inner: Value| Value::Array(vec![text("with_waiters"), inner]);
    let answers =
        |inner: [Value; 3]| decode(&operations, Value::Array(inner.into_iter().map(with_waiters).collect()));
    let renewed = Value::Array(vec![text("renewed"), Value::Int(0)]);
    let expected =
        [Answer::Renewed { proves: false }, Answer::Unlocked { deleted: 2 }, Answer::Granted { vote: 17 }];
    assert_eq!(
        answers([renewed, Value::Int(2), Value::Int(17)]),
        expected.map(|answer| Answer::WithWaiters(Box::new(answer)))
    );
    let written_back = || Value::Array(vec![text("written_back")]);
    for answer in answers([written_back(), written_back(), written_back()]) {
        assert!(matches!(answer, Answer::Error(NodeError::Protocol(_))), "{answer:?}");
    }
}

#[test]
fn a_deferral_for_an_unrequested_resource_is_a_protocol_error() {
    let queued = |index| {
        let numbers = [index, 7, 1, 500].map(Value::Int);
        Value::Array(std::iter::once(text("queued")).chain(numbers).collect())
    };
    let operations = [lock("a b", "me", 1, 0), lock("a b", "me", 1, 0)];
    let answers = decode(&operations, Value::Array(vec![queued(1), queued(2)]));
    let patience = Duration::from_millis(500);
    let expected = Queued { resource: 1, arrival: 7, rank: 1, patience, holder: None };
    assert_eq!(answers[0], Answer::Queued(expected));
    assert!(matches!(answers[1], Answer::Error(NodeError::Protocol(_))));
}

#[test]
fn a_protocol_error_shows_the_start_of_the_reply() {
    let long = text(&"x".repeat(1_000_000));
    let answers = decode(&[inspect("a")], long);
    let Answer::Error(NodeError::Protocol(problem)) = &answers[0] else { panic!("{answers:?}") };
    assert!(problem.len() < 1000);
}

#[test]
fn errors_that_the_script_caught_are_decoded_by_their_kind() {
    let caught = |tag: &str, error: &str| Value::Array(vec![text(tag), text(error)]);
    let reply = Value::Array(vec![caught("error", "OOM no"), caught("counter", "1e5")]);
    let answers = decode(&[inspect("a"), inspect("b")], reply);
    assert_eq!(
        answers,
        [Answer::Error(NodeError::OutOfMemory), Answer::Error(NodeError::InvalidCounter("1e5".into()))]
    );
}

#[test]
fn a_proclamation_of_another_program_is_ignored() {
    let invalid_proclamations = [
        vec![],
        vec![Value::Nil; 5],
        vec![text("me"), text("7"), Value::Nil, text("v"), text("3000")],
        vec![text("me"), text("7e1"), text("1"), text("v"), text("3000")],
        vec![text("me"), text("7"), text("1"), text("v"), text("-1")],
    ];
    for fields in invalid_proclamations {
        let answer = [vec![text("observed"), text("me"), Value::Int(-1)], fields].concat();
        let answers = decode(&[observe("a")], Value::Array(vec![Value::Array(answer)]));
        let expected = ObserveAnswer { lease_id: Some(lease_id("me")), remaining: None, proclamation: None };
        assert_eq!(answers, [Answer::Observed(expected)]);
    }
}
