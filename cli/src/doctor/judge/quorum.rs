//! The findings about all nodes together.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    access, clocks,
    metadata::{Voting, voting},
};
use crate::{
    counted::{counted, some_of},
    doctor::{
        facts::{Facts, Info, NodeFacts},
        finding::{Finding, Level},
    },
};

/// The checks of a node whose failure means that the node grants no lock to this user. Of missing permissions,
/// `access::prevents_votes` decides.
const CHECKS_OF_VOTES: [&str; 6] = ["mode", "role", "info", "clock", "commands", "writes"];

/// `of_nodes` has the findings about each node, in the order of the nodes.
pub(super) fn judge(facts: &Facts, of_nodes: &[Vec<Finding>]) -> Vec<Finding> {
    let mut findings = vec![node_count(facts)];
    findings.push(servers(facts));
    findings.push(hosts(facts));
    findings.extend(clocks::among(facts));
    findings.push(votes(facts, of_nodes));
    findings
}

fn node_count(facts: &Facts) -> Finding {
    let nodes = facts.nodes.len();
    let spare = nodes.saturating_sub(facts.expected.votes_needed);
    let found = format!("{nodes} nodes, of which {} are a quorum", facts.expected.votes_needed);
    match nodes {
        1 => Finding::warn(
            "nodes",
            "1 node: a plain single-node lock",
            "use three or five nodes, which survive the loss of a minority",
        ),
        _ if nodes.is_multiple_of(2) => Finding::warn(
            "nodes",
            found,
            "use an odd number of nodes: an even number survives no more losses than one node less",
        ),
        _ if spare == 0 => {
            Finding::warn("nodes", found, "set a smaller votes_needed: with this value, no node may be down")
        }
        _ => Finding::ok("nodes", format!("{found}: {spare} may be down")),
    }
}

/// Judges whether the addresses lead to different servers, and to different clusters.
fn servers(facts: &Facts) -> Finding {
    let members = |node: &NodeFacts| -> Option<BTreeSet<String>> {
        node.server.as_ref().ok()?.cluster.as_ref()?.members.as_ref().ok().cloned()
    };
    let clusters: Vec<(&str, BTreeSet<String>)> =
        facts.nodes.iter().filter_map(|node| Some((node.address.as_str(), members(node)?))).collect();
    for (index, (address, own)) in clusters.iter().enumerate() {
        let same = clusters.iter().skip(index + 1).filter(|(_, other)| !own.is_disjoint(other));
        let addresses: Vec<&str> = [*address].into_iter().chain(same.map(|(address, _)| *address)).collect();
        if addresses.len() > 1 {
            return Finding::fail(
                "servers",
                format!("{} are one Redis Cluster", addresses.join(" and ")),
                "each cluster has one vote, also with several hash tags: name the cluster once, and add other nodes",
            );
        }
    }
    let info = |node: &NodeFacts| -> Option<Info> { node.server.as_ref().ok()?.info.as_ref().ok().cloned() };
    let known = facts.nodes.iter().filter_map(|node| Some((node.address.as_str(), info(node)?)));
    let mut by_run_id: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (address, info) in known {
        by_run_id.entry(info.run_id).or_default().push(address);
    }
    let known_servers: usize = by_run_id.values().map(Vec::len).sum();
    for (run_id, addresses) in &by_run_id {
        if addresses.len() > 1 {
            let found = format!("{} are one server (run_id {run_id})", addresses.join(" and "));
            return Finding::fail(
                "servers",
                found,
                "each server has one vote: name the server once, and add other servers",
            );
        }
    }
    if known_servers < facts.nodes.len() {
        let (unknown, nodes) = (facts.nodes.len().saturating_sub(known_servers), facts.nodes.len());
        let found = format!(
            "cannot tell: {} no run_id, which distinguishes servers",
            some_of(unknown, nodes, "report")
        );
        let advice = "correct the failures of these nodes above: the server has to run, and to answer INFO";
        return Finding::warn("servers", found, advice);
    }
    Finding::ok("servers", "all different")
}

/// Judges whether the nodes are on different machines, because nodes on one machine fail together.
fn hosts(facts: &Facts) -> Finding {
    let mut by_host: BTreeMap<IpAddr, Vec<&str>> = BTreeMap::new();
    for node in &facts.nodes {
        for host in &node.hosts {
            let on_host = by_host.entry(*host).or_default();
            if on_host.last() != Some(&node.address.as_str()) {
                on_host.push(&node.address);
            }
        }
    }
    let shared: Vec<_> = by_host.iter().filter(|(_, nodes)| nodes.len() > 1).collect();
    if let Some((host, nodes)) = shared.first() {
        let found = format!("{} are on one machine ({host})", nodes.join(" and "));
        let advice = "give each node a machine, disk, rack and maintenance window of its own: nodes that share one \
            fail together";
        return Finding::warn("machines", found, advice);
    }
    if facts.nodes.iter().any(|node| node.hosts.is_empty()) {
        let advice = "make sure that each node has a machine of its own";
        return Finding::unknown("machines", "not all names could be resolved", advice);
    }
    Finding::ok("machines", "all different, by their addresses")
}

/// Judges whether a lock can be acquired now.
fn votes(facts: &Facts, of_nodes: &[Vec<Finding>]) -> Finding {
    let (nodes, needed) = (facts.nodes.len(), facts.expected.votes_needed);
    let count = |wanted| {
        let nodes = facts.nodes.iter().zip(of_nodes).filter(|(_, findings)| !refuses_locks(findings));
        let servers = nodes.filter_map(|(node, _)| node.server.as_ref().ok());
        let servers = servers.filter(|server| !access::prevents_votes(&server.access));
        servers.filter(|server| voting(server, &facts.expected) == wanted).count()
    };
    let (voting, unknown) = (count(Voting::Votes), count(Voting::Unknown));
    let found = format!("{}, {needed} needed", some_of(voting, nodes, "vote"));
    if voting == nodes {
        return Finding::ok("quorum", found);
    }
    if voting >= needed {
        return Finding::warn("quorum", found, "see the findings above about the nodes that do not vote");
    }
    if voting + unknown >= needed {
        let verb = if unknown == 1 { "is" } else { "are" };
        let found = format!("cannot tell: {found}, and {} {verb} unknown", counted(unknown, "node"));
        return Finding::warn("quorum", found, "see the findings above about the unknown nodes");
    }
    Finding::fail(
        "quorum",
        found,
        "no lock can be acquired now: see the findings above for the reasons and times",
    )
}

/// Whether a node grants no lock to this user, according to the findings about the node.
fn refuses_locks(findings: &[Finding]) -> bool {
    let is_failure_of_votes =
        |finding: &Finding| finding.level == Level::Fail && CHECKS_OF_VOTES.contains(&finding.check);
    findings.iter().any(is_failure_of_votes)
}
