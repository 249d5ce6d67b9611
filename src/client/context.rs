//! The client context: the state that all calls of one client share.

use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use rand::{RngExt, rngs::StdRng, seq::index};

use crate::{
    algorithm::{lease::RenewalOffset, queue_node_order::rendezvous_order},
    client::{
        closed_signal::ClosedSignal, dependencies::ClientDependencies, in_flight_counter::InFlightCounter,
        outage_warnings::OutageWarnings, permit_counts::PermitCounts, responsiveness::Responsiveness,
        waiter_cache::WaiterCache,
    },
    clock::{Clock, Instant},
    config::CheckedQuorum,
    error::{ClosedReason, Error, NoQuorum},
    mutex::lock,
    node::{Node, Resources},
    observer::Observer,
    process::{Forked, HomeProcess, InHomeProcess},
    spawner::Spawner,
    values::{Fingerprint, LeaseIds, NodeReplies, NodeReply, Resource},
};

/// The state that all calls of one client share: nodes, checked settings, dependencies and caches.
#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    /// The addresses of `nodes`, in the same order.
    addresses: Arc<[Arc<str>]>,
    pub(crate) settings: CheckedQuorum,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawner: Arc<dyn Spawner>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) lease_ids: LeaseIds,
    /// The attempts and queue entries in flight, for which a shutdown waits.
    pub(crate) attempts: Arc<InFlightCounter>,
    pub(crate) waiter_cache: WaiterCache,
    pub(crate) responsiveness: Responsiveness,
    pub(crate) outage_warnings: OutageWarnings,
    pub(crate) permit_counts: PermitCounts,
    pub(crate) renewal_offset: RenewalOffset,
    rng: Mutex<StdRng>,
    closed_signal: Arc<ClosedSignal>,
    home: HomeProcess,
}

impl ClientContext {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn Node>>,
        settings: CheckedQuorum,
        dependencies: ClientDependencies,
    ) -> Self {
        let ClientDependencies {
            clock,
            spawner,
            observer,
            client_id,
            ticket_secret,
            label,
            rng,
            renewal_offset,
        } = dependencies;
        let responsiveness =
            Responsiveness::new(settings.parameters.hand_over, Arc::clone(&clock), Arc::clone(&observer));
        Self {
            addresses: nodes.iter().map(|node| Arc::clone(node.address())).collect(),
            nodes,
            settings,
            clock,
            spawner,
            observer,
            lease_ids: LeaseIds::new(client_id, ticket_secret, &label),
            attempts: Arc::default(),
            waiter_cache: WaiterCache::default(),
            responsiveness,
            outage_warnings: OutageWarnings::default(),
            permit_counts: PermitCounts::default(),
            renewal_offset,
            rng: Mutex::new(rng),
            closed_signal: Arc::default(),
            home: HomeProcess::current(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns a uniform random number in 0..1.
    pub(crate) fn jitter(&self) -> f64 {
        lock(&self.rng).random_range(0.0..1.0)
    }

    /// Returns `amount` distinct indices below `count` in random order; all indices if `count` is smaller than
    /// `amount`.
    pub(crate) fn sample_indices(&self, count: usize, amount: usize) -> Vec<usize> {
        if self.home.is_left() {
            // In a forked copy, the mutex may stay locked for ever. Every call with these indices returns an error, so
            // the indices need not be random.
            return (0..count).take(amount).collect();
        }
        index::sample(&mut *lock(&self.rng), count, amount.min(count)).into_vec()
    }

    /// Returns the process to which the client belongs.
    pub(crate) fn home(&self) -> HomeProcess {
        self.home
    }

    /// Returns the reason for which the client is closed; `None` while the client is open.
    pub(crate) fn closed_reason(&self) -> Option<ClosedReason> {
        if self.home.is_left() { Some(ClosedReason::Forked) } else { self.closed_signal.reason() }
    }

    /// Returns the reason for which the client no longer works, also if its runtime has ended and the client is not
    /// closed yet; `None` if the client works.
    pub(crate) fn end_reason(&self) -> Option<ClosedReason> {
        // In a forked copy, the runtime of the client must not be used, not even to check its end.
        if self.home.is_left() {
            return Some(ClosedReason::Forked);
        }
        end_reason(&self.closed_signal, &*self.spawner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed_reason().is_some()
    }

    /// Closes the client. New calls are refused, and waiting calls end.
    pub(crate) fn close(&self, reason: ClosedReason) {
        self.closed_signal.close(reason);
    }

    /// Runs the work of a call. In a forked process, the call returns an error at once. There, the work is not polled,
    /// and work that has begun is not dropped.
    ///
    /// If the client was closed before a call without a quorum ends, the error of the call is [`Error::Closed`], as of
    /// [`no_quorum`](Self::no_quorum).
    pub(crate) fn in_process<'a, T, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<'a, T, F>
    where
        T: 'a,
        F: Future<Output = Result<T, Error>> + Send + 'a,
    {
        let (closed_signal, spawner) = (Arc::clone(&self.closed_signal), Arc::clone(&self.spawner));
        self.unless_forked(work).map(move |done| match done {
            Err(Forked) => Err(Error::Closed(ClosedReason::Forked)),
            Ok(Err(Error::NoQuorum(shortage))) => {
                Err(end_reason(&closed_signal, &*spawner).map_or(Error::NoQuorum(shortage), Error::Closed))
            }
            Ok(done) => done,
        })
    }

    /// Runs work of the home process. In a forked process, the result is [`Forked`]. There, the work is not polled, and
    /// work that has begun is not dropped.
    pub(crate) fn unless_forked<'a, T>(
        &self,
        work: impl Future<Output = T> + Send + 'a,
    ) -> InHomeProcess<BoxFuture<'a, T>> {
        InHomeProcess::new(self.home, work.boxed())
    }

    /// Waits until the client is closed.
    pub(crate) async fn closed(&self) {
        self.closed_signal.closed().await;
    }

    /// Sleeps until the deadline; for ever if there is no deadline.
    pub(crate) async fn sleep_until(&self, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => self.clock.sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Returns a key by which quorums are sorted. Clients with the same configuration compute the same key.
    pub(crate) fn sort_key(&self) -> (Fingerprint, Vec<Arc<str>>) {
        let mut addresses = self.addresses.to_vec();
        addresses.sort_unstable();
        (self.settings.parameters.fingerprint.clone(), addresses)
    }

    /// Returns all nodes in the queue node order of a resource. Silent nodes are last, because a wait for a silent node
    /// may take longer than the present lease lasts.
    pub(crate) fn queue_node_order(&self, resource: &Resource) -> Vec<usize> {
        let addresses = self.addresses.iter().map(|address| &**address);
        let mut order = rendezvous_order(resource.as_bytes(), addresses);
        let now = self.now();
        order.sort_by_cached_key(|node| self.responsiveness.is_silent(*node, now));
        order
    }

    /// Whether the queue node of a resource is slow. A slow queue node delays all waiters, because each change of the
    /// holder takes two round trips to that node.
    pub(crate) fn is_queue_node_slow(&self, resource: &Resource) -> bool {
        let needed = self.settings.electorate.needed();
        let queue_node = self.queue_node_order(resource).first().copied();
        queue_node.is_some_and(|node| self.responsiveness.is_slow(node, needed))
    }

    /// Returns the index of the resource that has or may have waiters, according to the cache.
    ///
    /// # Cancel safety
    ///
    /// As [`WaiterCache::resource_with_waiters`].
    pub(crate) async fn resource_with_waiters(&self, resources: &Resources) -> Option<usize> {
        let patience = self.settings.parameters.hand_over;
        self.waiter_cache.resource_with_waiters(&*self.clock, &self.responsiveness, patience, resources).await
    }

    /// Pairs replies, in the order of the nodes, with the addresses of the nodes.
    pub(crate) fn replies(&self, replies: impl IntoIterator<Item = NodeReply>) -> NodeReplies {
        NodeReplies::new(Arc::clone(&self.addresses), replies, self.settings.electorate.needed())
    }

    /// Returns the same reply for every node.
    pub(crate) fn same_replies(&self, reply: &NodeReply) -> NodeReplies {
        self.replies(self.nodes.iter().map(|_| reply.clone()))
    }

    /// Returns an error if the client is closed.
    pub(crate) fn ensure_open(&self) -> Result<(), Error> {
        self.closed_reason().map_or(Ok(()), |reason| Err(Error::Closed(reason)))
    }

    /// Returns an error if the client is closed, or if its runtime has ended.
    pub(crate) fn ensure_running(&self) -> Result<(), Error> {
        self.end_reason().map_or(Ok(()), |reason| Err(Error::Closed(reason)))
    }

    /// Returns the error of a call without a quorum. If the client is closed, or its runtime has ended, the nodes are
    /// not the reason, and the error is [`Error::Closed`].
    pub(crate) fn no_quorum(&self, shortage: NoQuorum) -> Error {
        self.ensure_running().err().unwrap_or(Error::NoQuorum(shortage))
    }

    /// Returns the error of a call that ends because the client is closed.
    pub(crate) fn closed_error(&self) -> Error {
        Error::Closed(self.closed_reason().unwrap_or(ClosedReason::ShutDown))
    }

    /// Returns the time until which an unlock that is submitted now is sent again. No key has a longer ttl than
    /// `max_ttl`.
    pub(crate) fn latest_expiry(&self) -> Instant {
        self.now() + self.settings.max_ttl
    }
}

/// Returns the reason for which the client of a signal no longer works; `None` if the client works.
///
/// At the end of a runtime, the tasks of the nodes may end before the task that closes the client. Therefore the reason
/// of an open client depends on the runtime.
fn end_reason(closed_signal: &ClosedSignal, spawner: &dyn Spawner) -> Option<ClosedReason> {
    closed_signal.reason().or_else(|| spawner.has_ended().then_some(ClosedReason::RuntimeEnded))
}
