//! A store that the processes of a simulation share.

use crate::{
    sim::{
        Process,
        world::{Operation, RoundTrip},
    },
    values::{FencingToken, Resource, StaleToken},
};

/// A store that all processes of a simulation share: a [`Register`](super::register::Register)
/// across a network. The store refuses late tokens as [`Fence`](crate::Fence) does.
///
/// An access takes a round trip, and is performed when the request arrives at the store. While the
/// request is on the way, accesses sent later may arrive, and the lease of the access may end. The
/// request arrives even if its process is paused or killed. All accesses are recorded for the check of
/// [`Promise::Register`](super::Promise::Register).
#[derive(Clone, Debug)]
pub struct Store {
    process: Process,
    name: Resource,
}

impl Store {
    pub(crate) fn new(process: Process, name: Resource) -> Self {
        Self { process, name }
    }

    /// Reads under the token of a writer.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if an earlier access had a larger token.
    ///
    /// # Cancel safety
    ///
    /// The request is sent at the first poll. If the future is dropped later, the store is claimed for
    /// the token nevertheless.
    pub async fn read(&self, token: FencingToken) -> Result<u64, StaleToken> {
        self.access(Operation::Read(Some(token))).await
    }

    /// Reads under the token of a reader.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if an earlier writer had a larger token.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    pub async fn read_shared(&self, token: FencingToken) -> Result<u64, StaleToken> {
        self.access(Operation::ReadShared(token)).await
    }

    /// Writes under the token of a writer.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if an earlier access had a larger token.
    ///
    /// # Cancel safety
    ///
    /// The value may be written.
    pub async fn write(&self, token: FencingToken, value: u64) -> Result<(), StaleToken> {
        self.access(Operation::Write(Some(token), value)).await.map(drop)
    }

    /// Reads without a token, like code that relies on the lock alone.
    ///
    /// # Cancel safety
    ///
    /// The read is recorded.
    pub async fn read_unfenced(&self) -> u64 {
        // An access without a token is never refused.
        self.access(Operation::Read(None)).await.unwrap_or_default()
    }

    /// Writes without a token, like code that relies on the lock alone. The store never refuses
    /// such a write.
    ///
    /// # Cancel safety
    ///
    /// The value may be written.
    pub async fn write_unfenced(&self, value: u64) {
        self.access(Operation::Write(None, value)).await.ok();
    }

    async fn access(&self, operation: Operation) -> Result<u64, StaleToken> {
        RoundTrip::begin(self.process.world(), self.process.index(), self.name.clone(), operation).await
    }
}
