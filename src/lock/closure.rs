//! A lock round a closure.

use futures::future::{Either, select};

use crate::{
    error::{RunError, UnlockError},
    lease::Unlocked,
    lock::{Lease, LockGuard},
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
