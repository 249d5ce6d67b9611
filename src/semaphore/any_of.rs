//! Any one of several resources.

use std::{sync::Arc, time::Duration};

use crate::{
    acquire::any_of::QUEUES,
    config::LockOptions,
    error::{ConfigError, LockError, RunError},
    lock::{
        client::Client,
        closure::{self, RunOutput},
        guard::LockGuard,
        lease::Lease,
    },
    quorum::Quorum,
    semaphore::choice::{Choice, Offered},
    values::{InvalidResource, LONGEST_RESOURCE, Resource},
};

/// So many resources are offered, at most.
const MOST: usize = 64;

/// A lock on one of several resources, whichever can be had first.
///
/// The lease is an ordinary one on that resource, which the guard
/// [names](Lease::resource): it excludes, and is excluded by, every other lock on it. A client that
/// finds none free waits in the queues of up to three of them, drawn at random, takes the first that
/// becomes free, and after the [first poll](LockOptions::polls) takes its turn to look out for the others,
/// among those that want the same ones. So those that wait for one resource alone keep their order, and
/// between those that wait for any there is none. Such a lock is
/// re-entered by nobody, also in the scope of an [`Owner`](crate::Owner).
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
#[must_use = "a lock does nothing until `lock`, `try_lock` or `try_lock_for` is called"]
pub struct AnyOf {
    choice: Choice,
}

impl Quorum {
    /// The lock of any one of several resources, with the quorum's settings; nothing is sent yet.
    ///
    /// None, more than 64, or one of them twice is an error of the first use.
    pub fn any_of<R: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = R>) -> AnyOf {
        AnyOf::new(Arc::clone(self.client()), resources)
    }
}

impl AnyOf {
    pub(crate) fn new<R: AsRef<[u8]>>(client: Arc<Client>, resources: impl IntoIterator<Item = R>) -> Self {
        let resources: Result<Vec<_>, _> = resources.into_iter().map(Resource::new).collect();
        Self {
            choice: Choice {
                client,
                offered: offered(resources),
                settings: LockOptions::new(),
                queues: QUEUES,
            },
        }
    }

    /// Sets these options; what they leave open stays as it was.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.choice.settings = options.or(self.choice.settings);
        self
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// Locks one of the resources, waiting for as long as others have all of them.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock); of the resources, [`ConfigError::EmptyGroup`],
    /// [`ConfigError::GroupTooLarge`] (more than 64) and [`ConfigError::DuplicateResource`] beside.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`](crate::RedLock::lock), at each of the resources.
    pub async fn lock(&self) -> Result<LockGuard, LockError> {
        Ok(self.choice.lock(None, None).await?.1)
    }

    /// Locks one of the resources if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`] after `wait`; otherwise as [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        Ok(self.choice.lock(None, Some(wait)).await?.1)
    }

    /// Makes one attempt, at one resource and then at those that a node says are free: `None` if
    /// others have all of them, or come first.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`](crate::RedLock::try_lock), and [`LockError::Config`] as for
    /// [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<LockGuard>, LockError> {
        Ok(self.choice.try_lock(None).await?.map(|(_, guard)| guard))
    }

    /// As [`RedLock::run`](crate::RedLock::run), with whichever resource can be had first.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`](crate::RedLock::run).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`](crate::RedLock::run).
    pub async fn run<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> Result<RunOutput<T>, RunError> {
        closure::run(self.lock().await?, work).await
    }
}

fn offered(resources: Result<Vec<Resource>, InvalidResource>) -> Result<Offered, ConfigError> {
    let mut resources = resources?;
    resources.sort_unstable();
    let twice = resources.iter().zip(resources.iter().skip(1)).find(|(one, next)| one == next);
    if let Some((resource, _)) = twice {
        return Err(ConfigError::DuplicateResource { resource: resource.clone() });
    }
    if resources.len() > MOST {
        return Err(ConfigError::GroupTooLarge { given: resources.len(), most: MOST });
    }
    let name = resources.first().cloned().ok_or(ConfigError::EmptyGroup)?;
    let names: Vec<&[u8]> = resources.iter().map(Resource::as_bytes).collect();
    // Others that are named alike by this take turns with these, which costs time alone.
    let mut all = names.join(&b',');
    all.truncate(LONGEST_RESOURCE);
    let all = Resource::internal(all);
    let first = name.clone();
    let count = resources.len();
    let resource_at = move |index: usize| resources.get(index).unwrap_or(&first).clone();
    Ok(Offered { name, all, count, resource_at: Arc::new(resource_at), surplus: None })
}
