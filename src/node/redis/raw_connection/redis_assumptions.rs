//! Tests of the properties of the redis crate on which this crate relies, and which the documentation of the redis
//! crate does not promise.
//!
//! The manifest admits only minor versions of the crate with which these tests were run. A connection keeps each
//! pending answer until the answer arrives, so nothing relies on the effect of a dropped answer.

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering},
    task::{Wake, Waker},
};

use redis::{ProtocolVersion, RedisConnectionInfo};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex},
    task::{consume_budget, yield_now},
};

use super::*;
use crate::{node::redis::read_budget::BudgetedStream, values::Resource};

/// A connection, and the server's end of its stream, to which the test writes replies.
struct Fixture {
    raw: RawConnection,
    server: DuplexStream,
    wakes: Arc<WakeCounter>,
}

/// The number of times that the driving task was woken.
#[derive(Default)]
struct WakeCounter(AtomicU32);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Fixture {
    async fn new() -> Self {
        Self::driven(true).await
    }

    /// Returns a connection. Unless `is_driven_by_user`, a task of the runtime drives the connection, as if the redis
    /// crate had opened the stream.
    async fn driven(is_driven_by_user: bool) -> Self {
        let (client, mut server) = duplex(1 << 16);
        server.write_all(b"%0\r\n").await.unwrap();
        let settings =
            RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
        let budget = Arc::new(ReadBudget::new());
        let (pushes, sender) = PushReceiver::new(&budget);
        let stream = BudgetedStream::new(client, &budget);
        let opening = MultiplexedConnection::new_with_config(&settings, stream, config(sender));
        let (multiplexed, driver) = opening.await.unwrap();
        let driver = if is_driven_by_user {
            Some(driver.boxed())
        } else {
            tokio::spawn(driver);
            None
        };
        let mut fixture = Self {
            raw: RawConnection::new((multiplexed, driver), pushes, budget),
            server,
            wakes: Arc::default(),
        };
        assert_eq!(fixture.written(), "HELLO 3");
        // The first drive registers the waker.
        if is_driven_by_user {
            assert!(!fixture.drive());
        }
        fixture
    }

    fn start(&self, words: &str) -> PendingAnswer {
        let mut command = Cmd::new();
        command.arg(words.split(' ').collect::<Vec<_>>());
        self.raw.start(command)
    }

    /// Drives the connection once. Returns whether the connection has ended.
    fn drive(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.raw.poll_drive(&mut Context::from_waker(&waker)).is_ready()
    }

    fn answer<F: Future + Unpin>(&self, answering: &mut F) -> Option<F::Output> {
        match self.raw.poll_answer(answering, &mut noop_context()) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Returns the commands that have reached the server since the last call of this method.
    fn written(&mut self) -> String {
        let mut bytes = vec![0; 1 << 16];
        let mut buffer = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.server).poll_read(&mut noop_context(), &mut buffer) {
            Poll::Ready(outcome) => outcome.unwrap(),
            Poll::Pending => return String::new(),
        }
        let text = String::from_utf8(buffer.filled().to_vec()).unwrap();
        let mut commands = String::new();
        for line in text.split("\r\n") {
            match line.as_bytes() {
                [b'*', ..] if !commands.is_empty() => commands.push_str(", "),
                [] | [b'*' | b'$', ..] => {}
                _ if commands.is_empty() || commands.ends_with(' ') => commands.push_str(line),
                _ => commands.extend([" ", line]),
            }
        }
        commands
    }

    fn reply(&mut self, bytes: &str) {
        let outcome = Pin::new(&mut self.server).poll_write(&mut noop_context(), bytes.as_bytes());
        assert!(matches!(outcome, Poll::Ready(Ok(length)) if length == bytes.len()), "{outcome:?}");
    }

    fn wakes(&self) -> u32 {
        self.wakes.0.swap(0, Ordering::Relaxed)
    }

    fn pushes(&self) -> PushBuffer {
        self.raw.take_pushes(&noop_context())
    }
}

fn number(number: i64) -> Option<RedisResult<Value>> {
    Some(Ok(Value::Int(number)))
}

#[tokio::test]
async fn one_drive_writes_all_started_commands() {
    let mut fixture = Fixture::new().await;
    let answering: Vec<_> =
        (0..QUEUE_CAPACITY).map(|number| fixture.start(&format!("GET {number}"))).collect();
    assert_eq!(fixture.written(), "", "the connection writes without being driven");
    fixture.drive();
    let commands: Vec<_> = (0..QUEUE_CAPACITY).map(|number| format!("GET {number}")).collect();
    assert_eq!(fixture.written(), commands.join(", "));
    drop(answering);
}

#[tokio::test]
async fn a_task_without_budget_can_still_queue_a_command() {
    let mut fixture = Fixture::new().await;
    let answering = poll_fn(|context| {
        while Box::pin(consume_budget()).poll_unpin(context).is_ready() {}
        Poll::Ready(fixture.start("GET 1"))
    });
    let answering = answering.await;
    // The task gets a new budget.
    yield_now().await;
    fixture.drive();
    assert_eq!(fixture.written(), "GET 1");
    drop(answering);
}

#[tokio::test]
async fn commands_are_written_in_the_order_of_their_first_polls() {
    let mut fixture = Fixture::new().await;
    let mut answering: Vec<_> = (0..3).map(|number| fixture.start(&format!("GET {number}"))).collect();
    for answering in answering.iter_mut().rev() {
        assert_eq!(fixture.answer(answering), None);
    }
    fixture.drive();
    assert_eq!(fixture.written(), "GET 0, GET 1, GET 2");
}

#[tokio::test]
async fn answers_arrive_in_order_with_the_drive_that_reads_them() {
    let mut fixture = Fixture::new().await;
    let mut answering: Vec<_> = (0..3).map(|number| fixture.start(&format!("GET {number}"))).collect();
    fixture.drive();
    fixture.reply(":0\r\n:1\r\n:");
    fixture.drive();
    let answers: Vec<_> = answering.iter_mut().rev().map(|answering| fixture.answer(answering)).collect();
    assert_eq!(answers, [None, number(1), number(0)]);
    fixture.reply("2\r\n");
    fixture.drive();
    assert_eq!(fixture.answer(&mut answering[2]), number(2));
}

#[tokio::test]
async fn a_connection_spawns_no_task() {
    let mut fixture = Fixture::new().await;
    let mut answering = fixture.start("GET 0");
    let mut connection = fixture.raw.multiplexed();
    let mut subscribing = Box::pin(connection.subscribe("a"));
    assert!(fixture.answer(&mut subscribing).is_none());
    fixture.drive();
    fixture.reply(":0\r\n");
    fixture.drive();
    assert_eq!(fixture.answer(&mut answering), number(0));
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// If a command woke no task, the [`WakerFilter`] would not be needed.
#[tokio::test]
async fn a_queued_command_wakes_the_driver_at_once() {
    let fixture = Fixture::new().await;
    let mut connection = fixture.raw.multiplexed();
    let mut ping = Cmd::new();
    ping.arg("PING");
    let mut answering = Box::pin(connection.send_packed_command(&ping));
    assert!(fixture.answer(&mut answering).is_none());
    assert_eq!(fixture.wakes(), 1);
}

#[tokio::test]
async fn a_command_needs_one_drive_to_write_and_one_to_read() {
    let mut fixture = Fixture::new().await;
    for round in 0..3 {
        let mut answering = fixture.start("GET 0");
        assert_eq!(fixture.wakes(), 0);
        fixture.drive();
        assert_eq!((fixture.written(), fixture.wakes()), ("GET 0".into(), 0));
        fixture.reply(&format!(":{round}\r\n"));
        assert_eq!(fixture.wakes(), 1);
        fixture.drive();
        assert_eq!((fixture.answer(&mut answering), fixture.wakes()), (number(round), 0));
    }
}

#[tokio::test]
async fn an_error_reply_is_a_value_and_does_not_end_the_connection() {
    let mut fixture = Fixture::new().await;
    let [mut refused, mut answered] = ["GET 0", "GET 1"].map(|words| fixture.start(words));
    fixture.drive();
    fixture.reply("-NOSCRIPT why\r\n:1\r\n");
    assert!(!fixture.drive());
    let refusal = fixture.answer(&mut refused);
    let Some(Ok(Value::ServerError(error))) = refusal else { panic!("{refusal:?}") };
    assert_eq!((error.code(), error.details()), ("NOSCRIPT", Some("why")));
    assert_eq!(fixture.answer(&mut answered), number(1));
}

#[tokio::test]
async fn pushes_arrive_with_the_drive_that_reads_them_and_are_no_answers() {
    let mut fixture = Fixture::new().await;
    let resource = Resource::new("r").unwrap();
    fixture.raw.pushes.listen(b"r".into(), resource.clone());
    let mut answering = fixture.start("GET 0");
    fixture.drive();
    let released = ">3\r\n$7\r\nmessage\r\n$1\r\nr\r\n$1\r\n0\r\n";
    fixture.reply(released);
    fixture.drive();
    assert!(fixture.pushes().released.contains(&resource));
    assert_eq!(fixture.answer(&mut answering), None);
    fixture.reply(&format!("{released}:0\r\n"));
    fixture.drive();
    assert!(fixture.pushes().released.contains(&resource));
    assert_eq!(fixture.answer(&mut answering), number(0));
}

#[tokio::test]
async fn the_last_confirmation_answers_a_subscription_and_each_is_pushed() {
    let mut fixture = Fixture::new().await;
    let mut before = fixture.start("GET 0");
    fixture.raw.pushes.expect(vec![b"a".into(), b"b".into()]);
    let mut connection = fixture.raw.multiplexed();
    let mut subscribing = Box::pin(connection.subscribe(["a", "b"].as_slice()));
    assert!(fixture.answer(&mut subscribing).is_none());
    let mut after = fixture.start("GET 1");
    fixture.drive();
    assert_eq!(fixture.written(), "GET 0, SUBSCRIBE a b, GET 1");
    let confirmed = |channel| format!(">3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:1\r\n");
    fixture.reply(&format!(":0\r\n{}", confirmed("a")));
    fixture.drive();
    assert_eq!(fixture.answer(&mut before), number(0));
    assert!(fixture.answer(&mut subscribing).is_none());
    fixture.reply(&format!("{}:1\r\n", confirmed("b")));
    fixture.drive();
    assert_eq!(fixture.answer(&mut subscribing), Some(Ok(())));
    assert_eq!(fixture.answer(&mut after), number(1));
    // Each channel was expected once, and its confirmation was pushed once.
    assert_eq!(fixture.pushes().error, None);
    for channel in ["a", "b"] {
        fixture.reply(&confirmed(channel));
        fixture.drive();
        assert!(fixture.pushes().error.is_some(), "{channel} was not pushed before");
    }
}

#[tokio::test]
async fn a_refused_subscription_is_one_error_that_ends_no_connection() {
    let mut fixture = Fixture::new().await;
    let mut connection = fixture.raw.multiplexed();
    let mut subscribing = Box::pin(connection.subscribe(["a", "b"].as_slice()));
    assert!(fixture.answer(&mut subscribing).is_none());
    let mut after = fixture.start("GET 1");
    fixture.drive();
    fixture.reply("-NOPERM no\r\n:1\r\n");
    fixture.drive();
    let error = fixture.answer(&mut subscribing).unwrap().unwrap_err();
    assert!(!error.is_unrecoverable_error(), "{error}");
    assert_eq!(fixture.answer(&mut after), number(1));
}

#[tokio::test]
async fn the_driver_ends_with_the_stream_and_missing_answers_are_errors() {
    for reply in ["", ":0", "no RESP3\r\n"] {
        let mut fixture = Fixture::new().await;
        let mut answering = fixture.start("GET 0");
        fixture.drive();
        fixture.reply(reply);
        let is_invalid = reply.starts_with("no");
        assert_eq!(fixture.drive(), is_invalid, "{reply:?}");
        if !is_invalid {
            fixture.server = duplex(1).0;
            assert!(fixture.drive(), "{reply:?}");
        }
        let error = fixture.answer(&mut answering).unwrap().unwrap_err();
        let node_error = fixture.raw.node_error(&error);
        if is_invalid {
            assert!(matches!(node_error, NodeError::Protocol(_)), "{node_error:?}");
        } else {
            assert_eq!(node_error, NodeError::Disconnected, "{reply:?}");
        }
        assert!(fixture.pushes().has_ended, "{reply:?}");
        assert!(matches!(fixture.answer(&mut fixture.start("GET 1")), Some(Err(_))), "{reply:?}");
    }
}

#[tokio::test]
async fn a_connection_that_a_task_drives_reports_its_end_to_the_push_receiver() {
    let mut fixture = Fixture::driven(false).await;
    let mut answering = fixture.start("GET 0");
    let waker = Waker::from(Arc::clone(&fixture.wakes));
    assert!(!fixture.raw.take_pushes(&Context::from_waker(&waker)).has_ended);
    fixture.server = duplex(1).0;
    for _ in 0..100 {
        yield_now().await;
    }
    assert_eq!((fixture.pushes().has_ended, fixture.wakes() > 0), (true, true));
    assert!(matches!(fixture.answer(&mut answering), Some(Err(_))));
}

#[tokio::test]
async fn a_dropped_connection_closes_its_stream_at_once() {
    let Fixture { raw, mut server, .. } = Fixture::new().await;
    let (connection, answering) = (raw.multiplexed(), raw.start(redis::cmd("PING")));
    drop(raw);
    let written = Pin::new(&mut server).poll_write(&mut noop_context(), b"+PONG\r\n");
    assert!(
        matches!(&written, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe),
        "{written:?}"
    );
    drop((connection, answering));
}
