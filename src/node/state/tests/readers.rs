//! The rules of a node about readers and writers of one resource.

use super::*;
#[cfg(feature = "sim")]
use crate::node::state::ReaderRun;
use crate::node::{Enqueue, Queued, names, operation::samples::not_waiting};

/// Returns the enqueue of a reader.
fn enqueue_to_read(by: &str, arrival: u64) -> Operation {
    let Operation::Enqueue(entry) = enqueue("*a", by, by, arrival, 10_000) else { unreachable!() };
    Operation::Enqueue(Enqueue { waiter: names::reader(&lease_id(by)), ..entry })
}

fn wake_topic(waiter: &LeaseId) -> Resource {
    names::wake(&resource("a"), waiter)
}

#[test]
fn a_renewal_without_readers_and_counter_begins_a_phase_above_the_node_s_time() {
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
    assert!(
        matches!(node.ask(&take("*a", "two", 5000)), Answer::Granted { .. }),
        "a woken reader passes the yield mark"
    );
    node.ask(&unlock("*a", "one", true, false));
    node.ask(&unlock("*a", "two", true, false));
    assert!(matches!(node.ask(&take("a", "writer", 5000)), Answer::Granted { .. }));
}

#[test]
fn a_granted_reader_wakes_the_next_reader_and_no_writer() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "writer", 5000, 0));
    let first = names::reader(&lease_id("one"));
    let second = names::reader(&lease_id("two"));
    for (waiter, to_read) in [("one", true), ("two", true), ("next", false), ("three", true)] {
        let enqueue_operation =
            if to_read { enqueue_to_read(waiter, 0) } else { enqueue("a", waiter, waiter, 0, 10_000) };
        assert!(matches!(node.ask(&enqueue_operation), Answer::Queued(_)), "{waiter}");
    }
    node.notices.clear();
    node.ask(&unlock("a", "writer", true, false));
    assert!(node.notices.contains(&wake_topic(&first)) && !node.notices.contains(&wake_topic(&second)));
    let granted = node.ask(&enqueue_to_read("one", 1));
    assert!(matches!(granted.without_waiters(), Answer::Granted { .. }), "{granted:?}");
    assert!(node.notices.contains(&wake_topic(&second)));
    node.notices.clear();
    node.ask(&enqueue_to_read("two", 1));
    let behind_writer = node.ask(&enqueue_to_read("three", 0));
    assert!(matches!(behind_writer, Answer::Queued(Queued { rank: 1, .. })), "{behind_writer:?}");
    assert!(
        !node.notices.contains(&wake_topic(&lease_id("next"))),
        "a writer was woken while readers hold the resource"
    );
    // When the writer leaves the queue, the reader behind it is woken.
    node.ask(&withdraw("a", "next"));
    assert!(node.notices.contains(&wake_topic(&names::reader(&lease_id("three")))));
}

/// The readers are queued at this node, and the writer at another queue node.
#[test]
fn queued_readers_yield_to_a_woken_writer_until_it_locks() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    let vote = node.counter("a").unwrap();
    assert_eq!(node.ask(&take("a", "writer", 5000)), held(0, "redquorum:shared", 5000, vote));
    // The writer mark lasts for four hand-overs, which are 400 ms.
    assert_eq!(node.ask_without_change(&take("*a", "two", 5000)), held(0, "redquorum:shared", 400, vote));
    let enqueue_operation = enqueue_to_read("two", 0);
    let is_deferred =
        |answer: &Answer| matches!(answer, Answer::Queued(Queued { rank: 0, holder: Some(_), .. }));
    assert!(
        is_deferred(&node.ask(&enqueue_operation)),
        "a queued reader while another reader holds the resource"
    );
    assert_eq!(node.ask(&take("*a", "one", 5000)), granted(vote), "a reader that already holds the resource");
    node.ask(&unlock("*a", "one", true, false));
    assert!(is_deferred(&node.ask(&enqueue_operation)), "a queued reader after the last reader has unlocked");
    assert!(matches!(node.ask(&lock("*a", "new", 5000, 0)), Answer::Queued(_)), "a newcomer that reads");
    node.milliseconds += 401;
    assert!(
        matches!(node.ask(&enqueue_operation).without_waiters(), Answer::Granted { .. }),
        "the writer mark has expired"
    );

    node.ask(&take("a", "writer", 5000));
    node.ask(&unlock("*a", "two", true, false));
    assert!(matches!(node.ask(&take("a", "writer", 5000)), Answer::Granted { .. }));
    node.ask(&unlock("a", "writer", true, false));
    assert!(
        matches!(node.ask(&take("*a", "two", 5000)), Answer::Granted { .. }),
        "the writer has had the resource"
    );
}

#[test]
fn readers_do_not_yield_to_groups_and_to_writers_that_do_not_wait() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    node.ask_without_change(&not_waiting(take("a", "writer", 5000)));
    node.ask_without_change(&take("a b", "writer", 5000));
    assert!(matches!(node.ask(&enqueue_to_read("two", 0)).without_waiters(), Answer::Granted { .. }));
}

/// The key of the readers may be lost, as by an eviction, while the record of the readers stays.
#[test]
fn the_unlock_of_a_reader_without_its_key_leaves_the_other_readers() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    node.ask(&lock("*a", "two", 5000, 0));
    let key = node.state.held(&resource("a"), node.now()).cloned();
    node.state.set_lock(&resource("a"), None);
    assert_eq!(node.ask(&unlock("*a", "one", true, false)), Answer::Unlocked { deleted: 0 });
    node.state.set_lock(&resource("a"), key);
    let readers = ExampleNode::readers(&mut node, "a").map(|(_, readers)| readers);
    assert_eq!(readers, Some(vec!["two".to_owned()]));
}

/// A server deletes an expired key at its next use. So the readers do not come back when the clock of the server steps back.
#[test]
fn readers_whose_end_an_unlock_has_found_do_not_come_back() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    node.ask(&lock("*a", "two", 5000, 0));
    node.milliseconds += 5001;
    assert_eq!(node.ask(&unlock("*a", "one", true, false)), Answer::Unlocked { deleted: 0 });
    node.milliseconds -= 1;
    assert_eq!(ExampleNode::readers(&mut node, "a"), None);
}

#[cfg(feature = "sim")]
#[test]
fn readers_without_their_key_or_with_a_key_of_another_end_are_inconsistent() {
    let inconsistent = |change: &dyn Fn(&mut NodeState, &mut ReaderRun)| {
        let mut node = Fixture::new();
        node.ask(&lock("*a", "one", 5000, 0));
        node.ask(&lock("*b", "one", 5000, 0));
        let mut readers = node.state.readers.remove(&resource("a")).unwrap();
        change(&mut node.state, &mut readers);
        node.state.readers.insert(resource("a"), readers);
        node.state.inconsistent_resource(node.now()).cloned()
    };
    let (a, later) = (resource("a"), NodeTime::from_epoch(START));
    let held = |lease_id, expires_at| Some(HeldKey { lease_id, holds: 0, expires_at });
    assert_eq!(inconsistent(&|_, _| ()), None);
    assert_eq!(inconsistent(&|_, readers| readers.epoch += 1), None);
    assert_eq!(inconsistent(&|state, _| state.set_lock(&a, None)), Some(a.clone()));
    assert_eq!(
        inconsistent(&|state, _| state.set_lock(&a, held(LeaseId::of_readers(), later))),
        Some(a.clone())
    );
    assert_eq!(inconsistent(&|state, _| state.set_lock(&a, held(lease_id("x"), later))), Some(a.clone()));
    assert_eq!(inconsistent(&|_, readers| readers.expires_at = later), Some(a.clone()));
    assert_eq!(inconsistent(&|_, readers| readers.phase += 1), Some(a.clone()));
    let past = NodeTime::from_epoch(1);
    let expired = inconsistent(&|state, readers| {
        readers.expires_at = past;
        readers.ends.values_mut().for_each(|end| *end = past);
        state.set_lock(&a, None);
    });
    assert_eq!(expired, None, "expired readers have no key");
}
