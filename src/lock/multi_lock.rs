//! Several resources, all or none.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select, select_all};

use crate::{
    config::LockOptions,
    error::{ConfigError, LockError},
    lock::{
        client::Client,
        guard::LockGuard,
        lock_request::{LockRequest, Reentrancy},
        multi_guard::MultiLockGuard,
        owner::Owner,
        red_lock::RedLock,
    },
    node::{Resources, request::LARGEST_GROUP},
    values::Resource,
};

/// A lock on several resources, all or none, of one quorum or of several.
///
/// The resources of one quorum are taken together: one question to each node, one lease, one
/// fencing token. So there is no order to keep to and no deadlock, but a large group waits until
/// all its resources are free at once. At most 1,000 resources of each quorum make a group: each
/// node takes all of them in one step, in which it serves nobody else.
///
/// Several quorums are taken one after the other, in an order that all clients share, so that no
/// two groups wait for each other in a circle; if one of them cannot be had, the others are given
/// back. Each has a lease and a token of its own.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let group = quorum.multi_lock(["account:1", "account:2"]).lock().await?;
/// assert_eq!(group.token_of("account:1"), group.token_of("account:2"));
/// group.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `lock`, `try_lock` or `try_lock_for` is called"]
pub struct MultiLock {
    /// One for each quorum, in the order in which they are taken.
    requests: Result<Vec<LockRequest>, ConfigError>,
}

impl MultiLock {
    /// Joins locks, of one quorum or of several, into one group.
    ///
    /// Locks of one client are taken together, with the settings (and the owner) of the first of
    /// them. Quorums are ordered by their names and the addresses of their nodes: give quorums
    /// [names](crate::QuorumBuilder::name) of their own, and write addresses alike in all clients,
    /// or two groups may wait for each other.
    ///
    /// What is wrong with the group is an error of its first use.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redquorum::{MemoryCluster, MultiLock, Quorum};
    /// let eu = Quorum::builder().name("eu").in_memory(&MemoryCluster::new(3))?;
    /// let us = Quorum::builder().name("us").in_memory(&MemoryCluster::new(3))?;
    /// let both = MultiLock::new([eu.red_lock("stock:7"), us.red_lock("order:9")]);
    /// let guard = both.lock().await?;
    /// // Each quorum has a token of its own, not comparable to others.
    /// let for_stock = guard.token_of("stock:7");
    /// # assert!(for_stock.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(locks: impl IntoIterator<Item = RedLock>) -> Self {
        Self { requests: grouped(locks.into_iter().map(RedLock::into_request)) }
    }

    /// The resources of one quorum.
    pub(crate) fn of_one<R: AsRef<[u8]>>(
        client: &Arc<Client>,
        resources: impl IntoIterator<Item = R>,
    ) -> Self {
        let single = |resource: R| {
            RedLock::new(Arc::clone(client), Resource::new(resource).map_err(ConfigError::from))
        };
        Self::new(resources.into_iter().map(single))
    }

    /// Sets these options for each quorum; what they leave open stays as it was. Without renewal,
    /// the ttl of what is taken first runs while the rest is waited for.
    pub fn options(self, options: LockOptions) -> Self {
        self.each(|request| request.settings = options.or(request.settings))
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.each(|request| request.settings.ttl = Some(ttl))
    }

    /// As [`RedLock::shared`], for all resources of the group. To share some of them, make the group
    /// of their locks with [`new`](Self::new).
    pub fn shared(self) -> Self {
        self.each(|request| request.resources = request.resources.clone().map(Resources::shared))
    }

    /// As [`RedLock::owned_by`], for the group: the owner re-enters the same group. A group of
    /// which it holds only some resources is another one, and waits for them.
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.each(|request| request.reentrancy = Reentrancy::Of(owner.clone()))
    }

    /// Locks all resources, waiting for as long as others hold any of them. It waits in the queue
    /// of the resource for which it was refused, and in no other; beside a steady load of locks on
    /// single ones of them it may wait without end.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`]; [`ConfigError::EmptyGroup`], [`ConfigError::GroupTooLarge`] and
    /// [`ConfigError::DuplicateResource`] beside. Whatever the error, nothing stays locked.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`]: what was locked before is unlocked.
    pub async fn lock(&self) -> Result<MultiLockGuard, LockError> {
        let mut guards = Vec::new();
        for request in self.requests()? {
            guards.push(next(&guards, request, None).await?);
        }
        MultiLockGuard::whole(guards)
    }

    /// Locks all resources if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] after `wait`; otherwise as [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<MultiLockGuard, LockError> {
        let mut guards = Vec::new();
        let mut left = wait;
        for request in self.requests()? {
            let start = request.environment().now();
            guards.push(next(&guards, request, Some(left)).await?);
            left = left.saturating_sub(request.environment().now().saturating_duration_since(start));
        }
        MultiLockGuard::whole(guards)
    }

    /// Makes one attempt at each quorum: `None` if others hold any of the resources.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`]; [`ConfigError::EmptyGroup`], [`ConfigError::GroupTooLarge`] and
    /// [`ConfigError::DuplicateResource`] beside.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<MultiLockGuard>, LockError> {
        let mut guards = Vec::new();
        for request in self.requests()? {
            match request.try_lock().await? {
                Some(guard) => guards.push(guard),
                None => return Ok(None),
            }
        }
        MultiLockGuard::whole(guards).map(Some)
    }

    fn requests(&self) -> Result<&[LockRequest], ConfigError> {
        self.requests.as_deref().map_err(Clone::clone)
    }

    fn each(mut self, set: impl Fn(&mut LockRequest)) -> Self {
        if let Ok(requests) = &mut self.requests {
            requests.iter_mut().for_each(set);
        }
        self
    }
}

/// Locks one more, unless one of those that are held already is lost while it is waited for.
async fn next(
    guards: &[LockGuard],
    request: &LockRequest,
    wait: Option<Duration>,
) -> Result<LockGuard, LockError> {
    if guards.is_empty() {
        return request.lock(wait).await;
    }
    let losses = select_all(guards.iter().map(|guard| Box::pin(guard.lost())));
    match select(pin!(request.lock(wait)), losses).await {
        Either::Left((locked, _)) => locked,
        Either::Right(((lost, ..), _)) => Err(lost.into()),
    }
}

/// One request for each client, in the order of their quorums, each with its resources in order.
fn grouped(requests: impl Iterator<Item = LockRequest>) -> Result<Vec<LockRequest>, ConfigError> {
    let mut groups: Vec<(LockRequest, Vec<(Resource, bool)>)> = Vec::new();
    for request in requests {
        let resources = request.resources.clone()?;
        let known = groups.iter_mut().find(|(group, _)| Arc::ptr_eq(&group.client, &request.client));
        match known {
            Some((_, group)) => group.extend(with_modes(&resources)),
            None => groups.push((request, with_modes(&resources).collect())),
        }
    }
    if groups.is_empty() {
        return Err(ConfigError::EmptyGroup);
    }
    groups.sort_by_key(|(request, _)| request.environment().rank());
    for ((one, _), (next, _)) in groups.iter().zip(groups.iter().skip(1)) {
        if one.environment().rank() == next.environment().rank() {
            return Err(ConfigError::QuorumTwice { fingerprint: one.environment().rank().0 });
        }
    }
    groups
        .into_iter()
        .map(|(request, resources)| Ok(LockRequest { resources: Ok(sorted(resources)?), ..request }))
        .collect()
}

/// Each resource, and whether it is shared.
fn with_modes(resources: &Resources) -> impl Iterator<Item = (Resource, bool)> {
    resources.each().map(|(resource, is_shared)| (resource.clone(), is_shared))
}

fn sorted(mut resources: Vec<(Resource, bool)>) -> Result<Resources, ConfigError> {
    if resources.len() > LARGEST_GROUP {
        return Err(ConfigError::GroupTooLarge { given: resources.len(), most: LARGEST_GROUP });
    }
    resources.sort_unstable();
    match resources.iter().zip(resources.iter().skip(1)).find(|((one, _), (next, _))| one == next) {
        Some(((resource, _), _)) => Err(ConfigError::DuplicateResource { resource: resource.clone() }),
        None => Ok(resources.into_iter().collect()),
    }
}
