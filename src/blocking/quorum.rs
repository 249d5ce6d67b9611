//! A client of a quorum, for threads.

use crate::{
    MemoryCluster,
    blocking::{MultiLock, QuorumBuilder, RedLock, runtime::Runtime},
    error::ConnectError,
};

/// A client of a quorum of independent nodes, with a thread of its own; see [`crate::Quorum`]. Cheap to clone; all clones
/// share its thread and connections.
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
    /// Their order does not matter. An empty group, or one with a resource twice, is an error of the first use.
    pub fn multi_lock<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> MultiLock {
        MultiLock::of_one(self.quorum.multi_lock(resources), self.runtime.clone())
    }

    /// Ends every lease of this client, lets nothing new begin, waits for attempts under way to be taken back (at most
    /// an attempt timeout), and returns when every unlock that is owed has been confirmed or is past its time (at most
    /// `max_ttl`); see [`crate::Quorum::shutdown`].
    ///
    /// Guards that are alive lose their lease; calls of other threads that wait end with
    /// [`Closed`](crate::LockError::Closed). A program that ends without it may leave locks to their ttl.
    pub fn shutdown(&self) {
        self.runtime.wait(self.quorum.shutdown());
    }

    pub(super) fn parts(&self) -> (&crate::Quorum, &Runtime) {
        (&self.quorum, &self.runtime)
    }
}
