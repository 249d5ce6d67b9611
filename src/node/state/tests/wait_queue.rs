//! The wait queue of a node: the order of the waiters, the wakes, and the marks by which newcomers yield.

use super::*;
use crate::node::{
    Enqueue, Queued, Unlock, Vacant, names,
    operation::samples::{not_waiting, publishing_steps},
    state::wait_queue::QueueEntry,
};

const ENTRY_TTL: u64 = 10_000;

/// The node of a test, and the topics without subscribers.
struct QueueFixture {
    node: Fixture,
    unsubscribed: Vec<Resource>,
}

impl QueueFixture {
    /// Returns a node on which `a` is free.
    fn free() -> Self {
        Self { node: Fixture::new(), unsubscribed: Vec::new() }
    }

    /// Returns a node on which `holder` holds `a` for 5 s.
    fn held() -> Self {
        let mut queue = Self::free();
        queue.ask(&lock("a", "holder", 5000, 0));
        queue
    }

    fn ask(&mut self, operation: &Operation) -> Answer {
        let (unsubscribed, is_mute) = (&self.unsubscribed, self.node.is_mute);
        let listeners = |topic: &Resource| (!is_mute).then(|| u32::from(!unsubscribed.contains(topic)));
        let outcome =
            self.node.state.apply_with_listeners(&listeners, &parameters(), operation, self.node.now());
        self.node.notices.extend(outcome.notices);
        self.node.is_any_unpublished |= outcome.is_any_unpublished;
        outcome.answer
    }

    /// Adds a queue entry, and returns its arrival.
    fn enter(&mut self, waiter: &str) -> u64 {
        match self.ask(&enqueue("a", waiter, waiter, 0, ENTRY_TTL)) {
            Answer::Queued(queued) => queued.arrival,
            other => panic!("{other:?}"),
        }
    }

    fn enqueue_again(&mut self, waiter: &str, arrival: u64) -> Answer {
        self.ask(&enqueue("a", waiter, waiter, arrival, ENTRY_TTL))
    }

    fn unlock(&mut self, by: &str) {
        self.ask(&unlock("a", by, true, false));
    }

    fn waiters(&self) -> Vec<String> {
        let queue = self.node.state.wait_queue(&resource("a"), self.node.now());
        let entries = queue.into_iter().flat_map(|queue| queue.entries());
        entries.map(|entry| entry.waiter.to_string()).collect()
    }

    /// Returns the wake topics that got a notice since the last call.
    fn take_wakes(&mut self) -> Vec<Resource> {
        let notices = std::mem::take(&mut self.node.notices);
        notices.into_iter().filter(|topic| topic.as_bytes().starts_with(b"redquorum:wake:")).collect()
    }

    /// Ends the subscription of a waiter to its wakes.
    fn unsubscribe(&mut self, waiter: &str) {
        self.unsubscribed.push(wake_topic(waiter));
    }
}

fn wake_topic(waiter: &str) -> Resource {
    names::wake(&resource("a"), &lease_id(waiter))
}

fn is_granted(answer: &Answer) -> bool {
    matches!(answer.clone().into_parts().0, Answer::Granted { .. })
}

fn queued(answer: &Answer) -> &Queued {
    let Answer::Queued(queued) = answer else { panic!("{answer:?}") };
    queued
}

#[test]
fn an_enqueue_for_a_free_resource_leaves_no_queue() {
    let mut queue = QueueFixture::free();
    assert_eq!(queue.ask(&enqueue("a b", "me", "w", 0, ENTRY_TTL)), granted(START + 1));
    assert_eq!(
        (queue.node.lease_id_of("a").as_deref(), queue.node.lease_id_of("b").as_deref()),
        (Some("me"), Some("me"))
    );
    assert_eq!(queue.waiters(), [""; 0]);
}

#[test]
fn a_release_wakes_only_the_first_waiter() {
    let mut queue = QueueFixture::held();
    let arrivals = ["first", "second", "third"].map(|waiter| queue.enter(waiter));
    assert!(arrivals[0] >= START && arrivals.is_sorted_by(|earlier, later| earlier < later), "{arrivals:?}");
    queue.unlock("holder");
    assert_eq!(queue.take_wakes(), [wake_topic("first")]);
    assert!(is_granted(&queue.enqueue_again("first", arrivals[0])));
    assert_eq!(queue.waiters(), ["second", "third"]);
    assert_eq!(queue.take_wakes(), []);
}

#[test]
fn only_the_first_waiter_locks_a_free_resource() {
    let mut queue = QueueFixture::held();
    let first = queue.enter("first");
    queue.unlock("holder");
    for entry_ttl in [0, ENTRY_TTL] {
        let answer = queue.ask(&enqueue("a", "newcomer", "newcomer", 0, entry_ttl));
        assert_eq!(queued(&answer).holder, None);
        assert_eq!(queued(&answer).patience, Duration::from_millis(ENTRY_TTL));
        assert_eq!(queued(&answer).arrival > 0, entry_ttl > 0);
    }
    assert_eq!(queue.waiters(), ["first", "newcomer"]);
    assert_eq!(
        queue.take_wakes(),
        [wake_topic("first"), wake_topic("first"), wake_topic("first")],
        "the first waiter is woken by the unlock and by both deferrals"
    );
    assert!(is_granted(&queue.enqueue_again("first", first)));
}

#[test]
fn an_enqueue_without_an_entry_ttl_leaves_no_entry() {
    let mut queue = QueueFixture::held();
    let before = queue.node.state.clone();
    let answer = queue.ask(&enqueue("a", "me", "w", 0, 0));
    let holder = Holder {
        resource: 0,
        lease_id: Some(lease_id("holder")),
        remaining: Duration::from_secs(5),
        counter: START + 1,
    };
    let patience = Duration::from_secs(5);
    assert_eq!(
        answer,
        Answer::Queued(Queued { resource: 0, arrival: 0, rank: 0, patience, holder: Some(holder) })
    );
    assert_eq!(queue.node.state, before);
}

#[test]
fn a_lock_that_arrives_twice_is_granted_twice_despite_waiters() {
    let mut queue = QueueFixture::held();
    let first = queue.enter("first");
    queue.enter("second");
    queue.unlock("holder");
    let vote = queue.enqueue_again("first", first);
    assert_eq!(queue.enqueue_again("first", first), vote);
    assert_eq!(queue.waiters(), ["second"]);
}

#[test]
fn a_deferral_lasts_until_the_holder_or_the_entry_ahead_expires() {
    let mut queue = QueueFixture::held();
    let first = queue.enter("first");
    queue.node.milliseconds += 1000;
    let second = queue.enter("second");
    let patience = |answer: &Answer| queued(answer).patience.as_millis();
    assert_eq!(patience(&queue.enqueue_again("first", first)), 4000);
    assert_eq!(patience(&queue.enqueue_again("second", second)), 10_000);
    queue.node.milliseconds += 3000;
    assert_eq!(patience(&queue.enqueue_again("second", second)), 7000);
}

#[test]
fn an_expired_entry_makes_the_next_waiter_the_first() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    queue.node.milliseconds += 4000;
    let second = queue.enter("second");
    queue.node.milliseconds += ENTRY_TTL - 4010;
    queue.unlock("holder");
    assert_eq!(queue.take_wakes(), [wake_topic("first")]);
    queue.node.milliseconds += 10;
    assert_eq!(queued(&queue.enqueue_again("second", second)).holder, None);
    queue.node.milliseconds += 1;
    assert!(is_granted(&queue.enqueue_again("second", second)));
    assert_eq!(queue.waiters(), [""; 0]);
}

#[test]
fn a_wake_without_a_subscriber_removes_the_waiter_and_wakes_the_next() {
    let mut queue = QueueFixture::held();
    for waiter in ["first", "second", "third"] {
        queue.enter(waiter);
    }
    queue.unsubscribe("first");
    queue.unsubscribe("second");
    queue.unlock("holder");
    assert_eq!(queue.take_wakes(), [wake_topic("third")]);
    assert_eq!(queue.waiters(), ["third"]);
}

#[test]
fn waiters_keep_their_places_if_no_wake_can_be_published() {
    let mut queue = QueueFixture::held();
    let [first, second, third] = ["first", "second", "third"].map(|waiter| queue.enter(waiter));
    queue.node.is_mute = true;
    let answer = queue.ask(&unlock("a", "holder", true, false));
    assert_eq!(answer, Answer::Unlocked { deleted: 1 }.with_waiters(true));
    assert_eq!(queue.node.lease_id_of("a"), None);
    assert_eq!(queue.take_wakes(), []);
    for newcomer in [lock("a", "newcomer", 5000, 0), enqueue("a", "newcomer", "newcomer", 0, 0)] {
        assert_eq!(queued(&queue.ask(&newcomer)).holder, None, "the resource is free, and has waiters");
    }
    assert!(
        !is_granted(&queue.enqueue_again("second", second)),
        "the hand-over of the first waiter is not over"
    );
    queue.node.milliseconds += u64::try_from(parameters().hand_over.as_millis()).unwrap();
    assert!(!is_granted(&queue.enqueue_again("third", third)));
    let [by_first, by_second] = [("first", first), ("second", second)].map(|(waiter, arrival)| {
        let mut queue = QueueFixture { node: queue.node.clone(), unsubscribed: Vec::new() };
        is_granted(&queue.enqueue_again(waiter, arrival)).then(|| queue.waiters())
    });
    assert_eq!(by_first.unwrap(), ["second", "third"]);
    assert_eq!(by_second.unwrap(), ["first", "third"]);
}

#[test]
fn no_answer_depends_on_a_notice() {
    let (mut publishing, mut mute) = (Fixture::new(), Fixture { is_mute: true, ..Fixture::new() });
    for (step, publishes) in &publishing_steps() {
        assert_eq!(mute.ask(step), publishing.ask(step), "{step:?}");
        assert_eq!(mute.state, publishing.state, "{step:?}");
        assert_eq!(std::mem::take(&mut mute.is_any_unpublished), *publishes, "{step:?}");
        assert!(!publishing.is_any_unpublished);
    }
    assert_eq!(mute.notices, []);
}

#[test]
fn a_writer_without_a_subscription_blocks_no_reader() {
    let mut queue = QueueFixture::free();
    queue.ask(&lock("*a", "reader", 5000, 0));
    queue.enter("writer");
    let enqueue_reader = enqueue("*a", "late", "late:shared", 0, ENTRY_TTL);
    assert_eq!(queued(&queue.ask(&enqueue_reader)).rank, 1);
    assert_eq!(queue.take_wakes(), [], "a writer was woken while a reader holds the resource");
    queue.unsubscribed.push(names::head(&resource("a"), &lease_id("writer")));
    assert!(is_granted(&queue.ask(&enqueue_reader)));
    assert!(queue.waiters().is_empty());
}

#[test]
fn a_newcomer_locks_if_no_waiter_is_subscribed() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    queue.unsubscribe("first");
    queue.unlock("holder");
    assert!(is_granted(&queue.ask(&enqueue("a", "me", "w", 0, 0))));
}

#[test]
fn an_arrival_from_another_node_determines_the_place_in_the_queue() {
    let mut queue = QueueFixture::held();
    let second = queue.enter("second");
    queue.enqueue_again("first", second - 5);
    queue.enqueue_again("third", second + 5);
    assert_eq!(queue.waiters(), ["first", "second", "third"]);
    queue.enter("fourth");
    assert_eq!(queue.waiters().last().map(String::as_str), Some("fourth"));
}

#[test]
fn a_waiter_is_still_first_by_its_arrival_after_a_rollback() {
    let mut queue = QueueFixture::held();
    let first = queue.enter("first");
    queue.enter("second");
    queue.unlock("holder");
    queue.enqueue_again("first", first);
    queue.ask(&unlock("a", "first", false, false));
    queue.take_wakes();
    assert!(is_granted(&queue.ask(&enqueue("a", "again", "first", first, ENTRY_TTL))));
    assert_eq!((queue.take_wakes(), queue.waiters()), (vec![], vec!["second".into()]));
}

#[test]
fn an_arrival_is_at_most_an_hour_ahead_and_0_assigns_the_last_place() {
    let mut queue = QueueFixture::held();
    let hour = 3_600_000_000;
    assert_eq!(queued(&queue.enqueue_again("far", u64::MAX)).arrival, START + hour);
    assert_eq!(queue.enter("last"), START + hour + 1);
    let again = queue.enter("far");
    assert_eq!((again, queue.waiters()), (START + hour + 2, vec!["last".into(), "far".into()]));
}

#[test]
fn a_withdrawal_wakes_the_next_waiter_only_if_the_resource_is_free() {
    let mut queue = QueueFixture::held();
    for waiter in ["first", "second", "third"] {
        queue.enter(waiter);
    }
    assert_eq!(queue.ask(&withdraw("a", "second")), Answer::Withdrawn);
    assert_eq!((queue.waiters(), queue.take_wakes()), (vec!["first".into(), "third".into()], vec![]));
    queue.unlock("holder");
    assert_eq!(queue.take_wakes(), [wake_topic("first")]);
    queue.ask(&withdraw("a", "first"));
    assert_eq!(queue.take_wakes(), [wake_topic("third")]);
    queue.ask(&withdraw("a", "third"));
    assert_eq!((queue.waiters(), queue.take_wakes()), (vec![], vec![]));
    assert_eq!(queue.ask(&withdraw("a", "third")), Answer::Withdrawn);
}

#[test]
fn a_rollback_and_a_force_unlock_wake_the_first_waiter() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    queue.ask(&unlock("a", "holder", false, false));
    assert_eq!(queue.take_wakes(), [wake_topic("first")]);
    queue.ask(&take("a", "other", 5000));
    queue.ask(&force_unlock("a"));
    assert_eq!(queue.take_wakes(), [wake_topic("first")]);
}

#[test]
fn an_unlock_that_deletes_nothing_wakes_the_first_waiter() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    queue.unlock("another");
    assert_eq!(queue.take_wakes(), [], "the resource is held");
    queue.node.state.set_lock(&resource("a"), None);
    queue.unlock("another");
    assert_eq!(queue.take_wakes(), [wake_topic("first")]);
}

#[test]
fn a_newcomer_yields_to_waiters_and_a_woken_waiter_does_not() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    let refused = queue.ask(&lock("a", "newcomer", 5000, 0));
    assert_eq!((queued(&refused).rank, queued(&refused).holder.is_some()), (1, true));
    queue.unlock("holder");
    queue.take_wakes();
    let refused = queue.ask(&lock("a", "newcomer", 5000, 0));
    assert_eq!((queued(&refused).rank, queued(&refused).arrival, &queued(&refused).holder), (1, 0, &None));
    assert_eq!(
        queue.take_wakes(),
        [wake_topic("first")],
        "a deferral repeats the wake, which may have been lost"
    );
    assert!(is_granted(&queue.ask(&take("a", "woken", 5000))));
    assert_eq!(queue.waiters(), ["first"], "a `lock` of a woken waiter leaves the entry");
}

#[test]
fn newcomers_yield_to_refused_clients_for_a_hand_over() {
    let hand_over = parameters().hand_over;
    let mut queue = QueueFixture::held();
    queue.ask(&lock("a", "refused", 5000, 0));
    queue.unlock("holder");
    assert_eq!(
        queue.node.state.yield_mark(&resource("a"), queue.node.now()),
        Some(queue.node.now() + hand_over)
    );
    let deferred = queue.ask(&lock("a", "newcomer", 5000, 0));
    assert_eq!((queued(&deferred).rank, &queued(&deferred).holder), (0, &None), "no waiter is queued");
    assert!(is_granted(&queue.ask(&take("a", "refused", 5000))));
    queue.unlock("refused");
    assert!(is_granted(&queue.ask(&lock("a", "newcomer", 5000, 0))), "the refused client has locked since");

    queue.ask(&lock("a", "refused", 5000, 0));
    queue.unlock("newcomer");
    queue.node.milliseconds += u64::try_from(hand_over.as_millis()).unwrap() + 1;
    assert!(is_granted(&queue.ask(&lock("a", "newcomer", 5000, 0))), "the yield mark has expired");
}

#[test]
fn newcomers_do_not_yield_to_a_client_that_does_not_wait() {
    let mut queue = QueueFixture::held();
    let mut ask = |operation: &Operation| queue.ask(operation);
    assert!(matches!(ask(&not_waiting(lock("a", "other", 5000, 0))), Answer::Held(_)));
    ask(&unlock("a", "holder", true, false));
    assert!(is_granted(&ask(&not_waiting(lock("a", "other", 5000, 0)))));
    assert!(matches!(ask(&lock("a", "waiter", 5000, 0)), Answer::Held(_)));
    ask(&unlock("a", "other", true, false));
    assert!(matches!(ask(&not_waiting(lock("a", "other", 5000, 0))), Answer::Queued(_)));
}

#[test]
fn a_rollback_deletes_the_yield_mark() {
    let mut queue = QueueFixture::held();
    queue.ask(&lock("a", "refused", 5000, 0));
    queue.ask(&unlock("a", "holder", false, false));
    assert!(is_granted(&queue.ask(&lock("a", "newcomer", 5000, 0))));
}

#[test]
fn an_unlock_with_known_waiters_sets_a_yield_mark() {
    let mut queue = QueueFixture::held();
    let Operation::Unlock(request) = unlock("a", "holder", true, false) else { panic!() };
    queue.ask(&Operation::Unlock(Unlock { has_waiters: true, ..request }));
    assert_eq!(queued(&queue.ask(&lock("a", "newcomer", 5000, 0))).rank, 0);
}

#[test]
fn the_second_waiter_locks_if_the_woken_first_waiter_does_not() {
    let mut queue = QueueFixture::held();
    let first = queue.enter("first");
    let [second, third] = ["second", "third"].map(|waiter| queue.enter(waiter));
    queue.unlock("holder");
    let overdue = u64::try_from(parameters().hand_over.as_millis()).unwrap() * 3 / 4;
    queue.node.milliseconds += overdue;
    assert!(!is_granted(&queue.enqueue_again("second", second)));
    queue.node.milliseconds += 1;
    assert!(!is_granted(&queue.enqueue_again("third", third)), "the second waiter is ahead of the third");
    assert!(is_granted(&queue.enqueue_again("second", second)));
    assert_eq!(queue.waiters(), ["first", "third"]);
    queue.unlock("second");
    assert!(is_granted(&queue.enqueue_again("first", first)), "the first waiter still has its entry");
}

#[test]
fn an_overdue_first_waiter_and_the_second_are_woken_together() {
    let mut queue = QueueFixture::held();
    let first = queue.enter("first");
    let second = queue.enter("second");
    queue.enter("third");
    queue.unlock("holder");
    queue.node.milliseconds += u64::try_from(parameters().hand_over.as_millis()).unwrap();
    assert!(is_granted(&queue.enqueue_again("second", second)));
    let wake_topic = |waiter: &str| names::wake(&resource("a"), &lease_id(waiter));
    let unlock_and_take_wakes = |queue: &mut QueueFixture, by: &str| {
        queue.node.notices.clear();
        queue.unlock(by);
        ["first", "third"].map(|waiter| queue.node.notices.contains(&wake_topic(waiter)))
    };
    assert_eq!(unlock_and_take_wakes(&mut queue, "second"), [true, true]);
    assert!(is_granted(&queue.ask(&take("a", "another", 5000))));
    queue.enqueue_again("first", first);
    assert_eq!(
        unlock_and_take_wakes(&mut queue, "another"),
        [true, false],
        "the first waiter has enqueued meanwhile"
    );
}

#[test]
fn a_waiter_with_the_arrival_of_the_first_waiter_is_second() {
    let mut queue = QueueFixture::held();
    let arrivals = ["first", "second", "third"].map(|waiter| queue.enter(waiter));
    let ranks = ["first", "third"].map(|waiter| queued(&queue.enqueue_again(waiter, arrivals[0])).rank);
    assert_eq!(ranks, [0, 1], "waiters with equal arrivals are sorted by name");
}

#[test]
fn a_waiter_that_becomes_second_gets_a_head_notice() {
    let mut queue = QueueFixture::held();
    let arrivals = ["first", "second", "third", "fourth"].map(|waiter| queue.enter(waiter));
    queue.unlock("holder");
    queue.node.notices.clear();
    assert!(is_granted(&queue.enqueue_again("first", arrivals[0])));
    let head_topic = |waiter: &str| names::head(&resource("a"), &lease_id(waiter));
    assert_eq!(queue.node.notices, [head_topic("third")]);
    queue.node.notices.clear();
    queue.ask(&withdraw("a", "fourth"));
    assert_eq!(queue.node.notices, [], "the entry was behind the second waiter");
    queue.enter("fifth");
    queue.ask(&withdraw("a", "second"));
    assert_eq!(queue.node.notices, [head_topic("fifth")]);
}

#[test]
fn an_enqueue_only_request_neither_locks_nor_wakes() {
    let mut queue = QueueFixture::free();
    let Operation::Enqueue(waits) = enqueue("a", "me", "w", 0, ENTRY_TTL) else { panic!() };
    let answer = queue.ask(&Operation::Enqueue(Enqueue { enqueue_only: true, ..waits }));
    assert_eq!((queued(&answer).rank, queued(&answer).arrival > 0), (0, true));
    assert_eq!((queue.waiters(), queue.take_wakes()), (vec!["w".into()], vec![]));
}

#[test]
fn a_group_waits_in_the_requested_queue_and_receives_the_holder() {
    let mut queue = QueueFixture::held();
    let Operation::Enqueue(group) = enqueue("A a", "group", "group", 0, ENTRY_TTL) else { panic!() };
    let answer = queue.ask(&Operation::Enqueue(Enqueue { resource: 1, ..group }));
    assert_eq!((queued(&answer).resource, queued(&answer).rank), (1, 0));
    assert_eq!(queued(&answer).holder.as_ref().map(|holder| holder.resource), Some(1));
    assert_eq!(queue.waiters(), ["group"]);
    assert_eq!(queue.node.state.wait_queue(&resource("A"), queue.node.now()), None);
    assert!(is_granted(&queue.ask(&enqueue("b", "me", "w", 0, ENTRY_TTL))));
}

#[test]
fn a_resource_with_waiters_or_a_mark_is_not_vacant() {
    let mut queue = QueueFixture::held();
    let vacant = |queue: &mut QueueFixture, ignores_marks| {
        let resources = ["a", "b"].map(resource).into();
        queue.ask(&Operation::Vacant(Vacant { resources, max_resources: 9, ignores_marks }))
    };
    assert_eq!(vacant(&mut queue, true), Answer::Vacant(vec![1]));
    queue.enter("waiter");
    queue.unlock("holder");
    assert_eq!(vacant(&mut queue, true), Answer::Vacant(vec![1]), "a waiter is queued");
    queue.ask(&lock("a", "late", 5000, 0));
    queue.ask(&withdraw("a", "waiter"));
    assert_eq!(vacant(&mut queue, true), Answer::Vacant(vec![0, 1]));
    queue.ask(&lock("a", "other", 5000, 0));
    queue.ask(&lock("a", "refused", 5000, 0));
    queue.unlock("other");
    assert_eq!(vacant(&mut queue, false), Answer::Vacant(vec![1]), "newcomers yield to the refused client");
    assert_eq!(vacant(&mut queue, true), Answer::Vacant(vec![0, 1]));
}

#[test]
fn resources_with_one_alias_have_separate_queues() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    assert!(is_granted(&queue.ask(&enqueue("{a}", "me", "w", 0, ENTRY_TTL))));
}

#[test]
fn a_tombstone_refuses_lock_and_enqueue() {
    let mut queue = QueueFixture::held();
    queue.ask(&unlock("a", "late", false, true));
    assert_eq!(queue.ask(&lock("a", "late", 5000, 0)), Answer::Tombstone);
    assert_eq!(queue.ask(&enqueue("a", "late", "w", 0, ENTRY_TTL)), Answer::Tombstone);
    assert_eq!(queue.waiters(), [""; 0]);
}

#[test]
fn a_queue_expires_with_its_last_entry() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    queue.node.milliseconds += ENTRY_TTL;
    assert_eq!(queue.waiters(), ["first"]);
    queue.node.milliseconds += 1;
    assert_eq!(queue.waiters(), [""; 0]);
    queue.node.state.sweep(queue.node.now());
    assert_eq!(queue.node.state.wait_queue(&resource("a"), NodeTime::from_epoch(0)), None);
}

#[test]
fn entries_are_sorted_by_arrival_and_then_by_name() {
    let entry =
        |arrival, waiter| QueueEntry { arrival, waiter: lease_id(waiter), ends: NodeTime::from_epoch(0) };
    let mut entries = vec![entry(2, "a"), entry(1, "b"), entry(1, "a")];
    entries.sort();
    assert_eq!(entries, [entry(1, "a"), entry(1, "b"), entry(2, "a")]);
}

#[test]
fn a_repeated_lock_of_the_holder_does_not_yield_to_waiters() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    let answer = queue.ask(&lock("a", "holder", 5000, 0));
    assert_eq!(answer, granted(START + 1));
}

#[test]
fn the_deferral_of_a_newcomer_has_the_counter_with_the_holder() {
    let mut queue = QueueFixture::held();
    queue.enter("first");
    let answer = queue.ask(&lock("a", "newcomer", 5000, 0));
    let holder = queued(&answer).holder.as_ref().unwrap();
    assert_eq!((holder.lease_id.clone(), holder.counter), (Some(lease_id("holder")), START + 1));
}

#[test]
fn a_client_without_an_entry_does_not_overtake_a_waiter_of_the_same_arrival() {
    let mut queue = QueueFixture::held();
    let arrival = queue.enter("first");
    queue.unlock("holder");
    assert!(!is_granted(&queue.enqueue_again("later", arrival)));
    queue.ask(&withdraw("a", "later"));
    assert!(is_granted(&queue.enqueue_again("earlier", arrival - 1)));
}

#[test]
fn a_renewal_reports_waiters() {
    let mut queue = QueueFixture::held();
    let renewed = Answer::Renewed { proves: true };
    let renewal = renew("a", "holder", 1, 5000, START + 1);
    assert_eq!(queue.ask(&renewal), renewed);
    queue.enter("first");
    assert_eq!(queue.ask(&renewal), renewed.with_waiters(true));
}
