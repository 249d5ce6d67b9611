//! The guard of a lease, for threads.

use std::time::Duration;

use crate::{
    FencingToken, OwnerId, Resource, Unlocked, Verification, Votes,
    blocking::{Lease, runtime::Runtime},
    error::{LeaseLost, RenewError, UnlockError},
};

/// A lease on a resource, for as long as it is valid and this guard lives; see
/// [`crate::LockGuard`].
///
/// It is renewed by the quorum's thread, whatever the holder's thread does. Dropping it unlocks
/// without waiting, from any thread and also while a panic unwinds. Where that cannot work (the
/// process ends, this is leaked) the ttl ends the lease.
#[derive(Debug)]
#[must_use = "dropping a guard unlocks at once: bind it to a name, `_` is none"]
pub struct LockGuard {
    // Before the runtime, because fields are dropped in this order: the unlock needs it.
    guard: crate::LockGuard,
    runtime: Runtime,
}

impl LockGuard {
    pub(super) fn new(guard: crate::LockGuard, runtime: Runtime) -> Self {
        Self { guard, runtime }
    }

    /// The number that grows with every lease on the resource, as long as the nodes remember their
    /// counters.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// What is locked: of a group, the first resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.guard.resource()
    }

    /// What is locked: one resource, or those of a group, in order.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        self.guard.resources()
    }

    /// How long the lease is still certainly valid, unless it is renewed: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.runtime.look(|| self.guard.remaining())
    }

    /// Whether the lease is certainly valid at this instant. Once false, it stays false. It reads
    /// the clock and does not block.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Asks for the validity where it has to be there. It reads the clock and does not block.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] once the lease is over, with the reason.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.runtime.look(|| self.guard.ensure())
    }

    /// Blocks until the lease is over, and no longer than to the end of its validity. To do
    /// something meanwhile, send a [`lease`](Self::lease) to another thread.
    #[must_use]
    pub fn lost(&self) -> LeaseLost {
        self.runtime.wait(self.guard.lost())
    }

    /// Blocks until the lease is over, at most for `wait`: `None` if it is not. A pause between two
    /// steps of some work that ends early at a loss:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # let quorum = redquorum::blocking::Quorum::in_memory(3)?;
    /// let guard = quorum.red_lock("poller").lock()?;
    /// for _ in 0..3 {
    ///     // ... one step ...
    ///     if let Some(lost) = guard.lost_within(Duration::from_millis(5)) {
    ///         return Err(lost.into());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lost_within(&self, wait: Duration) -> Option<LeaseLost> {
        self.runtime.wait_for(wait, self.guard.lost())
    }

    /// Renews the lease now, by the same rule as the watchdog: a quorum, inside the validity.
    ///
    /// # Errors
    ///
    /// As [`crate::LockGuard::renew`].
    pub fn renew(&self) -> Result<(), RenewError> {
        self.runtime.wait(self.guard.renew())
    }

    /// Finds out whether a later lease on the resource has been granted, without trusting any
    /// clock; see [`crate::LockGuard::verify`].
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    pub fn verify(&self) -> Result<Verification, RenewError> {
        self.runtime.wait(self.guard.verify())
    }

    /// Each node's last word on the lease: how many could fail before it is in danger.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.guard.votes()
    }

    /// How many holds the lease has: more than 1 where its [`Owner`](crate::Owner) has re-entered.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.guard.holds()
    }

    /// The owner of the lease on the wire, as inspection of the nodes shows it.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        self.guard.owner()
    }

    /// The lease, to be looked at by other threads. It does not keep it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        Lease::new(self.guard.lease(), self.runtime.clone())
    }

    /// Unlocks, and tells which nodes have confirmed. Returns at the quorum; the other nodes are
    /// told all the same. Of several holds it gives one back.
    ///
    /// # Errors
    ///
    /// [`UnlockError::LeaseLost`] if the lease was over before: others may have held the resource
    /// meanwhile. Otherwise as [`crate::LockGuard::unlock`].
    pub fn unlock(self) -> Result<Unlocked, UnlockError> {
        self.runtime.wait(self.guard.unlock())
    }
}
