//! The driver over a connection that does as it is told.

#![allow(clippy::disallowed_methods, reason = "these tests pass the virtual time")]

use std::time::Duration;

use futures::FutureExt;

use self::fake::{Door, Fake};
use super::monitor::NoMonitor;
use super::*;
use crate::{
    clock::TokioClock,
    node::{Answer, Lock, Operation, Tombstone, Unlock, transport::ConnectionEvent},
    values::{Label, LeaseId, NodeError},
};

mod fake;
mod registration;

/// A listener that keeps what it hears.
#[derive(Debug, Default)]
pub(in crate::node) struct RecordingListener(Mutex<Vec<Notice>>);

impl RecordingListener {
    pub(in crate::node) fn heard(&self) -> Vec<Notice> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Listener for RecordingListener {
    fn notice(&self, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

const QUARANTINE: Duration = Duration::from_secs(60);

/// Within so many milliseconds of a call, a node that is down is dialled.
const PROMPT_AT_MOST: u64 = 101;

struct Fixture {
    clock: Arc<TokioClock>,
    fake: Fake,
    connected_servers: ConnectedServers,
    node: RemoteNode,
}

impl Fixture {
    fn new(door: Door) -> Self {
        Self::registering(door, None)
    }

    fn registering(door: Door, registers: Option<NewNodes>) -> Self {
        let clock = Arc::new(TokioClock::new());
        let fake = Fake::new(&clock);
        fake.set_door(door);
        let connected_servers = ConnectedServers::default();
        let config = ConnectionConfig {
            monitor: Arc::new(NoMonitor),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            spawner: Arc::new(tokio::runtime::Handle::current()),
            registers,
            label: Label::default(),
            connected_servers: connected_servers.clone(),
            node_timeout: NODE_TIMEOUT,
            quarantine: QUARANTINE,
            seed: 1,
        };
        let node = RemoteNode::new("fake:1".into(), Arc::new(fake.clone()), &config);
        Self { clock, fake, connected_servers, node }
    }

    /// A node behind a door of this kind, with some time to try it.
    async fn at(door: Door) -> Self {
        let fixture = Self::new(door);
        fixture.pass(1).await;
        fixture
    }

    async fn pass(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn lock(&self, number: u32) -> Reply {
        let (resources, owner) = ([resource("r")].into(), owner(number));
        let lock =
            Lock { resources, owner, ttl: Duration::from_secs(1), hint: 0, has_turn: false, gives_up: false };
        self.node.call(Request::one(Operation::Lock(lock), self.clock.now() + Duration::from_secs(60)))
    }

    fn unlock_for(&self, number: u32, time: Duration) -> Reply {
        let (resources, owner) = ([resource("r")].into(), owner(number));
        let unlock =
            Unlock { resources, owner, notify: true, tombstone: Tombstone::Never, is_awaited: false };
        self.node.call(Request::one(Operation::Unlock(unlock), self.clock.now() + time))
    }

    fn unlock(&self, number: u32) -> Reply {
        self.unlock_for(number, Duration::from_secs(60))
    }
}

fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

fn owner(number: u32) -> LeaseId {
    LeaseId::from_wire(number.to_string().as_bytes())
}

fn error(reply: Reply) -> NodeError {
    fault_of(reply.now_or_never().expect("no answer"))
}

fn fault_of(mut answers: Vec<Answer>) -> NodeError {
    match answers.remove(0) {
        Answer::Error(error) => error,
        other => panic!("{other:?} is no error"),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_made_before_the_connection_stands_go_out_in_order_and_together() {
    let fixture = Fixture::new(Door::Open);
    let replies = [fixture.lock(1), fixture.lock(2), fixture.unlock(1)];
    for reply in replies {
        assert!(!matches!(&*reply.await, [Answer::Error(_)]));
    }
    assert_eq!(fixture.fake.told(), ["lock 1, lock 2, unlock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_hangs_is_given_up_and_what_waited_is_refused_as_unsent() {
    let fixture = Fixture::at(Door::Hanging).await;
    let waiting = fixture.lock(1);
    let unlock = fixture.unlock(1);
    fixture.pass(1_000).await;
    assert_eq!(error(waiting), NodeError::Unreachable("no connection within 1s".into()));
    fixture.fake.set_door(Door::Open);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_refuses_at_once_and_is_dialled_seldom_until_somebody_calls() {
    let fixture = Fixture::at(Door::Refusing).await;
    fixture.pass(60_000).await;
    let dials = fixture.fake.dials();
    assert!((60..140).contains(&dials.len()), "{} dials in a minute", dials.len());
    assert_eq!(error(fixture.lock(1)), NodeError::Unreachable("refused".into()));
    fixture.fake.set_door(Door::Open);
    fixture.pass(PROMPT_AT_MOST).await;
    assert_eq!(fixture.fake.connections(), 1);
    assert!(!matches!(&*fixture.lock(2).await, [Answer::Error(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_floods_is_dialled_less_and_less_often_and_refuses_every_call_with_the_reason() {
    let fixture = Fixture::at(Door::Open).await;
    fixture.fake.set_door(Door::Flooding);
    let flooded = NodeError::ReadLimit { most: 1 };
    let refused = NodeError::Handshake(Arc::new(flooded.clone()));
    fixture.pass(60_000).await;
    fixture.fake.say(ConnectionEvent::Closed(flooded));
    tokio::task::yield_now().await;
    assert_eq!(error(fixture.lock(1)), refused);
    for _ in 0..60_000 {
        assert_eq!(error(fixture.lock(1)), refused);
        fixture.pass(10).await;
    }
    let dials = fixture.fake.dials();
    assert!((30..55).contains(&dials.len()), "{} dials in ten minutes", dials.len());
    fixture.fake.set_door(Door::Open);
    fixture.pass(30_000).await;
    assert_eq!(*fixture.lock(2).await, [Answer::Granted { vote: 1 }]);
}

/// Only then is it known how long the node was silent.
#[tokio::test(start_paused = true)]
async fn what_came_while_this_process_stood_still_is_heard_before_anything_is_sent_or_refused() {
    let fixture = Fixture::at(Door::Open).await;
    fixture.fake.freeze();
    let first = fixture.lock(1);
    fixture.pass(1).await;
    fixture.fake.thaw();
    let second = fixture.lock(2);
    tokio::time::advance(Duration::from_millis(150)).await;
    assert_eq!(*first.await, [Answer::Granted { vote: 1 }]);
    assert!(!matches!(&*second.await, [Answer::Error(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_node_is_unresponsive_within_the_node_timeout_and_gets_the_unlocks_when_it_thaws() {
    let fixture = Fixture::at(Door::Open).await;
    fixture.fake.freeze();
    let swallowed = fixture.lock(1);
    fixture.pass(101).await;
    assert_eq!(error(fixture.lock(2)), NodeError::Unresponsive);
    let unlock = fixture.unlock(1);
    fixture.pass(500).await;
    assert_eq!(fixture.fake.told(), ["lock 1"]);
    fixture.fake.thaw();
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    assert_eq!(*swallowed.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(fixture.fake.told(), ["unlock 1"]);
    assert_eq!(*fixture.lock(3).await, [Answer::Granted { vote: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_silent_for_long_is_replaced_and_undelivered_unlocks_go_over_the_new_one() {
    let fixture = Fixture::at(Door::Open).await;
    fixture.fake.freeze();
    let (lost, unlock) = (fixture.lock(1), fixture.unlock(1));
    fixture.pass(2_900).await;
    assert_eq!(fixture.fake.dials().len(), 1);
    fixture.fake.revive();
    fixture.pass(200).await;
    assert_eq!(fixture.fake.dials().len(), 2);
    assert_eq!(error(lost), NodeError::Disconnected);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    assert_eq!(fixture.fake.told(), ["lock 1, unlock 1", "unlock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_replaced_at_once_and_listeners_hear_that_they_may_have_missed_something() {
    let fixture = Fixture::at(Door::Open).await;
    let listener = Arc::new(RecordingListener::default());
    let _subscription = fixture.node.subscribe(&resource("r"), Arc::clone(&listener) as Arc<dyn Listener>);
    fixture.pass(1).await;
    assert_eq!(listener.heard(), [Notice::Subscribed]);
    fixture.fake.say(ConnectionEvent::Released(resource("r")));
    fixture.pass(1).await;
    assert_eq!(listener.heard(), [Notice::Released]);
    fixture.fake.say(ConnectionEvent::Closed(NodeError::Unreachable("reset".into())));
    fixture.pass(30).await;
    assert_eq!(listener.heard(), [Notice::Interrupted, Notice::Subscribed]);
    assert_eq!(fixture.fake.told(), ["subscribe r", "subscribe r"]);
    assert_eq!(fixture.fake.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_listeners_have_one_subscription_and_the_last_takes_it_with_it() {
    let fixture = Fixture::at(Door::Open).await;
    let listen = |listener: &Arc<RecordingListener>| {
        fixture.node.subscribe(&resource("r"), Arc::clone(listener) as Arc<dyn Listener>)
    };
    let ears = [(); 3].map(|()| Arc::new(RecordingListener::default()));
    let first = listen(&ears[0]);
    fixture.pass(1).await;
    let others = [listen(&ears[1]), listen(&ears[2])];
    assert_eq!(ears[2].heard(), [Notice::Subscribed], "it stands already");
    drop((first, others));
    drop(listen(&ears[0]));
    fixture.pass(1).await;
    assert_eq!(fixture.fake.told(), ["subscribe r", "unsubscribe r"]);
    drop(listen(&ears[0]));
    fixture.pass(1).await;
    assert!(fixture.fake.told().is_empty(), "come and gone between two looks");
    assert!(fixture.node.shared.lock().subscriptions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_script_is_loaded_in_place_and_the_call_goes_again() {
    let fixture = Fixture::at(Door::Open).await;
    fixture.fake.freeze();
    let reply = fixture.lock(1);
    fixture.pass(1).await;
    fixture.fake.lose_script();
    fixture.pass(1).await;
    assert_eq!(fixture.fake.told(), ["lock 1", "load"]);
    fixture.fake.thaw();
    fixture.fake.say(ConnectionEvent::Loaded);
    assert_eq!(*reply.await, [Answer::Granted { vote: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn closing_sends_what_must_be_delivered_and_takes_no_more() {
    let fixture = Fixture::at(Door::Refusing).await;
    let unlock = fixture.unlock_for(1, Duration::from_secs(10));
    let close = fixture.node.close();
    assert_eq!(error(fixture.lock(2)), NodeError::Closed);
    fixture.fake.set_door(Door::Open);
    close.await;
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    assert_eq!(error(fixture.unlock(3)), NodeError::Closed);
    assert_eq!(fixture.fake.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_when_the_time_of_all_that_must_be_delivered_is_over() {
    let fixture = Fixture::at(Door::Refusing).await;
    let unlock = fixture.unlock_for(1, Duration::from_secs(10));
    let start = fixture.clock.now();
    fixture.node.close().await;
    let took = fixture.clock.now().saturating_duration_since(start);
    assert!((10_000..10_010).contains(&took.as_millis()), "{took:?}");
    assert!(error(unlock).is_unsent());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_sends_what_must_be_delivered_and_then_ends_the_task() {
    let fixture = Fixture::at(Door::Refusing).await;
    let unlock = fixture.unlock_for(1, Duration::from_secs(10));
    let Fixture { node, fake, .. } = fixture;
    drop(node);
    fake.set_door(Door::Open);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn after_the_handle_was_dropped_everybody_is_answered_when_the_time_of_all_is_over() {
    let fixture = Fixture::at(Door::Open).await;
    fixture.fake.freeze();
    let sent = fixture.unlock_for(1, Duration::from_secs(2));
    fixture.pass(1).await;
    let Fixture { node, fake, .. } = fixture;
    drop(node);
    assert_eq!(fault_of(sent.await), NodeError::Disconnected);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.connections(), 0);
}

#[test]
fn a_runtime_that_ends_leaves_nobody_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (fixture, reply) = runtime.block_on(async {
        let fixture = Fixture::at(Door::Open).await;
        fixture.fake.freeze();
        let reply = fixture.lock(1);
        (fixture, reply)
    });
    drop(runtime);
    assert!(reply.now_or_never().is_some());
    assert_eq!(error(fixture.lock(2)), NodeError::Closed);
    assert!(fixture.node.close().now_or_never().is_some());
}
