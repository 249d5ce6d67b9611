//! The lock of resources of several quorums, all or none, and its guard.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all, select_all},
};

use crate::{
    config::LockOptions,
    error::{ConfigError, Error, LeaseLost, group_of_none},
    lock::{
        Lease,
        guard::LockGuard,
        lease::unless_lost,
        lock_request::{LockRequest, ReentryMode},
        multi_lock::MultiLock,
        owner::Owner,
    },
    values::NodeReplies,
};

/// The lock of resources of several quorums, all or none, from [`MultiLock::across`].
///
/// The quorums are locked one after the other, in an order that all clients share. While the call waits at a quorum,
/// the leases at earlier quorums are renewed, unless the options exclude renewals. If a quorum cannot be locked, or the
/// future of the call is [not polled](crate::RedLock::lock), the earlier quorums are unlocked.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is locked"]
pub struct MultiQuorumLock {
    /// One group for each client, in the order in which the quorums are locked.
    groups: Result<Vec<MultiLock>, ConfigError>,
}

/// The guard of the leases of a [`MultiQuorumLock`], one lease for each quorum. The resources are held for as long as
/// all leases are valid and this guard lives.
///
/// The drop unlocks all resources without waiting, as the drop of a [`LockGuard`] does. Since tokens of different
/// quorums are not comparable, there is no common token, and each of the [`leases`](Self::leases) has a token of its
/// own.
#[derive(Debug)]
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct MultiLockGuard {
    /// The guards, one for each quorum, at least one.
    guards: Vec<LockGuard>,
}

impl MultiQuorumLock {
    pub(super) fn new(locks: impl Iterator<Item = MultiLock>) -> Self {
        Self { groups: grouped(locks) }
    }

    /// Replaces all options at each quorum. Settings that the options leave open come from the respective quorum.
    /// Without renewal, the leases at the first quorums may end during the wait at the last quorums.
    #[expect(clippy::needless_pass_by_value, reason = "as the setters of other locks")]
    pub fn options(self, options: LockOptions) -> Self {
        self.each(|request| request.settings = options.clone())
    }

    /// Sets the owner at each quorum, as [`MultiLock::owned_by`] does.
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.each(|request| request.reentry = ReentryMode::Of(owner.clone()))
    }

    /// Locks the resources of all quorums, and waits while any of them is held.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::lock`]; [`Error::LeaseLost`] if the lease at one quorum is lost during the wait at another
    /// quorum. [`Error::Config`] (`Group`) also if there are no locks, if two clients have the same quorum name and
    /// nodes, or if locks of one client differ in options or owner. After any error, no resource stays locked by this
    /// call.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock). The quorums that the call has locked are unlocked.
    pub async fn lock(&self) -> Result<MultiLockGuard, Error> {
        let lock = |groups: Vec<MultiLock>| {
            async move {
                let mut guards = Vec::new();
                for group in groups {
                    guards.push(while_all_valid(&guards, group.lock()).await??);
                }
                MultiLockGuard::of_valid(guards)
            }
            .boxed()
        };
        self.watch(lock).await
    }

    /// Locks the resources of all quorums, and waits for at most `wait`. Returns `None` if the resources cannot all be
    /// acquired in that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`](crate::RedLock::try_lock_for) and [`lock`](Self::lock). The quorums are locked one
    /// after the other, and share `wait`. Therefore the call also returns [`Error::NoQuorum`] if the earlier quorums
    /// leave a later quorum less time than its nodes take to answer.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<MultiLockGuard>, Error> {
        let first = Arc::clone(&self.first()?.client.context);
        let begun = first.now();
        let lock = |groups: Vec<MultiLock>| {
            let mut left = wait.saturating_sub(first.now().saturating_duration_since(begun));
            async move {
                let mut guards = Vec::new();
                for group in groups {
                    let context = group.request().context();
                    let start = context.now();
                    match while_all_valid(&guards, group.try_lock_for(left)).await?? {
                        Some(guard) => guards.push(guard),
                        None => return Ok(None),
                    }
                    left = left.saturating_sub(context.now().saturating_duration_since(start));
                }
                MultiLockGuard::of_valid(guards).map(Some)
            }
            .boxed()
        };
        self.watch(lock).await
    }

    /// Locks with at most one attempt at each quorum, one quorum after the other. Returns `None` if any of the
    /// resources is held or has waiters. The guard must be bound to a variable, as
    /// [`RedLock::try_lock`](crate::RedLock::try_lock) shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`](crate::RedLock::try_lock) and [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<MultiLockGuard>, Error> {
        let lock = |groups: Vec<MultiLock>| {
            async move {
                let mut guards = Vec::new();
                for group in groups {
                    match while_all_valid(&guards, group.try_lock()).await?? {
                        Some(guard) => guards.push(guard),
                        None => return Ok(None),
                    }
                }
                MultiLockGuard::of_valid(guards).map(Some)
            }
            .boxed()
        };
        self.watch(lock).await
    }

    /// Locks as [`lock`](Self::lock) does, runs a closure, and unlocks. `Ok` means that all leases were valid until the
    /// closure returned. The loss of any lease has the same effect as in [`RedLock::run`](crate::RedLock::run).
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock), in which case the closure is not called; [`Error::LeaseLost`] if any lease
    /// was lost before the closure returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the closure at its present `await`, and unlocks.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&MultiLockGuard) -> T) -> Result<T, Error> {
        let guard = self.lock().await?;
        let value = guard.while_valid(work(&guard)).await?;
        guard.unlock().await?;
        Ok(value)
    }

    /// Runs a call that locks the groups. The call holds the first leases while it waits for further leases, so the
    /// stall watchdog of the first client watches the whole call, instead of the lock call of the first group. The lock
    /// calls of the other groups are watched by the stall watchdogs of their own clients, too.
    async fn watch<T: Send + 'static>(
        &self,
        lock: impl Fn(Vec<MultiLock>) -> BoxFuture<'static, Result<T, Error>> + Send + Sync,
    ) -> Result<T, Error> {
        let mut groups = self.groups.clone()?;
        if groups.iter().any(|group| group.request().settings.hold_at_least.is_some()) {
            let reason = "a minimum hold across quorums: a call that fails at one quorum would keep the resources of \
                          the others, so leave `hold_at_least` out";
            return Err(ConfigError::Unsupported { reason: reason.into() }.into());
        }
        if let Some(first) = groups.first_mut() {
            *first = first.clone().with_request(|request| *request = request.clone().part_of_call());
        }
        self.first()?.watch(|| lock(groups.clone())).await
    }

    /// Returns the request of the first group.
    fn first(&self) -> Result<&LockRequest, ConfigError> {
        let groups = self.groups.as_ref().map_err(Clone::clone)?;
        groups.first().map(MultiLock::request).ok_or_else(group_of_none)
    }

    /// Returns the same lock after a change of the request of each group.
    fn each(self, set: impl Fn(&mut LockRequest)) -> Self {
        let set_all = |groups: Vec<MultiLock>| {
            groups.into_iter().map(|group| group.with_request(&set)).collect::<Vec<_>>()
        };
        Self { groups: self.groups.map(set_all) }
    }
}

impl MultiLockGuard {
    /// Returns the guard of leases that are all still valid. The wait for the last quorum may have been longer than the
    /// validity of the first lease, so the validity is checked here.
    fn of_valid(guards: Vec<LockGuard>) -> Result<Self, Error> {
        let guard = Self { guards };
        guard.ensure()?;
        Ok(guard)
    }

    /// Returns the leases, one for each quorum, in the order in which the quorums were locked.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.guards.iter().map(|guard| &**guard)
    }

    /// Returns the time for which all leases are certainly valid without a further renewal: zero after the end of any
    /// lease.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.leases().map(Lease::remaining).min().unwrap_or_default()
    }

    /// Whether all leases are certainly valid at this instant. A lease that is not valid never becomes valid again.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Returns an error unless all leases are certainly valid at this instant.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`]. If several leases have ended, the error is about the first of them in the order of
    /// [`leases`](Self::leases).
    pub fn ensure(&self) -> Result<(), Error> {
        self.leases().try_for_each(Lease::ensure)
    }

    /// Waits until the first of the leases ends, as [`Lease::lost`] does for one lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the leases.
    pub async fn lost(&self) -> LeaseLost {
        first_loss(&self.guards).await
    }

    /// Waits until any of the leases is valid for at most `left` without a further renewal, as
    /// [`Lease::expiring_within`] does for one lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the leases.
    pub async fn expiring_within(&self, left: Duration) {
        let watches = self.leases().map(|lease| Box::pin(lease.expiring_within(left)));
        select_all(watches).await;
    }

    /// Runs a future until the future is done or any lease ends, as [`Lease::while_valid`] does for one lease.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], after the drop of the work at its present `await`.
    ///
    /// # Cancel safety
    ///
    /// As [`Lease::while_valid`].
    pub async fn while_valid<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        while_all_valid(&self.guards, work).await
    }

    /// Renews all leases now, as [`Lease::renew`] does for one lease.
    ///
    /// # Errors
    ///
    /// The error of the first failed renewal, in the order of [`leases`](Self::leases). All renewals have ended by
    /// then.
    ///
    /// # Cancel safety
    ///
    /// As [`Lease::renew`].
    pub async fn renew(&self) -> Result<(), Error> {
        join_all(self.leases().map(Lease::renew)).await.into_iter().collect()
    }

    /// Unlocks all resources, as [`LockGuard::unlock`] does for one lease. Returns the replies of the nodes, quorum by
    /// quorum.
    ///
    /// # Errors
    ///
    /// Only [`Error::LeaseLost`], if any lease had ended before the call. The remaining leases are unlocked
    /// nevertheless.
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    pub async fn unlock(self) -> Result<Vec<NodeReplies>, Error> {
        join_all(self.guards.into_iter().map(LockGuard::unlock)).await.into_iter().collect()
    }
}

/// Waits for the first loss of a lease. There must be at least one guard.
async fn first_loss(guards: &[LockGuard]) -> LeaseLost {
    select_all(guards.iter().map(|guard| Box::pin(guard.lost()))).await.0
}

/// Runs a future until the future is done or any of the leases ends. Without guards, runs the future to its end.
async fn while_all_valid<F: Future>(guards: &[LockGuard], work: F) -> Result<F::Output, Error> {
    if guards.is_empty() {
        return Ok(work.await);
    }
    let ensure = || guards.iter().try_for_each(|guard| guard.ensure());
    unless_lost(first_loss(guards), ensure, work).await
}

/// Returns one group for each client, in the order in which all clients lock the quorums.
///
/// # Errors
///
/// [`ConfigError::Group`] without locks, for two clients of one quorum, and as [`ensure_alike`] for locks of one
/// client.
fn grouped(locks: impl Iterator<Item = MultiLock>) -> Result<Vec<MultiLock>, ConfigError> {
    let mut groups: Vec<MultiLock> = Vec::new();
    for lock in locks {
        let of_same_client =
            |group: &&mut MultiLock| Arc::ptr_eq(&group.request().client, &lock.request().client);
        match groups.iter_mut().find(of_same_client) {
            Some(group) => {
                ensure_alike(group.request(), lock.request())?;
                *group = group.clone().joined(lock);
            }
            None => groups.push(lock),
        }
    }
    if groups.is_empty() {
        return Err(group_of_none());
    }
    groups.sort_by_cached_key(|group| group.request().context().sort_key());
    // Equal keys are neighbours after the sort.
    for (one, next) in groups.iter().zip(groups.iter().skip(1)) {
        let (one, next) = (one.request().context().sort_key(), next.request().context().sort_key());
        if one == next {
            let reason = format!(
                "two clients of one quorum ({}): take its locks from one client, or name quorums apart",
                one.0
            );
            return Err(ConfigError::Group { reason: reason.into() });
        }
    }
    Ok(groups)
}

/// Returns an error if two locks of one client cannot form one group, because their options or owners differ.
fn ensure_alike(one: &LockRequest, other: &LockRequest) -> Result<(), ConfigError> {
    if one.settings == other.settings && one.reentry.is_same(&other.reentry) {
        return Ok(());
    }
    let reason = "locks of one client have different options or owners: they form one group, so give all of them \
                  the same";
    Err(ConfigError::Group { reason: reason.into() })
}
