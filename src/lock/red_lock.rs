//! The lock of one resource.

use std::{sync::Arc, time::Duration};

use crate::{
    config::LockOptions,
    error::{ConfigError, LockError, RunError},
    lease::Unlocked,
    lock::{
        client::Client,
        closure::{self, RunOutput},
        force_unlock::force_unlock,
        guard::LockGuard,
        inspection::{self, Inspection},
        lease::Lease,
        lock_request::{LockRequest, Reentrancy},
        owner::Owner,
    },
    node::Resources,
    values::Resource,
};

/// A lock on one resource: held by at most one lease at a time among all clients of the quorum,
/// under the assumptions of the [crate's promises](crate#what-is-promised-and-on-what-it-rests)
/// about clocks and nodes that remember.
///
/// It is a description, cheap to clone; each successful call gives a guard with a lease and a token
/// of its own. It can be used again and by several tasks at once. It is not re-entrant (a second
/// `lock` while the first guard lives waits for it), except for an explicit [`Owner`].
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `lock`, `try_lock` or `try_lock_for` is called"]
pub struct RedLock {
    request: LockRequest,
}

impl RedLock {
    pub(crate) fn new(client: Arc<Client>, resource: Result<Resource, ConfigError>) -> Self {
        Self { request: LockRequest::new(client, resource.map(|resource| [resource].into())) }
    }

    pub(crate) fn into_request(self) -> LockRequest {
        self.request
    }

    /// Sets these options; what they leave open stays as it was.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options.or(self.request.settings);
        self
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request.settings.ttl = Some(ttl);
        self
    }

    /// As [`LockOptions::without_renewal`].
    pub fn without_renewal(mut self) -> Self {
        self.request.settings.is_fixed = true;
        self
    }

    /// Shares the resource with others that do: it is held as long as anybody reads it, and who
    /// locks it without this waits for all of them (default: exclusively). As [`RwLock::read`].
    ///
    /// [`RwLock::read`]: crate::RwLock::read
    pub fn shared(mut self) -> Self {
        self.request.resources = self.request.resources.map(Resources::shared);
        self
    }

    /// Makes the lock re-entrant for this owner: while it holds the resource, its locks re-enter
    /// (default: the owner in whose [`scope`](Owner::scope) the call is made, or none).
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.request.reentrancy = Reentrancy::Of(owner.clone());
        self
    }

    /// Locks the resource, waiting for as long as others hold it or were before it.
    ///
    /// Those who wait are served in the order in which they came, and an unlock wakes one of them.
    /// The order is that of clients, each with one place for all its tasks. It holds while nodes
    /// are well, and not beside other libraries; [GUARANTEES.md] has every exception.
    ///
    /// [GUARANTEES.md]: https://github.com/redquorum/redquorum/blob/main/docs/GUARANTEES.md#order-among-waiters
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] if the settings cannot work; [`LockError::NoQuorum`],
    /// [`LockError::Quarantined`] if nodes that may have forgotten votes are why, or
    /// [`LockError::Expired`] if the votes kept coming too late, when no quorum could be asked for
    /// the quorum timeout of this lock; [`LockError::LeaseLost`] if the lease of its owner that it
    /// was to enter again is lost, or [`LockError::WouldDeadlock`] if that one only reads;
    /// [`LockError::Closed`] after a shutdown.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in the queue and takes back what was asked of the nodes:
    /// nothing of it is left on a node after one round trip, or after one ttl on a node that cannot
    /// be reached.
    ///
    /// A call that is kept and not polled holds nobody up. If it could go on and is not polled for
    /// an eighth of the quorum's node timeout while other tasks of this client want the resource,
    /// or else for the quorum's attempt timeout, what it began is taken back. Polled again, it
    /// begins anew.
    pub async fn lock(&self) -> Result<LockGuard, LockError> {
        self.request.lock(None).await
    }

    /// Locks the resource if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] after `wait`, with the last votes; otherwise as
    /// [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        self.request.lock(Some(wait)).await
    }

    /// Makes one attempt: `None` if others hold the resource, or are queued for it.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if fewer nodes than a quorum gave an answer, within a node timeout;
    /// [`LockError::Expired`] if the votes came too late; [`LockError::Config`],
    /// [`LockError::Quarantined`], [`LockError::LeaseLost`], [`LockError::WouldDeadlock`] and
    /// [`LockError::Closed`] as for [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<LockGuard>, LockError> {
        self.request.try_lock().await
    }

    /// Locks the resource, waiting as [`lock`](Self::lock) does, runs the closure, and unlocks.
    ///
    /// The lease is renewed while the closure runs. If it is lost, the closure is dropped at the
    /// await where it is; code between two awaits, and tasks that it spawned, run on and can ask
    /// [`Lease::ensure`].
    ///
    /// What the closure returns always comes back, with a problem of the unlock beside it and not
    /// instead of it. If the closure panics, the panic goes on and the resource is unlocked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// let done = quorum.red_lock("report").run(async |lease| lease.fencing_token().as_u64()).await?;
    /// assert!(done.value > 0);
    /// done.unlock?; // if it matters
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] as for [`lock`](Self::lock), the closure not being called;
    /// [`RunError::LeaseLost`] if the lease was lost before the closure was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the closure where it is, and unlocks.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> Result<RunOutput<T>, RunError> {
        closure::run(self.lock().await?, work).await
    }

    /// Asks every node who holds the resource, and reports the quorum's view with each node's
    /// answer.
    ///
    /// It was so when the nodes answered. To act on it, take the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let quorum = redquorum::Quorum::in_memory(3)?;
    /// let lock = quorum.red_lock("report");
    /// let guard = lock.lock().await?;
    /// let found = lock.inspect().await?;
    /// assert_eq!((found.owner(), found.holds()), (Some(guard.owner()), 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if fewer nodes than a quorum answered within a node timeout: a node
    /// that cannot be asked is never taken for one where the resource is free.
    /// [`LockError::Config`] and [`LockError::Closed`] as for [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn inspect(&self) -> Result<Inspection, LockError> {
        inspection::inspect(self.request.environment(), &self.request.checked_to_read()?).await
    }

    /// Unlocks the resource for any holder, at every node that answers.
    ///
    /// It is for an operator, when a holder is known to be gone and its ttl is too long to wait
    /// for. It does not ask for the owner, and that owner may still be working: then there are two,
    /// and only the token tells them apart.
    ///
    /// The nodes refuse the holder's renewals from now on, and tell its client, which asks them: it
    /// learns it within a round trip, or where that notice is lost, at its next renewal (a third of its
    /// ttl after the last one), or without renewal at its end. Of more than 128 readers, one may be
    /// renewed by nodes that could not be reached, or had lost its key.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if fewer nodes than a quorum have confirmed within a node timeout:
    /// the resource may still be locked. [`LockError::Config`] and [`LockError::Closed`] as for
    /// [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// Once polled, the deletion is on its way to all nodes, whether or not it is dropped. What
    /// keeps renewals from nodes that did not have the key follows when the nodes have said who
    /// holds it.
    pub async fn force_unlock(&self) -> Result<Unlocked, LockError> {
        force_unlock(self.request.environment(), &self.request.checked()?).await
    }
}
