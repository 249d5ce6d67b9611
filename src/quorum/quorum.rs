//! A client of a quorum.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{ConfigError, Error},
    lock::{Inspection, MultiLock, RedLock, RwLock, client::Client, inspection, lock_request::LockRequest},
    node::{memory::MemoryCluster, names},
    quorum::{
        QuorumBuilder, ShutdownReport,
        shutdown::{self, GRACE},
    },
    values::{InvalidResource, Resource},
};

/// A client of a quorum of independent nodes. Cheap to clone; all clones share its connections and tasks.
///
/// A client works on the tokio runtime that it was connected on. Its tasks end after the last clone, lock, guard, lease
/// and stream of leaders is gone and what had to be delivered to the nodes has been confirmed or is past its time.
#[derive(Clone, Debug)]
pub struct Quorum {
    client: Arc<Client>,
}

impl Quorum {
    /// Settings for a quorum, to be completed with its nodes.
    pub fn builder() -> QuorumBuilder {
        QuorumBuilder::new()
    }

    /// A quorum of in-memory nodes of its own, for tests, examples and first steps. Time is
    /// tokio's, so that a test may pause it.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if `nodes` is 0 or more than 64, or if there is no tokio runtime.
    pub fn in_memory(nodes: usize) -> Result<Self, Error> {
        Self::builder().connect_in_memory(&MemoryCluster::new(nodes))
    }

    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client }
    }

    /// The lock of one resource, with the quorum's settings; nothing is sent yet.
    ///
    /// A resource that cannot be one is an error of the first use.
    pub fn red_lock(&self, resource: impl AsRef<[u8]>) -> RedLock {
        RedLock::new(Arc::clone(&self.client), Resource::new(resource).map_err(ConfigError::from))
    }

    /// The lock of one resource that has many readers or one writer, with the quorum's settings;
    /// nothing is sent yet.
    ///
    /// A resource that cannot be one is an error of the first use.
    pub fn rw_lock(&self, resource: impl AsRef<[u8]>) -> RwLock {
        RwLock::new(Arc::clone(&self.client), Resource::new(resource).map_err(ConfigError::from))
    }

    /// The lock of several resources, all or none, with the quorum's settings; nothing is sent yet.
    ///
    /// Their order does not matter. An empty group, one of more than 1,000 resources, or one with a
    /// resource twice is an error of the first use.
    pub fn multi_lock<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> MultiLock {
        MultiLock::new(Arc::clone(&self.client), resources)
    }

    /// Asks every node which lease holds a resource, and reports the view of the quorum with the answer of each node.
    ///
    /// It was true when the nodes answered, and may be out of date on return. To act on it, take the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// let guard = quorum.red_lock("report").lock().await?;
    /// let inspection = quorum.inspect("report").await?;
    /// assert_eq!((inspection.holder(), inspection.holds()), (Some(guard.id()), 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if fewer nodes than a quorum answered within a node timeout: a node that does not answer is
    /// never taken for one where the resource is free. [`Error::Config`] if the name cannot be one; [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn inspect(&self, resource: impl AsRef<[u8]>) -> Result<Inspection, Error> {
        let request = self.request(resource);
        inspection::inspect(request.context(), &request.checked_to_read()?).await
    }

    /// A request for one resource, with the settings of the quorum. A reserved name is accepted if it is that of a
    /// lock, such as the slot of a semaphore.
    pub(super) fn request(&self, resource: impl AsRef<[u8]>) -> LockRequest {
        let resource = resource.as_ref();
        let checked = match Resource::new(resource) {
            Err(InvalidResource::Reserved { .. }) if names::is_lock(resource) => {
                Ok(Resource::internal(resource))
            }
            checked => checked,
        };
        let resources = checked.map(|resource| [resource].into()).map_err(ConfigError::from);
        LockRequest::new(Arc::clone(&self.client), resources)
    }

    /// Ends every lease of this client, lets nothing new begin, and waits for the nodes to confirm
    /// it, as [`shutdown_within`](Self::shutdown_within) does with a grace of three seconds.
    ///
    /// # Cancel safety
    ///
    /// As [`shutdown_within`](Self::shutdown_within).
    pub async fn shutdown(&self) -> ShutdownReport {
        self.shutdown_within(GRACE).await
    }

    /// Ends every lease of this client, lets nothing new begin, and says which nodes have not
    /// confirmed it.
    ///
    /// Guards that are alive lose their lease; calls that wait end with
    /// [`Error::Closed`]. Attempts under way are taken back, and waited
    /// for as long as nobody polls or drops them, at most an attempt timeout.
    ///
    /// It returns at once when every unlock is confirmed. Nodes that do not answer are waited for
    /// until `grace` is over, counted from the call; beyond that, only while a lease may keep
    /// others from its resource because no quorum is free of it. Such a lease is over by its own
    /// ttl, a node timeout after its last renewal.
    ///
    /// What is open then goes on in the background as long as the runtime runs, for `max_ttl` at
    /// most.
    ///
    /// # Cancel safety
    ///
    /// The leases end at the first poll; dropped later, the unlocks go on in the background.
    pub async fn shutdown_within(&self, grace: Duration) -> ShutdownReport {
        shutdown::shutdown(&self.client, grace).await
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}
