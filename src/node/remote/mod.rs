//! A remote node: a handle that queues requests, and a task that owns the connection and sends the requests.
//!
//! ```text
//!  RemoteNode ──submit──► SendQueue ──► Driver ──► Connection
//!             ─subscribe─► Subscriptions ──┘
//! ```

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::{
    future::{BoxFuture, FutureExt},
    task::AtomicWaker,
};
use tokio::sync::watch;

use self::{
    driver::Driver,
    registration_replies::RegistrationReplies,
    subscriptions::{Change, Subscriptions},
};
pub(crate) use self::{
    duplicate_servers::{ClusterRegistration, ConnectedServers},
    monitor::Monitor,
};
use crate::{
    clock::{Clock, Instant},
    mutex,
    node::{
        Listener, NewNodes, Node, Notice, Operation, PendingUnlocks, Subscription,
        reply::Reply,
        request::Request,
        send_queue::SendQueue,
        transport::{BatchId, Connection, Transport},
    },
    spawner::Spawner,
    values::{Fingerprint, Label, NodeError, Resource},
};

mod dialler;
mod driver;
mod duplicate_servers;
pub(super) mod monitor;
mod notices;
mod redial;
mod registration;
mod registration_replies;
mod script_delivery;
mod subscriptions;
#[cfg(test)]
pub(super) mod tests;
mod timer;

/// The shortest patience with a step of a dial. The kernel sends the first packet of a connection again after a second.
const MIN_DIAL_PATIENCE: Duration = Duration::from_secs(1);

/// A node that is reached through a [`Transport`].
///
/// A request enters the [`SendQueue`] at the call, on the caller's thread, and the task of the node sends the request.
/// If the handle is dropped, the node is closed: the task ends when every request that must be delivered is confirmed
/// or has expired.
pub(crate) struct RemoteNode {
    address: Arc<str>,
    clock: Arc<dyn Clock>,
    shared: Arc<SharedState>,
    transport: Arc<dyn Transport>,
    registers: bool,
    /// A channel that closes when the task has ended.
    ended: watch::Receiver<()>,
}

/// The dependencies and settings of a node's connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionConfig {
    pub(crate) clock: Arc<dyn Clock>,
    /// The spawner of the node's task.
    pub(crate) spawner: Arc<dyn Spawner>,
    /// The fingerprint of the quorum.
    pub(crate) fingerprint: Fingerprint,
    /// The treatment of new nodes by the registration. `None` for a client that does not register, because the client
    /// is that of an administrator, or has no restart guard.
    pub(crate) registers: Option<NewNodes>,
    /// The label of the client.
    pub(crate) label: Label,
    /// The check for duplicate servers, which the nodes of one client share.
    pub(crate) connected_servers: ConnectedServers,
    pub(crate) monitor: Arc<dyn Monitor>,
    /// The time without an answer after which the node is unresponsive.
    pub(crate) node_timeout: Duration,
    /// The time for which a node that may have lost votes abstains.
    pub(crate) quarantine: Duration,
    /// The seed of the delays before dials.
    pub(crate) seed: u64,
}

impl ConnectionConfig {
    /// Returns the time for each step of a dial, unless earlier dials had no answer.
    pub(crate) fn dial_patience(&self) -> Duration {
        dial_patience(self.node_timeout)
    }
}

/// Returns the time for each step of a first dial.
pub(crate) fn dial_patience(node_timeout: Duration) -> Duration {
    node_timeout.max(MIN_DIAL_PATIENCE)
}

impl RemoteNode {
    /// Creates a node and starts its task. Calls are accepted before there is a connection.
    pub(crate) fn new(address: Arc<str>, transport: Arc<dyn Transport>, config: &ConnectionConfig) -> Self {
        let shared = Arc::new(SharedState::new(config.node_timeout));
        let (alive, ended) = watch::channel(());
        // A driver that is moved into its future would be in the memory of the task several times.
        let driver = Driver::new(Arc::clone(&address), Arc::clone(&shared), Arc::clone(&transport), config);
        let mut driver = Box::new(driver);
        let task = async move {
            driver.run().await;
            drop(driver);
            drop(alive);
        };
        drop(config.spawner.spawn(task.boxed()));
        Self {
            address,
            clock: Arc::clone(&config.clock),
            shared,
            transport,
            registers: config.registers.is_some(),
            ended,
        }
    }
}

impl Node for RemoteNode {
    fn address(&self) -> &Arc<str> {
        &self.address
    }

    fn call(&self, request: Request) -> Reply {
        let mut state = self.shared.lock();
        let reply = state.send_queue.submit(request);
        let wake = state.send_queue.needs_service();
        drop(state);
        if wake {
            self.shared.driver.wake();
        }
        reply
    }

    fn registration(&self) -> Option<Reply> {
        let reply = self.registers.then(|| {
            let mut state = self.shared.lock();
            // The caller waits for a connection, as the caller of a request does.
            state.send_queue.want_connection();
            state.registrations.reply()
        });
        self.shared.driver.wake();
        reply
    }

    fn subscribe(&self, topic: &Resource, listener: Arc<dyn Listener>) -> Subscription {
        // Resources with the same channel share a subscription. With a subscription for each resource, the end of the
        // first subscription would end the notices of all these resources. Because of the shared subscription, the
        // release of one resource also notifies the waiters for the other resources, and their attempts are in vain.
        let topic = self.transport.shared_topic(topic);
        let mut state = self.shared.lock();
        let (id, is_confirmed) = state.subscriptions.add(&topic, Arc::clone(&listener));
        drop(state);
        self.shared.driver.wake();
        if is_confirmed {
            listener.notice(Notice::Subscribed);
        }
        let shared = Arc::downgrade(&self.shared);
        Subscription::new(move || {
            let Some(shared) = shared.upgrade() else { return };
            let removed = shared.lock().subscriptions.remove(&topic, id);
            shared.driver.wake();
            drop(removed);
        })
    }

    fn undelivered(&self) -> Vec<PendingUnlocks> {
        let now = self.clock.now();
        self.shared.lock().send_queue.undelivered(now).collect()
    }

    #[cfg(any(test, feature = "__command"))]
    fn unpublished(&self) -> Option<NodeError> {
        self.shared.lock().unpublished.clone()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.shared.lock().send_queue.close();
        self.shared.driver.wake();
        let mut ended = self.ended.clone();
        async move { while ended.changed().await.is_ok() {} }.boxed()
    }
}

impl Drop for RemoteNode {
    fn drop(&mut self) {
        self.shared.lock().send_queue.close();
        self.shared.driver.wake();
    }
}

impl fmt::Debug for RemoteNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteNode").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The state that the handle and its task share.
#[derive(Debug)]
struct SharedState {
    state: Mutex<RemoteState>,
    driver: AtomicWaker,
}

#[derive(Debug)]
struct RemoteState {
    send_queue: SendQueue,
    subscriptions: Subscriptions,
    registrations: RegistrationReplies,
    /// The error of the last notice that the server did not publish on this connection.
    unpublished: Option<NodeError>,
}

/// The calls and subscription changes that a connection sends next.
#[derive(Debug, Default)]
struct NextSend {
    calls: Vec<(BatchId, Arc<[Operation]>)>,
    changes: Vec<Change>,
}

/// The state of the send queue after a tick.
#[derive(Debug)]
struct QueueDeadlines {
    /// The number of requests that must still be delivered.
    undelivered: usize,
    is_done: bool,
    /// The age of the oldest call without an answer.
    oldest_call: Duration,
    /// The time of the next tick if no other event happens.
    deadline: Option<Instant>,
}

impl RemoteState {
    fn next_send(&mut self, now: Instant) -> NextSend {
        let calls = std::iter::from_fn(|| self.send_queue.next_batch(now)).collect();
        NextSend { calls, changes: self.subscriptions.changes() }
    }

    /// Passes the present time to the send queue.
    fn tick(&mut self, now: Instant) -> QueueDeadlines {
        let send_queue = &mut self.send_queue;
        send_queue.tick(now);
        let sent_at = send_queue.oldest_call();
        let oldest_call = sent_at.map_or(Duration::ZERO, |sent_at| now.saturating_duration_since(sent_at));
        // The age is reported in whole seconds.
        let next_report = sent_at.map(|sent_at| sent_at + Duration::from_secs(oldest_call.as_secs() + 1));
        QueueDeadlines {
            undelivered: send_queue.undelivered_count(),
            is_done: send_queue.is_done(now),
            oldest_call,
            deadline: [send_queue.next_deadline(), next_report].into_iter().flatten().min(),
        }
    }
}

impl NextSend {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.changes.is_empty()
    }

    fn send(self, connection: &mut dyn Connection) {
        for (batch, operations) in self.calls {
            connection.send(batch, operations);
        }
        for change in self.changes {
            match change {
                Change::Subscribe(topic) => connection.subscribe(&topic),
                Change::Unsubscribe(topic) => connection.unsubscribe(&topic),
            }
        }
    }
}

impl SharedState {
    fn new(node_timeout: Duration) -> Self {
        let state = RemoteState {
            send_queue: SendQueue::new(node_timeout),
            subscriptions: Subscriptions::default(),
            registrations: RegistrationReplies::default(),
            unpublished: None,
        };
        Self { state: Mutex::new(state), driver: AtomicWaker::new() }
    }

    fn lock(&self) -> MutexGuard<'_, RemoteState> {
        mutex::lock(&self.state)
    }
}
