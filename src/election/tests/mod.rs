//! Elections on in-memory nodes, in virtual time.

#![allow(clippy::disallowed_methods, reason = "these tests pass the virtual time")]

use std::{sync::Arc, time::Duration};

use crate::{
    Election, MemoryCluster, Quorum,
    node::memory::{Behaviour, MemoryServer},
};

mod campaigning;
mod leading;
mod observing;
#[cfg(feature = "sim")]
mod simulated;

const TTL: Duration = Duration::from_secs(30);

/// No node at all.
const NONE: [usize; 0] = [];

/// A client of these nodes, with the default settings.
fn client(cluster: &MemoryCluster) -> Quorum {
    Quorum::builder().in_memory(cluster).unwrap()
}

/// A candidate in a process of its own.
fn candidate(cluster: &MemoryCluster, value: &str) -> Election {
    Election::new(&client(cluster), "e", value)
}

/// The value of whoever leads.
async fn leading(election: &Election) -> Option<String> {
    election.leader().await.unwrap().map(|leader| leader.value_str().into_owned())
}

fn all_behave(cluster: &MemoryCluster, behaviour: &Behaviour) {
    cluster.servers().iter().for_each(|server| server.behave(behaviour.clone()));
}

fn thaw_all(cluster: &MemoryCluster) {
    cluster.servers().iter().for_each(|server| server.thaw());
}

fn server(cluster: &MemoryCluster, node: usize) -> &Arc<MemoryServer> {
    &cluster.servers()[node]
}

/// Nodes on which any lock is left.
fn locked_nodes(cluster: &MemoryCluster) -> Vec<usize> {
    let servers = cluster.servers().iter().enumerate();
    servers.filter(|(_, server)| !server.locks().is_empty()).map(|(index, _)| index).collect()
}

/// Virtual time passes.
async fn pass(time: Duration) {
    let now = tokio::time::Instant::now();
    tokio::time::sleep_until(now + time).await;
}
