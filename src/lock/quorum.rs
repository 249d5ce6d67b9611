//! A client of a quorum.

use std::{pin::pin, sync::Arc};

use futures::future::{join_all, select};

use crate::{
    error::ConnectError,
    lock::{MultiLock, QuorumBuilder, RedLock, core::Client},
    node::memory::MemoryCluster,
    resource::Resource,
};

/// A client of a quorum of independent nodes. Cheap to clone; all clones share its connections and tasks.
///
/// It works on the tokio runtime that it was built on. When the last clone, lock and guard is gone, its tasks end.
#[derive(Clone, Debug)]
pub struct Quorum {
    client: Arc<Client>,
}

impl Quorum {
    /// Settings for a quorum, to be completed with its nodes.
    pub fn builder() -> QuorumBuilder {
        QuorumBuilder::new()
    }

    /// A quorum of in-memory nodes of its own, for tests, examples and first steps. Time is tokio's, so that a test may
    /// pause it.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Config`] if `nodes` is 0 or more than 64, or if there is no tokio runtime.
    pub fn in_memory(nodes: usize) -> Result<Self, ConnectError> {
        Self::builder().in_memory(&MemoryCluster::new(nodes))
    }

    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client }
    }

    /// The lock of one resource, with the quorum's settings; nothing is sent yet.
    ///
    /// A resource that cannot be one is an error of the first use.
    pub fn red_lock(&self, resource: impl AsRef<[u8]>) -> RedLock {
        RedLock::new(Arc::clone(&self.client), Resource::new(resource))
    }

    /// The lock of several resources, all or none, with the quorum's settings; nothing is sent yet.
    ///
    /// Their order does not matter. An empty group, or one with a resource twice, is an error of the first use.
    pub fn multi_lock<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> MultiLock {
        MultiLock::of_one(&self.client, resources)
    }

    /// Ends every lease of this client, lets nothing new begin, waits for attempts under way to be taken back (at most
    /// an attempt timeout), and returns when every unlock that is owed has been confirmed or is past its time (at most
    /// `max_ttl`).
    ///
    /// Guards that are alive lose their lease; calls that wait end with [`Closed`](crate::LockError::Closed).
    ///
    /// # Cancel safety
    ///
    /// The leases end at the first poll; dropped later, the unlocks go on in the background.
    pub async fn shutdown(&self) {
        let core = &self.client.core;
        core.close();
        // What is under way has something to take back, and closed nodes would not listen. Calls that wait end by
        // themselves, if somebody polls them; no attempt is older than this.
        let patience = core.clock.sleep_until(core.now() + core.settings.attempt_timeout);
        select(pin!(core.attempts.none()), patience).await;
        join_all(core.nodes.iter().map(|node| node.close())).await;
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}
