//! Any one of several resources, for threads.

use std::time::Duration;

use crate::{
    LockOptions, RunOutput,
    blocking::{Lease, LockGuard, runtime::Runtime},
    error::LockError,
};

/// A lock on one of several resources, whichever can be had first; see [`crate::AnyOf`].
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `lock`, `try_lock` or `try_lock_for` is called"]
pub struct AnyOf {
    lock: crate::AnyOf,
    runtime: Runtime,
}

impl AnyOf {
    pub(super) fn new(lock: crate::AnyOf, runtime: Runtime) -> Self {
        Self { lock, runtime }
    }

    /// As [`crate::AnyOf::options`].
    pub fn options(self, options: LockOptions) -> Self {
        Self { lock: self.lock.options(options), ..self }
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { lock: self.lock.ttl(ttl), ..self }
    }

    /// Locks one of the resources, waiting for as long as others have all of them.
    ///
    /// # Errors
    ///
    /// As [`crate::AnyOf::lock`].
    pub fn lock(&self) -> Result<LockGuard, LockError> {
        self.runtime.wait(self.lock.lock()).map(|guard| self.guard(guard))
    }

    /// Locks one of the resources if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::AnyOf::try_lock_for`].
    pub fn try_lock_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        self.runtime.wait(self.lock.try_lock_for(wait)).map(|guard| self.guard(guard))
    }

    /// Makes one attempt: `None` if others have all of them, or come first.
    ///
    /// # Errors
    ///
    /// As [`crate::AnyOf::try_lock`].
    pub fn try_lock(&self) -> Result<Option<LockGuard>, LockError> {
        let guard = self.runtime.wait(self.lock.try_lock())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// As [`RedLock::run`](crate::blocking::RedLock::run), with whichever resource can be had first.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), the closure not being called.
    pub fn run<T>(&self, work: impl FnOnce(Lease) -> T) -> Result<RunOutput<T>, LockError> {
        let guard = self.lock()?;
        let value = work(guard.lease());
        Ok(RunOutput { value, unlock: guard.unlock() })
    }

    fn guard(&self, guard: crate::LockGuard) -> LockGuard {
        LockGuard::new(guard, self.runtime.clone())
    }
}
