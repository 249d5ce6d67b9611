//! Against real servers.

use std::{
    io::{Read, Write},
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use self::server::{Server, free_port};
use super::*;
use crate::{
    clock::Clock,
    node::{
        Answer, Entry, Fingerprint, GuardMode, Listener, Lock, Node, Notice, Reply, Request, Unlock,
        remote::tests::{Ear, TestClock},
    },
    owner_id::OwnerId,
    resource::Resource,
};
use futures::future::poll_fn;

mod server;

const NODE_TIMEOUT: Duration = Duration::from_millis(200);

fn terms() -> Terms {
    Terms {
        fingerprint: Fingerprint::new("test"),
        guard: GuardMode::Off,
        max_ttl: Duration::from_secs(60),
        counter_ttl: Duration::from_secs(60),
    }
}

struct Scene {
    clock: Arc<TestClock>,
    node: RemoteNode,
}

impl Scene {
    fn at(url: &str) -> Self {
        let clock = TestClock::start();
        let setup = Setup {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            runtime: tokio::runtime::Handle::current(),
            node_timeout: NODE_TIMEOUT,
            seed: 1,
        };
        let node = RedisTransport::from_url(url, terms()).unwrap().into_node(&setup);
        Self { clock, node }
    }

    fn call(&self, entry: Entry) -> Reply {
        self.node.call(Request::one(entry, self.clock.now() + Duration::from_secs(30)))
    }

    fn lock(&self, resource: &Resource, owner: u32) -> Reply {
        let (resources, owner) = (Arc::new([resource.clone()]), owner_id(owner));
        self.call(Entry::Lock(Lock { resources, owner, ttl: Duration::from_secs(30), hint: 0 }))
    }

    fn unlock(&self, resource: &Resource, owner: u32, real: bool) -> Reply {
        let (resources, owner) = (Arc::new([resource.clone()]), owner_id(owner));
        self.call(Entry::Unlock(Unlock { resources, owner, token: 0, real, leave: false }))
    }

    /// Locks until a lock gets through, as a lock after a fault is tried again.
    async fn lock_in_the_end(&self, resource: &Resource, owner: u32) {
        let patience = Instant::now() + Duration::from_secs(10);
        while !matches!(&*self.lock(resource, owner).await, [Answer::Granted { .. }]) {
            assert!(Instant::now() < patience, "the node does not come back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn owner_id(number: u32) -> OwnerId {
    OwnerId::from_wire(format!("test:{number}").as_bytes())
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

async fn heard(ear: &Ear, awaited: &[Notice]) {
    let patience = Instant::now() + Duration::from_secs(10);
    let mut heard = Vec::new();
    while heard.len() < awaited.len() {
        assert!(Instant::now() < patience, "heard {heard:?} of {awaited:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        heard.extend(ear.heard());
    }
    assert_eq!(heard, awaited);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_are_executed_in_the_order_in_which_they_were_made() {
    let server = Server::start();
    let scene = Scene::at(&server.url());
    let r = resource("r");
    let mut replies = Vec::new();
    for number in 0..500 {
        replies.push(scene.lock(&r, number));
        drop(scene.unlock(&r, number, true));
    }
    let mut votes = Vec::new();
    for reply in replies {
        votes.push(vote(&reply.await));
    }
    assert!(votes.windows(2).all(|pair| pair[1] == pair[0] + 1), "{votes:?}");
    scene.node.close().await;
    assert!(!server.ask::<bool>(&["EXISTS", "r"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_reply_is_dropped_at_once_is_executed_all_the_same() {
    let server = Server::start();
    let scene = Scene::at(&server.url());
    for number in 0..40 {
        drop(scene.lock(&resource(format!("r{number}")), number));
        tokio::task::yield_now().await;
    }
    scene.node.close().await;
    for number in 0..40 {
        assert!(server.ask::<bool>(&["EXISTS", &format!("r{number}")]), "r{number} was never locked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_from_many_threads_are_all_answered() {
    let server = Server::start();
    let scene = Arc::new(Scene::at(&server.url()));
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let scene = Arc::clone(&scene);
            tokio::spawn(async move {
                let mine = resource(format!("r{number}"));
                for _ in 0..20 {
                    vote(&scene.lock(&mine, number).await);
                    assert_eq!(*scene.unlock(&mine, number, true).await, [Answer::Unlocked { deleted: 1 }]);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_unlock_is_heard_whatever_the_resource_is_called_and_a_rollback_is_not() {
    let server = Server::start();
    let scene = Scene::at(&server.url());
    for name in [&b"plain"[..], b"a{tag}b", b"\x00\xff\r\n {"] {
        let (name, ear) = (resource(name), Arc::new(Ear::default()));
        let subscription = scene.node.subscribe(&name, Arc::clone(&ear) as Arc<dyn Listener>);
        heard(&ear, &[Notice::Subscribed]).await;
        vote(&scene.lock(&name, 1).await);
        scene.unlock(&name, 1, false).await;
        vote(&scene.lock(&name, 2).await);
        scene.unlock(&name, 2, true).await;
        heard(&ear, &[Notice::Released]).await;
        drop(subscription);
    }
    scene.lock(&resource("last"), 3).await;
    assert_eq!(server.ask::<Vec<String>>(&["PUBSUB", "CHANNELS"]), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_subscriptions_do_not_get_in_the_way_of_calls() {
    let server = Server::start();
    let scene = Scene::at(&server.url());
    let ear = Arc::new(Ear::default());
    let listen =
        |number| scene.node.subscribe(&resource(format!("r{number}")), Arc::clone(&ear) as Arc<dyn Listener>);
    let subscriptions: Vec<_> = (0..1000).map(listen).collect();
    vote(&scene.lock(&resource("r"), 1).await);
    heard(&ear, &[Notice::Subscribed; 1000]).await;
    drop(subscriptions);
    scene.unlock(&resource("r"), 1, true).await;
    let patience = Instant::now() + Duration::from_secs(10);
    while !server.ask::<Vec<Vec<u8>>>(&["PUBSUB", "CHANNELS"]).is_empty() {
        assert!(Instant::now() < patience, "subscriptions are left behind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_killed_connection_the_node_comes_back_and_listeners_are_told() {
    let server = Server::start();
    let scene = Scene::at(&server.url());
    let (r, ear) = (resource("r"), Arc::new(Ear::default()));
    let _subscription = scene.node.subscribe(&r, Arc::clone(&ear) as Arc<dyn Listener>);
    heard(&ear, &[Notice::Subscribed]).await;
    vote(&scene.lock(&r, 1).await);
    assert_eq!(server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]), 1);
    heard(&ear, &[Notice::Subscribed]).await;
    assert_eq!(*scene.unlock(&r, 1, true).await, [Answer::Unlocked { deleted: 1 }]);
    heard(&ear, &[Notice::Released]).await;
    scene.lock_in_the_end(&r, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_script_is_repaired_in_place_and_in_order() {
    let server = Server::start();
    let scene = Scene::at(&server.url());
    let r = resource("r");
    for number in 0..20 {
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        let (lock, unlock) = (scene.lock(&r, number), scene.unlock(&r, number, true));
        match &*lock.await {
            [Answer::Granted { .. }] => {}
            [Answer::Fault(fault)] => assert!(fault.is_unsent(), "{fault}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(&*unlock.await, [Answer::Unlocked { .. }]));
        assert!(!server.ask::<bool>(&["EXISTS", "r"]), "a key that nobody owns");
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        vote(&scene.lock(&r, 1000 + number).await);
        assert_eq!(*scene.unlock(&r, 1000 + number, true).await, [Answer::Unlocked { deleted: 1 }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_swallows_few_calls_and_gets_the_unlocks_when_it_thaws() {
    let server = Server::start();
    let scene = Scene::at(&server.url());
    vote(&scene.lock(&resource("held"), 1).await);
    server.signal("STOP");
    let start = Instant::now();
    let mut lost = Vec::new();
    let mut number = 100;
    while start.elapsed() < NODE_TIMEOUT * 3 {
        lost.push(scene.lock(&resource(format!("r{number}")), number));
        number += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let refused = *scene.lock(&resource("r"), 2).await == [Answer::Fault(Fault::Unresponsive)];
    let unlock = scene.unlock(&resource("held"), 1, true);
    server.signal("CONT");
    assert!(refused, "the node is not known to be mute");
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 1 }]);
    let mut swallowed = 0;
    for reply in lost {
        match &*reply.await {
            [Answer::Granted { .. }] => swallowed += 1,
            [Answer::Fault(fault)] => assert!(fault.is_unsent(), "{fault}"),
            other => panic!("{other:?}"),
        }
    }
    assert!((1..=4).contains(&swallowed), "{swallowed} calls were swallowed");
    scene.lock_in_the_end(&resource("held"), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_late_is_found_and_unlocks_wait_for_it() {
    let port = free_port();
    let scene = Scene::at(&format!("redis://127.0.0.1:{port}"));
    let unlock = scene.unlock(&resource("r"), 1, false);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(matches!(&*scene.lock(&resource("r"), 2).await, [Answer::Fault(Fault::Unreachable(_))]));
    let _server = Server::start_at(port, &[]);
    assert_eq!(*unlock.await, [Answer::Unlocked { deleted: 0 }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_named() {
    let server = Server::start_with(&["--requirepass", "secret"]);
    let scene = Scene::at(&server.url());
    let answers = scene.lock(&resource("r"), 1).await;
    let [Answer::Fault(Fault::Handshake(why))] = &*answers else { panic!("{answers:?}") };
    assert!(matches!(**why, Fault::NoAuth(_)), "{why}");
    let url = server.url().replace("//", "//:secret@");
    vote(&Scene::at(&url).lock(&resource("r"), 1).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_resp3_is_told_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        drop(stream.read(&mut [0; 1024]));
        let no = "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n";
        drop(stream.write_all(no.repeat(4).as_bytes()));
        drop(stream.read(&mut [0; 1024]));
    });
    let transport = RedisTransport::from_url(&format!("redis://{address}"), terms()).unwrap();
    let fault = transport.dial().await.unwrap_err();
    assert!(matches!(&fault, Fault::Protocol(text) if text.contains("Redis 6")), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_queued_at_once_even_by_a_task_that_has_used_up_its_budget() {
    let server = Server::start();
    let mut wire = Wire::open(&redis::Client::open(server.url() + "?protocol=resp3").unwrap()).await.unwrap();
    let mut set = redis::cmd("SET");
    set.arg("key").arg("value");
    let unpolled = poll_fn(|context| {
        while Box::pin(tokio::task::consume_budget()).poll_unpin(context).is_ready() {}
        Poll::Ready(wire.start(set.clone()))
    })
    .await;
    let mut get = redis::cmd("GET");
    get.arg("key");
    assert_eq!(wire.ask(get).await.unwrap(), redis::Value::BulkString(b"value".to_vec()));
    drop(unpolled);
}

#[test]
fn a_bad_url_is_an_error_that_shows_no_password() {
    for url in ["http://:secret@host", "redis://:secret@host:port", "redis://:sec/ret@host"] {
        let error = RedisTransport::from_url(url, terms()).unwrap_err();
        assert!(matches!(error, ConfigError::Url { .. }) && !error.to_string().contains("ret@"), "{error}");
    }
}
