//! The rules of the pure node, one for each test.

use std::time::Duration;

use crate::{
    node::{
        Answer, Holder, HolderInfo, Inspect, InspectAnswer, List, Operation,
        examples::{self, ExampleNode},
        names,
        operation::samples::{
            arrive, enqueue, force_unlock, inspect, lease_id, lock, parameters, proclaim, proclamation,
            renew, resource, take, unlock, withdraw, write_back,
        },
        state::{Counter, HeldKey, NodeMetadata, NodeState, NodeTime},
    },
    values::{Fingerprint, LeaseId, NodeError, Resource},
};

mod admission;
mod guard;
mod leading;
mod readers;
mod sequences;
mod short_sequences;
mod transfer;
mod wait_queue;

/// The value of a missing counter when a test begins: the node's time in microseconds.
const START: u64 = 1_700_000_000_000_000;

/// A node, the time, and the topics of the published notices.
#[derive(Clone)]
struct Fixture {
    state: NodeState,
    milliseconds: u64,
    notices: Vec<Resource>,
    /// Whether the client may publish no notice.
    is_mute: bool,
    /// Whether a notice was not published.
    is_any_unpublished: bool,
}

impl Fixture {
    fn new() -> Self {
        Self {
            state: NodeState::new("incarnation"),
            milliseconds: START / 1000,
            notices: Vec::new(),
            is_mute: false,
            is_any_unpublished: false,
        }
    }

    fn now(&self) -> NodeTime {
        NodeTime::from_epoch(self.milliseconds)
    }

    fn ask(&mut self, operation: &Operation) -> Answer {
        let (is_mute, now) = (self.is_mute, self.now());
        let listeners = |_: &Resource| (!is_mute).then_some(1);
        let outcome = self.state.apply_with_listeners(&listeners, &parameters(), operation, now);
        self.notices.extend(outcome.notices);
        self.is_any_unpublished |= outcome.is_any_unpublished;
        outcome.answer
    }

    /// Applies an operation, and checks that the state does not change.
    fn ask_without_change(&mut self, operation: &Operation) -> Answer {
        let before = self.state.clone();
        let answer = self.ask(operation);
        assert_eq!(self.state, before, "{operation:?} changed the state");
        answer
    }

    fn counter(&self, name: &str) -> Option<u64> {
        self.state.counter(&resource(name), self.now()).map(|counter| counter.value)
    }

    fn set_counter(&mut self, name: &str, value: u64) {
        let expires_at = self.now() + Duration::from_secs(1000);
        self.state.set_counter(&resource(name), Some(Counter { value, expires_at }));
    }

    fn lease_id_of(&self, name: &str) -> Option<String> {
        self.state.held(&resource(name), self.now()).map(|held| held.lease_id.to_string())
    }

    fn set_metadata(&mut self, minimum_token: u64, fingerprint: &str) {
        let metadata = NodeMetadata {
            incarnation: "incarnation".into(),
            minimum_token,
            fingerprint: Fingerprint::new(fingerprint),
            replacements: "".into(),
        };
        self.state.set_metadata(Some(metadata));
    }
}

impl ExampleNode for Fixture {
    fn ask(&mut self, operation: &Operation) -> Answer {
        self.ask(operation)
    }

    fn set_counter(&mut self, name: &str, value: u64) {
        self.set_counter(name, value);
    }

    fn set_metadata(&mut self, minimum_token: u64, fingerprint: &str) {
        self.set_metadata(minimum_token, fingerprint);
    }

    fn lose(&mut self, name: &str) {
        self.state.set_lock(&resource(name), None);
    }

    fn wait(&mut self, milliseconds: u64) {
        self.milliseconds += milliseconds;
    }

    fn counter(&mut self, name: &str) -> Option<u64> {
        Self::counter(self, name)
    }

    fn lease_id(&mut self, name: &str) -> Option<String> {
        self.lease_id_of(name)
    }

    fn holds(&mut self, name: &str) -> Option<u32> {
        self.state.held(&resource(name), self.now()).map(|held| held.holds)
    }

    fn ttl(&mut self, name: &str) -> Option<Duration> {
        self.state.held(&resource(name), self.now()).map(|held| held.expires_at.remaining(self.now()))
    }

    fn readers(&mut self, name: &str) -> Option<(String, Vec<String>)> {
        let readers = self.state.readers(&resource(name), self.now())?;
        let names = readers.ends.keys().map(ToString::to_string).collect();
        Some((format!("{}:{}", readers.phase, readers.epoch), names))
    }

    fn take_channels(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.notices).iter().map(names::notice_channel).collect()
    }

    fn mute(&mut self) {
        self.is_mute = true;
    }

    fn take_unpublished(&mut self) -> bool {
        std::mem::take(&mut self.is_any_unpublished)
    }

    fn contents(&mut self) -> String {
        format!("{:?}", self.state)
    }

    fn elapsed(&mut self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn the_pure_node_passes_the_examples() {
    examples::run(Fixture::new);
}

fn granted(vote: u64) -> Answer {
    Answer::Granted { vote }
}

fn held(index: usize, by: &str, remaining: u64, counter: u64) -> Answer {
    let remaining = Duration::from_millis(remaining);
    Answer::Held(Holder { resource: index, lease_id: Some(lease_id(by)), remaining, counter })
}

#[test]
fn a_missing_counter_starts_at_the_node_s_time_in_whole_seconds() {
    let mut node = Fixture::new();
    node.milliseconds += 999;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 1));
    node.milliseconds += 1;
    assert_eq!(node.ask(&lock("b", "me", 5000, 0)), granted(START + 1_000_001));
}

#[test]
fn a_lock_on_several_resources_gets_one_vote_above_their_counters() {
    let mut node = Fixture::new();
    node.set_counter("a", 7);
    node.set_counter("b", START + 100);
    assert_eq!(node.ask(&lock("a b c", "me", 5000, 0)), granted(START + 101));
    for name in ["a", "b", "c"] {
        assert_eq!(node.counter(name), Some(START + 101));
        assert_eq!(node.lease_id_of(name).as_deref(), Some("me"));
    }
}

#[test]
fn a_hint_moves_the_vote_at_most_an_hour_ahead_and_never_lowers_it() {
    let mut node = Fixture::new();
    node.set_counter("a", 7);
    assert_eq!(node.ask(&lock("a", "1", 1, 100)), granted(100));
    node.milliseconds += 2;
    assert_eq!(node.ask(&lock("a", "2", 1, 50)), granted(101));
    node.milliseconds += 2;
    assert_eq!(node.ask(&lock("a", "3", 1, u64::MAX)), granted(START + 3_600_000_001));
}

#[test]
fn a_refusal_names_the_holder_with_the_longest_ttl_or_the_first_at_a_tie() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "short", 5000, 0));
    node.ask(&lock("b c", "long", 6000, 0));
    let answer = node.ask_without_change(&take("a b c", "me", 9000));
    assert_eq!(answer, held(1, "long", 6000, START + 1));
}

#[test]
fn a_repeated_lock_gets_a_new_vote_if_its_counter_was_lost() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 5));
    node.state.set_counter(&resource("a"), None);
    node.milliseconds += 1000;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 1_000_001));
    node.set_metadata(START + 2_000_000, "test");
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 2_000_001));
}

#[test]
fn a_key_expires_after_its_last_millisecond() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "other", 5000, 0));
    node.milliseconds += 5000;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), held(0, "other", 0, START + 1));
    node.milliseconds += 1;
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), granted(START + 2));
}

#[test]
fn an_expired_key_exists_again_after_a_step_back_of_the_clock() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.milliseconds += 6000;
    assert_eq!(node.lease_id_of("a"), None);
    node.milliseconds -= 3000;
    assert_eq!(node.lease_id_of("a").as_deref(), Some("me"));
}

#[test]
fn a_write_back_counts_a_lost_counter_as_the_node_s_time() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.state.set_counter(&resource("a"), None);
    assert_eq!(
        node.ask_without_change(&write_back("a", "me", START - 1)),
        Answer::NotWrittenBack { counter: 0 }
    );
    assert_eq!(node.ask(&write_back("a", "me", START)), Answer::WrittenBack);
}

#[test]
fn a_renewal_restores_lost_keys_and_proves_nothing_without_a_counter() {
    let mut node = Fixture::new();
    let token = START - 5;
    assert_eq!(node.ask(&renew("a", "me", 1, 5000, token)), Answer::Renewed { proves: false });
    assert_eq!(node.lease_id_of("a").as_deref(), Some("me"));
    assert_eq!(node.counter("a"), Some(START));
}

#[test]
fn a_node_with_a_lost_counter_never_proves_the_token() {
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
fn an_inspection_returns_the_holder_and_changes_nothing() {
    let mut node = Fixture::new();
    let incarnation = Some("incarnation".into());
    let inspected = |held, counter| InspectAnswer {
        held,
        counter,
        incarnation: incarnation.clone(),
        fingerprint: None,
        abstention: None,
        readers: Box::default(),
        details: Some(Box::default()),
    };
    let free = inspected(None, 0);
    assert_eq!(node.ask_without_change(&inspect("a")), Answer::Inspected(free));
    node.ask(&lock("a", "me", 5000, 0));
    let by = HolderInfo { lease_id: Some(lease_id("me")), holds: 1, remaining: Some(Duration::from_secs(5)) };
    let held = inspected(Some(by), START + 1);
    assert_eq!(node.ask_without_change(&inspect("a")), Answer::Inspected(held));
}

#[test]
fn the_details_of_an_inspection_are_bounded_and_have_no_ended_entries() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 50_000, 0));
    for (waiter, ttl) in [("one", 1000), ("two", 9000), ("three", 9000), ("four", 9000)] {
        node.ask(&enqueue("a", waiter, waiter, 0, ttl));
    }
    for arrival in ["x", "y", "z"] {
        node.ask(&arrive("a", 5, arrival));
    }
    node.milliseconds += 2000;
    let mut details = |max_details| {
        let inspect = Inspect { resource: resource("a"), max_readers: 0, max_details };
        match node.ask_without_change(&Operation::Inspect(inspect)) {
            Answer::Inspected(InspectAnswer { details, .. }) => details,
            answer => panic!("{answer:?}"),
        }
    };
    assert_eq!(details(0), None);
    for (most, queue, arrivals) in
        [(1, &["two"][..], 0), (2, &["two", "three"], 0), (3, &["two", "three", "four"], 3)]
    {
        let details = details(most).unwrap();
        assert_eq!((details.waiters, details.leads), (3, false), "the first entry has ended");
        assert_eq!(*details.queue, *queue.iter().map(|name| lease_id(name)).collect::<Vec<_>>());
        let latch = details.latch.unwrap();
        assert_eq!(
            (latch.count, latch.arrived, latch.is_open, latch.arrivals.len()),
            (5, 3, false, arrivals)
        );
    }
}

#[test]
fn a_list_has_the_keys_of_latches() {
    let mut node = Fixture::new();
    node.ask(&arrive("l", 5, "x"));
    let Answer::Listed(listed) = node.ask_without_change(&Operation::List(List { cursor: 0 })) else {
        panic!()
    };
    assert_eq!(listed.resources, [names::latch(&resource("l"))]);
    node.milliseconds += 60_001;
    let Answer::Listed(listed) = node.ask_without_change(&Operation::List(List { cursor: 0 })) else {
        panic!()
    };
    assert_eq!(listed.resources, []);
}

#[test]
fn a_counter_exists_for_at_least_its_ttl_after_each_use() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.milliseconds += 1_800_000;
    node.ask(&lock("a", "you", 5000, 0));
    node.milliseconds += 3_600_000;
    assert_eq!(
        node.counter("a"),
        Some(START + 2),
        "the remaining ttl was long enough, so the use did not extend it"
    );
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

/// Returns a node with every kind of data that expires.
fn node_with_all_data() -> Fixture {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.ask(&proclaim("a", proclamation("me", 7, 1, "value"), 5000));
    node.ask(&lock("a", "refused", 5000, 0));
    node.ask(&enqueue("a", "waiter", "waiter", 0, 5000));
    node.ask(&lock("*b", "reader", 5000, 0));
    node.ask(&take("b", "writer", 5000));
    node.ask(&unlock("c", "gone", false, true));
    node.ask(&arrive("latch", 2, "arrival"));
    let now = node.now();
    assert!(node.state.yield_mark(&resource("a"), now).is_some());
    assert!(node.state.writer_mark(&resource("b"), now).is_some());
    node
}

#[test]
fn a_sweep_deletes_exactly_the_expired_data() {
    let mut node = node_with_all_data();
    let before = node.state.clone();
    node.milliseconds += 400;
    node.state.sweep(node.now());
    assert_eq!(node.state, before);
    node.milliseconds += 5_400_000;
    node.state.sweep(node.now());
    assert_eq!(node.state, NodeState::new("incarnation"));
}

#[test]
fn no_vote_exceeds_the_largest_integer_that_a_double_holds_exactly() {
    let mut node = Fixture::new();
    node.set_counter("a", 9_007_199_254_740_990);
    assert_eq!(node.ask(&lock("a", "me", 1, 0)), granted(9_007_199_254_740_991));
    node.milliseconds += 2;
    let refused = node.ask_without_change(&lock("a", "you", 1, 0));
    assert!(matches!(refused, Answer::Error(_)), "{refused:?}");
}

#[test]
fn an_inspection_counts_the_waiters_whose_entries_have_not_ended() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 60_000, 0));
    for (waiter, entry_ttl) in [("one", 1000), ("two", 5000)] {
        node.ask(&enqueue("a", waiter, waiter, 0, entry_ttl));
    }
    let waiters = |node: &mut Fixture| {
        let inspect = Inspect { resource: resource("a"), max_readers: 0, max_details: 9 };
        match node.ask_without_change(&Operation::Inspect(inspect)) {
            Answer::Inspected(InspectAnswer { details, .. }) => {
                details.map_or((0, Vec::new()), |details| (details.waiters, details.queue.to_vec()))
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(waiters(&mut node), (2, vec![lease_id("one"), lease_id("two")]));
    // The queue expires with the entry of 5 s, which was withdrawn.
    node.ask(&withdraw("a", "two"));
    node.milliseconds += 1001;
    assert_eq!(waiters(&mut node), (0, Vec::new()));
}

#[test]
fn a_latch_is_open_only_after_the_last_arrival() {
    let mut node = Fixture::new();
    let arrivals = |names: &[&str]| names.iter().map(|name| name.as_bytes().into()).collect();
    assert_eq!(node.ask(&arrive("latch", 2, "one")), Answer::Arrived(arrivals(&["one"])));
    assert_eq!(node.ask(&arrive("latch", 2, "one")), Answer::Arrived(arrivals(&["one"])));
    assert_eq!(node.ask(&arrive("latch", 2, "two")), Answer::Open);
}

#[test]
fn a_list_has_the_resources_that_leases_and_readers_hold() {
    const LEASE_ID: &str = "00000000-0000-4000-8000-000000000000:1";
    let mut node = Fixture::new();
    let later = node.now() + Duration::from_secs(5);
    let held = |lease_id, holds, expires_at| Some(HeldKey { lease_id, holds, expires_at });
    node.state.set_lock(&resource("held"), held(lease_id(LEASE_ID), 1, later));
    node.state.set_lock(&resource("re-entered"), held(lease_id(LEASE_ID), 2, later));
    node.state.set_lock(&resource("without holds"), held(lease_id(LEASE_ID), 0, later));
    node.state.set_lock(&resource("of another program"), held(lease_id("program"), 1, later));
    node.state.set_lock(&resource("expired"), held(lease_id(LEASE_ID), 1, NodeTime::from_epoch(1)));
    node.ask(&lock("*shared", "reader", 5000, 0));
    let Answer::Listed(page) = node.ask_without_change(&Operation::List(List { cursor: 0 })) else {
        panic!("no list")
    };
    assert_eq!(page.resources, [resource("held"), resource("re-entered"), resource("shared")]);
}

/// The eviction of a server whose memory is full spares the counters, whose ttl is longer.
#[cfg(feature = "sim")]
#[test]
fn an_eviction_deletes_the_locks_and_no_counter() {
    let mut node = node_with_all_data();
    let counter = node.counter("a");
    node.state.evict_locks();
    assert_eq!((node.lease_id_of("a"), node.lease_id_of("b")), (None, None));
    assert_eq!(node.counter("a"), counter);
}

#[cfg(feature = "sim")]
#[test]
fn the_stored_leases_are_all_keys_and_readers_with_the_expired_ones() {
    let mut node = Fixture::new();
    node.ask(&lock("a", "me", 5000, 0));
    node.ask(&lock("*b", "reader", 6000, 0));
    let [first, second] = [5, 6].map(|seconds| node.now() + Duration::from_secs(seconds));
    node.milliseconds += 10_000;
    let stored: Vec<_> = node.state.stored_leases().map(|(id, end)| (id.clone(), end)).collect();
    let expected = [(lease_id("me"), first), (LeaseId::of_readers(), second), (lease_id("reader"), second)];
    assert_eq!(stored, expected);
}
