//! Connections of the redis crate on which the caller decides when commands are written and answers are read.
//! [`RedisConnection`](super::connection::RedisConnection) sends calls on a raw connection, and the query of a Sentinel
//! uses one directly.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{FutureExt, poll_fn};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, RedisError, RedisResult, Value, aio::MultiplexedConnection,
};

use super::{
    classify::classify,
    endpoint::{ConnectionDriver, Endpoint, OpenConnection},
    hello_reply::HelloReply,
    push_receiver::{PushBuffer, PushReceiver, PushSender},
    read_budget::ReadBudget,
    waker_filter::WakerFilter,
};
use crate::{
    node::dial::{DialLimit, DialStep},
    values::NodeError,
};

#[cfg(test)]
mod redis_assumptions;

/// The capacity of the redis crate's queue of unwritten commands. The queue must never be full, because the order of
/// sending depends on free places in the queue (see [`RawConnection::start`]). At most the calls in flight, one load
/// and one subscription command are unanswered at a time, which are far fewer commands.
const QUEUE_CAPACITY: usize = 64;

/// The answer to a command that is in the redis crate's queue already.
pub(super) type PendingAnswer = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// A connection of the redis crate that its user drives: the task that sends commands also polls the driver, the future
/// that reads and writes the socket. If the driver were a task of its own, each answer would pass from one task to
/// another, and a dropped connection would not close its socket at once.
///
/// If the redis crate opens the stream, the crate drives the connection in a task of its own.
pub(super) struct RawConnection {
    multiplexed: MultiplexedConnection,
    /// The driver, which never ends if the redis crate drives the connection. `None` after the driver has ended,
    /// because the connection is broken.
    driver: Option<ConnectionDriver>,
    waker_filter: WakerFilter,
    /// The pushes of the server.
    pub(super) pushes: PushReceiver,
    /// The budget of bytes that the server may send before the next expected answer. If the redis crate drives the
    /// connection, no bytes are counted.
    pub(super) budget: Arc<ReadBudget>,
    /// Whether the user drives the connection.
    is_driven_by_user: bool,
    /// The ACL user of the login, for errors; `None` for a connection without a login.
    acl_user: Option<String>,
    /// The hash tag of the keys in a Redis Cluster, with its braces, for errors.
    hash_tag: Option<Arc<str>>,
}

impl RawConnection {
    /// Connects and selects RESP3.
    pub(super) async fn open(endpoint: &Endpoint, limit: DialLimit<'_>) -> Result<Self, NodeError> {
        let budget = Arc::new(ReadBudget::new());
        let (pushes, sender) = PushReceiver::new(&budget);
        let opened = endpoint.open(config(sender), &budget, limit).await;
        let acl_user = endpoint.user();
        let opened = opened.map_err(|error| error.with_user(acl_user.as_deref(), None))?;
        Ok(Self { acl_user, ..Self::new(opened, pushes, budget) })
    }

    fn new((multiplexed, driver): OpenConnection, pushes: PushReceiver, budget: Arc<ReadBudget>) -> Self {
        let is_driven_by_user = driver.is_some();
        let driver = driver.or_else(|| Some(futures::future::pending().boxed()));
        let waker_filter = WakerFilter::new();
        Self {
            multiplexed,
            driver,
            waker_filter,
            pushes,
            budget,
            is_driven_by_user,
            acl_user: None,
            hash_tag: None,
        }
    }

    /// Adds the ACL user of the login to an error about a refused login or a missing permission.
    pub(super) fn with_user(&self, error: NodeError) -> NodeError {
        error.with_user(self.acl_user.as_deref(), self.hash_tag.as_deref())
    }

    /// Connects to a server of a cluster, and names the connection. `hash_tag` is that of the node, with its braces.
    pub(super) async fn open_cluster_node(
        endpoint: &Endpoint,
        name: &str,
        hash_tag: &str,
        limit: DialLimit<'_>,
    ) -> Result<Self, NodeError> {
        let mut raw = Self { hash_tag: Some(hash_tag.into()), ..Self::open(endpoint, limit).await? };
        let hello = raw.start_hello(name);
        let hello = limit.step(DialStep::Login, raw.receive(hello)).await??;
        match HelloReply::read(&hello).refusal_of_cluster_node() {
            Some(refusal) => Err(refusal),
            None => Ok(raw),
        }
    }

    /// Connects to a server that may be a node, selects the database, and names the connection.
    pub(super) async fn open_node(
        endpoint: &Endpoint,
        name: &str,
        limit: DialLimit<'_>,
    ) -> Result<(Self, HelloReply), NodeError> {
        let mut raw = Self::open(endpoint, limit).await?;
        let hello = raw.start_hello(name);
        let database = endpoint.database();
        let selected = (database != 0).then(|| {
            let mut select = redis::cmd("SELECT");
            raw.start(select.arg(database).clone())
        });
        let hello = limit.step(DialStep::Login, raw.receive(hello)).await??;
        let hello_reply = HelloReply::read(&hello);
        if let Some(refusal) = hello_reply.refusal() {
            return Err(refusal);
        }
        if let Some(selected) = selected {
            let selected = limit.step(DialStep::Login, raw.receive(selected)).await?;
            selected.map_err(|error| error.with_database(database))?;
        }
        Ok((raw, hello_reply))
    }

    fn start_hello(&self, name: &str) -> PendingAnswer {
        let mut hello = redis::cmd("HELLO");
        self.start(hello.arg(3).arg("SETNAME").arg(name).clone())
    }

    /// Waits for an answer, for handshakes and for queries of Sentinels. A
    /// [`RedisConnection`](super::connection::RedisConnection) polls for answers instead.
    pub(super) async fn receive(&mut self, answering: PendingAnswer) -> Result<Value, NodeError> {
        let reply = self.receive_reply(answering).await?;
        reply.extract_error().map_err(|error| self.with_user(self.node_error(&error)))
    }

    /// Waits for a reply, which may be the error of the server.
    pub(super) async fn receive_reply(&mut self, mut answering: PendingAnswer) -> Result<Value, NodeError> {
        let answer = poll_fn(|context| {
            let is_broken = self.poll_drive(context).is_ready();
            match self.poll_answer(&mut answering, context) {
                Poll::Pending if is_broken => Poll::Ready(Err(broken())),
                poll => poll,
            }
        });
        let answer = answer.await;
        self.budget.reset();
        answer.map_err(|error| self.with_user(self.node_error(&error)))
    }

    /// Puts a command into the queue of the connection. The connection must be [driven](Self::poll_drive) before the
    /// task waits, so that the command is written. The answer need not be polled for that.
    ///
    /// A future of the redis crate does nothing before its first poll. The first poll puts the command into the queue
    /// of the connection (`Pipeline::send_recv`: a bounded channel, hence [`QUEUE_CAPACITY`]). Therefore the future
    /// is polled once here. If the task has used up its tokio budget, the channel would not accept the command, so the
    /// future is exempted from the budget by `unconstrained`.
    pub(super) fn start(&self, command: Cmd) -> PendingAnswer {
        let mut connection = self.multiplexed.clone();
        let sending = async move { connection.send_packed_command(&command).await };
        let mut answering: PendingAnswer = Box::pin(tokio::task::unconstrained(sending));
        match self.waker_filter.ignore_wakes(|| answering.poll_unpin(&mut noop_context())) {
            Poll::Ready(answer) => Box::pin(futures::future::ready(answer)),
            Poll::Pending => answering,
        }
    }

    /// Returns a handle for commands that are not answered by a single value.
    pub(super) fn multiplexed(&self) -> MultiplexedConnection {
        self.multiplexed.clone()
    }

    /// Reads and writes what is possible; ready if the connection is broken.
    pub(super) fn poll_drive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(driver) = &mut self.driver else { return Poll::Ready(()) };
        let poll = driver.poll_unpin(&mut self.waker_filter.context(context));
        if poll.is_ready() {
            self.driver = None;
        }
        poll
    }

    /// Polls for an answer. If this task drives the connection, an answer can arrive only during a drive, so
    /// no waker is needed.
    pub(super) fn poll_answer<F: Future + Unpin>(
        &self,
        answering: &mut F,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        if self.is_driven_by_user {
            answering.poll_unpin(&mut noop_context())
        } else {
            answering.poll_unpin(context)
        }
    }

    /// Takes the pushes since the last call of this method.
    pub(super) fn take_pushes(&self, context: &Context<'_>) -> PushBuffer {
        if self.is_driven_by_user { self.pushes.take(&noop_context()) } else { self.pushes.take(context) }
    }

    /// Converts the error by which the connection has ended. The cause may be data of the server, which the error does
    /// not mention.
    pub(super) fn node_error(&self, error: &RedisError) -> NodeError {
        // The stream has not ended, so the driver ended because of the data in it.
        let has_invalid_data = self.is_driven_by_user && self.driver.is_none() && !self.budget.has_ended();
        match (self.budget.node_error(), classify(error)) {
            (Some(node_error), _) => node_error,
            // The connection ended in the middle of a reply, which is no violation of the protocol.
            (None, NodeError::Protocol(_)) if error.kind() == ErrorKind::Parse && self.budget.has_ended() => {
                NodeError::Disconnected
            }
            (None, NodeError::Disconnected) if has_invalid_data => {
                NodeError::Protocol("the server sent data that is not RESP3".into())
            }
            (None, node_error) => node_error,
        }
    }
}

impl fmt::Debug for RawConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawConnection").field("is_open", &self.driver.is_some()).finish_non_exhaustive()
    }
}

fn config(sender: PushSender) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE_CAPACITY)
        .set_push_sender(sender)
}

/// Returns the error of a connection that has ended without an error.
pub(super) fn broken() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

fn noop_context() -> Context<'static> {
    Context::from_waker(std::task::Waker::noop())
}
