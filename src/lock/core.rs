//! What all locks of one client share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures::future::FutureExt;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{runtime::Handle, sync::Notify, task::AbortHandle};
use uuid::Uuid;

use crate::{
    acquire::{
        overseer::{self, Overseer},
        waiting::Waiters,
    },
    algorithm::{attempt::Plan, queue_node},
    client::{in_flight_counter::InFlightCounter, queues::Queues},
    clock::{Clock, Instant},
    config::CheckedQuorum,
    error::LossReason,
    lease::{
        active_lease::{Acquired, ActiveLease, UnlockOutcome},
        expiry,
        schedule::{LeaseId, Schedule},
        watchdog,
    },
    mutex::lock,
    node::{Node, Reply, Resources},
    observer::{LeaseEnd, ObservedLease, Observer},
    spawner::Spawner,
    values::{Fingerprint, OwnerIds, Resource, Vote, Votes},
};

/// What all locks of one client share, the background tasks included.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) nodes: Vec<Arc<dyn Node>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: CheckedQuorum,
    pub(crate) owners: OwnerIds,
    pub(crate) waiters: Waiters,
    pub(crate) queues: Queues,
    pub(crate) overseer: Overseer,
    pub(crate) attempts: InFlightCounter,
    pub(crate) renewals: Schedule,
    pub(crate) expiries: Schedule,
    /// In order: that in which a shutdown ends them.
    leases: Mutex<BTreeMap<LeaseId, Arc<ActiveLease>>>,
    next_lease: AtomicU64,
    random: Mutex<StdRng>,
    is_closed: AtomicBool,
    closed: Notify,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) spawner: Arc<dyn Spawner>,
}

/// What a client lives in.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawner: Arc<dyn Spawner>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) entropy: Entropy,
}

/// Where a client's identity and its jitter come from.
#[derive(Debug)]
pub(crate) struct Entropy {
    pub(crate) client: Uuid,
    pub(crate) random: StdRng,
}

/// A client: the core, and the tasks that end with it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) core: Arc<Core>,
    tasks: [AbortHandle; 3],
}

impl Surroundings {
    /// The real world: tasks run on a tokio runtime, and random numbers come from the operating
    /// system.
    pub(crate) fn new(clock: Arc<dyn Clock>, runtime: Handle, observer: Arc<dyn Observer>) -> Self {
        Self { clock, spawner: Arc::new(runtime), observer, entropy: Entropy::from_os() }
    }
}

impl Entropy {
    /// From the operating system: 122 random bits for the client's uuid.
    pub(crate) fn from_os() -> Self {
        let client = Uuid::new_v4();
        // The jitter needs to differ between clients, not to be secret.
        let random = StdRng::seed_from_u64(client.as_u64_pair().1);
        Self { client, random }
    }
}

impl Client {
    /// Starts the tasks of a client.
    pub(crate) fn start(
        nodes: Vec<Arc<dyn Node>>,
        settings: CheckedQuorum,
        surroundings: Surroundings,
    ) -> Arc<Self> {
        let Surroundings { clock, spawner, observer, entropy } = surroundings;
        let core = Arc::new(Core {
            nodes,
            clock,
            settings,
            owners: OwnerIds::new(entropy.client),
            waiters: Waiters::default(),
            queues: Queues::default(),
            overseer: Overseer::default(),
            attempts: InFlightCounter::default(),
            renewals: Schedule::default(),
            expiries: Schedule::default(),
            leases: Mutex::default(),
            next_lease: AtomicU64::new(1),
            random: Mutex::new(entropy.random),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
            observer,
            spawner: Arc::clone(&spawner),
        });
        let tasks = [
            spawner.spawn(watchdog::run(Arc::clone(&core)).boxed()),
            spawner.spawn(expiry::run(Arc::clone(&core)).boxed()),
            spawner.spawn(overseer::run(Arc::clone(&core)).boxed()),
        ];
        Arc::new(Self { core, tasks })
    }

    /// Ends the watchdog alone, as a panic in it would.
    #[cfg(test)]
    pub(crate) fn stop_watchdog(&self) {
        self.tasks[0].abort();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Core {
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A number from 0 to below 1.
    pub(crate) fn jitter(&self) -> f64 {
        lock(&self.random).random_range(0.0..1.0)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Takes what an attempt has acquired into care: from now on it is renewed, and ends in time.
    pub(crate) fn adopt(&self, mut acquired: Acquired) -> Arc<ActiveLease> {
        let in_flight = acquired.in_flight.take();
        let id = self.next_lease.fetch_add(1, Ordering::Relaxed);
        let lease = Arc::new(ActiveLease::new(id, acquired, self.now(), Arc::clone(&self.observer)));
        // First, since it may be anybody's code: if that panics, nobody has a guard, and nothing
        // may renew the lease.
        let observed: Arc<dyn ObservedLease> = Arc::clone(&lease) as _;
        self.observer.lease_granted(&observed);
        lock(&self.leases).insert(id, Arc::clone(&lease));
        self.expiries.set(id, lease.valid_until());
        if lease.is_renewed {
            self.renewals.set(id, lease.renewal_due());
        }
        // Shut down between the attempt and now: nobody else would end it.
        if self.is_closed() {
            self.lose(&lease, LossReason::Shutdown);
        }
        drop(in_flight);
        lease
    }

    pub(crate) fn lease(&self, id: LeaseId) -> Option<Arc<ActiveLease>> {
        lock(&self.leases).get(&id).cloned()
    }

    /// Ends a lease as lost and unlocks it everywhere, as an unlock does. Whether it was held until
    /// now.
    pub(crate) fn lose(&self, lease: &ActiveLease, reason: LossReason) -> bool {
        let is_lost = lease.lose(reason);
        if is_lost {
            tracing::warn!(resource = %lease.resource, owner = %lease.owner, token = %lease.token, %reason, "lease lost");
            self.tell_end(lease, LeaseEnd::Lost(reason));
            drop(self.unlock_everywhere(lease));
        }
        is_lost
    }

    /// Gives one hold back; with the last one, ends the lease in this way, and submits its unlock
    /// to the nodes.
    pub(crate) fn leave(&self, lease: &ActiveLease, end: LeaseEnd) -> (UnlockOutcome, Vec<(usize, Reply)>) {
        let left = lease.leave();
        if left != UnlockOutcome::Unlocked {
            return (left, Vec::new());
        }
        self.tell_end(lease, end);
        (left, self.unlock_everywhere(lease))
    }

    fn tell_end(&self, lease: &ActiveLease, end: LeaseEnd) {
        self.observer.lease_ended(lease.attempt, end, self.now().saturating_duration_since(lease.since));
    }

    /// The same for a caller that does not wait for the answers. The next lock hears that of the
    /// queue node.
    pub(crate) fn leave_unheard(&self, lease: &ActiveLease, end: LeaseEnd) -> UnlockOutcome {
        let (left, replies) = self.leave(lease, end);
        lease.queue_node().hear_later(self, &lease.resources, replies);
        left
    }

    /// Ends every lease, and lets nothing new begin.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let leases: Vec<_> = lock(&self.leases).values().cloned().collect();
        for lease in leases {
            self.lose(&lease, LossReason::Shutdown);
        }
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
        let mut addresses: Vec<_> = self.nodes.iter().map(|node| Arc::clone(node.address())).collect();
        addresses.sort_unstable();
        (self.settings.parameters.fingerprint.clone(), addresses)
    }

    /// The nodes in the order in which they are the queue node of a resource.
    pub(crate) fn queue_nodes(&self, resource: &Resource) -> Vec<usize> {
        queue_node::order(resource.as_bytes(), self.nodes.iter().map(|node| &**node.address()))
    }

    /// In the queue of which of these resources others are known to be, or may be.
    pub(crate) async fn awaited_resource(&self, resources: &Resources) -> Option<usize> {
        self.queues.of(&*self.clock, self.settings.parameters.hand_over, resources).await
    }

    /// How to ask for a resource of which nobody else is known to want it.
    pub(crate) fn first_contact(&self, resource: &Resource) -> Plan {
        Plan::First(self.queue_nodes(resource).first().copied().unwrap_or_default())
    }

    /// Votes in the order of the nodes, with their addresses.
    pub(crate) fn votes(&self, votes: impl IntoIterator<Item = Vote>) -> Votes {
        Votes::new(self.nodes.iter().map(|node| Arc::clone(node.address())).zip(votes).collect())
    }

    /// The votes when nobody was asked.
    pub(crate) fn no_votes(&self) -> Votes {
        self.votes(self.nodes.iter().map(|_| Vote::NotAsked))
    }

    /// No earlier than this, everything of a lease that a node may have is over.
    pub(crate) fn must_deliver_until(&self) -> Instant {
        self.now() + self.settings.max_ttl
    }

    fn unlock_everywhere(&self, lease: &ActiveLease) -> Vec<(usize, Reply)> {
        lock(&self.leases).remove(&lease.id);
        self.renewals.remove(lease.id);
        self.expiries.remove(lease.id);
        lease.submit_unlock(&self.nodes, self.must_deliver_until())
    }
}
