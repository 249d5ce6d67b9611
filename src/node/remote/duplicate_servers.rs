//! The duplicate-server check: a server has one vote, whatever addresses lead to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{mutex, node::Incarnation, values::NodeError};

/// The incarnations of the servers that one client is connected to, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectedServers {
    incarnations: Arc<Mutex<BTreeMap<Arc<str>, Incarnation>>>,
}

/// The check of one node's connections.
#[derive(Clone, Debug)]
pub(super) struct DuplicateServerCheck {
    pub(super) servers: ConnectedServers,
    pub(super) address: Arc<str>,
}

/// The registration of a server for as long as the connection lasts: a server may move to another
/// address.
#[derive(Debug)]
pub(super) struct ServerRegistration {
    servers: ConnectedServers,
    address: Arc<str>,
}

impl DuplicateServerCheck {
    /// Registers the server of this incarnation for the address.
    ///
    /// # Errors
    ///
    /// [`NodeError::SameServer`] if the client is connected to it by another address: it would have
    /// two votes.
    pub(super) fn register(&self, incarnation: &Incarnation) -> Result<ServerRegistration, NodeError> {
        let mut incarnations = mutex::lock(&self.servers.incarnations);
        let other =
            incarnations.iter().find(|(address, taken)| **address != self.address && *taken == incarnation);
        if let Some((address, _)) = other {
            return Err(NodeError::SameServer {
                other: Arc::clone(address),
                incarnation: Arc::clone(incarnation),
            });
        }
        incarnations.insert(Arc::clone(&self.address), Arc::clone(incarnation));
        drop(incarnations);
        Ok(ServerRegistration { servers: self.servers.clone(), address: Arc::clone(&self.address) })
    }
}

impl Drop for ServerRegistration {
    fn drop(&mut self) {
        mutex::lock(&self.servers.incarnations).remove(&self.address);
    }
}
