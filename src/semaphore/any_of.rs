//! The lock of any one of several resources, as the public API has it.

use std::{sync::Arc, time::Duration};

use crate::{
    acquire::any_of::QUEUES_JOINED,
    config::LockOptions,
    error::{ConfigError, Error, group_of_none, group_too_large, resource_twice},
    lock::{client::Client, guard::LockGuard},
    node::names,
    quorum::Quorum,
    semaphore::any_of_request::{AnyOfRequest, Candidates},
    values::{InvalidResource, Resource},
};

/// The largest number of candidates: the resources of which a lock takes one.
const MAX_CANDIDATES: usize = 64;

/// The lock of any one of several resources. A call takes the first resource that the call can acquire.
///
/// The lease is an ordinary lease on one resource, which [`Lease::resource`](crate::Lease::resource) of the guard
/// returns. The lease excludes every other lock on that resource.
///
/// A call that finds no vacant resource waits in the queues of two random resources, or of all resources if there are
/// at most three, and takes the first of them that becomes free. If there are more than three resources, a waiting call
/// can acquire the remaining resources in two ways:
///
/// * After some 500 ms, the call also competes for the role of the *release watcher*. For each set of resources, one
///   waiting call at a time has this role, and listens for the release of every resource of the set.
/// * The call queries all resources once in each [longest poll interval](LockOptions::poll_interval).
///
/// Calls that wait for a single resource, such as by [`RedLock::lock`](crate::RedLock::lock), keep their order. Calls
/// that wait for any of several resources have no order.
///
/// The lock is never re-entrant, even in the scope of an [`Owner`](crate::Owner).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let printers = quorum.any_of(["printer:1", "printer:2"]);
/// let [one, other] = [printers.lock().await?, printers.lock().await?];
/// assert_ne!(one.resource(), other.resource());
/// assert!(printers.try_lock().await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is locked"]
pub struct AnyOf {
    request: AnyOfRequest,
}

impl Quorum {
    /// Returns the lock of any one of several resources, with the quorum's settings. Nothing is sent yet.
    ///
    /// If there are no resources or more than 64, or if a resource is repeated, the first call returns an error.
    pub fn any_of<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> AnyOf {
        AnyOf::new(Arc::clone(self.client()), resources)
    }
}

impl AnyOf {
    pub(crate) fn new<R: AsRef<[u8]>>(client: Arc<Client>, resources: impl IntoIterator<Item = R>) -> Self {
        let resources: Result<Vec<_>, _> = resources.into_iter().map(Resource::new).collect();
        Self {
            request: AnyOfRequest {
                client,
                candidates: candidates(resources),
                settings: LockOptions::new(),
                queues: QUEUES_JOINED,
            },
        }
    }

    /// Replaces all options. Settings that the options leave open come from the quorum.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.request.settings = options;
        self
    }

    /// Locks one of the resources, and waits while all of them are held.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock); [`Error::Config`] (`Group`) if there are no resources or more than
    /// 64, or if a resource is repeated.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock), at each of the resources.
    pub async fn lock(&self) -> Result<LockGuard, Error> {
        Ok(self.request.lock(None).await?.1)
    }

    /// Locks one of the resources, and waits for at most `wait`. Returns `None` if none of them can be acquired in
    /// that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`](crate::RedLock::try_lock_for) and [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        Ok(self.request.lock_for(None, wait).await?.map(|(_, guard)| guard))
    }

    /// Attempts one resource, and then resources that a node reports as vacant, without waiting. Returns `None` if no
    /// attempt succeeds, because the resources are held or have waiters. The guard must be bound to a variable, as
    /// [`RedLock::try_lock`](crate::RedLock::try_lock) shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`](crate::RedLock::try_lock) and [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<LockGuard>, Error> {
        Ok(self.request.try_lock(None).await?.map(|(_, guard)| guard))
    }

    /// Locks one of the resources, runs a closure, and unlocks, as [`RedLock::run`](crate::RedLock::run) does.
    /// [`Lease::resource`](crate::Lease::resource) of the guard returns the resource.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`](crate::RedLock::run) and [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`](crate::RedLock::run).
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, Error> {
        self.lock().await?.run(work).await
    }
}

/// Returns the candidates, sorted. An empty set, a set with too many resources, and a repeated resource are errors.
fn candidates(resources: Result<Vec<Resource>, InvalidResource>) -> Result<Candidates, ConfigError> {
    let mut resources = resources?;
    resources.sort_unstable();
    let twice = resources.iter().zip(resources.iter().skip(1)).find(|(one, next)| one == next);
    if let Some((resource, _)) = twice {
        return Err(resource_twice(resource));
    }
    if resources.len() > MAX_CANDIDATES {
        return Err(group_too_large(resources.len(), MAX_CANDIDATES));
    }
    let name = resources.first().cloned().ok_or_else(group_of_none)?;
    let release_watcher = names::release_watcher_of_set(&resources, &name);
    let first = name.clone();
    let count = resources.len();
    let resource_at = move |index: usize| resources.get(index).unwrap_or(&first).clone();
    Ok(Candidates { name, release_watcher, count, resource_at: Arc::new(resource_at), is_semaphore: false })
}
