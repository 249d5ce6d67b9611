//! The lock of one resource.

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

/// The lock of one resource: held by at most one lease at a time among all clients of the quorum, under the
/// assumptions of the [crate's promises](crate#what-is-promised-and-on-what-it-rests) about clocks and nodes that
/// remember.
///
/// It is a description, cheap to clone. Each successful call returns a guard of a lease with a token of its own.
/// Several tasks may use one value at once. It is not re-entrant (a second `lock` while the first guard lives waits
/// for it), except for an explicit [`Owner`].
///
/// A future borrows the lock, so a spawned task has to own it:
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

    /// The lock by which readers share the resource.
    pub(super) fn of_readers(self) -> Self {
        let resources = self.request.resources.map(Resources::shared);
        Self { request: LockRequest { resources, ..self.request } }
    }

    pub(super) fn into_request(self) -> LockRequest {
        self.request
    }

    /// Replaces the settings, all of them: what these options leave open comes from the quorum.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options;
        self
    }

    /// Lets this owner re-enter: while it holds the resource, its locks re-enter (default: the owner of the
    /// surrounding [`scope`](Owner::scope), if there is one).
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.request.reentry = ReentryMode::Of(owner.clone());
        self
    }

    /// Locks, and waits while another client holds the lock or is ahead in the queue.
    ///
    /// Waiters are served in the order in which they arrived, and an unlock wakes one of them. The order is that of
    /// clients; each client has one place for all its tasks. It holds while nodes are well, and not beside other
    /// libraries; [GUARANTEES.md] has every exception.
    ///
    /// [GUARANTEES.md]: https://github.com/redquorum/redquorum/blob/main/docs/GUARANTEES.md#order-among-waiters
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if no quorum could be asked for the [quorum timeout](LockOptions::quorum_timeout) of
    /// this lock; while another client holds the lock, the call waits without a limit. [`Error::Config`] if the
    /// settings or the name cannot work, or (`WouldDeadlock`) if the owner of the call reads the resource.
    /// [`Error::LeaseLost`] if the call was to re-enter a lease that is lost. [`Error::Closed`] after a shutdown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue and rolls back what was asked of the nodes: nothing of it
    /// is left on a node after one round trip, or after one ttl on a node that cannot be reached.
    ///
    /// A future that is kept and not polled delays no other call for long. If it could go on and is not polled for
    /// an eighth of the quorum's node timeout while other tasks of this client want the resource, or else for the
    /// quorum's attempt timeout, then what it began is rolled back. If it is polled again, it begins anew.
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        self.request.lock().await
    }

    /// Locks, and waits for at most `wait`: `None` if another client had the lock for all that time.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if no quorum answered to the last attempt within `wait`, so that it is not known whether
    /// another client has the lock; otherwise as [`lock`](Self::lock). An attempt that the resource's queue node puts
    /// off, because the lock is held or other clients wait, asks no other node: for `None`, the answer of this node is enough.
    /// A `wait` that is shorter than a round trip ends with `NoQuorum`; [`try_lock`](Self::try_lock) is for no wait.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.request.lock_for(wait).await
    }

    /// Makes one attempt: `None` if another client holds the lock, or waits for it.
    ///
    /// The guard must be bound to a name. In `if lock.try_lock().await?.is_some() { work() }` the guard is dropped
    /// before the block begins, so another client can have the lock while `work` runs. This keeps the lock:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// # fn work() {}
    /// if let Some(_guard) = quorum.red_lock("report").try_lock().await? {
    ///     work(); // `_guard` lives until the end of the block; `_` alone would be no name
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if fewer nodes than a quorum answered within a node timeout; otherwise as
    /// [`lock`](Self::lock). For `None`, the answer of the resource's queue node is enough, as for
    /// [`try_lock_for`](Self::try_lock_for).
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
    /// The lease is renewed while the closure runs. If the lease is lost, the closure is dropped at the `await` where
    /// it is. Code between two awaits, and tasks that the closure spawned, run on and can call
    /// [`ensure`](crate::Lease::ensure). If the lease is lost before the closure returns, its value is dropped: a
    /// closure whose value is needed in any case stores it itself. If the closure panics, the panic goes on and the
    /// resource is unlocked.
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
    /// As [`lock`](Self::lock), and then the closure is not called; [`Error::LeaseLost`] if the lease was lost before
    /// the closure returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the closure at the `await` where it is, and unlocks.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, Error> {
        self.lock().await?.run(work).await
    }
}
