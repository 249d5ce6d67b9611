//! The check for duplicate servers: a server has one vote, even if several addresses lead to it. So has a Redis Cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use crate::{mutex, node::Incarnation, values::NodeError};

/// The servers to which one client is connected.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectedServers {
    servers: Arc<Mutex<Servers>>,
}

/// The incarnations of the connected servers, and the members of the clusters of these servers, by the address of the
/// node.
#[derive(Debug, Default)]
struct Servers {
    incarnations: BTreeMap<Arc<str>, Incarnation>,
    clusters: BTreeMap<Arc<str>, BTreeSet<String>>,
}

/// The registration of a server for an address. The registration ends with the connection, because a server may move
/// to another address.
#[derive(Debug)]
pub(super) struct ServerRegistration {
    servers: ConnectedServers,
    address: Arc<str>,
}

/// The registration of a cluster for an address, which ends with the connection.
#[derive(Debug)]
pub(crate) struct ClusterRegistration {
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
        let mut servers = mutex::lock(&self.servers);
        let incarnations = &mut servers.incarnations;
        let other = incarnations.iter().find(|(other, taken)| *other != address && *taken == incarnation);
        if let Some((other, _)) = other {
            let (other, incarnation) = (Arc::clone(other), Arc::clone(incarnation));
            return Err(NodeError::SameServer { other, incarnation });
        }
        incarnations.insert(Arc::clone(address), Arc::clone(incarnation));
        drop(servers);
        Ok(ServerRegistration { servers: self.clone(), address: Arc::clone(address) })
    }

    /// Registers the cluster with these servers for the address of a node. The cluster may gain and lose servers between
    /// two registrations, so one common server is enough for the same cluster.
    ///
    /// # Errors
    ///
    /// [`NodeError::SameCluster`] if the client is connected to the cluster by another address, because the cluster
    /// would have two votes.
    pub(crate) fn register_cluster(
        &self,
        address: &Arc<str>,
        members: BTreeSet<String>,
    ) -> Result<ClusterRegistration, NodeError> {
        let mut servers = mutex::lock(&self.servers);
        let clusters = &mut servers.clusters;
        let other = clusters.iter().find(|(other, taken)| *other != address && !taken.is_disjoint(&members));
        if let Some((other, _)) = other {
            return Err(NodeError::SameCluster { other: Arc::clone(other) });
        }
        clusters.insert(Arc::clone(address), members);
        drop(servers);
        Ok(ClusterRegistration { servers: self.clone(), address: Arc::clone(address) })
    }
}

impl Drop for ServerRegistration {
    fn drop(&mut self) {
        mutex::lock(&self.servers.servers).incarnations.remove(&self.address);
    }
}

impl Drop for ClusterRegistration {
    fn drop(&mut self) {
        mutex::lock(&self.servers.servers).clusters.remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_registered_for_one_address_until_its_connection_ends() {
        let servers = ConnectedServers::default();
        let members = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
        let [one, two] = ["a:6379/x", "b:6379/y"].map(Arc::<str>::from);
        let first = servers.register_cluster(&one, members(&["m1", "m2"])).unwrap();
        let same = servers.register_cluster(&two, members(&["m2", "m3"])).unwrap_err();
        assert_eq!(same, NodeError::SameCluster { other: Arc::clone(&one) });
        let other_cluster = servers.register_cluster(&two, members(&["m3"])).unwrap();
        drop((first, other_cluster));
        servers.register_cluster(&two, members(&["m1"])).unwrap();
    }
}
