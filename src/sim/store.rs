//! A store that the processes of a simulation share.

use std::time::Duration;

use crate::{
    algorithm::fencing::FencingToken,
    resource::Resource,
    sim::{Client, chance::hash_of, history::Event, register::Register},
};

/// A store that all processes of a simulation share: a [`Register`] at the other end of a network.
///
/// Every access takes a round trip and happens at its middle, so it may be overtaken by the accesses of others, and by
/// the end of the lease under which it was sent. All of them are noted, for
/// [`Promise::Register`](super::history::Promise::Register) to be checked.
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
        self.access(
            |register| register.read(token),
            |register, value| {
                let token = Some(token);
                Event::Read { register, token, value }
            },
        )
        .await
    }

    /// Writes under a token; whether it was accepted, which it is unless a larger one was here.
    ///
    /// # Cancel safety
    ///
    /// It may be written.
    pub async fn write(&self, token: FencingToken, value: u64) -> bool {
        let noted =
            |register, is_accepted| Event::Written { register, token: Some(token), value, is_accepted };
        self.access(|register| register.write(token, value), noted).await
    }

    /// Reads without a token, as code does that trusts the lock alone.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn read_unfenced(&self) -> u64 {
        let noted = |register, value| Event::Read { register, token: None, value: Some(value) };
        self.access(|register| register.read_unfenced(), noted).await
    }

    /// Writes without a token, as code does that trusts the lock alone: nothing can refuse it.
    ///
    /// # Cancel safety
    ///
    /// It may be written.
    pub async fn write_unfenced(&self, value: u64) {
        let noted = |register, ()| Event::Written { register, token: None, value, is_accepted: true };
        self.access(|register| register.write_unfenced(value), noted).await;
    }

    async fn access<T: Clone>(
        &self,
        access: impl FnOnce(&mut Register) -> T,
        noted: impl FnOnce(Resource, T) -> Event,
    ) -> T {
        self.travel().await;
        let outcome = {
            let mut state = self.client.world().lock();
            let outcome = access(state.store(&self.name));
            state.note(self.client.index(), noted(self.name.clone(), outcome.clone()));
            outcome
        };
        self.travel().await;
        outcome
    }

    /// Once through the network.
    async fn travel(&self) {
        let number = self.client.world().lock().next_client(self.client.index());
        let micros = 100 + hash_of(number, ("store", self.client.index())) % 900;
        self.client.sleep(Duration::from_micros(micros)).await;
    }
}
