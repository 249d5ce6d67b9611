//! Asking the nodes, on connections of one's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use futures::future::join_all;
use redquorum::{
    __command::{NodeConnector, connectors},
    admin,
};

use super::facts::{Expected, Facts, Node, Server};
use crate::{
    connect::{Disconnected, NodeConnection, hosts},
    failure::Failure,
    settings::Settings,
};

mod access;
mod clock;
mod info;
mod metadata;

/// Asks all nodes at once, and watches their clocks for so long.
///
/// # Errors
///
/// Settings that cannot work. What is wrong with nodes is no error.
pub(crate) async fn gather(settings: &Settings, watch: Duration) -> Result<Facts, Failure> {
    let builder = settings.builder();
    let expected = Expected {
        fingerprint: admin::fingerprint(&builder)?,
        votes_needed: settings.effective.votes_needed,
        guard: settings.effective.restart_guard,
        node_timeout: settings.effective.node_timeout,
        ttl: settings.effective.ttl,
        max_ttl: settings.effective.max_ttl,
        drift: settings.effective.drift,
    };
    let patience = settings.effective.connect_timeout;
    let nodes = connectors(&builder)?.into_iter().map(async |node| {
        let hosts = hosts(&node, patience).await;
        Node {
            address: node.address().to_owned(),
            run_ids: run_ids(&node, &hosts, patience).await,
            hosts,
            is_behind_sentinel: node.host().is_none(),
            server: look(&node, patience, watch).await,
        }
    });
    Ok(Facts { expected, nodes: join_all(nodes).await })
}

/// Which server answers at each address of a node that has several; nothing of one that does not
/// say.
async fn run_ids(node: &NodeConnector, hosts: &[IpAddr], patience: Duration) -> BTreeMap<IpAddr, String> {
    let hosts: BTreeSet<IpAddr> = hosts.iter().copied().collect();
    if hosts.len() < 2 {
        return BTreeMap::new();
    }
    let asked = hosts.into_iter().filter_map(|host| Some((host, node.at(host)?)));
    let run_ids = asked.map(async |(host, node)| {
        let mut connection = NodeConnection::open(&node, patience).await.ok()?;
        let info = info::ask(&mut connection).await.ok()?.ok()?;
        Some((host, info.run_id)).filter(|(_, run_id)| !run_id.is_empty())
    });
    join_all(run_ids).await.into_iter().flatten().collect()
}

async fn look(node: &NodeConnector, patience: Duration, watch: Duration) -> Result<Server, Disconnected> {
    let mut connection = NodeConnection::open(node, patience).await?;
    let info = info::ask(&mut connection).await?;
    let persistence = info::persistence(&mut connection).await?;
    let max_lag = info::max_lag(&mut connection).await?;
    let metadata = metadata::ask(&mut connection).await?;
    let quarantine = metadata::quarantine(&mut connection).await?;
    let access = access::ask(&mut connection).await?;
    let (latencies, clock) = clock::watch(&mut connection, watch).await?;
    Ok(Server { info, persistence, max_lag, latencies, clock, access, metadata, quarantine })
}
