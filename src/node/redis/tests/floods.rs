//! Servers that send more than was requested, and the longest answers that are allowed.

use futures::future::poll_fn;
use tokio::{
    io::{AsyncWriteExt, copy},
    net::{TcpListener as ProxyListener, TcpStream},
    sync::oneshot,
};

use super::{super::raw_connection::broken, *};
use crate::{
    clock::TokioClock,
    node::{
        DETAILS_SHOWN, Inspect, Latch, MAX_VALUE_BYTES, Observe, ObserveAnswer, Proclaim, Proclamation,
        READERS_SHOWN, Vacant, request::MAX_OPERATIONS,
    },
};

/// Returns a connection through a proxy, and a sender. On a message from the sender, the proxy sends `injected` to the
/// client, and no more data of the server. If the sender is dropped, the proxy closes the connection.
async fn connect_through_proxy(server: &Server, injected: Vec<u8>) -> (RawConnection, oneshot::Sender<()>) {
    let proxy = ProxyListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", proxy.local_addr().unwrap());
    let target = server.url().replace("redis://", "");
    let (start, started) = oneshot::channel();
    tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.unwrap();
        let mut server = TcpStream::connect(target).await.unwrap();
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        tokio::select! {
            _ = copy(&mut from_server, &mut to_client) => {}
            _ = copy(&mut from_client, &mut to_server) => {}
            started = started => if started.is_ok() {
                to_client.write_all(&injected).await.ok();
                copy(&mut from_client, &mut to_server).await.ok();
            },
        }
    });
    let Destination::Server(endpoint) = route(&url).destination else { panic!("the url names a master set") };
    let clock = TokioClock::new();
    let limit = DialLimit::per_step(&clock, Duration::from_secs(10));
    (RawConnection::open_node(&endpoint, "redquorum/test", limit).await.unwrap().0, start)
}

/// Waits for the end of a connection on which no command is sent, and returns the error.
async fn end_of(raw: &mut RawConnection) -> NodeError {
    let end = poll_fn(|context| raw.poll_drive(context));
    tokio::time::timeout(Duration::from_secs(10), end).await.expect("the connection does not end");
    raw.node_error(&broken())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_ends_with_an_error_after_unrequested_data() {
    let server = Server::start();
    let pushes = ">3\r\n+message\r\n$5\r\nother\r\n$1\r\n0\r\n".repeat(10_000);
    let (mut raw, start) = connect_through_proxy(&server, pushes.into()).await;
    start.send(()).unwrap();
    assert!(matches!(end_of(&mut raw).await, NodeError::ReadLimit { .. }));

    let (mut raw, start) = connect_through_proxy(&server, b"HTTP/1.1 400 Bad Request\r\n".into()).await;
    start.send(()).unwrap();
    assert!(matches!(end_of(&mut raw).await, NodeError::Protocol(_)));

    let (mut raw, start) = connect_through_proxy(&server, Vec::new()).await;
    drop(start);
    assert_eq!(end_of(&mut raw).await, NodeError::Disconnected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_request_with_the_longest_answers_exceeds_no_limit() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    let r = resource("r");
    let term = vote(&fixture.lock(&r, 1).await);
    let proclamation = Proclamation {
        lease_id: lease_id(1),
        term,
        number: 1,
        value: vec![b'\n'; MAX_VALUE_BYTES].into(),
        since: Duration::from_secs(1),
    };
    let proclaim =
        Proclaim { resource: r.clone(), proclamation: proclamation.clone(), ttl: Duration::from_secs(30) };
    assert_eq!(*fixture.call(Operation::Proclaim(proclaim)).await, [Answer::Proclaimed]);
    let operations = vec![Operation::Observe(Observe { resource: r }); MAX_OPERATIONS];
    let until = fixture.clock.now() + Duration::from_secs(30);
    let answers = fixture.node.call(Request::new(operations, until)).await;
    assert_eq!(answers.len(), MAX_OPERATIONS);
    for answer in &*answers {
        let Answer::Observed(ObserveAnswer { proclamation: observed, .. }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(*observed, Some(proclamation.clone()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_answers_of_operations_exceed_no_limit() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    for number in 0..128 {
        let reader = operation::samples::lock("*shared", &format!("{number:0106}"), 30_000, 0);
        assert!(matches!(&*fixture.call(reader).await, [Answer::Granted { .. }]));
    }
    let inspect = |max_readers, max_details| {
        Operation::Inspect(Inspect { resource: resource("shared"), max_readers, max_details })
    };
    for number in 0..DETAILS_SHOWN {
        let waiter = format!("{number:0113}");
        let entered = operation::samples::enqueue("shared", &waiter, &waiter, 0, 30_000);
        assert!(matches!(&*fixture.call(entered).await, [Answer::Queued(_)]));
    }
    let latch = Operation::Latch(Latch {
        latch: resource("latch"),
        count: 1024,
        is_open: false,
        arrivals: (1..1024).map(|number| format!("{number:048}").into_bytes().into()).collect(),
        ttl: Duration::from_secs(30),
    });
    let resources: Vec<_> = (0..1024).map(|number| resource(format!("vacant{number}"))).collect();
    let vacant = Operation::Vacant(Vacant { resources, max_resources: 1024, ignores_marks: true });
    for (name, operations) in [
        ("inspections", vec![inspect(READERS_SHOWN, DETAILS_SHOWN); MAX_OPERATIONS]),
        ("an inspection of all readers", vec![inspect(128, 0)]),
        ("latches", vec![latch; 4]),
        ("vacant resources", vec![vacant]),
    ] {
        let until = fixture.clock.now() + Duration::from_secs(30);
        let answers = fixture.node.call(Request::new(operations, until)).await;
        let is_error = |answer: &&Answer| matches!(answer, Answer::Error(_));
        assert_eq!(answers.iter().find(is_error), None, "{name}");
    }
}
