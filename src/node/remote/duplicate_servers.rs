//! The check for duplicate servers: a server has one vote, even if several addresses lead to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{mutex, node::Incarnation, values::NodeError};

/// The incarnations of the servers to which one client is connected, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectedServers {
    incarnations: Arc<Mutex<BTreeMap<Arc<str>, Incarnation>>>,
}

/// The registration of a server for an address. The registration ends with the connection, because a server may move
/// to another address.
#[derive(Debug)]
pub(super) struct ServerRegistration {
    servers: ConnectedServers,
    address: Arc<str>,
}

impl ConnectedServers {
    /// Registers the server of this incarnation for the address of a node.
    ///
    /// # Errors
    ///
    /// [`NodeError::SameServer`] if the client is connected to the server by another address, because the
    /// server would have two votes.
    pub(super) fn register(
        &self,
        address: &Arc<str>,
        incarnation: &Incarnation,
    ) -> Result<ServerRegistration, NodeError> {
        let mut incarnations = mutex::lock(&self.incarnations);
        let other = incarnations.iter().find(|(other, taken)| *other != address && *taken == incarnation);
        if let Some((other, _)) = other {
            let (other, incarnation) = (Arc::clone(other), Arc::clone(incarnation));
            return Err(NodeError::SameServer { other, incarnation });
        }
        incarnations.insert(Arc::clone(address), Arc::clone(incarnation));
        drop(incarnations);
        Ok(ServerRegistration { servers: self.clone(), address: Arc::clone(address) })
    }
}

impl Drop for ServerRegistration {
    fn drop(&mut self) {
        mutex::lock(&self.servers.incarnations).remove(&self.address);
    }
}
