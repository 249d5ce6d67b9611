//! Servers that break, freeze, lose their script, or are not suitable.

use std::{
    io::{Read, Write},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use super::*;
use crate::node::redis::tests::server_process::port::Port;

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
        assert!(!server.ask::<bool>(&["EXISTS", "r"]), "an orphaned key");
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        vote(&fixture.lock(&r, 1000 + number).await);
        assert_eq!(*fixture.unlock(&r, 1000 + number, true).await, [Answer::Unlocked { deleted: 1 }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_and_flushed_scripts_leave_no_key_behind() {
    let server = Server::start();
    let fixture = Arc::new(Fixture::at(&server.url()));
    let (grants, is_enough) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let (fixture, grants, is_enough) =
                (Arc::clone(&fixture), Arc::clone(&grants), Arc::clone(&is_enough));
            tokio::spawn(async move {
                let mine = resource(format!("r{task}"));
                let mut number = task * 1_000_000;
                while !is_enough.load(Ordering::Relaxed) {
                    number += 1;
                    let lock = fixture.lock(&mine, number);
                    // Half of the tasks drop the reply unread.
                    if number % 2 == 0 {
                        let is_granted = matches!(&*lock.await, [Answer::Granted { .. }]);
                        grants.fetch_add(u32::from(is_granted), Ordering::Relaxed);
                    } else {
                        drop(lock);
                    }
                    let answers = fixture.unlock(&mine, number, true).await;
                    assert!(
                        matches!(&*answers, [Answer::Unlocked { .. } | Answer::UnlockedBefore]),
                        "{answers:?}"
                    );
                }
            })
        })
        .collect();
    // A busy machine needs more time.
    let latest = Instant::now() + Duration::from_secs(30);
    let (mut killed, mut flushed) = (0, 0);
    while killed < 10 || flushed < 10 || grants.load(Ordering::Relaxed) < 200 {
        assert!(Instant::now() < latest, "{killed} connections killed, {grants:?} locks granted");
        tokio::time::sleep(Duration::from_millis(7)).await;
        killed += server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        tokio::time::sleep(Duration::from_millis(7)).await;
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        flushed += 1;
    }
    is_enough.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(server.ask::<Vec<String>>(&["KEYS", "r[0-9]*"]), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_swallows_few_calls_and_gets_unlocks_when_it_thaws() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    vote(&fixture.lock(&resource("held"), 1).await);
    server.freeze();
    let start = Instant::now();
    let mut lost = Vec::new();
    let mut number = 100;
    while start.elapsed() < NODE_TIMEOUT * 3 {
        lost.push(fixture.lock(&resource(format!("r{number}")), number));
        number += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let refused = *fixture.lock(&resource("r"), 2).await == [Answer::Error(NodeError::Unresponsive)];
    let unlock = fixture.unlock(&resource("held"), 1, true);
    server.thaw();
    assert!(refused, "the node does not count as unresponsive");
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    let mut swallowed = 0;
    for reply in lost {
        match &*reply.await {
            [Answer::Granted { .. }] => swallowed += 1,
            [Answer::Error(error)] => assert!(error.is_unsent(), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    // At most four calls. On a busy machine, some of them carry more than one lock.
    assert!((1..=32).contains(&swallowed), "{swallowed} of {number} locks were swallowed");
    fixture.lock_eventually(&resource("held"), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_late_gets_the_waiting_unlocks() {
    let port = Port::reserve();
    let fixture = Fixture::at(&format!("redis://127.0.0.1:{}", port.number()));
    let unlock = fixture.unlock(&resource("r"), 1, false);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(matches!(&*fixture.lock(&resource("r"), 2).await, [Answer::Error(NodeError::Unreachable(_))]));
    let _server = Server::start_at(port, &[]);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 0 }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_requires_credentials_is_reported() {
    let server = Server::start_with(&["--requirepass", "secret"]);
    let fixture = Fixture::at(&server.url());
    let answers = fixture.lock(&resource("r"), 1).await;
    let [Answer::Error(NodeError::Handshake(why))] = &*answers else { panic!("{answers:?}") };
    assert!(matches!(**why, NodeError::NoAuth(_)), "{why}");
    let url = server.url().replace("//", "//:secret@");
    vote(&Fixture::at(&url).lock(&resource("r"), 1).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_resp3_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        drop(stream.read(&mut [0; 1024]));
        let no = "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n";
        drop(stream.write_all(no.repeat(4).as_bytes()));
        drop(stream.read(&mut [0; 1024]));
    });
    let clock = Arc::new(TokioClock::new());
    let transport = RedisTransport::new(route(&format!("redis://{address}")), parameters(), &config(&clock));
    let error = transport.dial().await.unwrap_err();
    assert!(matches!(&error, NodeError::Protocol(text) if text.contains("Redis 6")), "{error}");
}
