//! So many permits at a time, for threads.

use std::{ops::Deref, time::Duration};

use crate::{
    LockOptions, RunOutput, SlotToken, Unlocked, Verification,
    blocking::{Lease, RedLock, runtime::Runtime},
    error::{LockError, RenewError, UnlockError},
};

/// A semaphore: at most so many permits are valid at a time; see [`crate::Semaphore`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::blocking::Quorum::in_memory(3)?;
/// let gpus = quorum.semaphore("gpu", 2);
/// let [one, other] = [gpus.acquire()?, gpus.acquire()?];
/// assert!(gpus.try_acquire()?.is_none());
/// one.unlock()?;
/// assert_eq!(gpus.available()?, 1);
/// # drop(other);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until `acquire`, `try_acquire` or `try_acquire_for` is called"]
pub struct Semaphore {
    semaphore: crate::Semaphore,
    runtime: Runtime,
}

/// A permit of a [`Semaphore`], for as long as it is valid and this lives; see [`crate::Permit`].
#[derive(Debug)]
#[must_use = "dropping a permit releases it at once: bind it to a name, `_` is none"]
pub struct Permit {
    // Before the runtime in the lease, as in a guard.
    permit: crate::Permit,
    lease: Lease,
}

impl Semaphore {
    pub(super) fn new(semaphore: crate::Semaphore, runtime: Runtime) -> Self {
        Self { semaphore, runtime }
    }

    /// As [`crate::Semaphore::options`].
    pub fn options(self, options: LockOptions) -> Self {
        Self { semaphore: self.semaphore.options(options), ..self }
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { semaphore: self.semaphore.ttl(ttl), ..self }
    }

    /// Acquires a permit, waiting for as long as there is none.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Result<Permit, LockError> {
        self.runtime.wait(self.semaphore.acquire()).map(|permit| self.permit(permit))
    }

    /// Acquires so many permits, waiting until it has them all; see [`crate::Semaphore::acquire_many`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, permits: u32) -> Result<Vec<Permit>, LockError> {
        let acquired = self.runtime.wait(self.semaphore.acquire_many(permits))?;
        Ok(acquired.into_iter().map(|permit| self.permit(permit)).collect())
    }

    /// Acquires a permit if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::try_acquire_for`].
    pub fn try_acquire_for(&self, wait: Duration) -> Result<Permit, LockError> {
        self.runtime.wait(self.semaphore.try_acquire_for(wait)).map(|permit| self.permit(permit))
    }

    /// Makes one attempt: `None` if there is no permit, or others come first.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Permit>, LockError> {
        let permit = self.runtime.wait(self.semaphore.try_acquire())?;
        Ok(permit.map(|permit| self.permit(permit)))
    }

    /// As [`RedLock::run`](crate::blocking::RedLock::run), with a permit; the closure is told its
    /// slot, too.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), the closure not being called.
    pub fn run<T>(&self, work: impl FnOnce(Lease, SlotToken) -> T) -> Result<RunOutput<T>, LockError> {
        let permit = self.acquire()?;
        let value = work(permit.lease(), permit.slot_token());
        Ok(RunOutput { value, unlock: permit.unlock() })
    }

    /// How many slots a quorum says are free; see [`crate::Semaphore::available`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::available`].
    pub fn available(&self) -> Result<usize, LockError> {
        self.runtime.wait(self.semaphore.available())
    }

    /// The lock that is one of its slots; see [`crate::Semaphore::slot`].
    pub fn slot(&self, index: usize) -> RedLock {
        RedLock::new(self.semaphore.slot(index), self.runtime.clone())
    }

    fn permit(&self, permit: crate::Permit) -> Permit {
        let lease = Lease::new(permit.lease(), self.runtime.clone());
        Permit { permit, lease }
    }
}

impl Permit {
    /// The slot, from 0.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.permit.slot()
    }

    /// As [`crate::Permit::slot_token`].
    #[must_use]
    pub fn slot_token(&self) -> SlotToken {
        self.permit.slot_token()
    }

    /// The lease, to be looked at by other threads. It does not keep it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// As [`crate::Permit::renew`].
    ///
    /// # Errors
    ///
    /// As [`crate::Permit::renew`].
    pub fn renew(&self) -> Result<(), RenewError> {
        self.lease.runtime.wait(self.permit.renew())
    }

    /// As [`crate::Permit::verify`].
    ///
    /// # Errors
    ///
    /// As [`crate::Permit::verify`].
    pub fn verify(&self) -> Result<Verification, RenewError> {
        self.lease.runtime.wait(self.permit.verify())
    }

    /// As [`crate::Permit::unlock`].
    ///
    /// # Errors
    ///
    /// As [`crate::Permit::unlock`].
    pub fn unlock(self) -> Result<Unlocked, UnlockError> {
        let Self { permit, lease } = self;
        lease.runtime.wait(permit.unlock())
    }
}

impl Deref for Permit {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}
