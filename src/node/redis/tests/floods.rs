//! Servers that send what was not requested.

use futures::future::poll_fn;
use tokio::{
    io::{AsyncWriteExt, copy},
    net::{TcpListener as Listening, TcpStream},
    sync::oneshot,
};

use super::{
    super::{dial_limit::DialLimit, raw_connection::broken},
    *,
};
use crate::{
    clock::TokioClock,
    node::{LONGEST_VALUE, Observe, ObserveAnswer, Proclaim, Proclamation, request::MAX_OPERATIONS},
};

/// Returns a connection through a proxy that sends `injected` to the client when the sender fires.
async fn through_hop(server: &Server, injected: Vec<u8>) -> (RawConnection, oneshot::Sender<()>) {
    let listening = Listening::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listening.local_addr().unwrap());
    let target = server.url().replace("redis://", "");
    let (start, started) = oneshot::channel();
    tokio::spawn(async move {
        let (mut client, _) = listening.accept().await.unwrap();
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
    let Destination::Server(endpoint) = route(&url).destination else { panic!("a set of servers") };
    let clock = TokioClock::new();
    let limit = DialLimit::new(&clock, Duration::from_secs(10));
    (RawConnection::open_node(&endpoint, "redquorum/test", limit).await.unwrap().0, start)
}

/// Returns the error by which a connection ends on which no command is sent.
async fn end(raw: &mut RawConnection) -> NodeError {
    let end = poll_fn(|context| raw.poll_drive(context));
    tokio::time::timeout(Duration::from_secs(10), end).await.expect("the connection does not end");
    raw.node_error(&broken())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_ends_with_the_error_of_what_it_receives() {
    let server = Server::start();
    let pushes = ">3\r\n+message\r\n$5\r\nother\r\n$1\r\n0\r\n".repeat(10_000);
    let (mut raw, start) = through_hop(&server, pushes.into()).await;
    start.send(()).unwrap();
    assert!(matches!(end(&mut raw).await, NodeError::ReadLimit { .. }));

    let (mut raw, start) = through_hop(&server, b"HTTP/1.1 400 Bad Request\r\n".into()).await;
    start.send(()).unwrap();
    assert!(matches!(end(&mut raw).await, NodeError::Protocol(_)));

    let (mut raw, start) = through_hop(&server, Vec::new()).await;
    drop(start);
    assert_eq!(end(&mut raw).await, NodeError::Disconnected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_answer_exceeds_no_limit() {
    let server = Server::start();
    let fixture = Fixture::at(&server.url());
    let r = resource("r");
    let term = vote(&fixture.lock(&r, 1).await);
    let said = Proclamation {
        owner: lease_id(1),
        term,
        number: 1,
        value: vec![b'\n'; LONGEST_VALUE].into(),
        since: Duration::from_secs(1),
    };
    let proclaim = Proclaim { resource: r.clone(), said: said.clone(), ttl: Duration::from_secs(30) };
    assert_eq!(*fixture.call(Operation::Proclaim(proclaim)).await, [Answer::Proclaimed]);
    let operations = vec![Operation::Observe(Observe { resource: r }); MAX_OPERATIONS];
    let until = fixture.clock.now() + Duration::from_secs(30);
    let answers = fixture.node.call(Request::new(operations, until)).await;
    assert_eq!(answers.len(), MAX_OPERATIONS);
    for answer in &*answers {
        let Answer::Observed(ObserveAnswer { said: seen, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(*seen, Some(said.clone()));
    }
}
