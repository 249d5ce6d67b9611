//! The connection task of a remote node, with a fake server and virtual time.

#![allow(clippy::disallowed_methods, reason = "these tests pass the virtual time")]

use std::time::Duration;

use futures::FutureExt;

use self::fake::{DialBehaviour, FakeServer};
use super::*;
use crate::{
    clock::TokioClock,
    node::{
        Abstention, Answer, Lock, Operation, Registration, Tombstone, Unlock,
        transport::{ConnectionEvent, NoticeCommand},
    },
    values::{ClosedReason, Fingerprint, Label, LeaseId},
};

mod fake;
mod registration;

/// A listener that records its notices.
#[derive(Debug, Default)]
pub(in crate::node) struct RecordingListener(Mutex<Vec<Notice>>);

impl RecordingListener {
    pub(in crate::node) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Listener for RecordingListener {
    fn notice(&self, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

/// A monitor that records whether the node was in quarantine at each registration.
#[derive(Debug, Default)]
struct RecordingMonitor(Mutex<Vec<bool>>);

impl Monitor for RecordingMonitor {
    fn registered(&self, _node: &Arc<str>, is_quarantined: bool) {
        self.0.lock().unwrap().push(is_quarantined);
    }
}

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

const QUARANTINE: Duration = Duration::from_secs(60);

/// The longest time between a call to a node that is down and the next dial, in milliseconds.
const MAX_DELAY_ON_DEMAND_MILLIS: u64 = 801;

struct Fixture {
    clock: Arc<TokioClock>,
    fake: FakeServer,
    connected_servers: ConnectedServers,
    monitor: Arc<RecordingMonitor>,
    node: RemoteNode,
}

impl Fixture {
    fn new(behaviour: DialBehaviour) -> Self {
        Self::registering(behaviour, None)
    }

    fn registering(behaviour: DialBehaviour, registers: Option<NewNodes>) -> Self {
        let clock = Arc::new(TokioClock::new());
        let fake = FakeServer::new(&clock);
        fake.set_dial_behaviour(behaviour);
        let connected_servers = ConnectedServers::default();
        let monitor = Arc::new(RecordingMonitor::default());
        let config = ConnectionConfig {
            monitor: Arc::clone(&monitor) as Arc<dyn Monitor>,
            fingerprint: Fingerprint::new("name=a"),
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
        Self { clock, fake, connected_servers, monitor, node }
    }

    /// Returns a node after its first dial, with this behaviour of dials.
    async fn after_first_dial(behaviour: DialBehaviour) -> Self {
        let fixture = Self::new(behaviour);
        fixture.pass(1).await;
        fixture
    }

    /// Lets virtual time pass, in milliseconds.
    async fn pass(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    fn lock(&self, number: u32) -> Reply {
        let (resources, lease_id) = ([resource("r")].into(), lease_id(number));
        let lock = Lock {
            resources,
            lease_id,
            ttl: Duration::from_secs(1),
            hint: 0,
            ignores_queue: false,
            will_not_wait: false,
        };
        self.node.call(Request::one(Operation::Lock(lock), self.clock.now() + Duration::from_secs(60)))
    }

    fn unlock_for(&self, number: u32, time: Duration) -> Reply {
        let (resources, lease_id) = ([resource("r")].into(), lease_id(number));
        let unlock = Unlock {
            resources,
            lease_id,
            notify: true,
            tombstone: Tombstone::Never,
            has_waiters: false,
            rest: None,
        };
        self.node.call(Request::one(Operation::Unlock(unlock), self.clock.now() + time))
    }

    fn unlock(&self, number: u32) -> Reply {
        self.unlock_for(number, Duration::from_secs(60))
    }
}

fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

fn lease_id(number: u32) -> LeaseId {
    LeaseId::from_wire(number.to_string().as_bytes())
}

/// Returns the error of a reply that is ready.
fn error(reply: Reply) -> NodeError {
    error_of(reply.now_or_never().expect("the reply is not ready"))
}

fn error_of(mut answers: Vec<Answer>) -> NodeError {
    match answers.remove(0) {
        Answer::Error(error) => error,
        other => panic!("{other:?} is no error"),
    }
}

#[tokio::test(start_paused = true)]
async fn calls_before_the_first_connection_are_sent_together_in_order() {
    let fixture = Fixture::new(DialBehaviour::Accepting);
    let replies = [fixture.lock(1), fixture.lock(2), fixture.unlock(1)];
    for reply in replies {
        assert!(!matches!(&*reply.await, [Answer::Error(_)]));
    }
    assert_eq!(fixture.fake.sent_texts(), ["lock 1, lock 2, unlock 1"]);
}

#[tokio::test(start_paused = true)]
async fn calls_are_refused_as_unsent_when_a_hanging_dial_times_out() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Hanging).await;
    let waiting = fixture.lock(1);
    let unlock = fixture.unlock(1);
    fixture.pass(1_000).await;
    assert_eq!(error(waiting), NodeError::DialTimedOut("no connection within 1s".into()));
    fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_refuses_calls_and_is_dialled_on_demand() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Refusing).await;
    fixture.pass(60_000).await;
    let dials = fixture.fake.dials();
    assert!((30..70).contains(&dials.len()), "{} dials in a minute", dials.len());
    assert_eq!(error(fixture.lock(1)), NodeError::Unreachable("refused".into()));
    fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
    fixture.pass(MAX_DELAY_ON_DEMAND_MILLIS).await;
    assert_eq!(fixture.fake.connections(), 1);
    assert!(!matches!(&*fixture.lock(2).await, [Answer::Error(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_flooding_node_is_dialled_rarely_and_refuses_calls_with_the_reason() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    fixture.fake.set_dial_behaviour(DialBehaviour::Flooding);
    let flooded = NodeError::ReadLimit { most: 1, most_values: 1 };
    let refused = NodeError::Handshake(Arc::new(flooded.clone()));
    fixture.pass(60_000).await;
    fixture.fake.push_event(ConnectionEvent::Closed(flooded));
    tokio::task::yield_now().await;
    assert_eq!(error(fixture.lock(1)), refused);
    for _ in 0..60_000 {
        assert_eq!(error(fixture.lock(1)), refused);
        fixture.pass(10).await;
    }
    let dials = fixture.fake.dials();
    assert!((600..1_300).contains(&dials.len()), "{} dials in ten minutes", dials.len());
    fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
    fixture.pass(1_000).await;
    assert_eq!(*fixture.lock(2).await, [Answer::Granted { vote: 1 }]);
}

/// The task handles all answers that have arrived before the task handles the deadline.
#[tokio::test(start_paused = true)]
async fn answers_that_arrived_during_a_pause_prevent_a_timeout() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
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
async fn a_frozen_node_is_unresponsive_and_gets_its_unlocks_after_the_thaw() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    fixture.fake.freeze();
    let unanswered = fixture.lock(1);
    fixture.pass(101).await;
    assert_eq!(error(fixture.lock(2)), NodeError::Unresponsive);
    let unlock = fixture.unlock(1);
    fixture.pass(500).await;
    assert_eq!(fixture.fake.sent_texts(), ["lock 1"]);
    fixture.fake.thaw();
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    assert_eq!(*unanswered.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(fixture.fake.sent_texts(), ["unlock 1"]);
    assert_eq!(*fixture.lock(3).await, [Answer::Granted { vote: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_replaced_and_undelivered_unlocks_are_resent() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    fixture.fake.freeze();
    let (lost, unlock) = (fixture.lock(1), fixture.unlock(1));
    fixture.pass(2_900).await;
    assert_eq!(fixture.fake.dials().len(), 1);
    fixture.fake.revive();
    fixture.pass(200).await;
    assert_eq!(fixture.fake.dials().len(), 2);
    assert_eq!(error(lost), NodeError::Disconnected);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    assert_eq!(fixture.fake.sent_texts(), ["lock 1, unlock 1", "unlock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_replaced_and_its_listeners_are_interrupted() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    let listener = Arc::new(RecordingListener::default());
    let _subscription = fixture.node.subscribe(&resource("r"), Arc::clone(&listener) as Arc<dyn Listener>);
    fixture.pass(1).await;
    assert_eq!(listener.take_notices(), [Notice::Subscribed]);
    fixture.fake.push_event(ConnectionEvent::Released(resource("r")));
    fixture.pass(1).await;
    assert_eq!(listener.take_notices(), [Notice::Released]);
    fixture.fake.push_event(ConnectionEvent::Closed(NodeError::Unreachable("reset".into())));
    fixture.pass(201).await;
    assert_eq!(listener.take_notices(), [Notice::Interrupted, Notice::Subscribed]);
    assert_eq!(fixture.fake.sent_texts(), ["subscribe r", "subscribe r"]);
    assert_eq!(fixture.fake.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn listeners_of_a_resource_share_one_subscription() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    let listen = |listener: &Arc<RecordingListener>| {
        fixture.node.subscribe(&resource("r"), Arc::clone(listener) as Arc<dyn Listener>)
    };
    let listeners = [(); 3].map(|()| Arc::new(RecordingListener::default()));
    let first = listen(&listeners[0]);
    fixture.pass(1).await;
    let later = [listen(&listeners[1]), listen(&listeners[2])];
    assert_eq!(
        listeners[2].take_notices(),
        [Notice::Subscribed],
        "a later listener of a confirmed subscription gets the notice at once"
    );
    drop((first, later));
    drop(listen(&listeners[0]));
    fixture.pass(1).await;
    assert_eq!(fixture.fake.sent_texts(), ["subscribe r", "unsubscribe r"]);
    drop(listen(&listeners[0]));
    fixture.pass(1).await;
    assert!(
        fixture.fake.sent_texts().is_empty(),
        "a subscription that ends before the task runs is not sent"
    );
    assert!(fixture.node.shared.lock().subscriptions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_script_is_loaded_and_the_call_is_resent() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    fixture.fake.freeze();
    let reply = fixture.lock(1);
    fixture.pass(1).await;
    fixture.fake.revive();
    fixture.fake.lose_script();
    assert_eq!(*reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(
        fixture.fake.sent_texts(),
        ["lock 1", "ask", "load", "lock 1"],
        "the client asks whether another client has delivered the script"
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_node_delivers_unlocks_and_accepts_no_request_afterwards() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Refusing).await;
    let unlock = fixture.unlock_for(1, Duration::from_secs(10));
    let close = fixture.node.close();
    assert_eq!(error(fixture.lock(2)), NodeError::Closed(ClosedReason::ShutDown));
    fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
    close.await;
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    assert_eq!(error(fixture.unlock(3)), NodeError::Closed(ClosedReason::ShutDown));
    assert_eq!(fixture.fake.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn close_returns_when_all_undelivered_requests_have_expired() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Refusing).await;
    let unlock = fixture.unlock_for(1, Duration::from_secs(10));
    let start = fixture.clock.now();
    fixture.node.close().await;
    let took = fixture.clock.now().saturating_duration_since(start);
    assert!((10_000..10_010).contains(&took.as_millis()), "{took:?}");
    assert!(error(unlock).is_unsent());
}

#[tokio::test(start_paused = true)]
async fn the_task_of_a_dropped_node_delivers_unlocks_and_ends() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Refusing).await;
    let unlock = fixture.unlock_for(1, Duration::from_secs(10));
    let Fixture { node, fake, .. } = fixture;
    drop(node);
    fake.set_dial_behaviour(DialBehaviour::Accepting);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_task_of_a_dropped_node_answers_expired_requests_and_ends() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    fixture.fake.freeze();
    let sent = fixture.unlock_for(1, Duration::from_secs(2));
    fixture.pass(1).await;
    let Fixture { node, fake, .. } = fixture;
    drop(node);
    assert_eq!(error_of(sent.await), NodeError::Disconnected);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.connections(), 0);
}

#[test]
fn the_end_of_the_runtime_answers_all_requests() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (fixture, reply) = runtime.block_on(async {
        let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
        fixture.fake.freeze();
        let reply = fixture.lock(1);
        (fixture, reply)
    });
    drop(runtime);
    assert!(reply.now_or_never().is_some());
    assert_eq!(error(fixture.lock(2)), NodeError::Closed(ClosedReason::RuntimeEnded));
    assert!(fixture.node.close().now_or_never().is_some());
}

/// Locks repeatedly on a node that answers by this error, and returns the warnings.
async fn warnings_after_locks(error: &NodeError, locks: u32, interval_millis: u64) -> Vec<String> {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    let traces = crate::lock::tests::traces::Traces::begin();
    for number in 0..locks {
        fixture.fake.answer_lock(Answer::Error(error.clone()));
        drop(fixture.lock(number).await);
        fixture.pass(interval_millis).await;
    }
    traces.warned()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_calls_for_a_second_causes_one_warning() {
    let missing = NodeError::NoPermission("why".into());
    for error in [missing, NodeError::NoAuth("why".into()), NodeError::ReadOnly, NodeError::CannotPersist] {
        assert!(warnings_after_locks(&error, 2, 900).await.is_empty(), "{error}");
        assert_eq!(warnings_after_locks(&error, 20, 100).await, ["node refuses calls"], "{error}");
    }
    assert!(
        warnings_after_locks(&NodeError::WrongType, 20, 100).await.is_empty(),
        "only one resource is refused"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_registration_for_a_second_causes_one_warning() {
    let closed: Arc<str> = "closed for name=b from name=a by 1".into();
    let missing = NodeError::NoPermission("no `evalsha` (user app)".into());
    let clock_off = NodeError::ClockOff { gap: Duration::from_secs(7_200), is_node_ahead: true };
    for (answer, error) in [
        (Answer::Error(NodeError::ReadOnly), NodeError::ReadOnly),
        (
            Answer::WrongQuorum { fingerprint: Fingerprint::new(closed.as_ref()) },
            NodeError::WrongQuorum(Arc::clone(&closed)),
        ),
        (Answer::Error(clock_off.clone()), clock_off),
        (Answer::Error(missing.clone()), missing),
    ] {
        let fixture = Fixture::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
        fixture.fake.set_registration(answer);
        let traces = crate::lock::tests::traces::Traces::begin();
        fixture.pass(900).await;
        assert!(traces.warned().is_empty(), "{error}");
        fixture.pass(10_000).await;
        assert_eq!(traces.warned(), ["node refuses calls"], "{error}");
        assert_eq!(traces.only("node refuses calls").field("error"), error.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_node_causes_one_warning_with_the_address_of_the_new_server() {
    let replaced = || Fingerprint::new("name=a").replaced_by("10.0.0.4:6379");
    let fixture = Fixture::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
    let traces = crate::lock::tests::traces::Traces::begin();
    for number in 0..20 {
        fixture.fake.answer_lock(Answer::WrongQuorum { fingerprint: replaced() });
        drop(fixture.lock(number).await);
        fixture.pass(100).await;
    }
    fixture.fake.set_registration(Answer::WrongQuorum { fingerprint: replaced() });
    fixture.fake.push_event(ConnectionEvent::Closed(NodeError::Disconnected));
    fixture.pass(100_000).await;
    assert_eq!(traces.warned(), ["node was replaced: restart with the new list of nodes"]);
    let warning = traces.only("node was replaced: restart with the new list of nodes");
    assert_eq!(warning.field("new"), "10.0.0.4:6379");
}

/// The server may have lost the mark of its retirement, and would vote again after a registration.
#[tokio::test(start_paused = true)]
async fn a_client_uses_a_replaced_node_never_again() {
    let replaced =
        || Answer::WrongQuorum { fingerprint: Fingerprint::new("name=a").replaced_by("10.0.0.4:6379") };
    for found_by in ["the first registration", "a call", "a later registration"] {
        let fixture = Fixture::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
        match found_by {
            "the first registration" => {
                fixture.fake.set_registration(replaced());
                fixture.pass(1_000).await;
            }
            "a call" => {
                fixture.fake.answer_lock(replaced());
                drop(fixture.lock(1).await);
            }
            _ => {
                fixture.pass(1).await;
                fixture.fake.set_registration(replaced());
                fixture.fake.answer_lock(Answer::Abstains(Abstention::NotRegistered));
                drop(fixture.lock(1).await);
            }
        }
        let registered = Registration { incarnation: None, quarantine: None };
        fixture.fake.set_registration(Answer::Registered(registered));
        fixture.pass(100_000).await;
        fixture.fake.answer_lock(Answer::Granted { vote: 7 });
        let answer = fixture.lock(2).await;
        let is_refused =
            matches!(&answer[..], [Answer::Error(error)] if error.replaced_by() == Some("10.0.0.4:6379"));
        assert!(is_refused, "found by {found_by}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_notice_is_recorded_until_the_next_connection() {
    let fixture = Fixture::after_first_dial(DialBehaviour::Accepting).await;
    assert_eq!(fixture.node.unpublished(), None);
    let error = NodeError::NoPermission("why".into());
    for (command, recorded) in
        [(NoticeCommand::Subscribe, None), (NoticeCommand::Publish, Some(error.clone()))]
    {
        fixture.fake.push_event(ConnectionEvent::NoticeRefused { command, error: error.clone() });
        fixture.pass(1).await;
        assert_eq!(fixture.node.unpublished(), recorded);
    }
    fixture.fake.push_event(ConnectionEvent::Closed(NodeError::Disconnected));
    fixture.pass(200).await;
    assert_eq!(fixture.node.unpublished(), None);
}
