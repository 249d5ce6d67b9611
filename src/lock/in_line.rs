//! A place in the lines of the nodes.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    algorithm::node_set::NodeSet,
    clock::Clock,
    lock::{core::Core, gauge::UnderWay},
    node::{Entry, LineUp, Listener, Lock, Node, Queued, Request, Resources, Subscription, Withdraw, names},
    owner_id::OwnerId,
};

/// The places of one waiter in the lines of the nodes; dropping it leaves them all.
///
/// It enters only where it listens, or it would miss its call. Where to listen is known when a node has put it off once.
pub(crate) struct InLine {
    waiter: OwnerId,
    resources: Resources,
    /// How long a place is kept of which nothing is heard.
    life: Duration,
    /// The place that it was given first: other nodes put it where it belongs by this.
    ticket: u64,
    /// Nodes in whose line it is, or may be.
    entered: NodeSet,
    /// Nodes that took it out of their line for a vote. Who gives that back and up has to say so, or nobody is called.
    voted: NodeSet,
    listens: BTreeMap<usize, Vec<Subscription>>,
    nodes: Vec<Arc<dyn Node>>,
    clock: Arc<dyn Clock>,
    /// Keeps a shutdown waiting until the places are given up.
    _under_way: UnderWay,
}

impl InLine {
    pub(crate) fn new(core: &Core, resources: &Resources, life: Duration) -> Self {
        Self {
            waiter: core.owners.fresh(),
            resources: Arc::clone(resources),
            life,
            ticket: 0,
            entered: NodeSet::EMPTY,
            voted: NodeSet::EMPTY,
            listens: BTreeMap::new(),
            nodes: core.nodes.clone(),
            clock: Arc::clone(&core.clock),
            _under_way: core.attempts.enter(),
        }
    }

    /// What to ask a node for a turn.
    pub(crate) fn line_up(&mut self, node: usize, lock: Lock) -> Entry {
        let enters = self.listens.contains_key(&node);
        if enters {
            self.entered.insert(node);
        }
        let life = enters.then_some(self.life);
        Entry::LineUp(LineUp { lock, waiter: self.waiter.clone(), ticket: self.ticket, life })
    }

    /// It was its turn: the node has taken it out of its line.
    pub(crate) fn granted(&mut self, node: usize) {
        self.entered.remove(node);
        self.voted.insert(node);
    }

    /// It has what it stood in line for: its places elsewhere are of no more use, and the votes stay.
    pub(crate) fn won(&mut self) {
        self.voted = NodeSet::EMPTY;
        self.leave();
    }

    /// Whether it has a place in the line of the node that put it off.
    pub(crate) fn put_off(&mut self, queued: &Queued) -> bool {
        if self.ticket == 0 {
            self.ticket = queued.ticket;
        }
        queued.ticket > 0
    }

    /// Listens for calls of a node from now on; and for releases of the group's other resources, of which its line does not
    /// know.
    pub(crate) fn listen(
        &mut self,
        node: usize,
        calls: impl FnOnce() -> Arc<dyn Listener>,
        releases: impl FnOnce() -> Arc<dyn Listener>,
    ) {
        let Some(to) = self.nodes.get(node).filter(|_| !self.listens.contains_key(&node)) else { return };
        let Some((resource, others)) = self.resources.split_first() else { return };
        let mut subscriptions = vec![to.subscribe(&names::turn(resource, &self.waiter), calls())];
        if !others.is_empty() {
            let releases = releases();
            subscriptions.extend(others.iter().map(|other| to.subscribe(other, Arc::clone(&releases))));
        }
        self.listens.insert(node, subscriptions);
    }

    /// Gives up its places: the next turn is another's.
    fn leave(&mut self) {
        self.ticket = 0;
        let entered = std::mem::take(&mut self.entered).union(std::mem::take(&mut self.voted));
        let Some(resource) = self.resources.first().filter(|_| !entered.is_empty()) else { return };
        let withdraw = Withdraw { resource: resource.clone(), waiter: self.waiter.clone() };
        let request = Request::one(Entry::Withdraw(withdraw), self.clock.now() + self.life);
        for (_, node) in self.nodes.iter().enumerate().filter(|(node, _)| entered.contains(*node)) {
            drop(node.call(request.clone()));
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for InLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, resources, ticket, entered, .. } = self;
        f.debug_struct("InLine")
            .field("waiter", waiter)
            .field("resources", resources)
            .field("ticket", ticket)
            .field("entered", entered)
            .finish_non_exhaustive()
    }
}
