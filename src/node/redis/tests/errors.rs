//! Servers that close connections, freeze, lose their script, or cannot be nodes.

use std::{
    io::{Read, Write},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use super::*;
use crate::node::{dial::DialLimit, redis::tests::server_process::port::Port};

/// The time between two disturbances, in which a client dials again, and delivers the script after a pause.
const DISTURBANCE_INTERVAL: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_connection_is_replaced_and_its_listeners_are_interrupted() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    let (r, listener) = (resource("r"), Arc::new(RecordingListener::default()));
    let _subscription = fixture.node.subscribe(&r, Arc::clone(&listener) as Arc<dyn Listener>);
    assert_notices(&listener, &[Notice::Subscribed]).await;
    vote(&fixture.lock(&r, 1).await);
    assert_eq!(server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]), 1);
    assert_notices(&listener, &[Notice::Interrupted, Notice::Subscribed]).await;
    assert_eq!(*fixture.unlock(&r, 1, true).await, [Answer::Unlocked { deleted: 1 }]);
    assert_notices(&listener, &[Notice::Released]).await;
    fixture.lock_eventually(&r, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_script_is_loaded_again_and_calls_keep_their_order() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    let r = resource("r");
    for number in 0..20 {
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        let (lock, unlock) = (fixture.lock(&r, number), fixture.unlock(&r, number, true));
        match &*lock.await {
            [Answer::Granted { .. }] => {}
            [Answer::Error(error)] => assert!(error.is_unsent(), "{error}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(&*unlock.await, [Answer::Unlocked { .. } | Answer::UnlockedBefore]));
        assert!(!server.ask::<bool>(&["EXISTS", "r"]), "the lock was executed after the unlock");
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        vote(&fixture.lock(&r, 1000 + number).await);
        assert_eq!(*fixture.unlock(&r, 1000 + number, true).await, [Answer::Unlocked { deleted: 1 }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_and_flushed_scripts_leave_no_key() {
    let server = Server::start();
    let fixture = Arc::new(Fixture::at(&server.url()));
    let (grants, is_finished) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let (fixture, grants, is_finished) =
                (Arc::clone(&fixture), Arc::clone(&grants), Arc::clone(&is_finished));
            tokio::spawn(async move {
                let own_resource = resource(format!("r{task}"));
                let mut number = task * 1_000_000;
                while !is_finished.load(Ordering::Relaxed) {
                    number += 1;
                    let lock = fixture.lock(&own_resource, number);
                    // Half of the tasks drop the reply unread.
                    if number % 2 == 0 {
                        let is_granted = matches!(&*lock.await, [Answer::Granted { .. }]);
                        grants.fetch_add(u32::from(is_granted), Ordering::Relaxed);
                    } else {
                        drop(lock);
                    }
                    let answers = fixture.unlock(&own_resource, number, true).await;
                    assert!(
                        matches!(&*answers, [Answer::Unlocked { .. } | Answer::UnlockedBefore]),
                        "{answers:?}"
                    );
                }
            })
        })
        .collect();
    // A machine under load may need this time.
    let deadline = Instant::now() + Duration::from_secs(30);
    let (mut killed, mut flushed) = (0, 0);
    while killed < 10 || flushed < 10 || grants.load(Ordering::Relaxed) < 200 {
        assert!(Instant::now() < deadline, "{killed} connections killed, {grants:?} locks granted");
        tokio::time::sleep(DISTURBANCE_INTERVAL).await;
        killed += server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        tokio::time::sleep(DISTURBANCE_INTERVAL).await;
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        flushed += 1;
    }
    is_finished.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(server.ask::<Vec<String>>(&["KEYS", "r[0-9]*"]), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thawed_server_executes_few_locks_and_the_unlock() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    vote(&fixture.lock(&resource("held"), 1).await);
    server.freeze();
    let start = Instant::now();
    let mut replies = Vec::new();
    let mut number = 100;
    while start.elapsed() < NODE_TIMEOUT * 3 {
        replies.push(fixture.lock(&resource(format!("r{number}")), number));
        number += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let is_refused = *fixture.lock(&resource("r"), 2).await == [Answer::Error(NodeError::Unresponsive)];
    let unlock = fixture.unlock(&resource("held"), 1, true);
    server.thaw();
    assert!(is_refused, "the node does not count as unresponsive");
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    let mut executed = 0;
    for reply in replies {
        match &*reply.await {
            [Answer::Granted { .. }] => executed += 1,
            [Answer::Error(error)] => assert!(error.is_unsent(), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    // At most four calls were in flight. On a machine under load, a call may have more than one
    // lock.
    assert!((1..=32).contains(&executed), "{executed} of {number} locks were executed after the thaw");
    fixture.lock_eventually(&resource("held"), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_later_gets_the_pending_unlock() {
    let port = Port::reserve();
    let fixture = Fixture::at(&format!("redis://127.0.0.1:{}", port.number()));
    let unlock = fixture.unlock(&resource("r"), 1, false);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(matches!(&*fixture.lock(&resource("r"), 2).await, [Answer::Error(NodeError::Unreachable(_))]));
    let _server = Server::start_at(port, &[]);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 0 }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_reported() {
    let server = Server::start_with(&["--requirepass", "secret"]);
    let fixture = Fixture::at(&server.url());
    let answers = fixture.lock(&resource("r"), 1).await;
    let [Answer::Error(NodeError::Handshake(why))] = &*answers else { panic!("{answers:?}") };
    assert!(matches!(**why, NodeError::NoAuth(_)), "{why}");
    let url = server.url().replace("//", "//:secret@");
    vote(&Fixture::at(&url).lock(&resource("r"), 1).await);
}

/// A server with too many clients, or a proxy without a server, runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_each_new_connection_is_not_silent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let answers = Fixture::at(&format!("redis://{address}")).lock(&resource("r"), 1).await;
    let [Answer::Error(error)] = &*answers else { panic!("{answers:?}") };
    assert!(matches!(error, NodeError::NotExecuted(_)) && !error.is_silence(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_resp3_is_refused_with_advice() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        drop(stream.read(&mut [0; 1024]));
        let refusal = "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n";
        drop(stream.write_all(refusal.repeat(4).as_bytes()));
        drop(stream.read(&mut [0; 1024]));
    });
    let clock = Arc::new(TokioClock::new());
    let transport = RedisTransport::new(route(&format!("redis://{address}")), parameters(), &config(&clock));
    let limit = DialLimit::per_step(&*clock, Duration::from_secs(10));
    let error = transport.dial(limit).await.unwrap_err();
    assert!(matches!(&error, NodeError::Protocol(text) if text.contains("Redis 6")), "{error}");
}
