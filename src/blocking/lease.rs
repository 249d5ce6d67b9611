//! A lease, as others than its guard see it.

use std::time::Duration;

use crate::{FencingToken, blocking::runtime::Runtime, error::LeaseLost};

/// A lease, to be looked at: by the closure of [`RedLock::run`](super::RedLock::run), or by another
/// thread; see [`crate::Lease`].
///
/// Cheap to clone and to send to other threads. It shows the lease and does not keep it.
#[derive(Clone, Debug)]
pub struct Lease {
    lease: crate::Lease,
    runtime: Runtime,
}

impl Lease {
    pub(super) fn new(lease: crate::Lease, runtime: Runtime) -> Self {
        Self { lease, runtime }
    }

    /// The number that grows with every lease on the resource.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.fencing_token()
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
    /// is unlocked. For a thread that has nothing else to do.
    #[must_use]
    pub fn lost(&self) -> LeaseLost {
        self.runtime.wait(self.lease.lost())
    }

    /// Blocks until the lease is over, at most for `wait`: `None` if it is not.
    #[must_use]
    pub fn lost_within(&self, wait: Duration) -> Option<LeaseLost> {
        self.runtime.wait_for(wait, self.lease.lost())
    }
}
