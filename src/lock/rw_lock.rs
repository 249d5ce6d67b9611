//! The lock of one resource with many readers or one writer.

use std::{sync::Arc, time::Duration};

use crate::{
    config::LockOptions,
    error::{ConfigError, Error},
    lock::{
        client::Client,
        guard::{LockGuard, ReadGuard},
        owner::Owner,
        red_lock::RedLock,
    },
    values::Resource,
};

/// The lock of one resource with many readers at once, or one writer.
///
/// A write lock is the same lock as a [`RedLock`] on the resource: a `RedLock` and either kind of lock here exclude each
/// other. Readers share the resource. Either readers or one writer have valid leases at any time, under the assumptions of the [crate's
/// promises](crate#what-is-promised-and-on-what-it-rests). Waiters are served in order of arrival, so a stream of readers
/// does not keep a writer waiting for ever, nor a stream of writers a reader.
///
/// Readers have fencing tokens, too. A reader granted before the attempt of a writer began has a smaller token than that
/// writer. A reader granted after the writer has a larger token. Readers between two writers may have equal tokens.
///
/// Tasks of one client that read at the same time share a lease if no [`Owner`] is involved, the ttl is that of the
/// quorum, and the lease is renewed without an end by `hold_at_most`. A task joins only while that delays a writer no
/// longer than a lease of the task alone would. If a thousand tasks call `read` at once, and no task ends before the
/// last has entered, they cost the nodes as much as one task.
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
#[must_use = "a lock does nothing until it is locked"]
pub struct RwLock {
    writer: RedLock,
    reader: RedLock,
}

impl RwLock {
    pub(crate) fn new(client: Arc<Client>, resource: Result<Resource, ConfigError>) -> Self {
        let writer = RedLock::new(client, resource);
        Self { reader: writer.clone().of_readers(), writer }
    }

    /// Replaces all options of the lock. Settings that the options leave open come from the quorum.
    pub fn options(self, options: LockOptions) -> Self {
        Self { reader: self.reader.options(options.clone()), writer: self.writer.options(options) }
    }

    /// Lets this owner re-enter, as [`RedLock::owned_by`] does. An owner that writes may read and write again, and an
    /// owner that reads may read again. A re-entry passes all waiters.
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self { reader: self.reader.owned_by(owner), writer: self.writer.owned_by(owner) }
    }

    /// Locks for reading, and waits for a writer that holds the lock or is ahead in the queue.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn read(&self) -> Result<ReadGuard, Error> {
        self.reader.lock().await.map(ReadGuard::new)
    }

    /// Makes one attempt to lock for reading, and returns `None` if a writer holds the lock, or waits for it. The guard
    /// must be bound to a variable, as [`RedLock::try_lock`] shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, Error> {
        Ok(self.reader.try_lock().await?.map(ReadGuard::new))
    }

    /// Locks for reading, and waits for at most `wait`. Returns `None` if other clients had the lock for all that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_read_for(&self, wait: Duration) -> Result<Option<ReadGuard>, Error> {
        Ok(self.reader.try_lock_for(wait).await?.map(ReadGuard::new))
    }

    /// Locks for reading, runs a closure, and unlocks, as [`RedLock::run`] does. `Ok` means that no client wrote until the
    /// closure returned.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`].
    pub async fn run_read<T>(&self, work: impl AsyncFnOnce(&ReadGuard) -> T) -> Result<T, Error> {
        let guard = self.read().await?;
        let value = guard.while_valid(work(&guard)).await?;
        guard.unlock().await?;
        Ok(value)
    }

    /// Locks for writing, as [`RedLock::lock`] of this resource does.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`]; [`Error::Config`] (`WouldDeadlock`) at once if the owner of the call
    /// reads the resource.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn write(&self) -> Result<LockGuard, Error> {
        self.writer.lock().await
    }

    /// Makes one attempt to lock for writing, and returns `None` if other clients have the lock, or wait for it. The guard
    /// must be bound to a variable, as [`RedLock::try_lock`] shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`] and [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_write(&self) -> Result<Option<LockGuard>, Error> {
        self.writer.try_lock().await
    }

    /// Locks for writing, and waits for at most `wait`. Returns `None` if other clients had the lock for all that time.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`] and [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_write_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.writer.try_lock_for(wait).await
    }

    /// Locks for writing, runs a closure, and unlocks, as [`RedLock::run`] does. `Ok` means that no other client read or
    /// wrote until the closure returned.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`] and [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`].
    pub async fn run_write<T>(&self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, Error> {
        self.writer.run(work).await
    }
}
