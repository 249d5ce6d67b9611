//! Tests of locks on in-memory nodes, in virtual time.
//!
//! The tests of `election/`, `latch/`, `quorum/` and `semaphore/` use the helpers of this file, too. The tests of
//! `quorum/` and `node/remote/` record traces by [`traces`].

#![allow(clippy::disallowed_methods, reason = "these tests sleep in virtual time")]

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;

use crate::{
    LockGuard, LockOptions, MemoryCluster, Quorum,
    client::dependencies::ClientDependencies,
    lock::client::Client,
    node::memory::{Behaviour, MemoryServer},
    observer::Observer,
};

mod cancellation;
mod downgrade;
mod expiring;
mod fair;
mod forced;
mod loss;
mod masks;
mod minimum_hold;
mod outages;
mod readers;
mod reentrancy;
mod renewals;
mod residue;
mod tickets;
pub(crate) mod traces;
mod waiting;
mod watchdog;

/// The empty list of node indices, to compare with [`locked_nodes`].
pub(crate) const NONE: [usize; 0] = [];

/// Returns a new client of these nodes, with the default settings.
pub(crate) fn client(cluster: &MemoryCluster) -> Quorum {
    Quorum::builder().connect_in_memory(cluster).unwrap()
}

/// Returns a new client of these nodes, with the default settings and this observer.
pub(crate) fn observed_client(cluster: &MemoryCluster, observer: Arc<dyn Observer>) -> Quorum {
    let settings = Quorum::builder().settings.check(cluster.nodes()).unwrap();
    let is_read_only = false;
    let nodes = cluster.connect(&settings.parameters, is_read_only);
    let dependencies = ClientDependencies::new(cluster.clock(), Handle::current(), observer, None);
    Quorum::new(Client::start(nodes, settings, dependencies))
}

/// Locks `r` by a new client, with this ttl and without renewal.
pub(crate) async fn lease_without_renewal(cluster: &MemoryCluster, ttl: Duration) -> LockGuard {
    let options = LockOptions::new().ttl(ttl).without_renewal();
    client(cluster).red_lock("r").options(options).lock().await.unwrap()
}

/// Sets the behaviour of all nodes.
pub(crate) fn all_behave(cluster: &MemoryCluster, behaviour: &Behaviour) {
    for server in cluster.servers() {
        server.behave(behaviour.clone());
    }
}

/// Makes all nodes execute their pending requests, and from now on each request at once.
pub(crate) fn thaw_all(cluster: &MemoryCluster) {
    cluster.servers().iter().for_each(|server| server.thaw());
}

/// Returns the indices of the nodes that have a key of any lock.
pub(crate) fn locked_nodes(cluster: &MemoryCluster) -> Vec<usize> {
    let servers = cluster.servers().iter().enumerate();
    servers.filter(|(_, server)| !server.locks().is_empty()).map(|(index, _)| index).collect()
}

/// Sleeps for `time` of virtual time. Other tasks run meanwhile.
pub(crate) async fn pass(time: Duration) {
    let now = tokio::time::Instant::now();
    tokio::time::sleep_until(now + time).await;
}

/// Returns the server of a node.
pub(crate) fn server(cluster: &MemoryCluster, node: usize) -> &Arc<MemoryServer> {
    &cluster.servers()[node]
}
