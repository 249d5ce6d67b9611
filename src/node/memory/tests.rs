//! What is particular to nodes in memory.

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
    values::NodeError,
};

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
struct StandingClock(Mutex<Duration>);

impl StandingClock {
    fn advance(&self, duration: Duration) {
        *mutex::lock(&self.0) += duration;
    }
}

impl Clock for StandingClock {
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
    clock: Arc<StandingClock>,
    server: Arc<MemoryServer>,
    node: Arc<MemoryNode>,
}

fn fixture() -> Fixture {
    let clock = Arc::new(StandingClock::default());
    let server = MemoryServer::new(Arc::clone(&clock) as Arc<dyn Clock>, 7);
    let node =
        Arc::new(MemoryNode::new(Arc::clone(&server), "memory:1".into(), parameters(), NewNodes::Admit));
    Fixture { clock, server, node }
}

fn call(node: &dyn Node, operation: Operation) -> Reply {
    node.call(Request::one(operation, Instant::from_origin(Duration::MAX)))
}

fn answer(node: &dyn Node, operation: Operation) -> Answer {
    call(node, operation).now_or_never().expect("a node in memory answers at once").remove(0)
}

#[tokio::test]
async fn a_node_in_memory_conforms() {
    let Fixture { clock, node, .. } = fixture();
    let waiting = Arc::clone(&clock);
    let wait = Box::new(move |duration| {
        waiting.advance(duration);
        future::ready(()).boxed()
    });
    conforms(&TestNode { node, clock, wait }).await;
}

#[test]
fn closing_a_client_does_not_close_the_server() {
    let Fixture { server, node, .. } = fixture();
    let other = MemoryNode::new(server, "memory:1".into(), parameters(), NewNodes::Admit);
    answer(&*node, lock("a", "1", 5000, 0));
    assert!(matches!(answer(&other, lock("a", "2", 5000, 0)), Answer::Held(_)));
    node.close().now_or_never().expect("nothing is undelivered");
    assert_eq!(answer(&*node, lock("b", "1", 5000, 0)), Answer::Error(NodeError::Closed));
    assert_eq!(answer(&*node, unlock("a", "1", true, false)), Answer::Unlocked { deleted: 1 });
    assert!(matches!(answer(&other, take("a", "2", 5000)), Answer::Granted { .. }));
}

/// Unlocks something as soon as it hears of a release, and says in which order it was told.
#[derive(Debug)]
struct Meddler {
    name: &'static str,
    node: Arc<MemoryNode>,
    told: Arc<Mutex<Vec<&'static str>>>,
    own: Mutex<Option<Subscription>>,
}

impl Listener for Meddler {
    fn notice(&self, notice: Notice) {
        if notice == Notice::Released {
            answer(&*self.node, inspect("a"));
            drop(mutex::lock(&self.own).take());
            mutex::lock(&self.told).push(self.name);
        }
    }
}

#[test]
fn listeners_get_notices_in_order_and_may_call_the_node() {
    let Fixture { node, .. } = fixture();
    let told = Arc::new(Mutex::new(Vec::new()));
    for name in ["first", "second", "third"] {
        let meddler = Arc::new(Meddler {
            name,
            node: Arc::clone(&node),
            told: Arc::clone(&told),
            own: Mutex::default(),
        });
        let subscription = node.subscribe(&resource("a"), Arc::clone(&meddler) as Arc<dyn Listener>);
        *mutex::lock(&meddler.own) = Some(subscription);
    }
    for _ in 0..2 {
        answer(&*node, lock("a", "1", 5000, 0));
        answer(&*node, unlock("a", "1", true, false));
    }
    assert_eq!(*mutex::lock(&told), ["first", "second", "third"]);
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
