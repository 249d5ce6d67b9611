//! The lock of several resources of one quorum, all or none.

use std::{sync::Arc, time::Duration};

use crate::{
    config::LockOptions,
    error::{ConfigError, Error, group_of_none, group_too_large, resource_twice},
    lock::{
        client::Client,
        guard::LockGuard,
        lock_request::{LockRequest, ReentryMode},
        multi_quorum::MultiQuorumLock,
        owner::Owner,
        red_lock::RedLock,
    },
    node::{Resources, request::MAX_GROUP_SIZE},
    values::Resource,
};

/// The lock of several resources of one quorum, all or none: one lease, one token.
///
/// One request to each node locks all resources together. Therefore the order of the resources does not matter, and
/// groups of one quorum cannot wait for each other in a circle. A group waits until all of its resources are free at
/// once. Therefore a steady load of locks on single resources of the group can delay the group without an end. A group
/// has at most 1,000 resources, because each node locks all of them in one step, in which the node serves no other
/// client.
///
/// [`MultiLock::across`] locks resources of several quorums.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let accounts = quorum.multi_lock(["account:1", "account:2"]).and_read(["rates"]);
/// let guard = accounts.lock().await?;
/// println!("one token for all: {}", guard.fencing_token());
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is locked"]
pub struct MultiLock {
    request: LockRequest,
    /// The resources in the order in which the caller named them, and whether each is shared.
    named: Result<Vec<(Resource, bool)>, ConfigError>,
}

impl MultiLock {
    pub(crate) fn new<R: AsRef<[u8]>>(client: Arc<Client>, resources: impl IntoIterator<Item = R>) -> Self {
        let is_shared = false;
        Self::of_request(LockRequest::new(client, Err(group_of_none())), Ok(Vec::new()))
            .and(resources, is_shared)
    }

    fn of_request(request: LockRequest, named: Result<Vec<(Resource, bool)>, ConfigError>) -> Self {
        let resources = named.clone().and_then(sorted);
        Self { request: LockRequest { resources, ..request }, named }
    }

    /// Combines locks on any number of quorums into one lock: one lease and one token for each quorum, all or none.
    ///
    /// The quorums are locked one after the other, in an order that all clients share: by their
    /// [names](crate::QuorumBuilder::name) and the addresses of their nodes. If each quorum has a name of its own, and
    /// all clients spell the addresses alike, no groups wait for each other in a circle. The locks of one client form
    /// one group with one lease, and must have the same options and the same owner.
    ///
    /// If the locks cannot form groups, the first call of the combined lock returns an error.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redquorum::{MemoryCluster, MultiLock, Quorum};
    /// let east = Quorum::builder().name("east").connect_in_memory(&MemoryCluster::new(3))?;
    /// let west = Quorum::builder().name("west").connect_in_memory(&MemoryCluster::new(3))?;
    /// let both = MultiLock::across([east.red_lock("stock:7"), west.red_lock("order:9")]);
    /// let guard = both.lock().await?;
    /// for lease in guard.leases() {
    ///     println!("{} under token {}", lease.resource(), lease.fencing_token());
    /// }
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn across<L: Into<Self>>(locks: impl IntoIterator<Item = L>) -> MultiQuorumLock {
        MultiQuorumLock::new(locks.into_iter().map(Into::into))
    }

    /// Adds resources that the group only reads, so that other readers can hold these resources at the same time. The
    /// lease of a group that only reads is a shared lease.
    pub fn and_read<R: AsRef<[u8]>>(self, resources: impl IntoIterator<Item = R>) -> Self {
        let is_shared = true;
        self.and(resources, is_shared)
    }

    fn and<R: AsRef<[u8]>>(self, resources: impl IntoIterator<Item = R>, is_shared: bool) -> Self {
        let named = self.named.and_then(|mut named| {
            for resource in resources {
                named.push((Resource::new(resource)?, is_shared));
            }
            Ok(named)
        });
        Self::of_request(self.request, named)
    }

    /// Returns this group, with the resources of another group added. The options and the owner stay as they are.
    pub(super) fn joined(self, other: Self) -> Self {
        let named = self.named.and_then(|mut named| {
            named.extend(other.named?);
            Ok(named)
        });
        Self::of_request(self.request, named)
    }

    /// Replaces all options of the lock. Settings that the options leave open come from the quorum.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options;
        self
    }

    /// Sets the owner of the calls of this lock, as [`RedLock::owned_by`] does. The owner re-enters only a lease on
    /// exactly this group. If the owner holds only some resources of the group, a call waits for these resources.
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.request.reentry = ReentryMode::Of(owner.clone());
        self
    }

    /// Locks all resources, and waits while any of them is held or has waiters ahead. The call waits only in the queue
    /// of the resource for which its last attempt was refused.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`]; [`Error::Config`] (`Group`) if the group is empty, too large, or names a resource twice.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        self.request.lock().await
    }

    /// Locks all resources, and waits for at most `wait`. Returns `None` if the resources cannot all be acquired in
    /// that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`] and [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.request.lock_for(wait).await
    }

    /// Locks with at most one attempt, as [`RedLock::try_lock`] does. Returns `None` if any of the resources is held or
    /// has waiters. The guard must be bound to a variable, as [`RedLock::try_lock`] shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`] and [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_lock(&self) -> Result<Option<LockGuard>, Error> {
        self.request.try_lock().await
    }

    /// Locks all resources, runs a closure, and unlocks, as [`RedLock::run`] does.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`] and [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`].
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, Error> {
        self.lock().await?.run(work).await
    }

    pub(super) fn request(&self) -> &LockRequest {
        &self.request
    }

    /// Returns the same group after a change of its request. The change must leave the resources as they are, because
    /// `named` has them, too.
    pub(super) fn with_request(mut self, set: impl FnOnce(&mut LockRequest)) -> Self {
        set(&mut self.request);
        self
    }
}

/// Makes a group of one resource.
impl From<RedLock> for MultiLock {
    fn from(lock: RedLock) -> Self {
        let request = lock.into_request();
        let named = request.resources.clone().map(|resources| {
            resources.each().map(|(resource, is_shared)| (resource.clone(), is_shared)).collect()
        });
        Self::of_request(request, named)
    }
}

/// Returns the checked resources of a group, sorted. An empty group, a group with too many resources, and a group with
/// a repeated resource are errors.
fn sorted(mut resources: Vec<(Resource, bool)>) -> Result<Resources, ConfigError> {
    if resources.is_empty() {
        return Err(group_of_none());
    }
    if resources.len() > MAX_GROUP_SIZE {
        return Err(group_too_large(resources.len(), MAX_GROUP_SIZE));
    }
    resources.sort_unstable();
    match resources.iter().zip(resources.iter().skip(1)).find(|((one, _), (next, _))| one == next) {
        Some(((resource, _), _)) => Err(resource_twice(resource)),
        None => Ok(resources.into_iter().collect()),
    }
}
