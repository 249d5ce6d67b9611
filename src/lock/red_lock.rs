//! The lock of one resource, as the public API has it. The lock requests of [`lock_request`](super::lock_request) do
//! the work.

use std::{sync::Arc, time::Duration};

use crate::{
    config::LockOptions,
    error::{ConfigError, Error},
    lock::{
        client::Client,
        guard::LockGuard,
        lock_request::{LockRequest, ReentryMode},
        owner::Owner,
    },
    node::Resources,
    values::Resource,
};

/// The lock of one resource. Of all leases of all clients of the quorum, at most one is valid at a time, under the
/// assumptions of the [crate's promises](crate#what-is-promised-and-on-what-it-rests) about clocks and about the
/// memory of nodes.
///
/// A `RedLock` is a description, cheap to clone, and several tasks may use one value at once. Without an [`Owner`], the
/// lock is not re-entrant: each successful call returns the guard of a lease with a token of its own, and a second
/// `lock` waits while the first guard lives. Calls of one owner re-enter the lease of the owner.
///
/// A future borrows the lock, so a spawned task has to own the lock:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let lock = quorum.red_lock("report");
/// // `tokio::spawn(lock.lock())` does not compile: `lock` may be dropped before the task ends.
/// let task = tokio::spawn(async move { lock.lock().await });
/// task.await??.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is locked"]
pub struct RedLock {
    request: LockRequest,
}

impl RedLock {
    pub(crate) fn new(client: Arc<Client>, resource: Result<Resource, ConfigError>) -> Self {
        Self { request: LockRequest::new(client, resource.map(|resource| [resource].into())) }
    }

    /// Returns the lock by which readers share the resource.
    pub(super) fn of_readers(self) -> Self {
        let resources = self.request.resources.map(Resources::shared);
        Self { request: LockRequest { resources, ..self.request } }
    }

    pub(super) fn into_request(self) -> LockRequest {
        self.request
    }

    /// Replaces all options of the lock. Settings that the options leave open come from the quorum.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options;
        self
    }

    /// Sets the owner of the calls of this lock. While the owner holds the resource, the calls re-enter its lease.
    /// Without this setting, a call belongs to the owner of the surrounding [`scope`](Owner::scope), if any.
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.request.reentry = ReentryMode::Of(owner.clone());
        self
    }

    /// Locks, and waits while the lock is held or another waiter is ahead in the queue.
    ///
    /// Waiters get the lock in order of arrival, and an unlock wakes the first waiter. The order is an order of
    /// clients, because each client has one queue entry for all of its tasks. [GUARANTEES.md] lists all exceptions,
    /// such as failing nodes and clients of other libraries.
    ///
    /// [GUARANTEES.md]: https://github.com/redquorum/redquorum/blob/main/docs/GUARANTEES.md#order-among-waiters
    ///
    /// # Errors
    ///
    /// * [`Error::NoQuorum`] if no quorum answers for the [quorum timeout](LockOptions::quorum_timeout) of this lock.
    ///   While the lock is held, the call waits without a limit.
    /// * [`Error::Config`] if the settings or the name are invalid, or (`WouldDeadlock`) if the owner of the call reads
    ///   the resource.
    /// * [`Error::LeaseLost`] if the call would re-enter a lost lease.
    /// * [`Error::Closed`] if the client is closed, such as by a shutdown, before or during the call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future rolls the attempt back, and withdraws the queue entry if no other call of the client needs
    /// the entry. No key of the attempt is left on a node after one round trip, or after one ttl on an unreachable
    /// node.
    ///
    /// A future that is not polled delays no other call for long. If the future was woken, and is then not polled for
    /// twice the quorum's node timeout, the attempt is rolled back. If other calls of this client want the resource
    /// meanwhile, the limit is an eighth of the quorum's node timeout instead. The next poll of the future begins a
    /// new attempt.
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        self.request.lock().await
    }

    /// Locks, and waits for at most `wait`. Returns `None` if the lock cannot be acquired in that time.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); [`Error::NoQuorum`] also if no quorum answered the last attempt within `wait`, so that
    /// the holder is unknown. A `wait` that is shorter than a round trip ends with `NoQuorum`: to lock without a wait,
    /// call [`try_lock`](Self::try_lock).
    ///
    /// There is an exception: the answer of the queue node suffices for `None`. If the queue node defers an attempt,
    /// because the lock is held or other clients wait, the attempt asks no other node.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.request.lock_for(wait).await
    }

    /// Locks with at most one attempt. Returns `None` if the lock is held, or if the resource has waiters.
    ///
    /// A call of an owner that holds the lock re-enters, without an attempt. If another task of the owner waits for the
    /// lock, the call returns `None` after a node timeout.
    ///
    /// The guard must be bound to a variable. In `if lock.try_lock().await?.is_some() { work() }` the guard is dropped
    /// before the block begins, so another client can have the lock while `work` runs. The following code keeps the
    /// lock:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// # fn work() {}
    /// if let Some(_guard) = quorum.red_lock("report").try_lock().await? {
    ///     work(); // `_guard` lives until the end of the block; `_` alone would drop the guard
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), but [`Error::NoQuorum`] if fewer nodes than a quorum answered the attempt. The answer
    /// of the queue node suffices for `None`, as in [`try_lock_for`](Self::try_lock_for).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<LockGuard>, Error> {
        self.request.try_lock().await
    }

    /// Locks as [`lock`](Self::lock) does, runs a closure, and unlocks. `Ok` means that the lease was valid until the
    /// closure returned.
    ///
    /// While the closure runs, the lease is renewed, unless the options exclude renewals. If the lease is lost, the
    /// closure is dropped at its present `await`. Code between two awaits, and tasks that the closure spawned, continue
    /// and can call [`ensure`](crate::Lease::ensure). If the closure returns a value after the loss, the value is
    /// dropped. A closure whose value is needed in any case has to store the value itself. If the closure panics, the
    /// resource is unlocked, and the panic continues.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// let token = quorum.red_lock("report").run(async |guard| guard.fencing_token()).await?;
    /// # assert!(token.as_u64() > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`lock`](Self::lock), in which case the closure is not called; [`Error::LeaseLost`] if the lease
    /// was lost before the closure returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the closure at its present `await`, and unlocks.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, Error> {
        self.lock().await?.run(work).await
    }
}
