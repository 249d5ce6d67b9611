//! Readers and writers of one resource.

use super::*;
use crate::node::{
    Downgrade, Enqueue, Lock, Queued, names,
    operation::samples::{enqueue, giving_up, resources, withdraw},
};

/// Of the readers of `a`: phase, epoch, and who.
fn readers(node: &Fixture) -> Option<(u64, u64, Vec<String>)> {
    let readers = node.state.readers(&resource("a"), node.now())?;
    Some((readers.phase, readers.epoch, readers.ends.keys().map(ToString::to_string).collect()))
}

fn read_by(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn downgrade(reader: &str, writer: &str, ttl: u64) -> Operation {
    let (resources, ttl) = (resources("*a"), Duration::from_millis(ttl));
    let lock = Lock { resources, owner: owner(reader), ttl, hint: 0, has_turn: true, gives_up: false };
    Operation::Downgrade(Downgrade { lock, writer: owner(writer) })
}

/// Asks for a turn, as a reader's waiter.
fn enqueue_to_read(by: &str, ticket: u64) -> Operation {
    let Operation::Enqueue(entry) = enqueue("*a", by, by, ticket, 10_000) else { unreachable!() };
    Operation::Enqueue(Enqueue { waiter: names::reader(&owner(by)), ..entry })
}

fn turn(waiter: &LeaseId) -> Resource {
    names::turn(&resource("a"), waiter)
}

#[test]
fn the_first_reader_counts_up_and_those_who_join_get_the_same_vote() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    assert_eq!(node.ask(&lock("*a", "one", 5000, 0)), granted(42));
    assert_eq!(node.ask(&lock("*a", "two", 9000, 0)), granted(42));
    assert_eq!(node.ask(&lock("*a", "one", 4000, 0)), granted(42), "again");
    assert_eq!(readers(&node), Some((42, 42, read_by(&["one", "two"]))));
    assert_eq!((node.counter("a"), node.remaining("a")), (Some(42), 9000));
    assert_eq!(node.owner_of("a").unwrap(), "redquorum:shared");
}

#[test]
fn readers_keep_writers_out_and_a_writer_keeps_readers_out() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    node.ask(&lock("*a", "one", 5000, 0));
    assert_eq!(node.ask(&lock("a", "writer", 5000, 0)), held(0, "redquorum:shared", 5000, 42));
    node.ask(&unlock("*a", "one", true, false));
    assert_eq!(node.ask(&take("a", "writer", 5000)), granted(43));
    assert_eq!(node.ask(&lock("*a", "one", 5000, 0)), held(0, "writer", 5000, 43));
}

#[test]
fn the_key_ends_with_the_last_reader_whoever_leaves() {
    let mut node = Fixture::new();
    for (reader, ttl) in [("short", 2000), ("long", 9000), ("middle", 5000)] {
        node.ask(&lock("*a", reader, ttl, 0));
    }
    node.ask(&unlock("*a", "short", true, false));
    assert_eq!(node.remaining("a"), 9000);
    node.ask(&unlock("*a", "long", true, false));
    assert_eq!((node.remaining("a"), node.notices.len()), (5000, 0));
    node.milliseconds += 5001;
    assert_eq!(node.owner_of("a"), None);
    assert_eq!(readers(&node), None);
}

#[test]
fn a_reader_that_is_over_is_none_while_others_stay() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "dead", 1000, 0));
    node.ask(&lock("*a", "other", 9000, 0));
    node.milliseconds += 1001;
    // Nobody else has had it, so this is no loss.
    assert_eq!(node.ask(&unlock("*a", "dead", true, false)), Answer::Unlocked { deleted: 1 });
    node.ask(&lock("*a", "new", 9000, 0));
    assert_eq!(readers(&node).unwrap().2, read_by(&["new", "other"]));
}

#[test]
fn the_last_to_leave_tells_it_if_asked_to_and_no_other_does() {
    let mut node = Fixture::new();
    for reader in ["one", "two"] {
        node.ask(&lock("*a", reader, 5000, 0));
    }
    assert_eq!(node.ask(&unlock("*a", "one", true, false)), Answer::Unlocked { deleted: 1 });
    assert_eq!(node.notices, []);
    node.ask(&unlock("*a", "two", true, false));
    assert_eq!((node.owner_of("a"), node.notices.len()), (None, 1));
}

/// A lost attempt to read must not take the key of the writer that came meanwhile.
#[test]
fn who_was_a_reader_takes_nothing_from_a_writer() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "reader", 5000, 0));
    node.state.set_lock(&resource("a"), None);
    node.ask(&lock("a", "writer", 5000, 0));
    assert_eq!(node.ask(&unlock("*a", "reader", true, true)), Answer::Unlocked { deleted: 0 });
    assert_eq!((node.owner_of("a").unwrap(), node.remaining("a")), ("writer".into(), 5000));
    node.ask(&unlock("a", "writer", true, false));
    assert_eq!(node.ask(&lock("*a", "reader", 5000, 0)), Answer::Gone);
}

#[test]
fn a_write_back_raises_the_vote_of_the_next_unless_the_run_began_above_the_token() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    node.ask(&lock("*a", "one", 5000, 0));
    assert_eq!(node.ask(&write_back("*a", "one", 50)), Answer::WrittenBack);
    assert_eq!(node.ask(&lock("*a", "two", 5000, 0)), granted(50));
    assert_eq!(readers(&node).unwrap().0, 42);
    assert_eq!(node.ask(&write_back("*a", "two", 45)), Answer::WrittenBack, "others' epochs spoil nothing");
    assert_eq!(node.counter("a"), Some(50));
    let refused = Answer::NotWrittenBack { counter: 50 };
    assert_eq!(node.ask(&write_back("*a", "two", 41)), refused, "below the phase");
    assert_eq!(node.ask(&write_back("*a", "stranger", 60)), refused, "not a reader");
}

#[test]
fn a_renewal_proves_while_the_run_lasts_that_the_token_is_of() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    node.ask(&lock("*a", "one", 5000, 0));
    node.ask(&lock("*a", "two", 5000, 0));
    node.ask(&write_back("*a", "two", 60));
    assert_eq!(node.ask(&renew("*a", "one", 1, 9000, 42)), Answer::Renewed { proves: true });
    assert_eq!(node.remaining("a"), 9000);
    assert_eq!(node.ask(&renew("*a", "one", 1, 9000, 41)), Answer::Renewed { proves: false });
}

#[test]
fn a_renewal_where_nobody_is_begins_a_run_at_its_token_or_above_all_votes() {
    for (counter, phase, proves) in [(Some(42), 42, true), (Some(50), 51, false), (None, START + 1, false)] {
        let mut node = Fixture::new();
        if let Some(counter) = counter {
            node.set_counter("a", counter);
        }
        assert_eq!(node.ask(&renew("*a", "one", 1, 5000, 42)), Answer::Renewed { proves });
        assert_eq!(readers(&node), Some((phase, phase, read_by(&["one"]))), "{counter:?}");
        assert_eq!(node.counter("a"), Some(phase));
    }
}

#[test]
fn a_vote_below_the_minimum_token_is_not_given_again() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    node.set_metadata(0, "test");
    assert_eq!(node.ask(&lock("*a", "one", 5000, 0)), granted(42));
    node.set_metadata(1000, "test");
    assert_eq!(node.ask(&lock("*a", "two", 5000, 0)), granted(1001));
    assert_eq!(node.ask(&renew("*a", "one", 1, 5000, 42)), Answer::Renewed { proves: false });
}

#[test]
fn a_group_has_one_vote_above_what_it_takes_alone_and_what_it_shares() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    node.set_counter("b", 70);
    node.ask(&lock("*a", "other", 5000, 0));
    assert_eq!(node.ask(&lock("*a b", "me", 5000, 0)), granted(71));
    assert_eq!((readers(&node).unwrap().1, node.counter("a"), node.counter("b")), (71, Some(71), Some(71)));
    assert_eq!(node.ask(&lock("*a b", "me", 5000, 0)), granted(71), "again");
    assert_eq!(node.ask(&unlock("*a b", "me", true, false)), Answer::Unlocked { deleted: 2 });
    assert_eq!((readers(&node).unwrap().2, node.owner_of("b")), (read_by(&["other"]), None));
}

#[test]
fn force_unlocks_all_readers_and_refuses_their_renewals() {
    let mut node = Fixture::new();
    for reader in ["one", "two"] {
        node.ask(&lock("*a", reader, 5000, 0));
    }
    assert_eq!(node.ask(&force_unlock("a")), Answer::Unlocked { deleted: 1 });
    assert_eq!((node.owner_of("a"), node.notices.len()), (None, 1));
    for reader in ["one", "two"] {
        assert_eq!(node.ask_in_vain(&renew("*a", reader, 1, 5000, 42)), Answer::Gone);
    }
}

#[test]
fn a_writer_that_is_refused_keeps_new_readers_off_for_as_long_as_those_renew_who_read() {
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
fn a_reader_that_gets_in_wakes_the_next_and_a_writer_is_not_woken_while_others_read() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "writer", 5000, 0));
    let one = names::reader(&owner("one"));
    let two = names::reader(&owner("two"));
    for (waiter, to_read) in [("one", true), ("two", true), ("next", false), ("three", true)] {
        let asks = if to_read { enqueue_to_read(waiter, 0) } else { enqueue("a", waiter, waiter, 0, 10_000) };
        assert!(matches!(node.ask(&asks), Answer::Queued(_)), "{waiter}");
    }
    node.notices.clear();
    node.ask(&unlock("a", "writer", true, false));
    assert!(node.notices.contains(&turn(&one)) && !node.notices.contains(&turn(&two)));
    let granted = node.ask(&enqueue_to_read("one", 1));
    assert!(matches!(granted.told(), Answer::Granted { .. }), "{granted:?}");
    assert!(node.notices.contains(&turn(&two)));
    node.notices.clear();
    node.ask(&enqueue_to_read("two", 1));
    let late = node.ask(&enqueue_to_read("three", 0));
    assert!(matches!(late, Answer::Queued(Queued { rank: 1, .. })), "behind the writer: {late:?}");
    assert!(!node.notices.contains(&turn(&owner("next"))), "who could not come");
    // The writer gives up, so the readers behind it need not wait.
    node.ask(&withdraw("a", "next"));
    assert!(node.notices.contains(&turn(&names::reader(&owner("three")))));
}

/// Readers of another queue than the writer's.
#[test]
fn readers_that_are_queued_let_a_writer_go_first_whose_turn_it_is_until_it_comes_again() {
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
    assert!(matches!(node.ask(&asks).told(), Answer::Granted { .. }), "it has not come");

    node.ask(&take("a", "writer", 5000));
    node.ask(&unlock("*a", "two", true, false));
    assert!(matches!(node.ask(&take("a", "writer", 5000)), Answer::Granted { .. }));
    node.ask(&unlock("a", "writer", true, false));
    assert!(matches!(node.ask(&take("*a", "two", 5000)), Answer::Granted { .. }), "it has come");
}

#[test]
fn readers_give_way_to_no_writer_that_gives_up_and_to_no_group() {
    let mut node = Fixture::new();
    node.ask(&lock("*a", "one", 5000, 0));
    node.ask_in_vain(&giving_up(take("a", "writer", 5000)));
    node.ask_in_vain(&take("a b", "writer", 5000));
    assert!(matches!(node.ask(&enqueue_to_read("two", 0)).told(), Answer::Granted { .. }));
}

#[test]
fn who_downgrades_is_a_reader_with_a_vote_of_its_own_and_the_writer_is_gone() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    node.ask(&lock("a", "writer", 5000, 0));
    assert_eq!(node.ask(&downgrade("reader", "writer", 9000)), granted(43));
    assert_eq!(node.ask(&downgrade("reader", "writer", 9000)), granted(43), "again");
    assert_eq!(readers(&node), Some((43, 43, read_by(&["reader"]))));
    assert_eq!((node.remaining("a"), node.notices.len()), (9000, 1));
    assert_eq!(node.ask(&unlock("a", "writer", true, true)), Answer::Unlocked { deleted: 0 });
    assert_eq!(node.ask(&downgrade("reader", "writer", 9000)), granted(43), "it reads already");
}

#[test]
fn who_downgrades_joins_readers_and_yields_to_others_and_to_force() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    assert_eq!(node.ask(&downgrade("one", "writer", 9000)), granted(42), "where nobody is");
    assert_eq!(node.ask(&downgrade("two", "writer", 9000)), granted(42), "where others read");
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    node.ask(&lock("a", "other", 5000, 0));
    assert_eq!(node.ask_in_vain(&downgrade("reader", "writer", 9000)), held(0, "other", 5000, 42));
    node.ask(&force_unlock("a"));
    assert_eq!(node.ask_in_vain(&downgrade("reader", "other", 9000)), Answer::Gone);
}
