//! The rules of a node, one by one.

use std::time::Duration;

use crate::{
    node::{
        Answer, Holder, HolderInfo, InspectAnswer, Operation,
        operation::samples::{
            force_unlock, inspect, lock, owner, parameters, renew, resource, take, unlock, unlock_late,
            write_back,
        },
        state::{Counter, LARGEST_COUNTER, NodeMetadata, NodeState, NodeTime},
    },
    values::{Fingerprint, LeaseId, NodeError, Resource},
};

mod admission;
mod guard;
mod leading;
mod readers;
mod wait_queue;

/// What a missing counter counts as when a test begins.
const START: u64 = 1_700_000_000_000_000;

/// A node, and its time.
#[derive(Clone)]
struct Fixture {
    state: NodeState,
    milliseconds: u64,
    notices: Vec<Resource>,
}

impl Fixture {
    fn new() -> Self {
        Self { state: NodeState::new("incarnation"), milliseconds: START / 1000, notices: Vec::new() }
    }

    fn now(&self) -> NodeTime {
        NodeTime::from_epoch(self.milliseconds)
    }

    fn ask(&mut self, operation: &Operation) -> Answer {
        let outcome = self.state.apply(&parameters(), operation, self.now());
        self.notices.extend(outcome.notices);
        outcome.answer
    }

    /// Asks, and expects that nothing changed.
    fn ask_in_vain(&mut self, operation: &Operation) -> Answer {
        let before = self.state.clone();
        let answer = self.ask(operation);
        assert_eq!(self.state, before, "{operation:?} changed something");
        answer
    }

    fn counter(&self, name: &str) -> Option<u64> {
        self.state.counter(&resource(name), self.now()).map(|counter| counter.value)
    }

    fn set_counter(&mut self, name: &str, value: u64) {
        let expires_at = self.now() + Duration::from_secs(1000);
        self.state.set_counter(&resource(name), Some(Counter { value, expires_at }));
    }

    fn owner_of(&self, name: &str) -> Option<String> {
        self.state.held(&resource(name), self.now()).map(|held| held.owner.to_string())
    }

    fn remaining(&self, name: &str) -> u128 {
        self.state.held(&resource(name), self.now()).unwrap().expires_at.remaining(self.now()).as_millis()
    }

    fn holds(&self, name: &str) -> u32 {
        self.state.held(&resource(name), self.now()).unwrap().holds
    }

    fn set_metadata(&mut self, minimum_token: u64, fingerprint: &str) {
        let metadata = NodeMetadata {
            incarnation: "incarnation".into(),
            minimum_token,
            fingerprint: Fingerprint::new(fingerprint),
        };
        self.state.set_metadata(Some(metadata));
    }
}

fn granted(vote: u64) -> Answer {
    Answer::Granted { vote }
}

fn used_up(value: u64) -> Answer {
    Answer::Error(NodeError::InvalidCounter(value.to_string().into()))
}

fn held(index: usize, by: &str, remaining: u64, counter: u64) -> Answer {
    let remaining = Duration::from_millis(remaining);
    Answer::Held(Holder { resource: index, owner: Some(owner(by)), remaining, counter })
}

#[test]
fn a_free_resource_is_granted_with_one_more_than_its_counter() {
    let mut node = Fixture::new();
    node.set_counter("a", 41);
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(42));
    assert_eq!((node.owner_of("a").unwrap(), node.holds("a"), node.remaining("a")), ("me".into(), 1, 5000));
    assert_eq!(node.counter("a"), Some(42));
}

#[test]
fn a_missing_counter_starts_at_the_nodes_time_in_whole_seconds() {
    let mut node = Fixture::new();
    node.milliseconds += 999;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 1));
    node.milliseconds += 1;
    assert_eq!(node.ask(&lock("b", "me", 5000, 0)), granted(START + 1_000_001));
}

#[test]
fn several_resources_are_granted_with_one_vote_above_all_their_counters() {
    let mut node = Fixture::new();
    node.set_counter("a", 7);
    node.set_counter("b", START + 100);
    assert_eq!(node.ask(&lock("a b c", "me", 5000, 0)), granted(START + 101));
    for name in ["a", "b", "c"] {
        assert_eq!(node.counter(name), Some(START + 101));
        assert_eq!(node.owner_of(name).as_deref(), Some("me"));
    }
}

#[test]
fn a_vote_is_above_the_minimum_token() {
    let mut node = Fixture::new();
    node.set_counter("a", 7);
    node.set_metadata(50, "test");
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(51));
}

#[test]
fn a_hint_moves_the_vote_up_to_an_hour_ahead_and_never_back() {
    let mut node = Fixture::new();
    node.set_counter("a", 7);
    assert_eq!(node.ask(&lock("a", "1", 1, 100)), granted(100));
    node.milliseconds += 2;
    assert_eq!(node.ask(&lock("a", "2", 1, 50)), granted(101));
    node.milliseconds += 2;
    assert_eq!(node.ask(&lock("a", "3", 1, u64::MAX)), granted(START + 3_600_000_001));
}

#[test]
fn a_resource_of_another_is_refused_with_its_holder_and_nothing_changes() {
    let mut node = Fixture::new();
    node.set_counter("a", 7);
    node.set_counter("b", 50);
    node.ask(&lock("a", "other", 5000, 0));
    node.milliseconds += 1000;
    assert_eq!(node.ask_in_vain(&take("a b", "me", 9000)), held(0, "other", 4000, 50));
    assert_eq!(node.ask_in_vain(&renew("a b", "me", 1, 9000, 60)), held(0, "other", 4000, 50));
}

#[test]
fn of_several_holders_the_one_who_holds_longest_is_told_and_the_first_if_they_tie() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "short", 5000, 0));
    node.ask(&lock("b c", "long", 6000, 0));
    let answer = node.ask_in_vain(&take("a b c", "me", 9000));
    assert_eq!(answer, held(1, "long", 6000, START + 1));
}

#[test]
fn a_resent_lock_gets_the_same_vote_and_never_a_shorter_ttl() {
    let mut node = Fixture::new();
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 1));
    node.ask(&renew("a", "me", 3, 5000, START + 1));
    assert_eq!(node.ask_in_vain(&lock("a", "me", 2000, 500)), granted(START + 1));
    assert_eq!((node.remaining("a"), node.holds("a")), (5000, 3));
    assert_eq!(node.ask(&lock("a", "me", 8000, 0)), granted(START + 1));
    assert_eq!((node.remaining("a"), node.holds("a")), (8000, 3));
}

#[test]
fn a_resent_lock_of_several_gets_the_largest_counter_for_all() {
    let mut node = Fixture::new();
    node.ask(&lock("a b", "me", 5000, 0));
    node.set_counter("b", START + 9);
    assert_eq!(node.ask(&lock("a b", "me", 5000, 0)), granted(START + 9));
    assert_eq!(node.counter("a"), Some(START + 9));
}

#[test]
fn a_lock_whose_vote_was_forgotten_is_voted_anew() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 5));
    node.state.set_counter(&resource("a"), None);
    node.milliseconds += 1000;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 1_000_001));
    node.set_metadata(START + 2_000_000, "test");
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 2_000_001));
}

#[test]
fn a_lock_that_is_partly_ours_is_voted_anew_and_completed() {
    let mut node = Fixture::new();
    node.ask(&lock("a b", "me", 5000, 0));
    node.state.set_lock(&resource("b"), None);
    assert_eq!(node.ask(&lock("a b", "me", 3000, 0)), granted(START + 2));
    assert_eq!((node.remaining("a"), node.remaining("b")), (5000, 3000));
}

#[test]
fn a_key_is_there_at_its_last_millisecond_and_gone_after_it() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "other", 5000, 0));
    node.milliseconds += 5000;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), held(0, "other", 0, START + 1));
    node.milliseconds += 1;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 2));
}

#[test]
fn a_step_back_of_the_clock_brings_a_key_back() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.milliseconds += 6000;
    assert_eq!(node.owner_of("a"), None);
    node.milliseconds -= 3000;
    assert_eq!(node.owner_of("a").as_deref(), Some("me"));
}

#[test]
fn the_largest_vote_is_the_last() {
    let mut node = Fixture::new();
    node.set_counter("a", LARGEST_COUNTER - 1);
    assert_eq!(node.ask(&lock("a", "1", 5000, 0)), granted(LARGEST_COUNTER));
    node.ask(&unlock("a", "1", true, false));
    assert_eq!(node.ask_in_vain(&lock("a", "2", 5000, 0)), used_up(LARGEST_COUNTER));
    let too_large = LARGEST_COUNTER + 1;
    assert_eq!(node.ask_in_vain(&write_back("a", "1", too_large)), used_up(too_large));
    assert_eq!(node.ask_in_vain(&renew("a", "1", 1, 5000, too_large)), used_up(too_large));
}

#[test]
fn write_back_moves_the_counters_of_its_owner_up_to_the_token() {
    let mut node = Fixture::new();
    node.ask(&lock("a b", "me", 5000, 0));
    assert_eq!(node.ask(&write_back("a b", "me", START + 5)), Answer::WrittenBack);
    assert_eq!((node.counter("a"), node.counter("b")), (Some(START + 5), Some(START + 5)));
    assert_eq!(node.ask_in_vain(&write_back("a b", "me", START + 5)), Answer::WrittenBack);
}

#[test]
fn write_back_is_refused_above_the_token_and_for_anybody_else() {
    let mut node = Fixture::new();
    node.ask(&lock("a b", "me", 5000, 0));
    node.set_counter("b", START + 9);
    let refused = Answer::NotWrittenBack { counter: START + 9 };
    assert_eq!(node.ask_in_vain(&write_back("a b", "me", START + 8)), refused);
    assert_eq!(node.ask_in_vain(&write_back("a b", "other", START + 20)), refused);
    assert_eq!(
        node.ask_in_vain(&write_back("a c", "me", START + 20)),
        Answer::NotWrittenBack { counter: START + 1 }
    );
    assert_eq!(node.ask_in_vain(&write_back("c", "me", START + 20)), Answer::NotWrittenBack { counter: 0 });
}

#[test]
fn write_back_counts_a_lost_counter_as_the_start() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.state.set_counter(&resource("a"), None);
    assert_eq!(node.ask_in_vain(&write_back("a", "me", START - 1)), Answer::NotWrittenBack { counter: 0 });
    assert_eq!(node.ask(&write_back("a", "me", START)), Answer::WrittenBack);
}

#[test]
fn renewal_extends_sets_absolute_holds_and_never_shortens() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    assert_eq!(node.ask(&renew("a", "me", 2, 9000, START + 1)), Answer::Renewed { proves: true });
    assert_eq!((node.remaining("a"), node.holds("a")), (9000, 2));
    assert_eq!(node.ask(&renew("a", "me", 1, 4000, START + 1)), Answer::Renewed { proves: true });
    assert_eq!((node.remaining("a"), node.holds("a")), (9000, 1));
}

#[test]
fn renewal_heals_what_the_node_lost_and_proves_nothing_where_the_counter_is_missing() {
    let mut node = Fixture::new();
    let token = START - 5;
    assert_eq!(node.ask(&renew("a", "me", 1, 5000, token)), Answer::Renewed { proves: false });
    assert_eq!(node.owner_of("a").as_deref(), Some("me"));
    assert_eq!(node.counter("a"), Some(START));
}

#[test]
fn a_node_that_forgot_the_counter_proves_nothing_later_either() {
    let mut node = Fixture::new();
    let token = START + 1;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(token));
    node.state = NodeState::new("incarnation");
    for _ in 0..2 {
        assert_eq!(node.ask(&renew("a", "me", 1, 5000, token)), Answer::Renewed { proves: false });
    }
    assert_eq!(node.counter("a"), Some(token + 1));
}

#[test]
fn renewal_heals_where_the_counter_is_above_the_token_but_proves_nothing() {
    let mut node = Fixture::new();
    node.set_counter("a", 50);
    assert_eq!(node.ask(&renew("a", "me", 1, 5000, 49)), Answer::Renewed { proves: false });
    assert_eq!((node.owner_of("a").as_deref(), node.counter("a")), (Some("me"), Some(50)));
    assert_eq!(node.ask(&renew("a", "me", 1, 5000, 50)), Answer::Renewed { proves: true });
}

#[test]
fn renewal_proves_nothing_below_the_minimum_token() {
    let mut node = Fixture::new();
    node.set_counter("a", 5);
    node.set_metadata(60, "test");
    assert_eq!(node.ask(&renew("a", "me", 1, 5000, 59)), Answer::Renewed { proves: false });
    assert_eq!(node.ask(&renew("a", "me", 1, 5000, 60)), Answer::Renewed { proves: true });
}

#[test]
fn unlock_deletes_what_is_the_owners_and_nothing_else() {
    let mut node = Fixture::new();
    node.ask(&lock("a c", "me", 5000, 0));
    node.ask(&lock("b", "other", 5000, 0));
    assert_eq!(node.ask(&unlock("a b c", "me", true, false)), Answer::Unlocked { deleted: 2 });
    assert_eq!(node.owner_of("b").as_deref(), Some("other"));
    assert_eq!((node.owner_of("a"), node.owner_of("c")), (None, None));
    assert_eq!(node.notices, [resource("a"), resource("c")]);
    assert_eq!(node.ask_in_vain(&unlock("a b c", "me", true, false)), Answer::Unlocked { deleted: 0 });
}

#[test]
fn the_rollback_of_a_loser_tells_nobody() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.ask(&unlock("a", "me", false, false));
    assert_eq!(node.notices, []);
}

#[test]
fn an_unlock_that_deletes_all_knows_that_the_lock_has_landed_and_leaves_no_tombstone() {
    let mut node = Fixture::new();
    let unlock = |names| unlock_late(names, "me", false);
    node.ask(&lock("a b", "me", 5000, 0));
    assert_eq!(node.ask(&unlock("a b")), Answer::Unlocked { deleted: 2 });
    assert_eq!(node.ask(&lock("a b", "me", 5000, 0)), granted(START + 2));
    assert_eq!(node.ask(&unlock("a b c")), Answer::Unlocked { deleted: 2 });
    assert_eq!(node.ask_in_vain(&lock("a", "me", 5000, 0)), Answer::Gone);
}

#[test]
fn a_tombstone_refuses_late_requests_of_its_owner_and_of_no_other() {
    let mut node = Fixture::new();
    assert_eq!(node.ask(&unlock("a b", "me", false, true)), Answer::Unlocked { deleted: 0 });
    assert_eq!(node.ask_in_vain(&lock("b c", "me", 5000, 0)), Answer::Gone);
    assert_eq!(node.ask_in_vain(&renew("a c", "me", 1, 5000, 7)), Answer::Gone);
    assert_eq!(node.ask(&lock("a b", "other", 5000, 0)), granted(START + 1));
    node.milliseconds += 60_001;
    assert!(matches!(node.ask(&lock("a b", "me", 5000, 0)), Answer::Granted { .. }));
}

#[test]
fn without_leave_an_unlock_leaves_no_tombstone() {
    let mut node = Fixture::new();
    node.ask(&unlock("a", "me", false, false));
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 1));
}

#[test]
fn a_forced_unlock_removes_anybody_and_refuses_their_renewals() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "other", 5000, 0));
    assert_eq!(node.ask(&force_unlock("a b")), Answer::Unlocked { deleted: 1 });
    assert_eq!(node.notices, [resource("a")]);
    assert_eq!(node.ask_in_vain(&renew("a", "other", 1, 5000, START + 1)), Answer::Gone);
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 2));
}

#[test]
fn inspection_tells_the_holder_and_changes_nothing() {
    let mut node = Fixture::new();
    let incarnation = Some("incarnation".into());
    let seen = |held, counter| InspectAnswer {
        held,
        counter,
        incarnation: incarnation.clone(),
        fingerprint: None,
        abstention: None,
        readers: Box::default(),
        waiters: None,
    };
    let free = seen(None, 0);
    assert_eq!(node.ask_in_vain(&inspect("a")), Answer::Inspected(free));
    node.ask(&lock("a", "me", 5000, 0));
    let by = HolderInfo { owner: Some(owner("me")), holds: 1, remaining: Some(Duration::from_secs(5)) };
    let taken = seen(Some(by), START + 1);
    assert_eq!(node.ask_in_vain(&inspect("a")), Answer::Inspected(taken));
}

#[test]
fn clients_of_another_quorum_may_only_unlock_and_look() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.set_metadata(0, "other");
    for operation in
        [lock("a", "me", 5000, 0), write_back("a", "me", START + 5), renew("a", "me", 1, 5000, START + 5)]
    {
        let wrong_quorum = Answer::WrongQuorum { fingerprint: Fingerprint::new("other") };
        assert_eq!(node.ask_in_vain(&operation), wrong_quorum);
    }
    assert!(matches!(node.ask(&inspect("a")), Answer::Inspected(_)));
    assert_eq!(node.ask(&unlock("a", "me", true, false)), Answer::Unlocked { deleted: 1 });
}

#[test]
fn a_counter_is_remembered_for_its_ttl_after_every_use_and_for_half_as_long_again_at_most() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.milliseconds += 1_800_000;
    node.ask(&lock("a", "you", 5000, 0));
    node.milliseconds += 3_600_000;
    assert_eq!(node.counter("a"), Some(START + 2), "its ttl was not prolonged: it was long enough");
    node.milliseconds += 1;
    assert_eq!(node.counter("a"), None);

    node.ask(&lock("b", "me", 5000, 0));
    node.milliseconds += 1_800_001;
    node.ask(&lock("b", "you", 5000, 0));
    node.milliseconds += 5_400_000;
    assert!(node.counter("b").is_some());
    node.milliseconds += 1;
    assert_eq!(node.counter("b"), None);
}

#[test]
fn a_sweep_forgets_exactly_what_is_over() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.ask(&unlock("b", "me", false, true));
    let before = node.state.clone();
    node.milliseconds += 5000;
    node.state.sweep(node.now());
    assert_eq!(node.state, before);
    node.milliseconds += 5_400_000;
    node.state.sweep(node.now());
    assert_eq!(node.state, NodeState::new("incarnation"));
}
