//! The judgement of the facts: the findings. Pure.

use redquorum::{RestartGuard, error::NodeError};

use super::{
    facts::{ExpectedSettings, Facts, NodeFacts, ServerFacts},
    finding::Finding,
};
use crate::connect::Disconnected;

mod access;
mod clocks;
mod cluster;
mod failover;
mod fleet;
mod memory;
mod metadata;
mod persistence;
mod quorum;
mod server;
#[cfg(test)]
mod tests;
mod waits;

/// Returns the findings: first about each node, and then about all nodes together.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    let is_moving = metadata::is_moving(facts);
    let of_nodes: Vec<Vec<Finding>> =
        facts.nodes.iter().map(|node| of_node(&facts.expected, node, is_moving)).collect();
    let of_all_nodes = quorum::judge(facts, &of_nodes);
    of_nodes.into_iter().flatten().chain(of_all_nodes).chain(waits::judge(&facts.cycles)).collect()
}

/// `is_moving`: whether a move has closed any node.
fn of_node(expected: &ExpectedSettings, node: &NodeFacts, is_moving: bool) -> Vec<Finding> {
    let mut findings = match &node.server {
        Ok(server) => of_server(expected, server, node.is_behind_sentinel, is_moving),
        Err(Disconnected { reason, error }) => {
            vec![Finding::fail("reachable", reason, connection_advice(error.as_ref(), node.is_in_cluster))]
        }
    };
    findings.extend(server::addresses(&node.run_ids));
    findings.extend(cluster::seeds(node));
    findings.into_iter().map(|finding| finding.at(&node.address)).collect()
}

/// Returns the remedy for a connection that failed.
fn connection_advice(error: Option<&NodeError>, is_in_cluster: bool) -> &'static str {
    match error {
        Some(NodeError::Handshake(error)) => connection_advice(Some(error), is_in_cluster),
        Some(NodeError::NoAuth(_)) => "correct the user or password in the url",
        Some(NodeError::Tls(_)) => "correct the url, the server's certificate, or the CAs in the table [tls]",
        Some(NodeError::NoPermission(_)) if is_in_cluster => {
            "ACL SETUSER ... +ssubscribe +cluster|nodes, and the keys and channels of a node in a cluster (docs/CLUSTER.md)"
        }
        Some(NodeError::NoPermission(_)) => "ACL SETUSER ... +select, or name no database in the url",
        Some(NodeError::NoSlotMaster(_) | NodeError::ClusterDown(_)) => {
            "start the servers of the shard, or correct the servers in the url, and check again"
        }
        Some(NodeError::Loading) => "wait until the server has loaded its data, and check again",
        Some(NodeError::Busy) => "wait for the long script, or end it (SCRIPT KILL), and check again",
        None | Some(NodeError::Unreachable(_) | NodeError::DialTimedOut(_)) => {
            "start the server, or correct its address"
        }
        Some(_) => "correct the url, or the server at this address",
    }
}

fn of_server(
    expected: &ExpectedSettings,
    server: &ServerFacts,
    is_behind_sentinel: bool,
    is_moving: bool,
) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("reachable", "the server answers with RESP3")];
    if let Ok(info) = &server.info
        && server::is_sentinel(info)
    {
        // A Sentinel has neither keys nor scripts, so every other check would fail with a remedy for a master.
        findings.extend([server::version(info), server::mode(info, server.cluster.is_some())]);
        return findings;
    }
    match &server.info {
        Ok(info) => {
            findings.push(server::version(info));
            findings.push(server::mode(info, server.cluster.is_some()));
            findings.push(server::role(info));
            if let Some(cluster) = &server.cluster {
                findings.extend(cluster::judge(info, &server.max_lag, cluster, expected));
            } else if is_behind_sentinel && is_guarded(expected.guard) {
                findings.push(failover::replicas(info));
                findings.push(failover::requirement(info, &server.max_lag, expected));
            } else {
                findings.push(server::replicas(info, expected.guard));
            }
            findings.push(memory::eviction(info));
            findings.push(memory::usage(info));
            findings.extend(persistence::judge(info, &server.persistence, expected.guard));
            if let Some(cluster) = &server.cluster {
                findings = cluster::with_replicas(findings, cluster, expected);
            }
        }
        Err(text) => findings.push(server::without_info(text, expected.guard)),
    }
    if let (Some(clients), Some(connections)) = (expected.clients, &server.connections) {
        findings.extend(fleet::judge(clients, server.info.as_ref().ok(), connections));
    }
    findings.push(server::latency(&server.latencies, expected.node_timeout));
    findings.extend(clocks::of_node(&server.clock, expected.drift));
    findings.extend(access::judge(&server.access));
    findings.push(metadata::fingerprint(server, expected, is_moving));
    findings.push(metadata::quarantine(server, expected.guard, is_moving));
    findings
}

fn is_guarded(guard: RestartGuard) -> bool {
    guard != RestartGuard::Off
}
