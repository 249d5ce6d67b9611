//! Readers and writers of one resource.

use super::*;
use crate::node::{
    Enqueue, Queued, names,
    operation::samples::{enqueue, not_waiting, withdraw},
};

/// Asks for a turn, as a reader's waiter.
fn enqueue_to_read(by: &str, arrival: u64) -> Operation {
    let Operation::Enqueue(entry) = enqueue("*a", by, by, arrival, 10_000) else { unreachable!() };
    Operation::Enqueue(Enqueue { waiter: names::reader(&lease_id(by)), ..entry })
}

fn turn(waiter: &LeaseId) -> Resource {
    names::wake(&resource("a"), waiter)
}

#[test]
fn a_renewal_without_readers_and_counter_begins_a_run_above_the_start() {
    let mut node = Fixture::new();
    assert_eq!(node.ask(&renew("*a", "one", 1, 5000, 42)), Answer::Renewed { proves: false });
    assert_eq!(
        ExampleNode::readers(&mut node, "a"),
        Some((format!("{0}:{0}", START + 1), vec!["one".into()]))
    );
    assert_eq!(node.counter("a"), Some(START + 1));
}

#[test]
fn a_refused_writer_blocks_new_readers_while_readers_renew() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    node.ask(&lock("a", "writer", 5000, 0));
    node.milliseconds += 4000;
    node.ask(&renew("*a", "one", 1, 5000, START + 1));
    node.milliseconds += 4000;
    let refused = node.ask(&lock("*a", "two", 5000, 0));
    assert!(matches!(refused, Answer::Queued(Queued { rank: 0, holder: None, .. })), "{refused:?}");
    assert!(matches!(node.ask(&take("*a", "two", 5000)), Answer::Granted { .. }), "at its turn");
    node.ask(&unlock("*a", "one", true, false));
    node.ask(&unlock("*a", "two", true, false));
    assert!(matches!(node.ask(&take("a", "writer", 5000)), Answer::Granted { .. }));
}

#[test]
fn a_granted_reader_wakes_the_next_reader_and_no_writer() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "writer", 5000, 0));
    let one = names::reader(&lease_id("one"));
    let two = names::reader(&lease_id("two"));
    for (waiter, to_read) in [("one", true), ("two", true), ("next", false), ("three", true)] {
        let asks = if to_read { enqueue_to_read(waiter, 0) } else { enqueue("a", waiter, waiter, 0, 10_000) };
        assert!(matches!(node.ask(&asks), Answer::Queued(_)), "{waiter}");
    }
    node.notices.clear();
    node.ask(&unlock("a", "writer", true, false));
    assert!(node.notices.contains(&turn(&one)) && !node.notices.contains(&turn(&two)));
    let granted = node.ask(&enqueue_to_read("one", 1));
    assert!(matches!(granted.without_waiters(), Answer::Granted { .. }), "{granted:?}");
    assert!(node.notices.contains(&turn(&two)));
    node.notices.clear();
    node.ask(&enqueue_to_read("two", 1));
    let late = node.ask(&enqueue_to_read("three", 0));
    assert!(matches!(late, Answer::Queued(Queued { rank: 1, .. })), "behind the writer: {late:?}");
    assert!(!node.notices.contains(&turn(&lease_id("next"))), "who could not come");
    // The writer gives up, so the readers behind it need not wait.
    node.ask(&withdraw("a", "next"));
    assert!(node.notices.contains(&turn(&names::reader(&lease_id("three")))));
}

/// Readers of another queue than the writer's.
#[test]
fn queued_readers_yield_to_a_woken_writer_until_it_retries() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    let vote = node.counter("a").unwrap();
    assert_eq!(node.ask(&take("a", "writer", 5000)), held(0, "redquorum:shared", 5000, vote));
    // Four hand-overs.
    assert_eq!(node.ask_in_vain(&take("*a", "two", 5000)), held(0, "redquorum:shared", 400, vote));
    let asks = enqueue_to_read("two", 0);
    let put_off = |answer: &Answer| matches!(answer, Answer::Queued(Queued { rank: 0, holder: Some(_), .. }));
    assert!(put_off(&node.ask(&asks)), "beside another reader");
    assert_eq!(node.ask(&take("*a", "one", 5000)), granted(vote), "who reads already");
    node.ask(&unlock("*a", "one", true, false));
    assert!(put_off(&node.ask(&asks)), "when nobody reads");
    assert!(matches!(node.ask(&lock("*a", "new", 5000, 0)), Answer::Queued(_)), "a newcomer");
    node.milliseconds += 401;
    assert!(matches!(node.ask(&asks).without_waiters(), Answer::Granted { .. }), "it has not come");

    node.ask(&take("a", "writer", 5000));
    node.ask(&unlock("*a", "two", true, false));
    assert!(matches!(node.ask(&take("a", "writer", 5000)), Answer::Granted { .. }));
    node.ask(&unlock("a", "writer", true, false));
    assert!(matches!(node.ask(&take("*a", "two", 5000)), Answer::Granted { .. }), "it has come");
}

#[test]
fn readers_yield_to_no_group_and_no_writer_that_does_not_wait() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    node.ask_in_vain(&not_waiting(take("a", "writer", 5000)));
    node.ask_in_vain(&take("a b", "writer", 5000));
    assert!(matches!(node.ask(&enqueue_to_read("two", 0)).without_waiters(), Answer::Granted { .. }));
}
