//! The route to a node, which the url of the node determines. Each dial follows the route to a server.

use std::sync::Arc;

use super::{
    endpoint::Endpoint, hash_slot::HashSlot, login::CredentialsProvider, sentinel::MasterSet,
    tls::TlsSettings, url,
};
use crate::error::ConfigError;

/// The route to a node: to one server, to the present master of a set, or to the present master of a hash slot.
#[derive(Debug)]
pub(crate) struct Route {
    pub(super) destination: Destination,
    address: Arc<str>,
}

#[derive(Debug)]
pub(super) enum Destination {
    Server(Endpoint),
    MasterSet(MasterSet),
    HashSlot(HashSlot),
}

impl Route {
    /// Returns the route of a url.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Url`] if the url cannot be read, or requires TLS in a build without TLS.
    pub(crate) fn from_url(url: &str, tls_settings: &mut TlsSettings) -> Result<Self, ConfigError> {
        Ok(Self::to(url::parse(url, tls_settings)?))
    }

    /// Returns the route to the server of a client of the redis crate, with the credentials, database and TLS of that
    /// client.
    #[cfg(feature = "unstable-redis")]
    pub(crate) fn from_client(client: &redis::Client) -> Self {
        Self::to(Destination::Server(Endpoint::of(client, None)))
    }

    pub(super) fn to(destination: Destination) -> Self {
        let address = match &destination {
            Destination::Server(endpoint) => endpoint.address(),
            Destination::MasterSet(set) => set.address(),
            Destination::HashSlot(slot) => slot.address(),
        };
        Self { destination, address: address.into() }
    }

    /// Returns the same route with the credentials of providers: for the server of the node, and for its Sentinels.
    pub(crate) fn with_providers(
        self,
        server: Option<&CredentialsProvider>,
        sentinels: Option<&CredentialsProvider>,
    ) -> Self {
        let Self { destination, address } = self;
        let destination = match destination {
            Destination::Server(endpoint) => Destination::Server(match server {
                Some(provider) => endpoint.with_provider(provider, &address),
                None => endpoint,
            }),
            Destination::MasterSet(set) => {
                Destination::MasterSet(set.with_providers(server, sentinels, &address))
            }
            Destination::HashSlot(slot) => Destination::HashSlot(slot.with_provider(server, &address)),
        };
        Self { destination, address }
    }

    /// Whether the node is in a Redis Cluster.
    pub(crate) fn is_in_cluster(&self) -> bool {
        matches!(self.destination, Destination::HashSlot(_))
    }

    /// Whether Sentinels name the server of the node.
    pub(crate) fn is_behind_sentinels(&self) -> bool {
        matches!(self.destination, Destination::MasterSet(_))
    }

    /// Returns the address of the node, which is the same for all spellings of the url and for all masters of a set.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }
}
