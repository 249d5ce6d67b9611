//! What every call of one client needs.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use rand::{RngExt, rngs::StdRng, seq::index};
use tokio::sync::Notify;

use crate::{
    algorithm::queue_node_order::rendezvous_order,
    client::{dependencies::ClientDependencies, in_flight_counter::InFlightCounter, queues::Queues},
    clock::{Clock, Instant},
    config::CheckedQuorum,
    error::{ClosedReason, Error},
    mutex::lock,
    node::{Node, Resources},
    observer::Observer,
    spawner::Spawner,
    values::{Fingerprint, LeaseIds, NodeReplies, NodeReply, Resource},
};

/// What every call of one client needs: the nodes and what is known of them, the checked settings,
/// and the world that the client lives in.
#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    /// Those of the nodes, in their order.
    addresses: Arc<[Arc<str>]>,
    pub(crate) settings: CheckedQuorum,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawner: Arc<dyn Spawner>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) owners: LeaseIds,
    pub(crate) attempts: Arc<InFlightCounter>,
    pub(crate) queues: Queues,
    random: Mutex<StdRng>,
    is_closed: AtomicBool,
    closed: Notify,
}

impl ClientContext {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn Node>>,
        settings: CheckedQuorum,
        dependencies: ClientDependencies,
    ) -> Self {
        let ClientDependencies { clock, spawner, observer, client, label, random } = dependencies;
        Self {
            addresses: nodes.iter().map(|node| Arc::clone(node.address())).collect(),
            nodes,
            settings,
            clock,
            spawner,
            observer,
            owners: LeaseIds::new(client, &label),
            attempts: Arc::default(),
            queues: Queues::default(),
            random: Mutex::new(random),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A number from 0 to below 1.
    pub(crate) fn jitter(&self) -> f64 {
        lock(&self.random).random_range(0.0..1.0)
    }

    /// So many of the numbers below `count`, or all, in random order.
    pub(crate) fn sample_indices(&self, count: usize, most: usize) -> Vec<usize> {
        index::sample(&mut *lock(&self.random), count, most.min(count)).into_vec()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Lets nothing new begin, and ends what waits.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closed.notify_waiters();
    }

    /// Ready once the client is closed.
    pub(crate) async fn closed(&self) {
        let closed = self.closed.notified();
        let mut closed = std::pin::pin!(closed);
        closed.as_mut().enable();
        if !self.is_closed() {
            closed.await;
        }
    }

    /// Ready at the deadline, never without one.
    pub(crate) async fn until(&self, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => self.clock.sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Orders quorums, the same in all clients that name them and their nodes alike.
    pub(crate) fn rank(&self) -> (Fingerprint, Vec<Arc<str>>) {
        let mut addresses = self.addresses.to_vec();
        addresses.sort_unstable();
        (self.settings.parameters.fingerprint.clone(), addresses)
    }

    /// The nodes in the order in which they are the queue node of a resource. Those that are silent come
    /// last: to wait for them anew may take longer than the resource is held.
    pub(crate) fn queue_node_order(&self, resource: &Resource) -> Vec<usize> {
        let mut order =
            rendezvous_order(resource.as_bytes(), self.addresses.iter().map(|address| &**address));
        let now = self.now();
        order.sort_by_cached_key(|node| self.queues.is_silent(*node, now));
        order
    }

    /// Whether the queue node of a resource is far away: each hand-off takes two of its round trips.
    pub(crate) fn is_queue_node_slow(&self, resource: &Resource) -> bool {
        let needed = self.settings.electorate.needed();
        self.queue_node_order(resource).first().is_some_and(|node| self.queues.is_far(*node, needed))
    }

    /// In the queue of which of these resources others are known to be, or may be.
    pub(crate) async fn awaited_resource(&self, resources: &Resources) -> Option<usize> {
        self.queues.of(&*self.clock, self.settings.parameters.hand_over, resources).await
    }

    /// The replies of the nodes, given in the order of the nodes, with their addresses.
    pub(crate) fn replies(&self, replies: impl IntoIterator<Item = NodeReply>) -> NodeReplies {
        NodeReplies::new(Arc::clone(&self.addresses), replies, self.settings.electorate.needed())
    }

    /// The same reply from every node.
    pub(crate) fn same_replies(&self, reply: &NodeReply) -> NodeReplies {
        self.replies(self.nodes.iter().map(|_| reply.clone()))
    }

    /// Refuses a call of a client that works no longer.
    pub(crate) fn ensure_open(&self) -> Result<(), Error> {
        if self.is_closed() { Err(self.closed_error()) } else { Ok(()) }
    }

    /// The error of a call that the end of the client has ended.
    #[expect(clippy::unused_self, reason = "the reason is the client's")]
    pub(crate) fn closed_error(&self) -> Error {
        Error::Closed(ClosedReason::ShutDown)
    }

    /// By then, everything of a lease that a node may have now is over.
    pub(crate) fn latest_expiry(&self) -> Instant {
        self.now() + self.settings.max_ttl
    }
}
