//! The collection of the facts about all nodes, on connections that do not register as a client of the quorum.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use futures::future::join_all;
use redquorum::{
    __command::{NodeConnector, connectors, list_answering},
    QuorumBuilder, admin,
};

use super::facts::{ExpectedSettings, Facts, NodeFacts, NotSearched, ServerFacts};
use crate::{
    connect::{Disconnected, NodeConnection, hosts},
    failure::Failure,
    settings::Settings,
    stopwatch, wait_cycles,
};

mod access;
mod clock;
mod cluster;
mod info;
pub(crate) mod metadata;

/// The longest time for the queries of one node. A client has more patience with busy nodes.
const MAX_QUERY_TIME: Duration = Duration::from_secs(5);

/// The longest time for the lists of all locks.
const MAX_LISTING_TIME: Duration = Duration::from_secs(10);

/// Queries all nodes in parallel, and measures the rates of their clocks for the time `watch`. The permissions are
/// checked for locks with the names in `names`, or for locks with any name if `names` is empty. With a number of
/// `clients`, the servers are also asked for the settings of connections.
///
/// # Errors
///
/// Invalid settings. A failure of a node is a fact, not an error.
pub(crate) async fn gather(
    settings: &Settings,
    watch: Duration,
    names: &[Vec<u8>],
    clients: Option<u64>,
) -> Result<Facts, Failure> {
    let builder = settings.builder();
    let expected = ExpectedSettings {
        fingerprint: admin::fingerprint(&builder)?,
        votes_needed: settings.effective.votes_needed,
        guard: settings.effective.restart_guard,
        node_timeout: settings.effective.node_timeout,
        ttl: settings.effective.ttl,
        max_ttl: settings.effective.max_ttl,
        drift: settings.effective.drift,
        clients,
    };
    let timeout = settings.effective.connect_timeout.min(MAX_QUERY_TIME);
    let votes_needed = expected.votes_needed;
    let nodes = connectors(&builder)?.into_iter().map(async |node| {
        let mut hosts = hosts(&node, timeout).await;
        let (server, seeds) = tokio::join!(
            query_server(&node, timeout, watch, names, clients.is_some()),
            cluster::query_seeds(&node, timeout)
        );
        // The url of a cluster names no host of the master.
        hosts.extend(server.as_ref().ok().and_then(|server| server.cluster.as_ref()?.host));
        NodeFacts {
            address: node.address().to_owned(),
            run_ids: run_ids(&node, &hosts, timeout).await,
            hosts,
            // The url of a node behind Sentinels names no host of the server.
            is_behind_sentinel: node.host().is_none() && node.hash_tag().is_none(),
            is_in_cluster: node.hash_tag().is_some(),
            seeds,
            server,
        }
    });
    let (nodes, cycles) = tokio::join!(join_all(nodes), cycles(&builder, votes_needed));
    Ok(Facts { expected, nodes, cycles })
}

/// Returns the cycles of clients that wait for each other, as texts.
///
/// # Errors
///
/// The reason for which the locks could not be listed.
async fn cycles(builder: &QuorumBuilder, votes_needed: usize) -> Result<Vec<String>, NotSearched> {
    let list = async || {
        let failed = |_| NotSearched::Failed("no node listed its locks".to_owned());
        let listing = list_answering(builder, |_| true).await.map_err(failed)?;
        let silent: Vec<String> = listing.silent().map(|(node, error)| format!("{node}: {error}")).collect();
        let is_quorum = connectors(builder).map_or(0, |nodes| nodes.len()) >= votes_needed + silent.len();
        if is_quorum {
            Ok(listing)
        } else {
            Err(NotSearched::Failed(format!("no quorum listed its locks: {}", silent.join("; "))))
        }
    };
    let searching = async { wait_cycles::search(&list().await?, list).await };
    match stopwatch::within(MAX_LISTING_TIME, searching).await {
        Some(found) => Ok(found?.iter().map(|cycle| cycle.shown(false)).collect()),
        None => Err(NotSearched::TookTooLong(format!(
            "the list of all locks takes longer than {MAX_LISTING_TIME:?}"
        ))),
    }
}

/// Returns the `run_id` of the server at each IP address of a node that has several addresses. Addresses without an
/// answer are left out.
async fn run_ids(node: &NodeConnector, hosts: &[IpAddr], timeout: Duration) -> BTreeMap<IpAddr, String> {
    let hosts: BTreeSet<IpAddr> = hosts.iter().copied().collect();
    if hosts.len() < 2 {
        return BTreeMap::new();
    }
    let connectors = hosts.into_iter().filter_map(|host| Some((host, node.at(host)?)));
    let run_ids = connectors.map(async |(host, node)| {
        let mut connection = NodeConnection::open(&node, timeout).await.ok()?;
        let info = info::query(&mut connection).await.ok()?.ok()?;
        Some((host, info.run_id)).filter(|(_, run_id)| !run_id.is_empty())
    });
    join_all(run_ids).await.into_iter().flatten().collect()
}

async fn query_server(
    node: &NodeConnector,
    timeout: Duration,
    watch: Duration,
    names: &[Vec<u8>],
    asks_for_connections: bool,
) -> Result<ServerFacts, Disconnected> {
    let mut connection = NodeConnection::open(node, timeout).await?;
    let info = info::query(&mut connection).await?;
    let persistence = info::persistence(&mut connection).await?;
    let max_lag = info::max_lag(&mut connection).await?;
    let cluster = match connection.hash_tag().map(str::to_owned) {
        Some(tag) => Some(cluster::query(&mut connection, node, &tag, timeout).await?),
        None => None,
    };
    let connections = match asks_for_connections {
        true => Some(info::connections(&mut connection).await?),
        false => None,
    };
    let metadata = metadata::query(&mut connection).await?;
    let quarantine = metadata::quarantine(&mut connection).await?;
    let access = access::query(&mut connection, names).await?;
    let (latencies, clock) = clock::measure(&mut connection, watch).await?;
    Ok(ServerFacts {
        info,
        persistence,
        max_lag,
        cluster,
        connections,
        latencies,
        clock,
        access,
        metadata,
        quarantine,
    })
}
