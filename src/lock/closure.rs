//! A lock round a closure.

use std::{sync::Arc, time::Duration};

use futures::future::{Either, select};

use crate::{
    error::{LeaseLost, RunError, UnlockError},
    lease::{Unlocked, active_lease::ActiveLease, expiry},
    lock::{client::Client, guard::LockGuard},
    values::FencingToken,
};

/// The output of a closure that [ran under a lock](crate::RedLock::run).
#[derive(Debug)]
#[non_exhaustive]
pub struct RunOutput<T> {
    /// What the closure returned. It is there whatever became of the unlock.
    pub value: T,
    /// What the nodes said to the unlock. [`UnlockError::LeaseLost`] means that the lease was over
    /// before it: the last that the closure did may have met another holder.
    pub unlock: Result<Unlocked, UnlockError>,
}

/// The lease as the closure of [`RedLock::run`](crate::RedLock::run) sees it.
///
/// Cheap to clone and to send to other tasks. It shows the lease and does not keep it: when `run`
/// is done, the resource is unlocked even if clones are left (of several holds of an owner, one is
/// given back).
#[derive(Clone, Debug)]
pub struct Lease {
    pub(super) client: Arc<Client>,
    pub(crate) active: Arc<ActiveLease>,
}

impl Lease {
    /// The number that grows with every lease on the resource; see
    /// [`LockGuard::fencing_token`].
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.active.token
    }

    /// How long the lease is still certainly valid; see [`LockGuard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.active.remaining(self.client.environment.now())
    }

    /// Ready when the lease is over, as [`LockGuard::lost`]: for tasks that the closure spawned,
    /// which are not stopped with it.
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn lost(&self) -> LeaseLost {
        expiry::lost(&self.client.leases, &self.active).await
    }

    /// Ready when no more than `left` of the validity is left; see [`LockGuard::expiring_within`].
    ///
    /// # Cancel safety
    ///
    /// It only watches; dropping it changes nothing.
    pub async fn expiring_within(&self, left: Duration) {
        expiry::within(&self.client.environment, &self.active, left).await;
    }

    /// Whether the lease is certainly valid at this instant; see
    /// [`LockGuard::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Asks for the validity where it has to be there; see
    /// [`LockGuard::ensure`].
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] once the lease is over.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.active.ensure(self.client.environment.now())
    }
}

/// Runs the closure until it is done or the lease is lost, and unlocks.
///
/// A closure that panics unwinds through here, and the guard's drop unlocks.
pub(crate) async fn run<T>(
    guard: LockGuard,
    work: impl AsyncFnOnce(Lease) -> T,
) -> Result<RunOutput<T>, RunError> {
    let lease = guard.lease();
    let value = {
        let work = std::pin::pin!(work(lease));
        let lost = std::pin::pin!(guard.lost());
        // What is done is done: the value comes first if both are ready.
        match select(work, lost).await {
            Either::Left((value, _)) => value,
            Either::Right((lost, _)) => return Err(RunError::LeaseLost(lost)),
        }
    };
    Ok(RunOutput { value, unlock: guard.unlock().await })
}
