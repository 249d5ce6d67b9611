//! A store that the processes of a simulation share.

use crate::{
    sim::{
        Client,
        world::{Operation, RoundTrip},
    },
    values::{FencingToken, Resource},
};

/// A store that all processes of a simulation share: a [`Register`](super::register::Register) at
/// the other end of a network.
///
/// Every access takes a round trip and happens at its middle, so it may be overtaken by the
/// accesses of others, and by the end of the lease under which it was sent. Once sent, it arrives,
/// even if its process stands still or is killed meanwhile. All of them are noted, for
/// [`Promise::Register`](super::Promise::Register) to be checked.
#[derive(Clone, Debug)]
pub struct Store {
    client: Client,
    name: Resource,
}

impl Store {
    pub(crate) fn new(client: Client, name: Resource) -> Self {
        Self { client, name }
    }

    /// Reads under a token; `None` if a larger one was here.
    ///
    /// # Cancel safety
    ///
    /// The store may be claimed by the token.
    pub async fn read(&self, token: FencingToken) -> Option<u64> {
        self.access(Operation::Read(Some(token))).await
    }

    /// Reads under the token of a lease that shares the store; `None` if a later one may have
    /// written.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    pub async fn read_shared(&self, token: FencingToken) -> Option<u64> {
        self.access(Operation::ReadShared(token)).await
    }

    /// Writes under a token; whether it was accepted, which it is unless a larger one was here.
    ///
    /// # Cancel safety
    ///
    /// It may be written.
    pub async fn write(&self, token: FencingToken, value: u64) -> bool {
        self.access(Operation::Write(Some(token), value)).await.is_some()
    }

    /// Reads without a token, as code does that trusts the lock alone.
    ///
    /// # Cancel safety
    ///
    /// It only reads, but what it reads is noted.
    pub async fn read_unfenced(&self) -> u64 {
        // Nothing refuses it.
        self.access(Operation::Read(None)).await.unwrap_or_default()
    }

    /// Writes without a token, as code does that trusts the lock alone: nothing can refuse it.
    ///
    /// # Cancel safety
    ///
    /// It may be written.
    pub async fn write_unfenced(&self, value: u64) {
        self.access(Operation::Write(None, value)).await;
    }

    async fn access(&self, operation: Operation) -> Option<u64> {
        RoundTrip::begin(self.client.world(), self.client.index(), self.name.clone(), operation).await
    }
}
