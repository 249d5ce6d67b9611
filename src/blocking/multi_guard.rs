//! The guard of a group, for threads.

use std::time::Duration;

use crate::{
    FencingToken, Resource, Unlocked, Verification, Votes,
    blocking::runtimes::Runtimes,
    error::{LeaseLost, RenewError, UnlockError},
};

/// Leases on all resources of a group, for as long as every one of them is valid and this guard
/// lives; see [`crate::MultiLockGuard`].
///
/// It is lost as soon as any of its leases is, and dropping it unlocks everything without waiting.
#[derive(Debug)]
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct MultiLockGuard {
    // Before the runtimes, because fields are dropped in this order: the unlocks need them.
    guard: crate::MultiLockGuard,
    runtimes: Runtimes,
}

impl MultiLockGuard {
    pub(super) fn new(guard: crate::MultiLockGuard, runtimes: Runtimes) -> Self {
        Self { guard, runtimes }
    }

    /// The fencing token of a resource: one for all resources of a quorum. `None` if the resource
    /// is not in the group; see [`crate::MultiLockGuard::token_of`].
    #[must_use]
    pub fn token_of(&self, resource: impl AsRef<[u8]>) -> Option<FencingToken> {
        self.guard.token_of(resource)
    }

    /// All resources, quorum by quorum in the order in which they were taken.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.guard.resources()
    }

    /// How long all leases are still certainly valid: zero once one of them is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.runtimes.look(|| self.guard.remaining())
    }

    /// Whether all leases are certainly valid at this instant. Once false, it stays false. It reads
    /// the clock and does not block.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Asks for the validity where it has to be there. It reads the clock and does not block.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] for the first lease that is over.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.runtimes.look(|| self.guard.ensure())
    }

    /// Blocks until the first of the leases is over; see
    /// [`Lease::lost`](super::Lease::lost).
    #[must_use]
    pub fn lost(&self) -> LeaseLost {
        self.runtimes.wait(self.guard.lost())
    }

    /// Blocks until the first of the leases is over, at most for `wait`: `None` if none is.
    #[must_use]
    pub fn lost_within(&self, wait: Duration) -> Option<LeaseLost> {
        self.runtimes.wait_for(wait, self.guard.lost())
    }

    /// Renews all leases now; see [`LockGuard::renew`](super::LockGuard::renew).
    ///
    /// # Errors
    ///
    /// The first error, after all were tried.
    pub fn renew(&self) -> Result<(), RenewError> {
        self.runtimes.wait(self.guard.renew())
    }

    /// Finds out whether a later lease on any of the resources has been granted; see
    /// [`LockGuard::verify`](super::LockGuard::verify).
    ///
    /// # Errors
    ///
    /// The first error, after all were tried.
    pub fn verify(&self) -> Result<Verification, RenewError> {
        self.runtimes.wait(self.guard.verify())
    }

    /// Each node's last word, quorum by quorum.
    #[must_use]
    pub fn votes(&self) -> Vec<Votes> {
        self.guard.votes()
    }

    /// Unlocks everything, and tells which nodes have confirmed, quorum by quorum.
    ///
    /// # Errors
    ///
    /// The first error, after all were unlocked; see
    /// [`LockGuard::unlock`](super::LockGuard::unlock).
    pub fn unlock(self) -> Result<Vec<Unlocked>, UnlockError> {
        self.runtimes.wait(self.guard.unlock())
    }
}
