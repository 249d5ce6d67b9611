//! A client of a quorum, for threads.

use std::time::Duration;

use crate::{
    MemoryCluster, Shutdown,
    blocking::{Election, MultiLock, QuorumBuilder, RedLock, runtime::Runtime},
    error::ConnectError,
};

/// A client of a quorum of independent nodes, with a thread of its own; see [`crate::Quorum`].
/// Cheap to clone; all clones share its thread and connections.
#[derive(Clone, Debug)]
pub struct Quorum {
    quorum: crate::Quorum,
    runtime: Runtime,
}

impl Quorum {
    /// Settings for a quorum, to be completed with its nodes.
    pub fn builder() -> QuorumBuilder {
        QuorumBuilder::new()
    }

    /// A quorum of in-memory nodes of its own, for tests, examples and first steps; see
    /// [`QuorumBuilder::in_memory`] for their time.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if `nodes` is 0 or more than 64, or if no thread can be started.
    pub fn in_memory(nodes: usize) -> Result<Self, ConnectError> {
        Self::builder().in_memory(&MemoryCluster::new(nodes))
    }

    /// What a runtime serves from now on.
    pub(super) fn on(runtime: Runtime, quorum: crate::Quorum) -> Self {
        runtime.serve(quorum.clone());
        Self { quorum, runtime }
    }

    /// The lock of one resource, with the quorum's settings; nothing is sent yet.
    ///
    /// A resource that cannot be one is an error of the first use.
    pub fn red_lock(&self, resource: impl AsRef<[u8]>) -> RedLock {
        RedLock::new(self.quorum.red_lock(resource), self.runtime.clone())
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
