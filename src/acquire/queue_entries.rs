//! The entries of a waiter in the queues of the nodes.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    acquire::{
        checked_request::CheckedRequest,
        notifier::{NodeNotifier, NotificationKind, Notifier},
    },
    algorithm::node_set::NodeSet,
    client::{context::ClientContext, in_flight_counter::InFlightGuard},
    clock::Clock,
    node::{Enqueue, Lock, Node, Operation, Queued, Request, Subscription, Withdraw, names},
    values::{LeaseId, Resource},
};

/// The entries of one waiter in the queues of the nodes; dropping it withdraws them all.
///
/// The waiter enters a queue only where it listens, or it would miss its wake. It knows where to
/// listen when a node has put it off once.
pub(super) struct QueueEntries {
    waiter: LeaseId,
    /// Whether it waits to share the resource.
    is_shared: bool,
    /// The resource in whose queue it waits, and which of those that are to be locked it is.
    resource: Resource,
    index: usize,
    /// How long an entry is kept of which nothing is heard.
    entry_ttl: Duration,
    /// The ticket that it was given first: other nodes put it where it belongs by this.
    ticket: u64,
    only_waits: bool,
    /// Nodes in whose queue it is, or may be.
    entered: NodeSet,
    listens: BTreeMap<usize, Vec<Subscription>>,
    /// While it is one of the first two: at the queue node, and at the next one.
    releases: Vec<Subscription>,
    notifier: Arc<Notifier>,
    nodes: Vec<Arc<dyn Node>>,
    clock: Arc<dyn Clock>,
    /// Keeps a shutdown waiting until the entries are given up.
    _in_flight: InFlightGuard,
}

impl QueueEntries {
    pub(super) fn new(
        context: &ClientContext,
        checked: &CheckedRequest,
        index: usize,
        notifier: &Arc<Notifier>,
    ) -> Self {
        let is_shared = checked.resources.is_shared(index);
        Self {
            waiter: fresh_waiter(context, is_shared),
            is_shared,
            resource: checked.resource_at(index).clone(),
            index,
            entry_ttl: checked.settings.entry_ttl,
            ticket: 0,
            only_waits: false,
            entered: NodeSet::EMPTY,
            listens: BTreeMap::new(),
            releases: Vec::new(),
            notifier: Arc::clone(notifier),
            nodes: context.nodes.clone(),
            clock: Arc::clone(&context.clock),
            _in_flight: context.attempts.enter(),
        }
    }

    /// Which of the resources it waits for.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Whether the next question only keeps its entry.
    pub(super) fn only_waits(&mut self, only_waits: bool) {
        self.only_waits = only_waits;
    }

    /// Waits as long as another has waited already.
    pub(super) fn instead_of(&mut self, other: &Self) {
        self.ticket = other.ticket;
    }

    /// What to ask a node for a turn.
    pub(super) fn enqueue(&mut self, node: usize, lock: Lock) -> Operation {
        let enters = self.listens.contains_key(&node);
        if enters {
            self.entered.insert(node);
        }
        Operation::Enqueue(Enqueue {
            lock,
            resource: self.index,
            waiter: self.waiter.clone(),
            ticket: self.ticket,
            entry_ttl: enters.then_some(self.entry_ttl),
            only_waits: self.only_waits,
        })
    }

    /// It was its turn: the node has taken it out of its queue.
    pub(super) fn granted(&mut self, node: usize) {
        self.entered.remove(node);
    }

    /// It has what it waited for: its entries elsewhere are of no more use.
    pub(super) fn acquired(&mut self, context: &ClientContext) {
        self.releases.clear();
        if self.leave() {
            // A withdrawal that is late must not end the next entry.
            self.waiter = fresh_waiter(context, self.is_shared);
            self.listens.clear();
        }
    }

    /// Whether it has an entry in the queue of the node that put it off.
    pub(super) fn put_off(&mut self, queued: &Queued) -> bool {
        if self.ticket == 0 {
            self.ticket = queued.ticket;
        }
        queued.ticket > 0
    }

    /// Listens for wakes of a node from now on.
    pub(super) fn listen(&mut self, node: usize) {
        if self.listens.contains_key(&node) {
            return;
        }
        let names = [
            (names::next(&self.resource, &self.waiter), NotificationKind::Next),
            (names::turn(&self.resource, &self.waiter), NotificationKind::Turn),
        ];
        let subscriptions = names.into_iter().filter_map(|(name, kind)| self.subscribe(node, &name, kind));
        let subscriptions = subscriptions.collect();
        self.listens.insert(node, subscriptions);
    }

    /// Listens for releases at the queue node, and at the next in the queue node order, which hears
    /// of them when the first is silent.
    pub(super) fn listen_for_releases(&mut self, queue_node: usize, order: &[usize]) {
        if self.releases.is_empty() {
            let next = order.iter().copied().find(|node| *node != queue_node);
            let nodes = [Some(queue_node), next].into_iter().flatten();
            self.releases = nodes
                .filter_map(|node| self.subscribe(node, &self.resource, NotificationKind::Release))
                .collect();
        }
    }

    /// Others are first in the queue.
    pub(super) fn ignore_releases(&mut self) {
        self.releases.clear();
    }

    fn subscribe(&self, node: usize, name: &Resource, kind: NotificationKind) -> Option<Subscription> {
        let listener = NodeNotifier { node, kind, notifier: Arc::clone(&self.notifier) };
        self.nodes.get(node).map(|to| to.subscribe(name, Arc::new(listener)))
    }

    /// Gives up its entries: the next turn is another's. Whether there were any.
    fn leave(&mut self) -> bool {
        self.ticket = 0;
        let entered = std::mem::take(&mut self.entered);
        let withdraw = Withdraw { resource: self.resource.clone(), waiter: self.waiter.clone() };
        let request = Request::one(Operation::Withdraw(withdraw), self.clock.now() + self.entry_ttl);
        for (_, node) in self.nodes.iter().enumerate().filter(|(node, _)| entered.contains(*node)) {
            drop(node.call(request.clone()));
        }
        !entered.is_empty()
    }
}

fn fresh_waiter(context: &ClientContext, is_shared: bool) -> LeaseId {
    let waiter = context.owners.fresh();
    if is_shared { names::reader(&waiter) } else { waiter }
}

impl Drop for QueueEntries {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for QueueEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, resource, ticket, entered, .. } = self;
        f.debug_struct("QueueEntries")
            .field("waiter", waiter)
            .field("resource", resource)
            .field("ticket", ticket)
            .field("entered", entered)
            .finish_non_exhaustive()
    }
}
