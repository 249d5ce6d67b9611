//! Nodes that are Redis servers: connections over which one script runs.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use self::{link::RedisLink, wire::Wire};
use crate::{
    error::ConfigError,
    node::{
        fault::Fault,
        remote::{RemoteNode, Setup},
        terms::Terms,
        transport::{Link, Transport},
    },
};

mod address;
mod classify;
mod link;
pub(crate) mod script;
#[cfg(test)]
mod tests;
mod wire;

/// Makes connections to one Redis server.
#[derive(Debug)]
pub(crate) struct RedisTransport {
    client: redis::Client,
    address: Arc<str>,
    terms: Terms,
}

impl RedisTransport {
    /// A transport to the server at this url.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Url`] if the url cannot be read, or asks for what this build cannot do (TLS).
    pub(crate) fn from_url(url: &str, terms: Terms) -> Result<Self, ConfigError> {
        let client = redis::Client::open(url).map_err(|error| ConfigError::Url {
            url: address::without_password(url).into(),
            reason: address::reason(&error).into(),
        })?;
        Ok(Self::new(&client, terms))
    }

    /// A transport to the server that a client of the redis crate knows, with its credentials and its database.
    pub(crate) fn new(client: &redis::Client, terms: Terms) -> Self {
        let info = client.get_connection_info();
        let address = address::canonical(info.addr());
        let redis = info.redis_settings().clone().set_protocol(redis::ProtocolVersion::RESP3);
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let info = info.clone().set_redis_settings(redis).set_tcp_settings(tcp);
        // Opening checks the address and nothing else: that of a client was checked before.
        let client = redis::Client::open(info).unwrap_or_else(|_| client.clone());
        Self { client, address: address.into(), terms }
    }

    /// The server's address, the same for all ways of writing it.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// The node that is reached in this way.
    pub(crate) fn into_node(self, setup: &Setup) -> RemoteNode {
        RemoteNode::new(Arc::clone(&self.address), Arc::new(self), setup)
    }
}

impl Transport for RedisTransport {
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Link>, Fault>> {
        async {
            let wire = Wire::open(&self.client).await?;
            let link: Box<dyn Link> = Box::new(RedisLink::new(wire, self.terms.clone()));
            Ok(link)
        }
        .boxed()
    }
}

/// The command that makes a server know the script.
fn script_load() -> redis::Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script::text());
    command
}
