//! The queue entries of a waiter, and its subscriptions. The local waiter owns both, and its attempts enter the queues.
//! A single attempt has entries without subscriptions, so that the attempt asks for the turn but enters no queue.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    acquire::{
        checked_request::CheckedRequest,
        notifier::{NodeNotifier, Notifier, SubscriptionKind},
    },
    algorithm::node_set::NodeSet,
    client::{context::ClientContext, in_flight_counter::InFlightGuard},
    clock::Clock,
    node::{Enqueue, Lock, Node, Operation, Queued, Request, Subscription, Withdraw, names},
    values::{LeaseId, Resource},
};

/// The entries of one waiter in the wait queues of the nodes. All entries are withdrawn on drop.
///
/// The waiter enters a queue only at a node at which the waiter subscribes to the wake. Without a subscriber, the wake
/// would be lost.
pub(super) struct QueueEntries {
    queue: WaiterQueue,
    waiter: QueuedWaiter,
    /// Whether the next enqueue keeps the entry alive and locks nothing.
    enqueue_only: bool,
    subscriptions: WaiterSubscriptions,
    nodes: Vec<Arc<dyn Node>>,
    clock: Arc<dyn Clock>,
    /// Keeps a shutdown waiting until the entries are withdrawn.
    _in_flight: InFlightGuard,
}

/// The constants of the wait queue that a waiter is in.
struct WaiterQueue {
    resource: Resource,
    /// The index of the resource in the request.
    index: usize,
    /// Whether the waiter locks the resource as a reader.
    is_shared: bool,
    /// The time for which a queue node keeps an entry without a request.
    entry_ttl: Duration,
}

/// The identity and the order of the waiter in the wait queues.
///
/// # Invariants
///
/// 1. Every node that may have an entry with this `id` is in `entered`.
/// 2. `arrival` is 0 before the first deferral with an entry, and then the arrival in that deferral. Therefore every
///    node gives the waiter the same place.
struct QueuedWaiter {
    id: LeaseId,
    arrival: u64,
    entered: NodeSet,
}

/// The subscriptions of a waiter.
///
/// # Invariants
///
/// 1. The subscriptions to releases exist only while the waiter is one of the first two.
struct WaiterSubscriptions {
    notifier: Arc<Notifier>,
    /// The subscriptions to the wake and to the head notice, by node.
    wakes: BTreeMap<usize, Vec<Subscription>>,
    /// The subscriptions to releases, at the queue node and at one other node.
    releases: Vec<Subscription>,
}

impl QueueEntries {
    pub(super) fn new(
        context: &ClientContext,
        checked: &CheckedRequest,
        index: usize,
        notifier: &Arc<Notifier>,
    ) -> Self {
        let queue = WaiterQueue {
            resource: checked.resource_at(index).clone(),
            index,
            is_shared: checked.resources.is_shared(index),
            entry_ttl: checked.settings.entry_ttl,
        };
        Self {
            waiter: QueuedWaiter { id: queue.fresh_waiter_id(context), arrival: 0, entered: NodeSet::EMPTY },
            queue,
            enqueue_only: false,
            subscriptions: WaiterSubscriptions {
                notifier: Arc::clone(notifier),
                wakes: BTreeMap::new(),
                releases: Vec::new(),
            },
            nodes: context.nodes.clone(),
            clock: Arc::clone(&context.clock),
            _in_flight: context.attempts.enter(),
        }
    }

    /// Returns the index of the resource of the queue.
    pub(super) fn index(&self) -> usize {
        self.queue.index
    }

    /// Sets whether the next enqueue keeps the entry alive and locks nothing.
    pub(super) fn set_enqueue_only(&mut self, enqueue_only: bool) {
        self.enqueue_only = enqueue_only;
    }

    /// Takes over the arrival of the same waiter in a former queue.
    pub(super) fn take_arrival_of(&mut self, former: &Self) {
        self.waiter.arrival = former.waiter.arrival;
    }

    /// Returns the operation that asks a node for the turn. If the waiter subscribes to the wake at the node, a
    /// deferral enters the queue there.
    pub(super) fn enqueue(&mut self, node: usize, lock: Lock) -> Operation {
        let enters = self.subscriptions.wakes.contains_key(&node);
        if enters {
            self.waiter.entered.insert(node);
        }
        Operation::Enqueue(Enqueue {
            lock,
            resource: self.queue.index,
            waiter: self.waiter.id.clone(),
            arrival: self.waiter.arrival,
            entry_ttl: enters.then_some(self.queue.entry_ttl),
            enqueue_only: self.enqueue_only,
        })
    }

    /// Handles a grant at the turn of the waiter. The node has deleted the entry of the waiter.
    pub(super) fn granted(&mut self, node: usize) {
        self.waiter.entered.remove(node);
    }

    /// Handles a deferral. Returns whether the waiter has an entry at the node.
    pub(super) fn deferred(&mut self, queued: &Queued) -> bool {
        if self.waiter.arrival == 0 {
            self.waiter.arrival = queued.arrival;
        }
        queued.arrival > 0
    }

    /// Handles an acquired lock: withdraws the entries that remain at nodes, and ends the subscriptions to releases.
    pub(super) fn acquired(&mut self, context: &ClientContext) {
        self.subscriptions.releases.clear();
        if self.withdraw() {
            // With the old id, a late withdrawal could delete the next entry.
            self.waiter.id = self.queue.fresh_waiter_id(context);
            self.subscriptions.wakes.clear();
        }
    }

    /// Subscribes to the wake and the head notice of the waiter at a node.
    pub(super) fn listen(&mut self, node: usize) {
        if self.subscriptions.wakes.contains_key(&node) {
            return;
        }
        let names = [
            (names::head(&self.queue.resource, &self.waiter.id), SubscriptionKind::Head),
            (names::wake(&self.queue.resource, &self.waiter.id), SubscriptionKind::Wake),
        ];
        let subscriptions = names.into_iter().filter_map(|(name, kind)| self.subscribe(node, &name, kind));
        let subscriptions = subscriptions.collect();
        self.subscriptions.wakes.insert(node, subscriptions);
    }

    /// Subscribes to releases at the queue node, and at the first other node of the queue node order in case the queue
    /// node is silent. Does nothing if the waiter has these subscriptions.
    pub(super) fn listen_for_releases(&mut self, queue_node: usize, order: &[usize]) {
        if self.subscriptions.releases.is_empty() {
            let next = order.iter().copied().find(|node| *node != queue_node);
            let nodes = [Some(queue_node), next].into_iter().flatten();
            self.subscriptions.releases = nodes
                .filter_map(|node| self.subscribe(node, &self.queue.resource, SubscriptionKind::Release))
                .collect();
        }
    }

    /// Ends the subscriptions to releases, because the waiter is not one of the first two.
    pub(super) fn ignore_releases(&mut self) {
        self.subscriptions.releases.clear();
    }

    fn subscribe(&self, node: usize, name: &Resource, kind: SubscriptionKind) -> Option<Subscription> {
        let listener = NodeNotifier { node, kind, notifier: Arc::clone(&self.subscriptions.notifier) };
        self.nodes.get(node).map(|to| to.subscribe(name, Arc::new(listener)))
    }

    /// Withdraws all entries. Returns whether the waiter had entries.
    fn withdraw(&mut self) -> bool {
        self.waiter.arrival = 0;
        let entered = std::mem::take(&mut self.waiter.entered);
        let withdraw = Withdraw { resource: self.queue.resource.clone(), waiter: self.waiter.id.clone() };
        let request = Request::one(Operation::Withdraw(withdraw), self.clock.now() + self.queue.entry_ttl);
        for (_, node) in self.nodes.iter().enumerate().filter(|(node, _)| entered.contains(*node)) {
            drop(node.call(request.clone()));
        }
        !entered.is_empty()
    }
}

impl WaiterQueue {
    fn fresh_waiter_id(&self, context: &ClientContext) -> LeaseId {
        let waiter = context.lease_ids.fresh();
        if self.is_shared { names::reader(&waiter) } else { waiter }
    }
}

impl Drop for QueueEntries {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl fmt::Debug for QueueEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueEntries")
            .field("resource", &self.queue.resource)
            .field("waiter", &self.waiter.id)
            .field("arrival", &self.waiter.arrival)
            .field("entered", &self.waiter.entered)
            .finish_non_exhaustive()
    }
}
