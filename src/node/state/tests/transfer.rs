//! The transfer of locks to another lease.

use super::*;
use crate::node::operation::samples::transfer;

const TTL: u64 = 9000;

/// Returns a node on which the lease `from` holds `a`, after a refused client that waits has set a yield mark.
fn held_and_marked() -> Fixture {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    assert_eq!(node.ask(&lock("a", "from", TTL, 0)), Answer::Granted { vote: 42 });
    assert!(matches!(node.ask(&lock("a", "waiting", TTL, 0)), Answer::Held(_)));
    node
}

#[test]
fn newcomers_yield_to_waiters_when_a_transferred_lock_is_released() {
    let mut node = held_and_marked();
    assert_eq!(node.ask(&transfer("a", "to", "from", TTL, 0, 0)), Answer::Granted { vote: 43 });
    assert_eq!(node.ask(&unlock("a", "to", true, false)), Answer::Unlocked { deleted: 1 });
    assert!(matches!(node.ask(&lock("a", "newcomer", TTL, 0)), Answer::Queued(_)), "the mark is gone");
    assert_eq!(node.ask(&take("a", "waiting", TTL)), Answer::Granted { vote: 44 });
}

#[test]
fn a_transfer_to_the_same_lease_is_a_lock() {
    let mut node = held_and_marked();
    assert_eq!(node.ask(&transfer("a", "from", "from", 2 * TTL, 0, 0)), Answer::Granted { vote: 42 });
    assert_eq!(node.lease_id_of("a").as_deref(), Some("from"));
}

#[test]
fn a_refused_transfer_changes_nothing() {
    let mut node = held_and_marked();
    node.set_counter("a", 50);
    let refused = node.ask_without_change(&transfer("a", "to", "from", TTL, 0, 42));
    assert_eq!(refused, Answer::NotWrittenBack { counter: 50 });
    // The key of another resource of the group belongs to another lease.
    node.ask(&lock("b", "other", TTL, 0));
    let refused = node.ask_without_change(&transfer("a b", "to", "from", TTL, 0, 50));
    assert!(matches!(refused, Answer::Held(_)), "{refused:?}");
}

#[test]
fn a_transfer_wakes_no_waiter_and_publishes_nothing() {
    let mut node = held_and_marked();
    node.ask(&enqueue("a", "first", "first", 0, TTL));
    node.notices.clear();
    assert_eq!(node.ask(&transfer("a", "to", "from", TTL, 0, 42)), Answer::Granted { vote: 43 });
    assert_eq!(node.notices, []);
}

#[test]
fn a_tombstone_refuses_a_transfer_even_if_the_counter_is_invalid() {
    let mut node = held_and_marked();
    node.set_counter("a", u64::MAX);
    let operation = transfer("a", "to", "from", TTL, 0, 0);
    let refused = node.ask_without_change(&operation);
    assert!(matches!(refused, Answer::Error(_)), "{refused:?}");
    node.ask(&unlock("a", "to", false, true));
    assert_eq!(node.ask_without_change(&operation), Answer::Tombstone);
}
