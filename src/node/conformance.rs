//! What every node has to do, whatever it is made of: a suite to run on any of them.

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
            enqueue, inspect, lock, observe, owner, proclaim, renew, resource, said, take, unlock, withdraw,
            write_back,
        },
    },
    values::{LeaseId, NodeError},
};

/// An empty node, and a way to let its time pass.
pub(crate) struct Subject {
    pub(crate) node: Arc<dyn Node>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Lets so much time pass for the node and the clock.
    pub(crate) wait: Box<dyn Fn(Duration) -> BoxFuture<'static, ()>>,
}

impl Subject {
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

/// Keeps what it hears.
#[derive(Debug, Default)]
struct Ear(Mutex<Vec<Notice>>);

impl Ear {
    fn heard(&self) -> Vec<Notice> {
        mutex::lock(&self.0).clone()
    }

    async fn hears(&self, subject: &Subject, expected: &[Notice]) {
        for _ in 0..200 {
            if self.heard() == expected {
                return;
            }
            subject.wait(Duration::from_millis(10)).await;
        }
        assert_eq!(self.heard(), expected);
    }
}

impl Listener for Ear {
    fn notice(&self, notice: Notice) {
        mutex::lock(&self.0).push(notice);
    }
}

/// Runs the whole suite; closes the node at the end.
pub(crate) async fn conforms(subject: &Subject) {
    entries_are_executed_in_order_each_with_its_own_answer(subject).await;
    calls_are_executed_in_the_order_in_which_they_were_made(subject).await;
    a_dropped_reply_cancels_nothing(subject).await;
    a_lock_ends_with_its_ttl(subject).await;
    a_listener_hears_real_releases_until_it_unsubscribes(subject).await;
    a_listener_hears_of_a_leader_and_of_its_values_once_each(subject).await;
    a_release_wakes_the_first_in_the_queue_that_listens_and_nobody_else(subject).await;
    readers_share_until_the_last_of_them_leaves(subject).await;
    a_reader_wakes_the_readers_behind_it_and_no_writer(subject).await;
    what_nobody_has_or_waits_for_is_vacant(subject).await;
    what_is_held_is_listed(subject).await;
    a_listener_hears_once_that_a_latch_is_open(subject).await;
    a_closed_node_takes_no_locks(subject).await;
}

async fn entries_are_executed_in_order_each_with_its_own_answer(subject: &Subject) {
    let operations = vec![
        lock("order", "1", 30_000, 0),
        lock("order", "2", 30_000, 0),
        unlock("order", "1", true, false),
        take("order", "2", 30_000),
        inspect("order"),
    ];
    let answers = subject.node.call(subject.request(operations)).await;
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
    assert_eq!(subject.ask(write_back("order", "2", second + 1)).await, Answer::WrittenBack);
    assert_eq!(
        subject.ask(write_back("order", "1", second + 2)).await,
        Answer::NotWrittenBack { counter: second + 1 }
    );
    let renewed = subject.ask(renew("order", "2", 1, 30_000, second + 1)).await;
    assert_eq!(renewed, Answer::Renewed { proves: true });
}

async fn calls_are_executed_in_the_order_in_which_they_were_made(subject: &Subject) {
    let locked = subject.node.call(subject.request(vec![lock("calls", "1", 30_000, 0)]));
    let unlocked = subject.node.call(subject.request(vec![unlock("calls", "1", true, false)]));
    let again = subject.node.call(subject.request(vec![lock("calls", "2", 30_000, 0)]));
    // Asked for in the opposite order.
    assert!(matches!(again.await.as_slice(), [Answer::Granted { .. }]));
    assert_eq!(unlocked.await, [Answer::Unlocked { deleted: 1 }]);
    assert!(matches!(locked.await.as_slice(), [Answer::Granted { .. }]));
}

async fn a_dropped_reply_cancels_nothing(subject: &Subject) {
    drop(subject.node.call(subject.request(vec![lock("dropped", "1", 30_000, 0)])));
    let answer = subject.ask(lock("dropped", "2", 30_000, 0)).await;
    assert!(matches!(answer, Answer::Held(_)), "{answer:?}");
    drop(subject.node.call(subject.request(vec![unlock("dropped", "1", true, false)])));
    assert!(matches!(subject.ask(take("dropped", "2", 30_000)).await, Answer::Granted { .. }));
}

async fn a_lock_ends_with_its_ttl(subject: &Subject) {
    assert!(matches!(subject.ask(lock("ttl", "1", 200, 0)).await, Answer::Granted { .. }));
    let Answer::Held(holder) = subject.ask(lock("ttl", "2", 200, 0)).await else { panic!("not held") };
    assert!(holder.remaining <= Duration::from_millis(200));
    subject.wait(Duration::from_millis(210)).await;
    assert!(matches!(subject.ask(lock("ttl", "2", 200, 0)).await, Answer::Granted { .. }));
}

async fn a_listener_hears_real_releases_until_it_unsubscribes(subject: &Subject) {
    let ear = Arc::new(Ear::default());
    let subscription = subject.node.subscribe(&resource("heard"), Arc::clone(&ear) as Arc<dyn Listener>);
    ear.hears(subject, &[Notice::Subscribed]).await;
    for (name, notify) in [("heard", false), ("unheard", true), ("heard", true)] {
        subject.ask(lock(name, "1", 30_000, 0)).await;
        subject.ask(unlock(name, "1", notify, false)).await;
    }
    ear.hears(subject, &[Notice::Subscribed, Notice::Released]).await;
    drop(subscription);
    subject.wait(Duration::from_millis(50)).await;
    subject.ask(lock("heard", "1", 30_000, 0)).await;
    subject.ask(unlock("heard", "1", true, false)).await;
    subject.wait(Duration::from_millis(50)).await;
    assert_eq!(ear.heard(), [Notice::Subscribed, Notice::Released]);
}

async fn a_listener_hears_of_a_leader_and_of_its_values_once_each(subject: &Subject) {
    let ear = Arc::new(Ear::default());
    let topic = names::leader(&resource("led"));
    let subscription = subject.node.subscribe(&topic, Arc::clone(&ear) as Arc<dyn Listener>);
    ear.hears(subject, &[Notice::Subscribed]).await;
    let first = said("1", 7, 1, "first");
    assert_eq!(subject.ask(proclaim("led", first.clone(), 30_000)).await, Answer::NotLeader);
    subject.ask(lock("led", "1", 30_000, 0)).await;
    for said in [first.clone(), first.clone(), said("1", 7, 2, "second"), first] {
        assert_eq!(subject.ask(proclaim("led", said, 30_000)).await, Answer::Proclaimed);
    }
    ear.hears(subject, &[Notice::Subscribed, Notice::Released, Notice::Released]).await;
    let Answer::Observed(seen) = subject.ask(observe("led")).await else { panic!("not observed") };
    assert_eq!((seen.owner, seen.said), (Some(owner("1")), Some(said("1", 7, 2, "second"))));
    drop(subscription);
    subject.ask(unlock("led", "1", true, false)).await;
}

async fn a_release_wakes_the_first_in_the_queue_that_listens_and_nobody_else(subject: &Subject) {
    let enter = |waiter: &'static str| subject.ask(enqueue("queue", waiter, waiter, 0, 30_000));
    subject.ask(lock("queue", "1", 30_000, 0)).await;
    let ears = [Arc::new(Ear::default()), Arc::new(Ear::default())];
    let mut subscriptions = Vec::new();
    for (waiter, ear) in ["second", "third"].iter().zip(&ears) {
        let topic = names::turn(&resource("queue"), &owner(waiter));
        subscriptions.push(subject.node.subscribe(&topic, Arc::clone(ear) as Arc<dyn Listener>));
        ear.hears(subject, &[Notice::Subscribed]).await;
    }
    for waiter in ["deaf", "second", "third"] {
        assert!(matches!(enter(waiter).await, Answer::Queued(queued) if queued.holder.is_some()));
    }
    subject.ask(unlock("queue", "1", true, false)).await;
    ears[0].hears(subject, &[Notice::Subscribed, Notice::Released]).await;
    assert!(matches!(enter("third").await, Answer::Queued(queued) if queued.holder.is_none()));
    ears[0].hears(subject, &[Notice::Subscribed, Notice::Released, Notice::Released]).await;
    assert!(matches!(enter("second").await.into_parts(), (Answer::Granted { .. }, Some(true))));
    subject.ask(unlock("queue", "second", true, false)).await;
    ears[1].hears(subject, &[Notice::Subscribed, Notice::Released]).await;
    assert_eq!(subject.ask(withdraw("queue", "third")).await, Answer::Withdrawn);
    assert!(matches!(subject.ask(enqueue("queue", "4", "4", 0, 0)).await, Answer::Granted { .. }));
    drop(subscriptions);
}

async fn readers_share_until_the_last_of_them_leaves(subject: &Subject) {
    let ear = Arc::new(Ear::default());
    let subscription = subject.node.subscribe(&resource("shared"), Arc::clone(&ear) as Arc<dyn Listener>);
    ear.hears(subject, &[Notice::Subscribed]).await;
    let Answer::Granted { vote } = subject.ask(lock("*shared", "1", 30_000, 0)).await else {
        panic!("not granted")
    };
    assert_eq!(subject.ask(lock("*shared", "2", 30_000, 0)).await, Answer::Granted { vote });
    assert_eq!(subject.ask(write_back("*shared", "1", vote + 1)).await, Answer::WrittenBack);
    let Answer::Held(holder) = subject.ask(lock("shared", "3", 30_000, 0)).await else { panic!("not held") };
    assert_eq!((holder.owner, holder.counter), (Some(LeaseId::of_readers()), vote + 1));
    let renewed = subject.ask(renew("*shared", "2", 1, 30_000, vote)).await;
    assert_eq!(renewed, Answer::Renewed { proves: true }, "no writer came after it");
    // A writer was refused, who goes first.
    assert!(matches!(subject.ask(lock("*shared", "4", 30_000, 0)).await, Answer::Queued(_)));
    let Answer::Inspected(seen) = subject.ask(inspect("shared")).await else { panic!("not told") };
    assert_eq!(seen.held.map(|held| held.holds), Some(2));
    assert_eq!(seen.readers.len(), 2);
    for reader in ["1", "2"] {
        assert_eq!(ear.heard(), [Notice::Subscribed], "others read on");
        let unlocked = subject.ask(unlock("*shared", reader, true, false)).await;
        assert_eq!(unlocked, Answer::Unlocked { deleted: 1 });
    }
    ear.hears(subject, &[Notice::Subscribed, Notice::Released]).await;
    assert_eq!(subject.ask(take("shared", "3", 30_000)).await, Answer::Granted { vote: vote + 2 });
    drop(subscription);
}

async fn a_reader_wakes_the_readers_behind_it_and_no_writer(subject: &Subject) {
    let resources =
        [("a:shared", "*crowd"), ("b:shared", "*crowd"), ("writer", "crowd"), ("c:shared", "*crowd")];
    subject.ask(lock("crowd", "1", 30_000, 0)).await;
    let ears = resources.map(|_| Arc::new(Ear::default()));
    let mut subscriptions = Vec::new();
    for ((waiter, _), ear) in resources.iter().zip(&ears) {
        let topic = names::turn(&resource("crowd"), &owner(waiter));
        subscriptions.push(subject.node.subscribe(&topic, Arc::clone(ear) as Arc<dyn Listener>));
        ear.hears(subject, &[Notice::Subscribed]).await;
    }
    let (next, topic) = (Arc::new(Ear::default()), names::next(&resource("crowd"), &owner("writer")));
    subscriptions.push(subject.node.subscribe(&topic, Arc::clone(&next) as Arc<dyn Listener>));
    next.hears(subject, &[Notice::Subscribed]).await;
    let enter = async |index: usize| {
        let (waiter, name) = resources[index];
        subject.ask(enqueue(name, waiter, waiter, 0, 30_000)).await.into_parts().0
    };
    for index in 0..4 {
        assert!(matches!(enter(index).await, Answer::Queued(_)));
    }
    let woken = [Notice::Subscribed, Notice::Released];
    subject.ask(unlock("crowd", "1", true, false)).await;
    for (index, ear) in ears.iter().take(2).enumerate() {
        ear.hears(subject, &woken).await;
        assert!(matches!(enter(index).await, Answer::Granted { .. }));
    }
    // The writer is woken by the last of the readers, and the reader behind it waits for it.
    assert!(matches!(enter(3).await, Answer::Queued(_)));
    subject.ask(unlock("*crowd", "a:shared", true, false)).await;
    subject.wait(Duration::from_millis(20)).await;
    assert_eq!([ears[2].heard(), ears[3].heard()], [[Notice::Subscribed], [Notice::Subscribed]]);
    subject.ask(unlock("*crowd", "b:shared", true, false)).await;
    ears[2].hears(subject, &woken).await;
    assert!(matches!(enter(2).await, Answer::Granted { .. }));
    subject.ask(unlock("crowd", "writer", true, false)).await;
    ears[3].hears(subject, &woken).await;
    drop(subscriptions);
}

async fn what_nobody_has_or_waits_for_is_vacant(subject: &Subject) {
    let resources: Vec<_> = ["v1", "v2", "v3", "v4"].map(resource).into();
    let vacant = |most| {
        let resources = resources.clone();
        Operation::Vacant(Vacant { resources, most, even_marked: false })
    };
    subject.ask(lock("v1", "1", 30_000, 0)).await;
    subject.ask(lock("*v3", "1", 30_000, 0)).await;
    assert_eq!(subject.ask(vacant(4)).await, Answer::Vacant(vec![1, 3]));
    assert_eq!(subject.ask(vacant(1)).await, Answer::Vacant(vec![1]));
    subject.ask(unlock("v1", "1", true, false)).await;
    assert_eq!(subject.ask(vacant(4)).await, Answer::Vacant(vec![0, 1, 3]));
}

async fn what_is_held_is_listed(subject: &Subject) {
    let (ours, others) = ("web/0-0-0-0-a:1", "an application's");
    for (name, by) in [("l1", ours), ("*l2", ours), ("l3", others), ("l4", ours)] {
        subject.ask(lock(name, by, 30_000, 0)).await;
    }
    subject.ask(unlock("l4", ours, true, false)).await;
    let (mut cursor, mut listed) = (0, BTreeSet::new());
    loop {
        let Answer::Listed(part) = subject.ask(Operation::List(List { cursor })).await else {
            panic!("none")
        };
        listed.extend(part.resources);
        cursor = part.cursor;
        if cursor == 0 {
            break;
        }
    }
    for (name, expected) in [("l1", true), ("l2", true), ("l3", false), ("l4", false)] {
        assert_eq!(listed.contains(&resource(name)), expected, "{name}");
    }
    assert!(!listed.iter().any(|key| key.as_bytes().starts_with(b"redquorum:")), "{listed:?}");
}

async fn a_listener_hears_once_that_a_latch_is_open(subject: &Subject) {
    let ear = Arc::new(Ear::default());
    let subscription = subject.node.subscribe(&names::latch(&resource("latch")), Arc::clone(&ear) as _);
    ear.hears(subject, &[Notice::Subscribed]).await;
    let tell = |is_open, arrivals: &[&str]| {
        let arrivals = arrivals.iter().map(|arrival| arrival.as_bytes().into()).collect();
        let (latch, ttl) = (resource("latch"), Duration::from_secs(30));
        subject.ask(Operation::Latch(Latch { latch, count: 3, is_open, arrivals, ttl }))
    };
    let arrived = |names: &[&str]| Answer::Arrived(names.iter().map(|name| name.as_bytes().into()).collect());
    assert_eq!(tell(false, &[]).await, arrived(&[]));
    assert_eq!(tell(false, &["b", "a"]).await, arrived(&["a", "b"]));
    assert_eq!(tell(false, &["a"]).await, arrived(&["a", "b"]));
    assert_eq!(tell(false, &["10:\0"]).await, Answer::Open);
    for is_open in [false, true] {
        assert_eq!(tell(is_open, &["d"]).await, Answer::Open);
    }
    ear.hears(subject, &[Notice::Subscribed, Notice::Released]).await;
    drop(subscription);
}

async fn a_closed_node_takes_no_locks(subject: &Subject) {
    subject.node.close().await;
    assert_eq!(subject.ask(lock("closed", "1", 30_000, 0)).await, Answer::Error(NodeError::Closed));
}
