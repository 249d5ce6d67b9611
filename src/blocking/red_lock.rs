//! The lock of one resource, for threads.

use std::time::Duration;

use crate::{
    LockOptions, Owner, RunOutput, Unlocked,
    blocking::{Lease, LockGuard, runtime::Runtime},
    error::LockError,
    lock::Inspection,
};

/// A lock on one resource; see [`crate::RedLock`].
///
/// It is a description, cheap to clone; each successful call gives a guard with a lease and a token
/// of its own. It can be used again and by several threads at once. It is not re-entrant, also not
/// on one thread: a second `lock` while the first guard lives waits for it, except for an explicit
/// [`Owner`].
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `lock`, `try_lock` or `try_lock_for` is called"]
pub struct RedLock {
    lock: crate::RedLock,
    runtime: Runtime,
}

impl RedLock {
    pub(super) fn new(lock: crate::RedLock, runtime: Runtime) -> Self {
        Self { lock, runtime }
    }

    pub(super) fn into_parts(self) -> (crate::RedLock, Runtime) {
        (self.lock, self.runtime)
    }

    fn map(self, set: impl FnOnce(crate::RedLock) -> crate::RedLock) -> Self {
        Self { lock: set(self.lock), runtime: self.runtime }
    }

    /// As [`crate::RedLock::options`].
    pub fn options(self, options: LockOptions) -> Self {
        self.map(|lock| lock.options(options))
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|lock| lock.ttl(ttl))
    }

    /// As [`LockOptions::without_renewal`].
    pub fn without_renewal(self) -> Self {
        self.map(crate::RedLock::without_renewal)
    }

    /// As [`crate::RedLock::shared`].
    pub fn shared(self) -> Self {
        self.map(crate::RedLock::shared)
    }

    /// Makes the lock re-entrant for this owner: while it holds the resource, its locks re-enter
    /// (default: the owner in whose [`scope`](Owner::scope) or [`sync_scope`](Owner::sync_scope)
    /// the call is made, or none).
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.map(|lock| lock.owned_by(owner))
    }

    /// Locks the resource, waiting for as long as others hold it.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::lock`].
    pub fn lock(&self) -> Result<LockGuard, LockError> {
        self.runtime.wait(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// Locks the resource if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] after `wait`, with the last votes; otherwise as
    /// [`lock`](Self::lock).
    pub fn try_lock_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        self.runtime.wait(self.lock.try_lock_for(wait)).map(|guard| self.guard(guard))
    }

    /// Makes one attempt: `None` if others hold the resource.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::try_lock`].
    pub fn try_lock(&self) -> Result<Option<LockGuard>, LockError> {
        let guard = self.runtime.wait(self.lock.try_lock())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Locks the resource, waiting as [`lock`](Self::lock) does, runs the closure on this thread,
    /// and unlocks.
    ///
    /// The lease is renewed while the closure runs. **Nothing stops the closure if the lease is
    /// lost**, unlike that of [`crate::RedLock::run`]: it has to ask [`Lease::ensure`] where the
    /// validity has to be there. That it was lost stands in [`RunOutput::unlock`], beside the
    /// value. If the closure panics, the panic goes on and the resource is unlocked.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::blocking::Quorum::in_memory(3)?;
    /// let done = quorum.red_lock("import").run(|lease| {
    ///     for _batch in 0..3 {
    ///         lease.ensure()?; // somebody else may import already
    ///     }
    ///     Ok::<_, redquorum::error::LeaseLost>(3)
    /// })?;
    /// assert_eq!(done.value?, 3);
    /// done.unlock?; // an error also if the lease was lost after the last look
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), the closure not being called.
    pub fn run<T>(&self, work: impl FnOnce(Lease) -> T) -> Result<RunOutput<T>, LockError> {
        let guard = self.lock()?;
        let value = work(guard.lease());
        Ok(RunOutput { value, unlock: guard.unlock() })
    }

    /// Asks every node who holds the resource, and reports the quorum's view with each node's
    /// answer.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::inspect`].
    pub fn inspect(&self) -> Result<Inspection, LockError> {
        self.runtime.wait(self.lock.inspect())
    }

    /// Unlocks the resource for any holder, at every node that answers. For an operator; see
    /// [`crate::RedLock::force_unlock`] for what it does to the holder.
    ///
    /// # Errors
    ///
    /// As [`crate::RedLock::force_unlock`].
    pub fn force_unlock(&self) -> Result<Unlocked, LockError> {
        self.runtime.wait(self.lock.force_unlock())
    }

    fn guard(&self, guard: crate::LockGuard) -> LockGuard {
        LockGuard::new(guard, self.runtime.clone())
    }
}
