//! The guard of a lease, for threads.

use std::ops::Deref;

use crate::{
    Unlocked, Verification,
    blocking::{Lease, runtime::Runtime},
    error::{LockError, RenewError, UnlockError},
};

/// A lease on a resource, for as long as it is valid and this guard lives; see
/// [`crate::LockGuard`]. What it shows of the lease are the methods of [`Lease`].
///
/// It is renewed by the quorum's thread, whatever the holder's thread does. Dropping it unlocks
/// without waiting, from any thread and also while a panic unwinds. Where that cannot work (the
/// process ends, this is leaked) the ttl ends the lease.
#[derive(Debug)]
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct LockGuard {
    // Before the runtime in the lease, because fields are dropped in this order: the unlock needs
    // it.
    guard: crate::LockGuard,
    lease: Lease,
}

impl LockGuard {
    pub(super) fn new(guard: crate::LockGuard, runtime: Runtime) -> Self {
        let lease = Lease::new(guard.lease(), runtime);
        Self { guard, lease }
    }

    /// The lease, to be looked at by other threads. It does not keep it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Renews the lease now, by the same rule as the watchdog: a quorum, inside the validity.
    ///
    /// # Errors
    ///
    /// As [`crate::LockGuard::renew`].
    pub fn renew(&self) -> Result<(), RenewError> {
        self.lease.runtime.wait(self.guard.renew())
    }

    /// Finds out whether a later lease on the resource has been granted, without trusting any
    /// clock; see [`crate::LockGuard::verify`].
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    pub fn verify(&self) -> Result<Verification, RenewError> {
        self.lease.runtime.wait(self.guard.verify())
    }

    /// Goes on as a reader, so that others can read, and no writer comes between; see
    /// [`crate::LockGuard::downgrade`].
    ///
    /// # Errors
    ///
    /// As [`crate::LockGuard::downgrade`].
    pub fn downgrade(self) -> Result<Self, LockError> {
        let runtime = self.lease.runtime.clone();
        let guard = runtime.wait(self.guard.downgrade())?;
        Ok(Self::new(guard, runtime))
    }

    /// Whether all of its resources are only read.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.guard.is_shared()
    }

    /// Unlocks, and tells which nodes have confirmed. Returns at the quorum; the other nodes are
    /// told all the same. Of several holds it gives one back.
    ///
    /// # Errors
    ///
    /// [`UnlockError::LeaseLost`] if the lease was over before: others may have held the resource
    /// meanwhile. Otherwise as [`crate::LockGuard::unlock`].
    pub fn unlock(self) -> Result<Unlocked, UnlockError> {
        self.lease.runtime.wait(self.guard.unlock())
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}
