//! Tests of connections to real servers: the order and delivery of calls, and the notices of subscriptions.

#![allow(clippy::disallowed_methods, reason = "real servers need real time, and free ports")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use self::server::Server;
use super::*;
use crate::{
    clock::{Clock, TokioClock},
    node::{
        Answer, Listener, Lock, Node, Notice, Operation, Reply, Request, Tombstone, Unlock, operation,
        remote::{ConnectedServers, monitor::NoMonitor, tests::RecordingListener},
    },
    values::{Fingerprint, Label, LeaseId, Resource},
};

mod conformance;
mod errors;
mod floods;
mod hash_slot;
mod server;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "tests/support includes this file by its path, and uses all of it"
)]
pub(crate) mod server_process;

const NODE_TIMEOUT: Duration = Duration::from_millis(200);

fn parameters() -> QuorumParameters {
    QuorumParameters { counter_ttl: Duration::from_secs(60), ..operation::samples::parameters() }
}

struct Fixture {
    clock: Arc<TokioClock>,
    node: RemoteNode,
}

impl Fixture {
    fn at(url: &str) -> Self {
        let clock = Arc::new(TokioClock::new());
        let node = RedisTransport::into_node(route(url), parameters(), &config(&clock));
        Self { clock, node }
    }

    fn call(&self, operation: Operation) -> Reply {
        self.node.call(Request::one(operation, self.clock.now() + Duration::from_secs(30)))
    }

    fn lock(&self, resource: &Resource, number: u32) -> Reply {
        let (resources, lease_id) = ([resource.clone()].into(), lease_id(number));
        self.call(Operation::Lock(Lock {
            resources,
            lease_id,
            ttl: Duration::from_secs(30),
            hint: 0,
            ignores_queue: false,
            will_not_wait: false,
        }))
    }

    fn unlock(&self, resource: &Resource, number: u32, notify: bool) -> Reply {
        let (resources, lease_id) = ([resource.clone()].into(), lease_id(number));
        self.call(Operation::Unlock(Unlock {
            resources,
            lease_id,
            notify,
            tombstone: Tombstone::Never,
            has_waiters: false,
            rest: None,
        }))
    }

    /// Repeats a lock until the lock succeeds, for at most 10 s.
    async fn lock_eventually(&self, resource: &Resource, lease_id: u32) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !matches!(&*self.lock(resource, lease_id).await, [Answer::Granted { .. }]) {
            assert!(Instant::now() < deadline, "no lock succeeds");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn route(url: &str) -> Route {
    Route::from_url(url, &mut TlsSettings::default()).unwrap()
}

fn config(clock: &Arc<TokioClock>) -> ConnectionConfig {
    ConnectionConfig {
        quarantine: Duration::from_secs(60),
        fingerprint: Fingerprint::new("name=a"),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        spawner: Arc::new(tokio::runtime::Handle::current()),
        monitor: Arc::new(NoMonitor),
        registers: None,
        label: Label::default(),
        connected_servers: ConnectedServers::default(),
        node_timeout: NODE_TIMEOUT,
        seed: 1,
    }
}

fn lease_id(number: u32) -> LeaseId {
    LeaseId::from_wire(format!("test:{number}").as_bytes())
}

fn resource(name: impl AsRef<[u8]>) -> Resource {
    Resource::new(name).unwrap()
}

fn vote(answers: &[Answer]) -> u64 {
    match answers {
        [Answer::Granted { vote }] => *vote,
        other => panic!("{other:?} is no grant"),
    }
}

async fn assert_notices(listener: &RecordingListener, expected: &[Notice]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut notices = Vec::new();
    while notices.len() < expected.len() {
        assert!(Instant::now() < deadline, "received {notices:?} of {expected:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        notices.extend(listener.take_notices());
    }
    assert_eq!(notices, expected);
}

#[test]
#[should_panic(
    expected = "REDQUORUM_TEST_SERVER names \"/no/such-server\", where there is no server: install Redis"
)]
fn a_missing_test_server_fails_the_test_with_advice() {
    server_process::program::named("/no/such-server".into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_are_executed_in_the_order_of_submission() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    let r = resource("r");
    let mut replies = Vec::new();
    for number in 0..500 {
        replies.push(fixture.lock(&r, number));
        drop(fixture.unlock(&r, number, true));
    }
    let mut votes = Vec::new();
    for reply in replies {
        votes.push(vote(&reply.await));
    }
    assert!(votes.windows(2).all(|pair| pair[1] == pair[0] + 1), "{votes:?}");
    fixture.node.close().await;
    assert!(!server.ask::<bool>(&["EXISTS", "r"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_executed_even_if_its_reply_is_dropped() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    // A node that was never connected drops its requests at `close`, so the test first waits for the connection.
    vote(&fixture.lock(&resource("first"), 40).await);
    for number in 0..40 {
        drop(fixture.lock(&resource(format!("r{number}")), number));
        tokio::task::yield_now().await;
    }
    fixture.node.close().await;
    for number in 0..40 {
        assert!(
            server.ask::<bool>(&["EXISTS", &format!("r{number}")]),
            "the lock of r{number} was not executed"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_from_many_threads_are_all_answered() {
    let server = Server::start();
    let fixture = Arc::new(Fixture::at(&server.url()));
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move {
                let own_resource = resource(format!("r{number}"));
                for _ in 0..20 {
                    vote(&fixture.lock(&own_resource, number).await);
                    assert_eq!(
                        *fixture.unlock(&own_resource, number, true).await,
                        [Answer::Unlocked { deleted: 1 }]
                    );
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlock_notifies_listeners_and_a_rollback_does_not() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    for name in [&b"plain"[..], b"a{tag}b", b"\x00\xff\r\n {"] {
        let (name, listener) = (resource(name), Arc::new(RecordingListener::default()));
        let subscription = fixture.node.subscribe(&name, Arc::clone(&listener) as Arc<dyn Listener>);
        assert_notices(&listener, &[Notice::Subscribed]).await;
        vote(&fixture.lock(&name, 1).await);
        fixture.unlock(&name, 1, false).await;
        vote(&fixture.lock(&name, 2).await);
        fixture.unlock(&name, 2, true).await;
        assert_notices(&listener, &[Notice::Released]).await;
        drop(subscription);
    }
    fixture.lock(&resource("last"), 3).await;
    assert_eq!(server.ask::<Vec<String>>(&["PUBSUB", "CHANNELS"]), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_succeed_beside_a_thousand_subscriptions() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    let listener = Arc::new(RecordingListener::default());
    let listen = |number| {
        fixture.node.subscribe(&resource(format!("r{number}")), Arc::clone(&listener) as Arc<dyn Listener>)
    };
    let subscriptions: Vec<_> = (0..1000).map(listen).collect();
    vote(&fixture.lock(&resource("r"), 1).await);
    assert_notices(&listener, &[Notice::Subscribed; 1000]).await;
    drop(subscriptions);
    fixture.unlock(&resource("r"), 1, true).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !server.ask::<Vec<Vec<u8>>>(&["PUBSUB", "CHANNELS"]).is_empty() {
        assert!(Instant::now() < deadline, "the server still has subscriptions");
    }
}
