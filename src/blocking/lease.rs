//! A lease, as others than its guard see it.

use std::time::Duration;

use crate::{FencingToken, OwnerId, Resource, Votes, blocking::runtime::Runtime, error::LeaseLost};

/// A lease, to be looked at: through the [`LockGuard`](super::LockGuard) that keeps it, by the
/// closure of [`RedLock::run`](super::RedLock::run), or by another thread; see [`crate::Lease`].
///
/// Cheap to clone and to send to other threads. It shows the lease and does not keep it.
#[derive(Clone, Debug)]
pub struct Lease {
    lease: crate::Lease,
    pub(super) runtime: Runtime,
}

impl Lease {
    pub(super) fn new(lease: crate::Lease, runtime: Runtime) -> Self {
        Self { lease, runtime }
    }

    /// The number that grows with every lease on the resource, but that readers may share one, as long
    /// as the nodes remember their counters.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.fencing_token()
    }

    /// What is locked: of a group, the first resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        self.lease.resource()
    }

    /// What is locked: one resource, or those of a group, in order.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        self.lease.resources()
    }

    /// How long the lease is still certainly valid, unless it is renewed: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.runtime.look(|| self.lease.remaining())
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
    /// [`LeaseLost`] once the lease is over.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.runtime.look(|| self.lease.ensure())
    }

    /// Blocks until the lease is over, and no longer than to the end of its validity; also once it
    /// is unlocked. To do something meanwhile, send the lease to another thread.
    #[must_use]
    pub fn lost(&self) -> LeaseLost {
        self.runtime.wait(self.lease.lost())
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
        self.runtime.wait_for(wait, self.lease.lost())
    }

    /// Each node's last word on the lease: how many could fail before it is in danger.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.lease.votes()
    }

    /// How many holds the lease has: more than 1 where its [`Owner`](crate::Owner) has re-entered.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.lease.holds()
    }

    /// The owner of the lease on the wire, as inspection of the nodes shows it.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        self.lease.owner()
    }
}
