//! The conformance suite on in-memory nodes, and the behaviour that only in-memory nodes have.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{self, BoxFuture, FutureExt};

use crate::{
    clock::{Clock, Instant, VIRTUAL_EPOCH},
    mutex,
    node::{
        Answer, Listener, NewNodes, Node, Notice, Operation, Reply, Request, Subscription,
        conformance::{TestNode, conforms},
        memory::{Behaviour, MemoryNode, MemoryServer, SWEEP_AFTER},
        operation::samples::{inspect, lock, parameters, resource, take, unlock},
    },
    values::{ClosedReason, NodeError},
};

/// A clock whose time changes only by `advance`.
#[derive(Debug, Default)]
struct ManualClock(Mutex<Duration>);

impl ManualClock {
    fn advance(&self, duration: Duration) {
        *mutex::lock(&self.0) += duration;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        Instant::from_origin(*mutex::lock(&self.0))
    }

    fn time_of_day(&self) -> Duration {
        VIRTUAL_EPOCH + *mutex::lock(&self.0)
    }

    fn granularity(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        future::pending().boxed()
    }
}

struct Fixture {
    clock: Arc<ManualClock>,
    server: Arc<MemoryServer>,
    node: Arc<MemoryNode>,
}

fn fixture() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let server = MemoryServer::new(Arc::clone(&clock) as Arc<dyn Clock>, 7);
    let node =
        Arc::new(MemoryNode::new(Arc::clone(&server), "memory:1".into(), parameters(), NewNodes::Admit));
    Fixture { clock, server, node }
}

fn call(node: &dyn Node, operation: Operation) -> Reply {
    node.call(Request::one(operation, Instant::from_origin(Duration::MAX)))
}

fn answer(node: &dyn Node, operation: Operation) -> Answer {
    call(node, operation).now_or_never().expect("an in-memory node answers at once").remove(0)
}

#[tokio::test]
async fn an_in_memory_node_conforms() {
    let Fixture { clock, node, .. } = fixture();
    let waiting = Arc::clone(&clock);
    let wait = Box::new(move |duration| {
        waiting.advance(duration);
        future::ready(()).boxed()
    });
    conforms(&TestNode { node, clock, wait }).await;
}

#[test]
fn the_close_of_a_client_does_not_close_the_server() {
    let Fixture { server, node, .. } = fixture();
    let other_client = MemoryNode::new(server, "memory:1".into(), parameters(), NewNodes::Admit);
    answer(&*node, lock("a", "1", 5000, 0));
    assert!(matches!(answer(&other_client, lock("a", "2", 5000, 0)), Answer::Held(_)));
    node.close().now_or_never().expect("no unlock is undelivered");
    assert_eq!(
        answer(&*node, lock("b", "1", 5000, 0)),
        Answer::Error(NodeError::Closed(ClosedReason::ShutDown))
    );
    assert_eq!(answer(&*node, unlock("a", "1", true, false)), Answer::Unlocked { deleted: 1 });
    assert!(matches!(answer(&other_client, take("a", "2", 5000)), Answer::Granted { .. }));
}

/// A listener that handles a release notice with a call of the node, the drop of its own subscription, and the record
/// of its name.
#[derive(Debug)]
struct ReentrantListener {
    name: &'static str,
    node: Arc<MemoryNode>,
    notified: Arc<Mutex<Vec<&'static str>>>,
    subscription: Mutex<Option<Subscription>>,
}

impl Listener for ReentrantListener {
    fn notice(&self, notice: Notice) {
        if notice == Notice::Released {
            answer(&*self.node, inspect("a"));
            drop(mutex::lock(&self.subscription).take());
            mutex::lock(&self.notified).push(self.name);
        }
    }
}

#[test]
fn listeners_receive_notices_in_order_and_may_call_the_node() {
    let Fixture { node, .. } = fixture();
    let notified = Arc::new(Mutex::new(Vec::new()));
    for name in ["first", "second", "third"] {
        let listener = Arc::new(ReentrantListener {
            name,
            node: Arc::clone(&node),
            notified: Arc::clone(&notified),
            subscription: Mutex::default(),
        });
        let subscription = node.subscribe(&resource("a"), Arc::clone(&listener) as Arc<dyn Listener>);
        *mutex::lock(&listener.subscription) = Some(subscription);
    }
    for _ in 0..2 {
        answer(&*node, lock("a", "1", 5000, 0));
        answer(&*node, unlock("a", "1", true, false));
    }
    assert_eq!(*mutex::lock(&notified), ["first", "second", "third"]);
}

#[test]
fn a_thawed_server_executes_pending_requests_in_order() {
    let Fixture { server, node, .. } = fixture();
    server.behave(Behaviour::Hanging);
    drop(call(&*node, lock("a", "1", 5000, 0)));
    let mut unlocked = call(&*node, unlock("a", "1", true, false));
    assert_eq!((&mut unlocked).now_or_never(), None);
    assert_eq!(server.take_log(), []);
    server.thaw();
    assert_eq!(unlocked.now_or_never(), Some(vec![Answer::Unlocked { deleted: 1 }]));
    assert_eq!(server.take_log(), [lock("a", "1", 5000, 0), unlock("a", "1", true, false)]);
}

#[test]
fn a_refusing_or_failing_server_executes_nothing() {
    let Fixture { server, node, .. } = fixture();
    server.behave(Behaviour::Refusing);
    assert!(matches!(answer(&*node, lock("a", "1", 5000, 0)), Answer::Held(_)));
    server.behave(Behaviour::Failing(NodeError::OutOfMemory));
    assert_eq!(answer(&*node, lock("a", "1", 5000, 0)), Answer::Error(NodeError::OutOfMemory));
    server.behave(Behaviour::Granting);
    assert!(matches!(answer(&*node, lock("a", "2", 5000, 0)), Answer::Granted { .. }));
    assert_eq!(server.take_log().len(), 3);
}

#[test]
fn a_server_deletes_expired_data() {
    let Fixture { clock, server, node } = fixture();
    for number in 0..SWEEP_AFTER {
        answer(&*node, lock(&format!("r{number}"), "1", 5000, 0));
    }
    clock.advance(Duration::from_secs(7200));
    for _ in 0..SWEEP_AFTER {
        answer(&*node, inspect("a"));
    }
    let memory = mutex::lock(&server.memory);
    assert_eq!(memory.state, crate::node::state::NodeState::new(&format!("{:040x}", 7)));
}
