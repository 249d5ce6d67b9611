//! The lock of one resource with many readers or one writer: a [`RedLock`] for each mode.

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
/// Valid leases of readers and a valid lease of a writer do not exist at the same time, and at most one writer has a
/// valid lease, under the assumptions of the [crate's promises](crate#what-is-promised-and-on-what-it-rests). A
/// [`RedLock`] on the resource is the same lock as the write lock, and therefore excludes readers and writers. Waiters
/// are served in order of arrival, so a stream of readers does not delay a writer for ever, and a stream of writers
/// does not delay a reader for ever.
///
/// Readers have fencing tokens, too. If a reader is granted before the attempt of a writer begins, the reader has a
/// smaller token than the writer. If a reader is granted after the writer, the reader has a larger token. Readers
/// between two writers may have equal tokens.
///
/// Tasks of one client that read at the same time share a lease under three conditions: the calls have no [`Owner`],
/// the ttl is the ttl of the quorum, and the options set neither `hold_at_most` nor `without_renewal`. A task joins the
/// shared lease only if the joint lease delays a writer no longer than a lease of the task alone would. If a thousand
/// tasks call `read` at once, and no task unlocks before the last task has joined, the nodes receive as many requests
/// as from one task.
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

    /// Sets the owner of the calls of this lock, as [`RedLock::owned_by`] does. While the owner holds the write lock,
    /// its calls for reading and for writing re-enter. While the owner holds a read lock, its calls for reading
    /// re-enter. A re-entry does not wait behind waiters.
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self { reader: self.reader.owned_by(owner), writer: self.writer.owned_by(owner) }
    }

    /// Locks for reading, and waits while a writer holds the lock or is ahead in the queue.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`], without `WouldDeadlock`: an owner that reads the resource re-enters.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn read(&self) -> Result<ReadGuard, Error> {
        self.reader.lock().await.map(ReadGuard::new)
    }

    /// Locks for reading with at most one attempt, as [`RedLock::try_lock`] does. Returns `None` if a writer holds the
    /// lock, or if the resource has waiters. A call that joins a lease of other tasks makes no attempt. The guard must
    /// be bound to a variable, as [`RedLock::try_lock`] shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`], without `WouldDeadlock`.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, Error> {
        Ok(self.reader.try_lock().await?.map(ReadGuard::new))
    }

    /// Locks for reading, and waits for at most `wait`. Returns `None` if the lock cannot be acquired in that time,
    /// because a writer holds the lock or is ahead in the queue.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`], without `WouldDeadlock`.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_read_for(&self, wait: Duration) -> Result<Option<ReadGuard>, Error> {
        Ok(self.reader.try_lock_for(wait).await?.map(ReadGuard::new))
    }

    /// Locks for reading, runs a closure, and unlocks, as [`RedLock::run`] does. `Ok` means that the read lease was
    /// valid until the closure returned, so that no client held the write lock meanwhile.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`], without `WouldDeadlock`.
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

    /// Locks for writing, and waits while readers or a writer hold the lock or are ahead in the queue. The call does
    /// the same as [`RedLock::lock`] on this resource.
    ///
    /// # Errors
    ///
    /// As [`RedLock::lock`]. An owner that reads the resource does not wait for itself: the call returns
    /// [`Error::Config`] (`WouldDeadlock`) at once.
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn write(&self) -> Result<LockGuard, Error> {
        self.writer.lock().await
    }

    /// Locks for writing with at most one attempt, as [`RedLock::try_lock`] does. Returns `None` if readers or a writer
    /// hold the lock, or if the resource has waiters. The guard must be bound to a variable, as [`RedLock::try_lock`]
    /// shows.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_write(&self) -> Result<Option<LockGuard>, Error> {
        self.writer.try_lock().await
    }

    /// Locks for writing, and waits for at most `wait`. Returns `None` if the lock cannot be acquired in that time,
    /// because readers or a writer hold the lock or are ahead in the queue.
    ///
    /// # Errors
    ///
    /// As [`RedLock::try_lock_for`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::lock`].
    pub async fn try_write_for(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.writer.try_lock_for(wait).await
    }

    /// Locks for writing, runs a closure, and unlocks, as [`RedLock::run`] does. `Ok` means that the write lease was
    /// valid until the closure returned, so that no other client held a read lock or the write lock meanwhile.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`RedLock::run`].
    pub async fn run_write<T>(&self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, Error> {
        self.writer.run(work).await
    }
}
