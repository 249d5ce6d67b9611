//! A store that the processes of a simulation share.

use crate::{
    sim::{
        Process,
        world::{Operation, RoundTrip},
    },
    values::{FencingToken, Resource, StaleToken},
};

/// A store that all processes of a simulation share: a [`Register`](super::register::Register) at the other end of a
/// network, which refuses late tokens as [`Fence`](crate::Fence) does.
///
/// Every access takes a round trip and happens at its middle, so it may be overtaken by other accesses, and by the end of
/// the lease under which it was sent. Once sent, it arrives, even if its process stands still or is killed meanwhile. All
/// accesses are recorded, for [`Promise::Register`](super::Promise::Register) to be checked.
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
    /// [`StaleToken`] if a larger token was there.
    ///
    /// # Cancel safety
    ///
    /// The store may be claimed by the token.
    pub async fn read(&self, token: FencingToken) -> Result<u64, StaleToken> {
        self.access(Operation::Read(Some(token))).await
    }

    /// Reads under the token of a reader.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a larger token of a writer was there.
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
    /// [`StaleToken`] if a larger token was there.
    ///
    /// # Cancel safety
    ///
    /// The value may be written.
    pub async fn write(&self, token: FencingToken, value: u64) -> Result<(), StaleToken> {
        self.access(Operation::Write(Some(token), value)).await.map(drop)
    }

    /// Reads without a token, as code does that trusts the lock alone.
    ///
    /// # Cancel safety
    ///
    /// The read is recorded.
    pub async fn read_unfenced(&self) -> u64 {
        // An access without a token is never refused.
        self.access(Operation::Read(None)).await.unwrap_or_default()
    }

    /// Writes without a token, as code does that trusts the lock alone: nothing can refuse it.
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
