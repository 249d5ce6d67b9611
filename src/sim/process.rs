//! The interface between a simulated process and its program.

use std::{ops::Range, sync::Arc, time::Duration};

use futures::future::FutureExt;
use rand::{SeedableRng, rngs::StdRng};
use uuid::Uuid;

use crate::{
    algorithm::lease::RenewalOffset,
    client::dependencies::{ClientDependencies, random_renewal_offset},
    clock::Clock,
    config::LockOptions,
    error::Error,
    lock::{Lease, LockGuard, ReadGuard, client::Client as QuorumClient},
    node::{
        Node, QuorumParameters,
        remote::{ConnectionConfig, RemoteNode},
    },
    quorum::{Quorum, QuorumBuilder, builder::connection_config},
    sim::{
        history::{AttemptId, Event},
        rng::{RandomStream, hash_of, part},
        store::Store,
        world::{ProcessSpawner, Recorder, SimClock, SimTransport, World},
    },
    spawner::Spawner,
    values::{Label, Resource, Ticket, TicketSecret},
};

/// A simulated process, as the argument of its program. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Process {
    world: World,
    index: usize,
    nodes: Arc<[usize]>,
    /// The same nodes, for the trace of a proof; `None` if their quorum has other nodes at other times.
    traced_nodes: Option<Range<usize>>,
    /// The addresses of the nodes begin with this text.
    host: &'static str,
    /// The renewal offset of the clients; `None` for an offset that follows from the seed.
    renewal_offset: Option<RenewalOffset>,
    seed: u64,
}

impl Process {
    pub(crate) fn new(world: &World, index: usize, nodes: usize, seed: u64) -> Self {
        Self {
            world: world.clone(),
            index,
            nodes: (0..nodes).collect(),
            traced_nodes: Some(0..nodes),
            host: "sim",
            renewal_offset: None,
            seed,
        }
    }

    /// Returns the index of the process, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Creates a client of all nodes, with the default settings. For other settings, use
    /// [`QuorumBuilder::connect_simulated`].
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the simulation has no nodes, or too many.
    pub fn quorum(&self) -> Result<Quorum, Error> {
        Quorum::builder().connect_simulated(self)
    }

    /// Returns the same process with access to these nodes alone, for a simulation of several quorums. Nodes
    /// beyond the last node of this process are left out.
    #[must_use]
    pub fn with_nodes(&self, nodes: Range<usize>) -> Self {
        let last = self.nodes.last().map_or(0, |last| last + 1);
        let nodes = nodes.start.min(last)..nodes.end.min(last);
        Self { nodes: nodes.clone().collect(), traced_nodes: Some(nodes), ..self.clone() }
    }

    /// Returns the same process with a list of these nodes, whose clients are not in the trace of a proof.
    #[cfg(test)]
    pub(crate) fn with_list(&self, nodes: &[usize]) -> Self {
        Self { nodes: nodes.into(), traced_nodes: None, ..self.clone() }
    }

    /// Leaves a node without metadata: its first client begins its quarantine, as on a new server of a quorum that is in
    /// use. By default, the first registration of a node finds a quorum that an administrator has made.
    #[cfg(test)]
    pub(crate) fn leave_new(&self, node: usize) {
        self.world.lock().leave_new(node);
    }

    /// Returns the same process with other addresses of the same nodes. The text takes the place of
    /// the host name.
    #[cfg(test)]
    pub(crate) fn with_host(&self, host: &'static str) -> Self {
        Self { host, ..self.clone() }
    }

    /// Returns the same process, whose clients renew a lease for the first time after a whole renewal interval. For
    /// tests with a fault of one renewal.
    #[cfg(test)]
    pub(crate) fn with_whole_renewal_intervals(&self) -> Self {
        Self { renewal_offset: Some(RenewalOffset::WHOLE), ..self.clone() }
    }

    /// Sleeps by the clock of this process.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the sleep.
    pub async fn sleep(&self, duration: Duration) {
        let clock = self.clock();
        clock.sleep_until(clock.now() + duration).await;
    }

    /// Starts a task beside the program, in the same process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.spawner().spawn(task.boxed()));
    }

    /// Returns a number that follows from the seed of the run, this process and `purpose`.
    #[must_use]
    pub fn random(&self, purpose: u64) -> u64 {
        hash_of(self.seed, RandomStream::Program, [part(self.index), purpose])
    }

    /// Returns the store of this name. All processes share the store across the network.
    #[must_use]
    pub fn store(&self, name: impl AsRef<[u8]>) -> Store {
        Store::new(self.clone(), Resource::internal(name.as_ref()))
    }

    /// Returns whether the lease is valid, and records the result. A wrong result breaks
    /// [`Promise::Honesty`](super::Promise::Honesty).
    #[must_use]
    pub fn check_valid(&self, lease: &Lease) -> bool {
        let is_valid = lease.is_valid();
        self.note(Event::Checked { attempt: lease.attempt(), is_valid });
        is_valid
    }

    /// Waits until the loss of the lease is announced, and records the time. An announcement after
    /// the end of the lease breaks [`Promise::Honesty`](super::Promise::Honesty), unless the process was
    /// paused at the end of the lease and resumes just now. If the lease is not valid at the call,
    /// nothing is recorded.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self, lease: &Lease) {
        let is_in_time = lease.is_valid();
        drop(lease.lost().await);
        if is_in_time {
            self.world.lock().announce(self.index, lease.attempt());
        }
    }

    /// Records that an owner with the lease `outer` locked again and got `inner`. If the tokens
    /// differ, [`Promise::Reentry`](super::Promise::Reentry) is broken.
    pub fn reentered(&self, outer: &Lease, inner: &Lease) {
        self.note(Event::Reentered { attempt: outer.attempt(), token: inner.fencing_token() });
    }

    /// Downgrades the lease, and records the downgrade with both leases. A write lease of another
    /// client between the two leases breaks [`Promise::Exclusion`](super::Promise::Exclusion).
    ///
    /// # Errors
    ///
    /// As [`LockGuard::downgrade`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::downgrade`].
    pub async fn downgrade(&self, guard: LockGuard) -> Result<ReadGuard, Error> {
        let from = guard.attempt();
        let guard = guard.downgrade().await?;
        let attempt = guard.attempt();
        if attempt != from {
            self.note(Event::Downgraded { attempt, from });
        }
        Ok(guard)
    }

    /// Turns the lease into a ticket, and remembers the lease for [`redeem`](Self::redeem).
    ///
    /// # Errors
    ///
    /// As [`LockGuard::into_ticket`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::into_ticket`].
    pub async fn into_ticket(&self, guard: LockGuard, ttl: Duration) -> Result<Ticket, Error> {
        let from = guard.attempt();
        let ticket = guard.into_ticket(ttl).await?;
        self.world.lock().issue(ticket.id(), from);
        Ok(ticket)
    }

    /// Redeems a ticket from [`into_ticket`](Self::into_ticket) of any process, and records the redemption with the
    /// lease that became the ticket. A write lease of another client between the two leases breaks
    /// [`Promise::Exclusion`](super::Promise::Exclusion). The redemption of any other ticket is not recorded.
    ///
    /// # Errors
    ///
    /// As [`Quorum::redeem`].
    ///
    /// # Cancel safety
    ///
    /// As [`Quorum::redeem`].
    pub async fn redeem(
        &self,
        quorum: &Quorum,
        ticket: &Ticket,
        options: LockOptions,
    ) -> Result<Option<LockGuard>, Error> {
        let redeemed = quorum.redeem(ticket, options).await?;
        if let Some(guard) = &redeemed {
            let (mut world, attempt) = (self.world.lock(), guard.attempt());
            if let Some(from) = world.giver(&ticket.id()) {
                world.note(self.index, Event::Redeemed { attempt, from });
            }
        }
        Ok(redeemed)
    }

    /// Verifies the lease, and records the outcome. If a later lease was granted before the
    /// verification began, a proof breaks [`Promise::Proof`](super::Promise::Proof).
    ///
    /// # Errors
    ///
    /// As [`Lease::verify`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lease::verify`].
    pub async fn verify(&self, lease: &Lease) -> Result<bool, Error> {
        let attempt = lease.attempt();
        self.note(Event::Verifying { attempt });
        let is_proven = lease.verify().await?;
        if is_proven {
            self.note(Event::Proven { attempt });
        }
        Ok(is_proven)
    }

    /// Records an event in the history of the run.
    pub fn note(&self, event: Event) {
        self.world.lock().note(self.index, event);
    }

    pub(crate) fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn clock(&self) -> SimClock {
        SimClock { world: self.world.clone(), process: self.index }
    }

    pub(crate) fn spawner(&self) -> ProcessSpawner {
        ProcessSpawner { world: self.world.clone(), process: self.index }
    }

    pub(crate) fn dependencies(&self) -> ClientDependencies {
        // Each client of a process has its own identity.
        let number = self.world.lock().next_client(self.index);
        let id = |half: u64| hash_of(self.seed, RandomStream::Identity, [part(self.index), number, half]);
        ClientDependencies {
            clock: Arc::new(self.clock()),
            spawner: Arc::new(self.spawner()),
            observer: Arc::new(Recorder {
                world: self.world.clone(),
                process: self.index,
                nodes: self.traced_nodes.clone(),
            }),
            client_id: Uuid::from_u64_pair(id(0), id(1)),
            ticket_secret: TicketSecret::new(Uuid::from_u64_pair(id(1), id(0))),
            label: Label::default(),
            rng: StdRng::seed_from_u64(id(2)),
            renewal_offset: self.renewal_offset.unwrap_or_else(|| random_renewal_offset(id(3))),
        }
    }

    /// Creates the connections of this process to its nodes.
    pub(crate) fn connect(
        &self,
        parameters: &QuorumParameters,
        connection_config: &ConnectionConfig,
    ) -> Vec<Arc<dyn Node>> {
        let to = |node: &usize| {
            let node = *node;
            let (world, process, parameters) = (self.world.clone(), self.index, parameters.clone());
            let transport = Arc::new(SimTransport { world, process, node, parameters });
            Arc::new(RemoteNode::new(format!("{}:{node}", self.host).into(), transport, connection_config))
                as Arc<dyn Node>
        };
        self.nodes().iter().map(to).collect()
    }
}

impl QuorumBuilder {
    /// Creates a client in a simulated process, with these settings. The client uses the simulated
    /// nodes and ignores urls. The client uses the clock of the process, and is paused and killed with the
    /// process. Returns at once; the connections are opened later, in simulated time.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the settings cannot work.
    pub fn connect_simulated(self, process: &Process) -> Result<Quorum, Error> {
        let settings = self.settings.check(process.nodes().len())?;
        if let Some(nodes) = &process.traced_nodes {
            process.world().lock().trace_quorum(nodes, &settings);
        }
        let dependencies = process.dependencies();
        let connection_config = connection_config(&settings, &dependencies, settings.registration());
        let nodes = process.connect(&settings.parameters, &connection_config);
        Ok(Quorum::new(QuorumClient::start(nodes, settings, dependencies)))
    }

    /// Creates the client of an administrator in a simulated process, which registers with no node.
    #[cfg(test)]
    pub(crate) fn administer_simulated(self, process: &Process) -> Arc<QuorumClient> {
        let settings = self.settings.check(process.nodes().len()).unwrap();
        let dependencies = process.dependencies();
        let connection_config = connection_config(&settings, &dependencies, None);
        let nodes = process.connect(&settings.parameters, &connection_config);
        QuorumClient::start(nodes, settings, dependencies)
    }
}

impl Lease {
    /// Returns the attempt of the lease, as the history identifies it.
    fn attempt(&self) -> AttemptId {
        AttemptId::new(self.active.terms.attempt)
    }
}
