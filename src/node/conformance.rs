//! The test suite of the trait `Node`, which the tests of in-memory nodes and of Redis nodes run.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;

use crate::{
    clock::Clock,
    mutex,
    node::{
        Answer, Latch, List, Listener, Node, Notice, Operation, Request, Vacant, names,
        operation::samples::{
            enqueue, inspect, lease_id, lock, observe, proclaim, proclamation, renew, resource, take, unlock,
            withdraw, write_back,
        },
    },
    values::{ClosedReason, LeaseId, NodeError},
};

/// An empty node, and a way to advance its time.
pub(crate) struct TestNode {
    pub(crate) node: Arc<dyn Node>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Advances the time of the node and the clock.
    pub(crate) wait: Box<dyn Fn(Duration) -> BoxFuture<'static, ()>>,
}

impl TestNode {
    fn request(&self, operations: Vec<Operation>) -> Request {
        Request::new(operations, self.clock.now() + Duration::from_secs(60))
    }

    async fn ask(&self, operation: Operation) -> Answer {
        let answers = self.node.call(self.request(vec![operation])).await;
        answers.into_iter().next().expect("one answer to one operation")
    }

    async fn wait(&self, duration: Duration) {
        (self.wait)(duration).await;
    }
}

/// A listener that records its notices.
#[derive(Debug, Default)]
struct RecordingListener(Mutex<Vec<Notice>>);

impl RecordingListener {
    fn notices(&self) -> Vec<Notice> {
        mutex::lock(&self.0).clone()
    }

    async fn receives(&self, test_node: &TestNode, expected: &[Notice]) {
        for _ in 0..200 {
            if self.notices() == expected {
                return;
            }
            test_node.wait(Duration::from_millis(10)).await;
        }
        assert_eq!(self.notices(), expected);
    }
}

impl Listener for RecordingListener {
    fn notice(&self, notice: Notice) {
        mutex::lock(&self.0).push(notice);
    }
}

/// Runs the whole suite, and closes the node at the end.
pub(crate) async fn conforms(test_node: &TestNode) {
    operations_are_executed_in_order_each_with_its_answer(test_node).await;
    calls_are_executed_in_order(test_node).await;
    a_dropped_reply_cancels_nothing(test_node).await;
    a_lock_ends_with_its_ttl(test_node).await;
    a_listener_gets_release_notices_until_it_unsubscribes(test_node).await;
    a_listener_gets_one_notice_for_each_value_of_a_leader(test_node).await;
    a_release_wakes_only_the_first_waiter_that_listens(test_node).await;
    readers_share_until_the_last_reader_unlocks(test_node).await;
    a_granted_reader_wakes_readers_and_no_writer(test_node).await;
    a_resource_without_holder_and_waiters_is_vacant(test_node).await;
    held_resources_are_listed(test_node).await;
    a_listener_gets_one_notice_when_a_latch_opens(test_node).await;
    a_closed_node_refuses_locks(test_node).await;
}

async fn operations_are_executed_in_order_each_with_its_answer(test_node: &TestNode) {
    let operations = vec![
        lock("order", "1", 30_000, 0),
        lock("order", "2", 30_000, 0),
        unlock("order", "1", true, false),
        take("order", "2", 30_000),
        inspect("order"),
    ];
    let answers = test_node.node.call(test_node.request(operations)).await;
    let [
        Answer::Granted { vote: first },
        Answer::Held(holder),
        unlocked,
        Answer::Granted { vote: second },
        seen,
    ] = answers.as_slice()
    else {
        panic!("{answers:?}");
    };
    assert_eq!((holder.resource, holder.counter), (0, *first));
    assert_eq!(*unlocked, Answer::Unlocked { deleted: 1 });
    assert_eq!(*second, first + 1);
    assert!(matches!(seen, Answer::Inspected(inspection) if inspection.held.is_some()));
    assert_eq!(test_node.ask(write_back("order", "2", second + 1)).await, Answer::WrittenBack);
    assert_eq!(
        test_node.ask(write_back("order", "1", second + 2)).await,
        Answer::NotWrittenBack { counter: second + 1 }
    );
    let renewed = test_node.ask(renew("order", "2", 1, 30_000, second + 1)).await;
    assert_eq!(renewed, Answer::Renewed { proves: true });
}

async fn calls_are_executed_in_order(test_node: &TestNode) {
    let locked = test_node.node.call(test_node.request(vec![lock("calls", "1", 30_000, 0)]));
    let unlocked = test_node.node.call(test_node.request(vec![unlock("calls", "1", true, false)]));
    let again = test_node.node.call(test_node.request(vec![lock("calls", "2", 30_000, 0)]));
    // The replies are polled in the opposite order.
    assert!(matches!(again.await.as_slice(), [Answer::Granted { .. }]));
    assert_eq!(unlocked.await, [Answer::Unlocked { deleted: 1 }]);
    assert!(matches!(locked.await.as_slice(), [Answer::Granted { .. }]));
}

async fn a_dropped_reply_cancels_nothing(test_node: &TestNode) {
    drop(test_node.node.call(test_node.request(vec![lock("dropped", "1", 30_000, 0)])));
    let answer = test_node.ask(lock("dropped", "2", 30_000, 0)).await;
    assert!(matches!(answer, Answer::Held(_)), "{answer:?}");
    drop(test_node.node.call(test_node.request(vec![unlock("dropped", "1", true, false)])));
    assert!(matches!(test_node.ask(take("dropped", "2", 30_000)).await, Answer::Granted { .. }));
}

async fn a_lock_ends_with_its_ttl(test_node: &TestNode) {
    assert!(matches!(test_node.ask(lock("ttl", "1", 200, 0)).await, Answer::Granted { .. }));
    let Answer::Held(holder) = test_node.ask(lock("ttl", "2", 200, 0)).await else { panic!("not held") };
    assert!(holder.remaining <= Duration::from_millis(200));
    test_node.wait(Duration::from_millis(210)).await;
    assert!(matches!(test_node.ask(lock("ttl", "2", 200, 0)).await, Answer::Granted { .. }));
}

async fn a_listener_gets_release_notices_until_it_unsubscribes(test_node: &TestNode) {
    let listener = Arc::new(RecordingListener::default());
    let subscription =
        test_node.node.subscribe(&resource("subscribed"), Arc::clone(&listener) as Arc<dyn Listener>);
    listener.receives(test_node, &[Notice::Subscribed]).await;
    for (name, notify) in [("subscribed", false), ("not_subscribed", true), ("subscribed", true)] {
        test_node.ask(lock(name, "1", 30_000, 0)).await;
        test_node.ask(unlock(name, "1", notify, false)).await;
    }
    listener.receives(test_node, &[Notice::Subscribed, Notice::Released]).await;
    drop(subscription);
    test_node.wait(Duration::from_millis(50)).await;
    test_node.ask(lock("subscribed", "1", 30_000, 0)).await;
    test_node.ask(unlock("subscribed", "1", true, false)).await;
    test_node.wait(Duration::from_millis(50)).await;
    assert_eq!(listener.notices(), [Notice::Subscribed, Notice::Released]);
}

async fn a_listener_gets_one_notice_for_each_value_of_a_leader(test_node: &TestNode) {
    let listener = Arc::new(RecordingListener::default());
    let topic = names::leader(&resource("led"));
    let subscription = test_node.node.subscribe(&topic, Arc::clone(&listener) as Arc<dyn Listener>);
    listener.receives(test_node, &[Notice::Subscribed]).await;
    let first = proclamation("1", 7, 1, "first");
    assert_eq!(test_node.ask(proclaim("led", first.clone(), 30_000)).await, Answer::NotLeader);
    test_node.ask(lock("led", "1", 30_000, 0)).await;
    for proclamation in [first.clone(), first.clone(), proclamation("1", 7, 2, "second"), first] {
        assert_eq!(test_node.ask(proclaim("led", proclamation, 30_000)).await, Answer::Proclaimed);
    }
    listener.receives(test_node, &[Notice::Subscribed, Notice::Released, Notice::Released]).await;
    let Answer::Observed(seen) = test_node.ask(observe("led")).await else { panic!("not observed") };
    assert_eq!(
        (seen.lease_id, seen.proclamation),
        (Some(lease_id("1")), Some(proclamation("1", 7, 2, "second")))
    );
    drop(subscription);
    test_node.ask(unlock("led", "1", true, false)).await;
}

async fn a_release_wakes_only_the_first_waiter_that_listens(test_node: &TestNode) {
    let enter = |waiter: &'static str| test_node.ask(enqueue("queue", waiter, waiter, 0, 30_000));
    test_node.ask(lock("queue", "1", 30_000, 0)).await;
    let listeners = [Arc::new(RecordingListener::default()), Arc::new(RecordingListener::default())];
    let mut subscriptions = Vec::new();
    for (waiter, listener) in ["second", "third"].iter().zip(&listeners) {
        let topic = names::wake(&resource("queue"), &lease_id(waiter));
        subscriptions.push(test_node.node.subscribe(&topic, Arc::clone(listener) as Arc<dyn Listener>));
        listener.receives(test_node, &[Notice::Subscribed]).await;
    }
    for waiter in ["not_subscribed", "second", "third"] {
        assert!(matches!(enter(waiter).await, Answer::Queued(queued) if queued.holder.is_some()));
    }
    test_node.ask(unlock("queue", "1", true, false)).await;
    listeners[0].receives(test_node, &[Notice::Subscribed, Notice::Released]).await;
    assert!(matches!(enter("third").await, Answer::Queued(queued) if queued.holder.is_none()));
    listeners[0].receives(test_node, &[Notice::Subscribed, Notice::Released, Notice::Released]).await;
    assert!(matches!(enter("second").await.into_parts(), (Answer::Granted { .. }, Some(true))));
    test_node.ask(unlock("queue", "second", true, false)).await;
    listeners[1].receives(test_node, &[Notice::Subscribed, Notice::Released]).await;
    assert_eq!(test_node.ask(withdraw("queue", "third")).await, Answer::Withdrawn);
    assert!(matches!(test_node.ask(enqueue("queue", "4", "4", 0, 0)).await, Answer::Granted { .. }));
    drop(subscriptions);
}

async fn readers_share_until_the_last_reader_unlocks(test_node: &TestNode) {
    let listener = Arc::new(RecordingListener::default());
    let subscription =
        test_node.node.subscribe(&resource("shared"), Arc::clone(&listener) as Arc<dyn Listener>);
    listener.receives(test_node, &[Notice::Subscribed]).await;
    let Answer::Granted { vote } = test_node.ask(lock("*shared", "1", 30_000, 0)).await else {
        panic!("not granted")
    };
    assert_eq!(test_node.ask(lock("*shared", "2", 30_000, 0)).await, Answer::Granted { vote });
    assert_eq!(test_node.ask(write_back("*shared", "1", vote + 1)).await, Answer::WrittenBack);
    let Answer::Held(holder) = test_node.ask(lock("shared", "3", 30_000, 0)).await else {
        panic!("not held")
    };
    assert_eq!((holder.lease_id, holder.counter), (Some(LeaseId::of_readers()), vote + 1));
    let renewed = test_node.ask(renew("*shared", "2", 1, 30_000, vote)).await;
    assert_eq!(renewed, Answer::Renewed { proves: true }, "no writer has got a vote since");
    // The refused writer has set a yield mark.
    assert!(matches!(test_node.ask(lock("*shared", "4", 30_000, 0)).await, Answer::Queued(_)));
    let Answer::Inspected(seen) = test_node.ask(inspect("shared")).await else { panic!("not inspected") };
    assert_eq!(seen.held.map(|held| held.holds), Some(2));
    assert_eq!(seen.readers.len(), 2);
    for reader in ["1", "2"] {
        assert_eq!(listener.notices(), [Notice::Subscribed], "a reader still holds the resource");
        let unlocked = test_node.ask(unlock("*shared", reader, true, false)).await;
        assert_eq!(unlocked, Answer::Unlocked { deleted: 1 });
    }
    listener.receives(test_node, &[Notice::Subscribed, Notice::Released]).await;
    assert_eq!(test_node.ask(take("shared", "3", 30_000)).await, Answer::Granted { vote: vote + 2 });
    drop(subscription);
}

async fn a_granted_reader_wakes_readers_and_no_writer(test_node: &TestNode) {
    let waiters =
        [("a:shared", "*crowd"), ("b:shared", "*crowd"), ("writer", "crowd"), ("c:shared", "*crowd")];
    test_node.ask(lock("crowd", "1", 30_000, 0)).await;
    let listeners = waiters.map(|_| Arc::new(RecordingListener::default()));
    let mut subscriptions = Vec::new();
    for ((waiter, _), listener) in waiters.iter().zip(&listeners) {
        let topic = names::wake(&resource("crowd"), &lease_id(waiter));
        subscriptions.push(test_node.node.subscribe(&topic, Arc::clone(listener) as Arc<dyn Listener>));
        listener.receives(test_node, &[Notice::Subscribed]).await;
    }
    let (head_listener, topic) =
        (Arc::new(RecordingListener::default()), names::head(&resource("crowd"), &lease_id("writer")));
    subscriptions.push(test_node.node.subscribe(&topic, Arc::clone(&head_listener) as Arc<dyn Listener>));
    head_listener.receives(test_node, &[Notice::Subscribed]).await;
    let enter = async |index: usize| {
        let (waiter, name) = waiters[index];
        test_node.ask(enqueue(name, waiter, waiter, 0, 30_000)).await.into_parts().0
    };
    for index in 0..4 {
        assert!(matches!(enter(index).await, Answer::Queued(_)));
    }
    let woken = [Notice::Subscribed, Notice::Released];
    test_node.ask(unlock("crowd", "1", true, false)).await;
    for (index, listener) in listeners.iter().take(2).enumerate() {
        listener.receives(test_node, &woken).await;
        assert!(matches!(enter(index).await, Answer::Granted { .. }));
    }
    // The unlock of the last reader wakes the writer, and the reader behind the writer waits.
    assert!(matches!(enter(3).await, Answer::Queued(_)));
    test_node.ask(unlock("*crowd", "a:shared", true, false)).await;
    test_node.wait(Duration::from_millis(20)).await;
    assert_eq!(
        [listeners[2].notices(), listeners[3].notices()],
        [[Notice::Subscribed], [Notice::Subscribed]]
    );
    test_node.ask(unlock("*crowd", "b:shared", true, false)).await;
    listeners[2].receives(test_node, &woken).await;
    assert!(matches!(enter(2).await, Answer::Granted { .. }));
    test_node.ask(unlock("crowd", "writer", true, false)).await;
    listeners[3].receives(test_node, &woken).await;
    drop(subscriptions);
}

async fn a_resource_without_holder_and_waiters_is_vacant(test_node: &TestNode) {
    let resources: Vec<_> = ["v1", "v2", "v3", "v4"].map(resource).into();
    let vacant = |max_resources| {
        let resources = resources.clone();
        Operation::Vacant(Vacant { resources, max_resources, ignores_marks: false })
    };
    test_node.ask(lock("v1", "1", 30_000, 0)).await;
    test_node.ask(lock("*v3", "1", 30_000, 0)).await;
    assert_eq!(test_node.ask(vacant(4)).await, Answer::Vacant(vec![1, 3]));
    assert_eq!(test_node.ask(vacant(1)).await, Answer::Vacant(vec![1]));
    test_node.ask(unlock("v1", "1", true, false)).await;
    assert_eq!(test_node.ask(vacant(4)).await, Answer::Vacant(vec![0, 1, 3]));
}

async fn held_resources_are_listed(test_node: &TestNode) {
    let (lease, other_program) = ("web/0-0-0-0-a:1", "another program's");
    for (name, by) in [("l1", lease), ("*l2", lease), ("l3", other_program), ("l4", lease)] {
        test_node.ask(lock(name, by, 30_000, 0)).await;
    }
    test_node.ask(unlock("l4", lease, true, false)).await;
    let (mut cursor, mut listed) = (0, BTreeSet::new());
    loop {
        let Answer::Listed(page) = test_node.ask(Operation::List(List { cursor })).await else {
            panic!("not listed")
        };
        listed.extend(page.resources);
        cursor = page.cursor;
        if cursor == 0 {
            break;
        }
    }
    for (name, expected) in [("l1", true), ("l2", true), ("l3", false), ("l4", false)] {
        assert_eq!(listed.contains(&resource(name)), expected, "{name}");
    }
    assert!(!listed.iter().any(|key| key.as_bytes().starts_with(b"redquorum:")), "{listed:?}");
}

async fn a_listener_gets_one_notice_when_a_latch_opens(test_node: &TestNode) {
    let listener = Arc::new(RecordingListener::default());
    let subscription =
        test_node.node.subscribe(&names::latch(&resource("latch")), Arc::clone(&listener) as _);
    listener.receives(test_node, &[Notice::Subscribed]).await;
    let update = |is_open, arrivals: &[&str]| {
        let arrivals = arrivals.iter().map(|arrival| arrival.as_bytes().into()).collect();
        let (latch, ttl) = (resource("latch"), Duration::from_secs(30));
        test_node.ask(Operation::Latch(Latch { latch, count: 3, is_open, arrivals, ttl }))
    };
    let arrived = |names: &[&str]| Answer::Arrived(names.iter().map(|name| name.as_bytes().into()).collect());
    assert_eq!(update(false, &[]).await, arrived(&[]));
    assert_eq!(update(false, &["b", "a"]).await, arrived(&["a", "b"]));
    assert_eq!(update(false, &["a"]).await, arrived(&["a", "b"]));
    assert_eq!(update(false, &["10:\0"]).await, Answer::Open);
    for is_open in [false, true] {
        assert_eq!(update(is_open, &["d"]).await, Answer::Open);
    }
    listener.receives(test_node, &[Notice::Subscribed, Notice::Released]).await;
    drop(subscription);
}

async fn a_closed_node_refuses_locks(test_node: &TestNode) {
    test_node.node.close().await;
    assert_eq!(
        test_node.ask(lock("closed", "1", 30_000, 0)).await,
        Answer::Error(NodeError::Closed(ClosedReason::ShutDown))
    );
}
