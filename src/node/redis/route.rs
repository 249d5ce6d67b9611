//! How a node is reached.

use std::{sync::Arc, time::Duration};

use super::{endpoint::Endpoint, sentinel::MasterSet, tls::Security, url};
use crate::{error::ConfigError, node::transport::late, values::NodeError};

/// How a node is reached: one server, or whichever server Sentinels name.
#[derive(Debug)]
pub(crate) struct Route {
    pub(super) leads_to: Destination,
    address: Arc<str>,
}

#[derive(Debug)]
pub(super) enum Destination {
    Server(Endpoint),
    MasterSet(MasterSet),
}

impl Route {
    /// The route that a url says.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Url`] if it cannot be read, or asks for what this build cannot do; [`ConfigError::Tls`] if the
    /// certificates of the system cannot be used.
    pub(crate) fn from_url(url: &str, security: &mut Security) -> Result<Self, ConfigError> {
        Ok(Self::to(url::parse(url, security)?))
    }

    /// The route to the server that a client of the redis crate knows, with its credentials, its
    /// database and its TLS.
    #[cfg(feature = "unstable-redis")]
    pub(crate) fn from_client(client: &redis::Client) -> Self {
        Self::to(Destination::Server(Endpoint::of(client, None)))
    }

    pub(super) fn to(leads_to: Destination) -> Self {
        let address = match &leads_to {
            Destination::Server(endpoint) => endpoint.address(),
            Destination::MasterSet(set) => set.address(),
        };
        Self { leads_to, address: address.into() }
    }

    /// The node's address, the same for all ways of writing it and for every master.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// Why a connection was not there within some time.
    pub(super) fn late(&self, patience: Duration) -> NodeError {
        match &self.leads_to {
            Destination::Server(endpoint) => endpoint.late(patience),
            Destination::MasterSet(_) => late(patience),
        }
    }
}
