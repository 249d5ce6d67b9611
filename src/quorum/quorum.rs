//! The client of a quorum.

use std::{sync::Arc, time::Duration};

use crate::{
    config::LockOptions,
    error::{ConfigError, Error},
    lock::{
        Inspection, LockGuard, MultiLock, RedLock, RwLock, client::Client, inspection,
        lock_request::LockRequest, ticket,
    },
    node::{memory::MemoryCluster, names},
    process::Forked,
    quorum::{
        QuorumBuilder, ShutdownReport,
        shutdown::{self, GRACE},
    },
    values::{InvalidResource, NodeReplies, Resource, Ticket},
};

/// A client of a quorum of independent nodes. The client is cheap to clone, and all clones share connections and tasks.
///
/// The client uses the tokio runtime on which it was connected. The tasks of the client end when the last clone, lock,
/// guard, lease and stream of leaders is dropped, and every unlock is confirmed or has expired.
#[derive(Clone, Debug)]
pub struct Quorum {
    client: Arc<Client>,
}

impl Quorum {
    /// Returns a builder with the default settings and without nodes.
    pub fn builder() -> QuorumBuilder {
        QuorumBuilder::new()
    }

    /// Returns a client with its own in-memory nodes, for tests, examples and first steps. The client uses the time of
    /// tokio, so a test may pause it.
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

    /// Returns the lock of one resource, with the settings of the quorum. The call sends no request.
    ///
    /// If the resource is invalid, the first use of the lock returns an error.
    pub fn red_lock(&self, resource: impl AsRef<[u8]>) -> RedLock {
        RedLock::new(Arc::clone(&self.client), Resource::new(resource).map_err(ConfigError::from))
    }

    /// Returns the lock of one resource with many readers or one writer, with the settings of the quorum. The call
    /// sends no request.
    ///
    /// If the resource is invalid, the first use of the lock returns an error.
    pub fn rw_lock(&self, resource: impl AsRef<[u8]>) -> RwLock {
        RwLock::new(Arc::clone(&self.client), Resource::new(resource).map_err(ConfigError::from))
    }

    /// Returns the lock of several resources, all or none, with the settings of the quorum. The call sends no request.
    ///
    /// The order of the resources does not matter. If the group is empty, has more than 1,000 resources or names a
    /// resource twice, the first use of the lock returns an error.
    pub fn multi_lock<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> MultiLock {
        MultiLock::new(Arc::clone(&self.client), resources)
    }

    /// Inspects a resource at every node. Returns the state that a quorum of answers shows, and the answer of each
    /// node.
    ///
    /// The state was true when the nodes answered, and may be out of date on return. Lock the resource before an action
    /// that depends on the state.
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
    /// [`Error::NoQuorum`] if fewer nodes than a quorum answered within a node timeout, because the resource may be
    /// held at a node that did not answer. [`Error::Config`] if the name is invalid; [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the nodes.
    pub async fn inspect(&self, resource: impl AsRef<[u8]>) -> Result<Inspection, Error> {
        let request = self.request(resource);
        let context = request.context();
        context.in_process(async { inspection::inspect(context, &request.checked_to_read()?).await }).await
    }

    /// Returns a request for one resource, with the settings of the quorum. A reserved name is accepted if it names a
    /// lock, such as a slot of a semaphore.
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

    /// Redeems a ticket: this client holds the resources of the ticket, and no other client can have held them since the
    /// lease that became the ticket. Returns `None` if the ticket is spent: another client has redeemed or released the
    /// ticket, or does so now, or its time is over. Of all redemptions of a ticket, at most one succeeds.
    ///
    /// The options are those of the new lease, as for a lock call. The call takes two round trips. It makes no wait: a
    /// resource of a spent ticket is locked by a lock call.
    ///
    /// # Errors
    ///
    /// * [`Error::NoQuorum`] if too few nodes answered. The ticket may still be good: redeem again.
    /// * [`Error::Config`] if the options are invalid, and [`Error::Closed`], as for a lock call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future rolls the redemption back. The ticket may be spent, and its resources are then free, at the
    /// latest at the end of the ticket's ttl.
    pub async fn redeem(&self, ticket: &Ticket, options: LockOptions) -> Result<Option<LockGuard>, Error> {
        self.client.context.in_process(ticket::redeem(&self.client, ticket, options)).await
    }

    /// Releases a ticket: unlocks its resources on all nodes, and waits for the confirmation of a quorum for at most a
    /// node timeout. The ticket is spent from then on. A lease that has redeemed the ticket continues.
    ///
    /// The replies show the nodes that have confirmed. The release continues in the background on the other nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] (`ReadOnly`) for a read-only client; [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// The release is submitted to the nodes before the first `await`.
    pub async fn release(&self, ticket: &Ticket) -> Result<NodeReplies, Error> {
        self.client.context.in_process(ticket::release(&self.client, ticket)).await
    }

    /// Shuts the client down, as [`shutdown_within`](Self::shutdown_within) with a grace of three seconds.
    ///
    /// # Cancel safety
    ///
    /// As [`shutdown_within`](Self::shutdown_within).
    pub async fn shutdown(&self) -> ShutdownReport {
        self.shutdown_within(GRACE).await
    }

    /// Shuts the client down: ends every lease, refuses new calls, and returns the nodes that have not confirmed every
    /// unlock.
    ///
    /// Guards lose their lease, and waiting calls return [`Error::Closed`]. Attempts in flight are rolled back. If the
    /// future of an attempt is neither polled nor dropped, the shutdown waits for the rollback of that attempt for at
    /// most an attempt timeout.
    ///
    /// The call returns when every unlock is confirmed, or at the end of `grace`, counted from the call. The call waits
    /// longer only while a lease may block its resource, because no quorum of nodes has confirmed the unlock. The keys
    /// of such a lease expire at the latest a ttl and an attempt timeout after the grant, or a ttl and a quarter of a
    /// ttl (or a node timeout, if that is longer) after the last renewal. If a node has answered the last renewal, its
    /// keys expire a ttl after the answer.
    ///
    /// The client sends unconfirmed unlocks again in the background while the runtime runs, for at most `max_ttl`. If
    /// the runtime has ended, the report names the resources whose leases ended with the runtime, for every node.
    ///
    /// In a forked copy of the process, the call returns an empty report at once: the leases and their unlocks belong
    /// to the original process.
    ///
    /// # Cancel safety
    ///
    /// The leases end at the first poll. If the future is dropped after that, the unlocks continue in the background.
    pub async fn shutdown_within(&self, grace: Duration) -> ShutdownReport {
        let report = self.client.context.unless_forked(shutdown::shutdown(&self.client, grace)).await;
        report.unwrap_or_else(|Forked| ShutdownReport::of_forked_process())
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}
