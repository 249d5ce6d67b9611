//! Properties of the send queue that hold after every sequence of random events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Lock {
        lease_id: u32,
        time: u64,
    },
    Unlock {
        lease_id: u32,
        time: u64,
    },
    /// The drop of the reply with this index.
    DropReply(usize),
    Send,
    /// The execution of the oldest call, and its answer.
    Execute,
    /// The loss of the script. Calls before the next load are not executed.
    Flush,
    /// A load of the script by another client.
    LoadElsewhere,
    /// The success of the load that the send queue has requested.
    Load,
    Break,
    Connect,
    DialFailed,
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4u32, 1..400u64).prop_map(|(lease_id, time)| Event::Lock { lease_id, time }),
        4 => (0..4u32, 1..400u64).prop_map(|(lease_id, time)| Event::Unlock { lease_id, time }),
        1 => (0..20usize).prop_map(Event::DropReply),
        6 => Just(Event::Send),
        6 => Just(Event::Execute),
        1 => Just(Event::Flush),
        1 => Just(Event::LoadElsewhere),
        2 => Just(Event::Load),
        1 => Just(Event::Break),
        2 => Just(Event::Connect),
        1 => Just(Event::DialFailed),
        3 => (1..60u64).prop_map(Event::Pass),
    ]
}

/// A send queue, its connection, its node, and the unanswered replies.
struct Fixture {
    send_queue: SendQueue,
    now: u64,
    is_up: bool,
    is_loaded: bool,
    /// Whether the send queue has requested a load of the script.
    load_requested: bool,
    /// The calls in flight, with the number of each operation.
    in_flight_calls: Vec<(BatchId, Vec<(Operation, Instant)>)>,
    /// The largest number of an executed request of each lease id.
    executed: BTreeMap<LeaseId, Instant>,
    /// The number of submitted requests. The hint of a lock and the `blocks_until` of an unlock carry the number of the
    /// request.
    submitted: u64,
    waiting: Vec<PendingReply>,
}

struct PendingReply {
    reply: Reply,
    until: u64,
    is_unlock: bool,
}

impl Fixture {
    fn new() -> Self {
        Self {
            send_queue: SendQueue::new(NODE_TIMEOUT),
            now: 0,
            is_up: false,
            is_loaded: true,
            load_requested: false,
            in_flight_calls: Vec::new(),
            executed: BTreeMap::new(),
            submitted: 0,
            waiting: Vec::new(),
        }
    }

    fn submit(&mut self, operation: Operation, time: u64) {
        self.submitted += 1;
        let number = self.submitted;
        let operation = match operation {
            Operation::Lock(lock) => Operation::Lock(Lock { hint: number, ..lock }),
            other => other,
        };
        let (until, is_unlock) = (self.now + time, operation.must_deliver());
        let reply = self.send_queue.submit(Request::one(operation, at(until)).blocks_until(at(number)));
        self.waiting.push(PendingReply { reply, until, is_unlock });
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Lock { lease_id, time } => self.submit(lock(lease_id), time),
            Event::Unlock { lease_id, time } => self.submit(Operation::Unlock(unlock(lease_id)), time),
            Event::DropReply(index) if index < self.waiting.len() => drop(self.waiting.remove(index)),
            Event::Send => self.send(),
            Event::Execute if self.is_up && !self.in_flight_calls.is_empty() => self.execute(),
            Event::Flush => self.is_loaded = false,
            Event::LoadElsewhere => self.is_loaded = true,
            Event::Load if self.is_up && self.load_requested && self.in_flight_calls.is_empty() => {
                self.load()
            }
            Event::Break if self.is_up => self.disconnect(),
            Event::Connect if !self.is_up => {
                self.is_up = true;
                self.is_loaded = true;
                self.send_queue.connected();
            }
            Event::DialFailed if !self.is_up => drop(self.send_queue.dial_failed(reset())),
            Event::Pass(time) => self.pass(time),
            _ => {}
        }
        self.check();
    }

    fn send(&mut self) {
        if let Some((id, operations)) = self.send_queue.next_batch(at(self.now)) {
            assert!(self.is_up && operations.len() <= MAX_OPERATIONS);
            // The new requests are the last ones in flight, with one operation each.
            let before = self.send_queue.in_flight.items().count() - operations.len();
            let items = self.send_queue.in_flight.items().skip(before).map(|(_, item)| item);
            let number = |operation: &Operation, item: &Item| match operation {
                Operation::Lock(lock) => at(lock.hint),
                _ => item.undelivered().and_then(|request| request.blocks_until).unwrap(),
            };
            let numbered = operations
                .iter()
                .zip(items)
                .map(|(operation, item)| (operation.clone(), number(operation, item)));
            self.in_flight_calls.push((id, numbered.collect()));
            assert!(self.in_flight_calls.len() <= MAX_CALLS_IN_FLIGHT);
        }
    }

    fn execute(&mut self) {
        let (id, operations) = self.in_flight_calls.remove(0);
        if !self.is_loaded {
            self.load_requested |= self.send_queue.not_loaded(id, at(self.now));
            return;
        }
        let answers =
            operations.into_iter().map(|(operation, number)| self.run(&operation, number)).collect();
        self.send_queue.answered(id, answers, at(self.now));
    }

    fn run(&mut self, operation: &Operation, number: Instant) -> Answer {
        let (lease_id, answer) = match operation {
            Operation::Lock(lock) => (&lock.lease_id, Answer::Granted { vote: 1 }),
            Operation::Unlock(unlock) => (&unlock.lease_id, Answer::Unlocked { deleted: 1 }),
            other => panic!("{other:?} was never submitted"),
        };
        let last = self.executed.get(lease_id).copied();
        assert!(
            last < Some(number) || operation.must_deliver(),
            "a lock was executed after a later unlock, or twice"
        );
        self.executed.insert(lease_id.clone(), last.map_or(number, |last| last.max(number)));
        answer
    }

    fn load(&mut self) {
        self.is_loaded = true;
        self.load_requested = false;
        self.send_queue.loaded();
    }

    fn disconnect(&mut self) {
        self.is_up = false;
        self.load_requested = false;
        self.in_flight_calls.clear();
        self.send_queue.disconnected(reset(), at(self.now));
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        self.send_queue.tick(at(self.now));
        if let Some(deadline) = self.send_queue.next_deadline() {
            assert!(
                deadline > at(self.now) || self.send_queue.is_silent(at(self.now)),
                "the next deadline is not in the future"
            );
        }
    }

    /// Removes the answered replies, and checks that no unlock was answered by an error before its deadline.
    fn check(&mut self) {
        let now = self.now;
        self.waiting.retain_mut(|waiting| {
            let Some(answer) = answer_of(&mut waiting.reply) else { return true };
            if waiting.is_unlock && waiting.until > now {
                assert_eq!(
                    answer,
                    Answer::Unlocked { deleted: 1 },
                    "an unlock was answered by an error before its deadline"
                );
            }
            false
        });
    }
}

proptest! {
    #[test]
    fn requests_keep_their_order_and_are_all_answered(
        events in prop::collection::vec(event(), 1..200)
    ) {
        let mut fixture = Fixture::new();
        for event in events {
            fixture.apply(event);
        }
        fixture.send_queue.end();
        prop_assert_eq!(fixture.send_queue.weight, 0);
        for waiting in &mut fixture.waiting {
            prop_assert!(answer_of(&mut waiting.reply).is_some(), "a request is unanswered");
        }
    }

    #[test]
    fn all_unlocks_are_delivered_after_the_node_recovers(
        events in prop::collection::vec(event(), 1..100)
    ) {
        let mut fixture = Fixture::new();
        for event in events {
            fixture.apply(event);
        }
        for _ in 0..1000 {
            fixture.apply(Event::Connect);
            fixture.apply(Event::Send);
            fixture.apply(Event::Execute);
            fixture.apply(Event::Load);
        }
        prop_assert!(fixture.waiting.is_empty());
        prop_assert_eq!(fixture.send_queue.weight, 0);
    }
}
