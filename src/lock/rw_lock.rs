//! The lock of one resource that is read and written.

use std::{sync::Arc, time::Duration};

use crate::{
    config::LockOptions,
    error::{ConfigError, LockError, RunError},
    lock::{Lease, LockGuard, client::Client, closure::RunOutput, owner::Owner, red_lock::RedLock},
    values::Resource,
};

/// A lock on one resource that has many readers at once, or one writer.
///
/// To write is what [`RedLock`] does on the same resource, so both exclude each other. Readers
/// share the resource: at most one kind of lease is valid at any time, under the assumptions of the
/// [crate's promises](crate#what-is-promised-and-on-what-it-rests). Who waits is served in the order
/// of arrival, so neither a stream of readers keeps a writer waiting for ever, nor the other way
/// round.
///
/// Readers have fencing tokens too. One that was granted before a writer's attempt began has a
/// smaller token than that writer, and one after it a larger; readers between two writers may have
/// the same.
///
/// Tasks of one client that wait to read, as an owner none of them has named and with the quorum's
/// ttl, share a lease where that keeps no writer waiting: a thousand that read at once cost the
/// nodes as much as one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let quorum = redquorum::Quorum::in_memory(3)?;
/// let config = quorum.rw_lock("config");
/// let [one, other] = [config.read().await?, config.read().await?];
/// assert!(config.try_write().await?.is_none());
/// drop((one, other));
/// let writer = config.write().await?;
/// writer.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `read`, `write` or one of their like is called"]
pub struct RwLock {
    writer: RedLock,
    reader: RedLock,
}

impl RwLock {
    pub(crate) fn new(client: Arc<Client>, resource: Result<Resource, ConfigError>) -> Self {
        let writer = RedLock::new(client, resource);
        Self { reader: writer.clone().shared(), writer }
    }

    fn each(self, set: impl Fn(RedLock) -> RedLock) -> Self {
        Self { writer: set(self.writer), reader: set(self.reader) }
    }

    /// Sets these options; what they leave open stays as it was.
    pub fn options(self, options: LockOptions) -> Self {
        self.each(|lock| lock.options(options))
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.each(|lock| lock.ttl(ttl))
    }

    /// As [`LockOptions::without_renewal`].
    pub fn without_renewal(self) -> Self {
        self.each(RedLock::without_renewal)
    }

    /// As [`RedLock::owned_by`]. An owner that writes may read and write again, one that reads may
    /// read again, both at once, no matter who waits.
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.each(|lock| lock.owned_by(owner))
    }

    /// Locks the resource to read it, waiting for as long as others write it or were before it.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn read(&self) -> Result<LockGuard, LockError> {
        self.reader.lock().await
    }

    /// Locks the resource to read it if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_read_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        self.reader.try_lock_for(wait).await
    }

    /// Makes one attempt to lock the resource to read it: `None` if others write it, or are queued
    /// for it.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_read(&self) -> Result<Option<LockGuard>, LockError> {
        self.reader.try_lock().await
    }

    /// Reads as [`RedLock::run`] does: while the closure runs and the lease is valid, nobody
    /// writes.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`].
    pub async fn run_read<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> Result<RunOutput<T>, RunError> {
        self.reader.run(work).await
    }

    /// Locks the resource to write it, waiting for as long as others have it or were before it.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`]; [`LockError::WouldDeadlock`] at once if its owner reads the resource.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn write(&self) -> Result<LockGuard, LockError> {
        self.writer.lock().await
    }

    /// Locks the resource to write it if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`] and [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_write_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        self.writer.try_lock_for(wait).await
    }

    /// Makes one attempt to lock the resource to write it: `None` if others have it, or are queued
    /// for it.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`] and [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_write(&self) -> Result<Option<LockGuard>, LockError> {
        self.writer.try_lock().await
    }

    /// Writes as [`RedLock::run`] does: while the closure runs, nobody else reads or writes.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`].
    pub async fn run_write<T>(&self, work: impl AsyncFnOnce(Lease) -> T) -> Result<RunOutput<T>, RunError> {
        self.writer.run(work).await
    }
}
