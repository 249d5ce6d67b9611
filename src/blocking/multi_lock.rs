//! Several resources, all or none, for threads.

use std::time::Duration;

use crate::{
    LockOptions, Owner,
    blocking::{MultiLockGuard, RedLock, runtime::Runtime, runtimes::Runtimes},
    error::LockError,
};

/// A lock on several resources, all or none, of one quorum or of several; see [`crate::MultiLock`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::blocking::Quorum::in_memory(3)?;
/// let group = quorum.multi_lock(["account:1", "account:2"]).lock()?;
/// assert_eq!(group.token_of("account:1"), group.token_of("account:2"));
/// group.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `lock`, `try_lock` or `try_lock_for` is called"]
pub struct MultiLock {
    lock: crate::MultiLock,
    runtimes: Runtimes,
}

impl MultiLock {
    /// Joins locks, of one quorum or of several, into one group; see [`crate::MultiLock::new`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redquorum::{MemoryCluster, blocking::{MultiLock, Quorum}};
    /// let named = |name| redquorum::Quorum::builder().name(name);
    /// let eu = Quorum::connect_in_memory(named("eu"), &MemoryCluster::new(3))?;
    /// let us = Quorum::connect_in_memory(named("us"), &MemoryCluster::new(3))?;
    /// let guard = MultiLock::new([eu.red_lock("stock:7"), us.red_lock("order:9")]).lock()?;
    /// assert!(guard.token_of("stock:7").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(locks: impl IntoIterator<Item = RedLock>) -> Self {
        let mut runtimes = Runtimes::default();
        let locks = locks.into_iter().map(|lock| {
            let (lock, runtime) = lock.into_parts();
            runtimes.add(runtime);
            lock
        });
        let lock = crate::MultiLock::new(locks);
        Self { lock, runtimes }
    }

    pub(super) fn of_one(lock: crate::MultiLock, runtime: Runtime) -> Self {
        Self { lock, runtimes: runtime.into() }
    }

    /// As [`crate::MultiLock::shared`].
    pub fn shared(self) -> Self {
        self.map(crate::MultiLock::shared)
    }

    fn map(self, set: impl FnOnce(crate::MultiLock) -> crate::MultiLock) -> Self {
        Self { lock: set(self.lock), runtimes: self.runtimes }
    }

    /// As [`crate::MultiLock::options`].
    pub fn options(self, options: LockOptions) -> Self {
        self.map(|lock| lock.options(options))
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|lock| lock.ttl(ttl))
    }

    /// As [`RedLock::owned_by`], for the group: the owner re-enters the same group.
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.map(|lock| lock.owned_by(owner))
    }

    /// Locks all resources, waiting for as long as others hold any of them.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiLock::lock`]. Whatever the error, nothing stays locked.
    pub fn lock(&self) -> Result<MultiLockGuard, LockError> {
        self.runtimes.wait(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// Locks all resources if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] after `wait`; otherwise as [`lock`](Self::lock).
    pub fn try_lock_for(&self, wait: Duration) -> Result<MultiLockGuard, LockError> {
        self.runtimes.wait(self.lock.try_lock_for(wait)).map(|guard| self.guard(guard))
    }

    /// Makes one attempt at each quorum: `None` if others hold any of the resources.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiLock::try_lock`].
    pub fn try_lock(&self) -> Result<Option<MultiLockGuard>, LockError> {
        let guard = self.runtimes.wait(self.lock.try_lock())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    fn guard(&self, guard: crate::MultiLockGuard) -> MultiLockGuard {
        MultiLockGuard::new(guard, self.runtimes.clone())
    }
}
