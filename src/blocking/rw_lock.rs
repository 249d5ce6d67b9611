//! The lock of one resource that is read and written, for threads.

use std::time::Duration;

use crate::{
    LockOptions, Owner, RunOutput,
    blocking::{Lease, LockGuard, RedLock},
    error::LockError,
};

/// A lock on one resource that has many readers at once, or one writer; see [`crate::RwLock`].
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `read`, `write` or one of their like is called"]
pub struct RwLock {
    writer: RedLock,
    reader: RedLock,
}

impl RwLock {
    pub(super) fn new(writer: RedLock) -> Self {
        Self { reader: writer.clone().shared(), writer }
    }

    fn each(self, set: impl Fn(RedLock) -> RedLock) -> Self {
        Self { writer: set(self.writer), reader: set(self.reader) }
    }

    /// As [`crate::RwLock::options`].
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

    /// As [`crate::RwLock::owned_by`].
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.each(|lock| lock.owned_by(owner))
    }

    /// Locks the resource to read it, waiting for as long as others write it or were before it.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::read`].
    pub fn read(&self) -> Result<LockGuard, LockError> {
        self.reader.lock()
    }

    /// Locks the resource to read it if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_read_for`].
    pub fn try_read_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        self.reader.try_lock_for(wait)
    }

    /// Makes one attempt to lock the resource to read it: `None` if others write it, or are queued
    /// for it.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_read`].
    pub fn try_read(&self) -> Result<Option<LockGuard>, LockError> {
        self.reader.try_lock()
    }

    /// Reads as [`RedLock::run`] does: while the closure runs and the lease is valid, nobody writes.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`].
    pub fn run_read<T>(&self, work: impl FnOnce(Lease) -> T) -> Result<RunOutput<T>, LockError> {
        self.reader.run(work)
    }

    /// Locks the resource to write it, waiting for as long as others have it or were before it.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::write`].
    pub fn write(&self) -> Result<LockGuard, LockError> {
        self.writer.lock()
    }

    /// Locks the resource to write it if that takes no longer than `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_write_for`].
    pub fn try_write_for(&self, wait: Duration) -> Result<LockGuard, LockError> {
        self.writer.try_lock_for(wait)
    }

    /// Makes one attempt to lock the resource to write it: `None` if others have it, or are queued
    /// for it.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_write`].
    pub fn try_write(&self) -> Result<Option<LockGuard>, LockError> {
        self.writer.try_lock()
    }

    /// Writes as [`RedLock::run`] does: while the closure runs and the lease is valid, nobody else
    /// reads or writes.
    ///
    /// # Errors
    ///
    /// As [`RedLock::run`].
    pub fn run_write<T>(&self, work: impl FnOnce(Lease) -> T) -> Result<RunOutput<T>, LockError> {
        self.writer.run(work)
    }
}
