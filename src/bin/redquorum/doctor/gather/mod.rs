//! Asking the nodes, on connections of one's own.

use std::time::Duration;

use futures::future::join_all;
use redquorum::NodeConnector;

use super::facts::{Expected, Facts, Node, Server};
use crate::{
    dial::{Gone, Line, hosts},
    failure::Failure,
    settings::Settings,
};

mod access;
mod clock;
mod info;
mod record;

/// Asks all nodes at once, and watches their clocks for so long.
///
/// # Errors
///
/// Settings that cannot work. What is wrong with nodes is no error.
pub(crate) async fn gather(settings: &Settings, watch: Duration) -> Result<Facts, Failure> {
    let builder = settings.builder();
    let expected = Expected {
        fingerprint: builder.fingerprint()?.to_string(),
        votes_needed: settings.votes_needed(),
        guard: settings.restart_guard(),
        node_timeout: settings.node_timeout(),
        drift: settings.drift(),
    };
    let patience = settings.connect_timeout();
    let nodes = builder.connectors()?.into_iter().map(async |node| Node {
        address: node.address().to_owned(),
        hosts: hosts(&node, patience).await,
        server: look(&node, patience, watch).await.map_err(|Gone(why)| why),
    });
    Ok(Facts { expected, nodes: join_all(nodes).await })
}

async fn look(node: &NodeConnector, patience: Duration, watch: Duration) -> Result<Server, Gone> {
    let mut line = Line::open(node, patience).await?;
    let info = info::ask(&mut line).await?;
    let persistence = info::persistence(&mut line).await?;
    let record = record::ask(&mut line).await?;
    let quarantine = record::quarantine(&mut line).await?;
    let access = access::ask(&mut line).await?;
    let (latencies, clock) = clock::watch(&mut line, watch).await?;
    Ok(Server { info, persistence, latencies, clock, access, record, quarantine })
}
