//! A simulated process, as the program that runs in it sees it.

use std::{ops::Range, sync::Arc, time::Duration};

use futures::future::FutureExt;
use rand::{SeedableRng, rngs::StdRng};
use uuid::Uuid;

use crate::{
    client::surroundings::Surroundings,
    clock::Clock,
    error::{ConfigError, ConnectError, LockError, RenewError},
    lock::{Lease, LockGuard, Verification, client::Client as QuorumClient},
    node::{
        Node, QuorumParameters,
        remote::{RemoteNode, Setup},
    },
    quorum::{Quorum, QuorumBuilder, builder::setup},
    sim::{
        history::{Attempt, Event},
        rng::{Purpose, hash_of, part},
        store::Store,
        world::{ProcessSpawner, Recorder, SimClock, SimTransport, World},
    },
    spawner::Spawner,
    values::{Label, Resource},
};

/// A simulated process, as the program that runs in it sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    world: World,
    index: usize,
    nodes: Range<usize>,
    seed: u64,
}

impl Client {
    pub(crate) fn new(world: &World, index: usize, nodes: usize, seed: u64) -> Self {
        Self { world: world.clone(), index, nodes: 0..nodes, seed }
    }

    /// Which process this is, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// A client of all nodes, with the default settings. For other settings there is
    /// [`QuorumBuilder::simulated`](crate::QuorumBuilder::simulated).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the simulation has no nodes, or too many.
    pub fn quorum(&self) -> Result<Quorum, ConnectError> {
        Quorum::builder().simulated(self)
    }

    /// The same process, with only these nodes in sight: for several quorums in one simulation.
    #[must_use]
    pub fn with_nodes(&self, nodes: Range<usize>) -> Self {
        let last = self.nodes.end;
        Self { nodes: nodes.start.min(last)..nodes.end.min(last), ..self.clone() }
    }

    /// Sleeps, by the clock of this process.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends the sleep.
    pub async fn sleep(&self, duration: Duration) {
        let clock = self.clock();
        clock.sleep_until(clock.now() + duration).await;
    }

    /// Runs something beside the program, as part of the same process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.spawner().spawn(task.boxed()));
    }

    /// A number that follows from the seed of the run, this process and `purpose`.
    #[must_use]
    pub fn random(&self, purpose: u64) -> u64 {
        hash_of(self.seed, Purpose::Program, [part(self.index), purpose])
    }

    /// The fenced store of this name, which all processes share.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Resource`] if the name is not one of a resource.
    pub fn store(&self, name: impl AsRef<[u8]>) -> Result<Store, ConfigError> {
        Ok(Store::new(self.clone(), Resource::new(name)?))
    }

    /// Asks the guard whether its lease is valid, and notes the answer: a lie about that breaks
    /// [`Promise::Honesty`](super::Promise::Honesty).
    #[must_use]
    pub fn look(&self, guard: &LockGuard) -> bool {
        self.look_at(&guard.lease())
    }

    /// As [`look`](Self::look), of whatever has the lease, such as a
    /// [`Leadership`](crate::Leadership).
    #[must_use]
    pub fn look_at(&self, lease: &Lease) -> bool {
        let is_valid = lease.is_valid();
        self.note(Event::Looked { attempt: lease.attempt(), is_valid });
        is_valid
    }

    /// Waits until the guard announces the loss of its lease, and notes when: too late breaks
    /// [`Promise::Honesty`](super::Promise::Honesty). A loss before the call is not noted.
    ///
    /// # Cancel safety
    ///
    /// It only watches.
    pub async fn lost(&self, guard: &LockGuard) {
        self.loss_of(&guard.lease()).await;
    }

    /// As [`lost`](Self::lost), of whatever has the lease, such as a
    /// [`Leadership`](crate::Leadership).
    ///
    /// # Cancel safety
    ///
    /// It only watches.
    pub async fn loss_of(&self, lease: &Lease) {
        let is_in_time = lease.is_valid();
        drop(lease.lost().await);
        if is_in_time {
            self.world.lock().announce(self.index, lease.attempt());
        }
    }

    /// Notes that an owner entered the lease of `outer` again, and was given `inner`: another token
    /// breaks [`Promise::Reentry`](super::Promise::Reentry).
    pub fn reentered(&self, outer: &LockGuard, inner: &LockGuard) {
        self.note(Event::Reentered { attempt: outer.lease().attempt(), token: inner.fencing_token() });
    }

    /// Downgrades the lease, and notes that it was this one: another that wrote between breaks
    /// [`Promise::Exclusion`](super::Promise::Exclusion).
    ///
    /// # Errors
    ///
    /// As [`LockGuard::downgrade`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::downgrade`].
    pub async fn downgrade(&self, guard: LockGuard) -> Result<LockGuard, LockError> {
        let from = guard.lease().attempt();
        let guard = guard.downgrade().await?;
        let attempt = guard.lease().attempt();
        if attempt != from {
            self.note(Event::Downgraded { attempt, from });
        }
        Ok(guard)
    }

    /// Verifies the lease, and notes what was proven: a later lease that was granted before breaks
    /// [`Promise::Proof`](super::Promise::Proof).
    ///
    /// # Errors
    ///
    /// As [`LockGuard::verify`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::verify`].
    pub async fn verify(&self, guard: &LockGuard) -> Result<Verification, RenewError> {
        let attempt = guard.lease().attempt();
        self.note(Event::Verifying { attempt });
        let verification = guard.verify().await;
        if let Ok(Verification::Proven) = verification {
            self.note(Event::Proven { attempt });
        }
        verification
    }

    /// Notes something in the history of the run.
    pub fn note(&self, event: Event) {
        self.world.lock().note(self.index, event);
    }

    pub(crate) fn nodes(&self) -> Range<usize> {
        self.nodes.clone()
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn clock(&self) -> SimClock {
        SimClock { world: self.world.clone(), client: self.index }
    }

    pub(crate) fn spawner(&self) -> ProcessSpawner {
        ProcessSpawner { world: self.world.clone(), client: self.index }
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        // Every client of a process has an identity of its own.
        let number = self.world.lock().next_client(self.index);
        let id = |half: u64| hash_of(self.seed, Purpose::Identity, [part(self.index), number, half]);
        Surroundings {
            clock: Arc::new(self.clock()),
            spawner: Arc::new(self.spawner()),
            observer: Arc::new(Recorder { world: self.world.clone(), client: self.index }),
            client: Uuid::from_u64_pair(id(0), id(1)),
            label: Label::default(),
            random: StdRng::seed_from_u64(id(2)),
        }
    }

    /// This process's ways to its nodes.
    pub(crate) fn connect(&self, parameters: &QuorumParameters, setup: &Setup) -> Vec<Arc<dyn Node>> {
        let to = |node: usize| {
            let (world, client, parameters) = (self.world.clone(), self.index, parameters.clone());
            let transport = Arc::new(SimTransport { world, client, node, parameters });
            Arc::new(RemoteNode::new(format!("sim:{node}").into(), transport, setup)) as Arc<dyn Node>
        };
        self.nodes().map(to).collect()
    }
}

impl QuorumBuilder {
    /// A client of a simulation's nodes, as one of its processes; urls are not looked at. It runs
    /// by that process's clock, and is paused and killed with it. Returns at once; the connections
    /// are made while time passes.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the settings cannot work.
    pub fn simulated(self, client: &Client) -> Result<Quorum, ConnectError> {
        let settings = self.settings.check(client.nodes().len())?;
        let surroundings = client.surroundings();
        let setup = setup(&settings, &surroundings, settings.registration());
        let nodes = client.connect(&settings.parameters, &setup);
        Ok(Quorum::new(QuorumClient::start(nodes, settings, surroundings)))
    }
}

impl Lease {
    /// As the history calls it.
    fn attempt(&self) -> Attempt {
        Attempt::new(self.active.attempt)
    }
}
