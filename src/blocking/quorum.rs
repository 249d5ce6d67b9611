//! A client of a quorum, for threads.

use std::time::Duration;

use crate::{
    MemoryCluster, QuorumBuilder, Shutdown,
    blocking::{AnyOf, Election, Latch, MultiLock, RedLock, RwLock, Semaphore, runtime::Runtime},
    error::{AdmissionError, ConnectError, ListError},
    quorum::{Health, Initialized, Listing, LockName},
};

/// A client of a quorum of independent nodes, with a thread of its own; see [`crate::Quorum`].
/// Cheap to clone; all clones share its thread and connections.
#[derive(Clone, Debug)]
pub struct Quorum {
    quorum: crate::Quorum,
    runtime: Runtime,
}

impl Quorum {
    /// Starts the quorum's thread, connects to the nodes of this builder, and returns once a quorum
    /// of them has answered; see [`QuorumBuilder::connect`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redquorum::blocking::Quorum;
    ///
    /// let quorum = Quorum::connect(redquorum::Quorum::builder().nodes_from_env()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`QuorumBuilder::connect`];
    /// [`ConfigError::NoThread`](crate::error::ConfigError::NoThread) beside.
    pub fn connect(builder: QuorumBuilder) -> Result<Self, ConnectError> {
        let runtime = Runtime::start()?;
        let quorum = runtime.wait(builder.connect())?;
        Ok(Self::on(runtime, quorum))
    }

    /// A quorum of in-memory nodes of its own, for tests, examples and first steps; see
    /// [`connect_in_memory`](Self::connect_in_memory) for their time.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if `nodes` is 0 or more than 64, or if no thread can be started.
    pub fn in_memory(nodes: usize) -> Result<Self, ConnectError> {
        Self::connect_in_memory(crate::Quorum::builder(), &MemoryCluster::new(nodes))
    }

    /// A client of in-memory nodes, with the settings of this builder; its urls are not looked at.
    ///
    /// The nodes may be shared with clients of the async API. Time is real time: in a tokio runtime
    /// whose time is paused, use the async API.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if the settings cannot work, or no thread can be started.
    pub fn connect_in_memory(builder: QuorumBuilder, cluster: &MemoryCluster) -> Result<Self, ConnectError> {
        let runtime = Runtime::start()?;
        let quorum = runtime.look(|| builder.in_memory(cluster))?;
        Ok(Self::on(runtime, quorum))
    }

    /// Makes a new quorum of the nodes of this builder: an administrator's act, once; see
    /// [`QuorumBuilder::init`].
    ///
    /// # Errors
    ///
    /// As [`QuorumBuilder::init`]; [`ConfigError::NoThread`](crate::error::ConfigError::NoThread)
    /// beside.
    pub fn init(builder: QuorumBuilder) -> Result<(), AdmissionError> {
        Runtime::start()?.wait(builder.init())
    }

    /// As [`init`](Self::init), but nothing is wrong with nodes that are this quorum already; not
    /// for the start of every service, see [`QuorumBuilder::init_if_needed`].
    ///
    /// # Errors
    ///
    /// As [`QuorumBuilder::init_if_needed`];
    /// [`ConfigError::NoThread`](crate::error::ConfigError::NoThread) beside.
    pub fn init_if_needed(builder: QuorumBuilder) -> Result<Initialized, AdmissionError> {
        Runtime::start()?.wait(builder.init_if_needed())
    }

    /// Moves a quorum from the nodes and settings of `old` to those of `new`; see
    /// [`QuorumBuilder::reconfigure`]. It takes a longest ttl.
    ///
    /// # Errors
    ///
    /// As [`QuorumBuilder::reconfigure`];
    /// [`ConfigError::NoThread`](crate::error::ConfigError::NoThread) beside.
    pub fn reconfigure(old: QuorumBuilder, new: QuorumBuilder) -> Result<(), AdmissionError> {
        Runtime::start()?.wait(new.reconfigure(old))
    }

    /// What a runtime serves from now on.
    fn on(runtime: Runtime, quorum: crate::Quorum) -> Self {
        runtime.serve(quorum.clone());
        Self { quorum, runtime }
    }

    /// The lock of one resource, with the quorum's settings; nothing is sent yet.
    ///
    /// A resource that cannot be one is an error of the first use.
    pub fn red_lock(&self, resource: impl AsRef<[u8]>) -> RedLock {
        RedLock::new(self.quorum.red_lock(resource), self.runtime.clone())
    }

    /// The lock of one resource that has many readers or one writer, with the quorum's settings;
    /// nothing is sent yet.
    ///
    /// A resource that cannot be one is an error of the first use.
    pub fn rw_lock(&self, resource: impl AsRef<[u8]>) -> RwLock {
        RwLock::new(self.red_lock(resource))
    }

    /// A semaphore with so many permits (1 to 1,024), with the quorum's settings; nothing is sent yet.
    ///
    /// A name or a number that cannot be is an error of the first use.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore::new(self.quorum.semaphore(name, permits), self.runtime.clone())
    }

    /// A latch that so many arrivals open (1 to 1,024), with the quorum's settings; nothing is sent
    /// yet.
    ///
    /// A name or a count that cannot be is an error of the first use.
    pub fn latch(&self, name: impl AsRef<[u8]>, count: u32) -> Latch {
        Latch::new(self.quorum.latch(name, count), self.runtime.clone())
    }

    /// The lock of any one of several resources, with the quorum's settings; nothing is sent yet.
    ///
    /// None, more than 64, or one of them twice is an error of the first use.
    pub fn any_of<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> AnyOf {
        AnyOf::new(self.quorum.any_of(resources), self.runtime.clone())
    }

    /// The lock of several resources, all or none, with the quorum's settings; nothing is sent yet.
    ///
    /// Their order does not matter. An empty group, or one with a resource twice, is an error of
    /// the first use.
    pub fn multi_lock<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> MultiLock {
        MultiLock::of_one(self.quorum.multi_lock(resources), self.runtime.clone())
    }

    /// The election of this name, with the quorum's settings; see [`crate::Quorum::election`].
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election::new(self.quorum.election(name), self.runtime.clone())
    }

    /// Asks every node whether it would vote for a lock now; see [`crate::Quorum::health`].
    #[must_use]
    pub fn health(&self) -> Health {
        self.runtime.wait(self.quorum.health())
    }

    /// Asks every node what is locked there; see [`crate::Quorum::list`].
    ///
    /// # Errors
    ///
    /// As [`crate::Quorum::list`].
    pub fn list(&self, is_wanted: impl Fn(&LockName) -> bool) -> Result<Listing, ListError> {
        self.runtime.wait(self.quorum.list(is_wanted))
    }

    /// Ends every lease of this client, lets nothing new begin, and waits for the nodes to confirm
    /// it; see [`crate::Quorum::shutdown`]. Calls of other threads that wait end with
    /// [`Closed`](crate::error::LockError::Closed).
    ///
    /// A program that ends without it may leave locks to their ttl.
    #[expect(clippy::must_use_candidate, reason = "the program may end whatever is open")]
    pub fn shutdown(&self) -> Shutdown {
        self.runtime.wait(self.quorum.shutdown())
    }

    /// As [`shutdown`](Self::shutdown), with another grace for nodes that do not answer; see
    /// [`crate::Quorum::shutdown_within`].
    #[expect(clippy::must_use_candidate, reason = "the program may end whatever is open")]
    pub fn shutdown_within(&self, grace: Duration) -> Shutdown {
        self.runtime.wait(self.quorum.shutdown_within(grace))
    }
}
