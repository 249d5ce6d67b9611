//! The findings about a node that is a Redis Cluster. The cluster may promote a replica that lacks the last votes.

use std::time::Duration;

use redquorum::error::NodeError;

use super::{failover::DETECTION, memory};
use crate::{
    connect::{Disconnected, Reply},
    doctor::{
        facts::{
            ClusterFacts, ClusterSettings, ExpectedSettings, Info, NodeFacts, Replica, ReplicaFacts, Seed,
        },
        finding::{Finding, Level},
    },
    duration::shown,
};

/// The largest time for which a master that is cut off from its cluster takes writes after its replica was promoted, as a
/// multiple of `cluster-node-timeout`. The replica is promoted after one timeout at the earliest, and the master stops
/// after 2.3 timeouts at the latest (docs/CLUSTER.md).
const OVERLAP: f64 = 1.3;

/// The time by which the quarantine of a node in a cluster is longer than usual.
const ADDITIONAL_QUARANTINE: Duration = Duration::from_secs(1);

/// `info`, `max_lag` and `cluster` are from the master of the node's hash slot.
pub(super) fn judge(
    info: &Info,
    max_lag: &Reply<String>,
    cluster: &ClusterFacts,
    expected: &ExpectedSettings,
) -> [Finding; 5] {
    let settings = &cluster.settings;
    [
        replicas(info),
        announced(cluster),
        coverage(&settings.requires_coverage),
        slot(cluster),
        failover(info, max_lag, &settings.node_timeout, expected),
    ]
}

/// Replaces findings about the settings of the master by worse findings about the settings of its replicas, which rule
/// after a failover.
pub(super) fn with_replicas(
    findings: Vec<Finding>,
    cluster: &ClusterFacts,
    expected: &ExpectedSettings,
) -> Vec<Finding> {
    let replicas = cluster.replicas.as_deref().unwrap_or_default();
    let of_replicas: Vec<Finding> =
        replicas.iter().flat_map(|replica| at_replica(replica, expected)).collect();
    let worse = |finding: Finding| {
        let same = of_replicas.iter().filter(|other| other.check == finding.check);
        let worst = same.max_by_key(|other| other.level).filter(|other| other.level > finding.level);
        worst.cloned().unwrap_or(finding)
    };
    findings.into_iter().map(worse).collect()
}

/// Judges the settings of a replica. Returns only warnings and failures about settings that are known.
fn at_replica(replica: &Replica, expected: &ExpectedSettings) -> Vec<Finding> {
    let Some(Ok(ReplicaFacts { info, max_lag, settings })) = &replica.server else { return Vec::new() };
    let ClusterSettings { requires_coverage, node_timeout } = settings;
    let mut findings = Vec::new();
    if requires_coverage.is_ok() {
        findings.push(coverage(requires_coverage));
    }
    if let Ok(info) = info {
        findings.push(memory::eviction(info));
        if node_timeout.is_ok() {
            findings.push(failover(info, max_lag, node_timeout, expected));
        }
    }
    findings.retain(|finding| finding.level != Level::Ok);
    let address = replica.shown_address();
    let of_replica = |finding: Finding| Finding {
        found: format!("at the replica {address}: {}", finding.found),
        ..finding
    };
    findings.into_iter().map(of_replica).collect()
}

/// Judges whether all servers that the url names are in one cluster, because clients take the first server that answers.
/// Returns `None` for a node that is no cluster.
pub(super) fn seeds(node: &NodeFacts) -> Option<Finding> {
    const CHECK: &str = "seeds";
    if node.seeds.is_empty() {
        return None;
    }
    let of_master =
        node.server.as_ref().ok().and_then(|server| server.cluster.as_ref()?.members.as_ref().ok());
    let of_seed = |seed: &Seed| seed.members.as_ref().ok().and_then(|members| members.as_ref().ok()).cloned();
    let members = of_master.cloned().or_else(|| node.seeds.iter().find_map(of_seed));
    let is_foreign = |seed: &&Seed| {
        let (own, other) = (members.as_ref(), of_seed(seed));
        own.zip(other.as_ref()).is_some_and(|(own, other)| own.is_disjoint(other))
    };
    let foreign: Vec<&str> = node.seeds.iter().filter(is_foreign).map(|seed| &*seed.address).collect();
    if !foreign.is_empty() {
        let found = format!("not all servers of the url are in one cluster: {} in another", listed(&foreign));
        return Some(Finding::fail(
            CHECK,
            found,
            "name servers of one cluster alone: clients take the first server that answers, so two clients may lock in \
             two clusters",
        ));
    }
    let faults = node.seeds.iter().filter_map(|seed| {
        let reason = match &seed.members {
            Ok(Ok(_)) => return None,
            Ok(Err(text)) if text.contains("cluster support disabled") => {
                "it is a standalone server, which is in no cluster".to_owned()
            }
            Ok(Err(text)) => text.clone(),
            Err(disconnected) => disconnected.reason.clone(),
        };
        Some(format!("{}: {reason}", seed.address))
    });
    let faults: Vec<String> = faults.collect();
    if !faults.is_empty() {
        return Some(Finding::warn(
            CHECK,
            format!("a server that the url names cannot lead to the cluster: {}", faults.join("; ")),
            "start the server, or name other servers of the cluster in its place: if no other server of the url answers, \
             clients do not find the cluster",
        ));
    }
    Some(Finding::ok(CHECK, "all servers of the url are in one cluster"))
}

/// Returns the words `a and b are`.
fn listed(addresses: &[&str]) -> String {
    format!("{} {}", addresses.join(" and "), if addresses.len() == 1 { "is" } else { "are" })
}

fn replicas(info: &Info) -> Finding {
    let found = match info.replicas {
        0 => {
            let advice = "start a replica of this master: while a master without replicas is down, the node gives no votes";
            return Finding::warn("replicas", "the master of the hash slot has none", advice);
        }
        1 => "1 replica is connected, which the cluster may promote".to_owned(),
        more => format!("{more} replicas are connected, one of which the cluster may promote"),
    };
    Finding::ok("replicas", found)
}

/// After a failover, clients connect to the announced address of the promoted replica.
fn announced(cluster: &ClusterFacts) -> Finding {
    const CHECK: &str = "announced";
    let replicas = match &cluster.replicas {
        Ok(replicas) => replicas,
        Err(text) => {
            return Finding::unknown(CHECK, text, "make sure that clients reach the address of each replica");
        }
    };
    let failed =
        replicas.iter().filter_map(|replica| Some((replica, replica.server.as_ref()?.as_ref().err()?)));
    let (refused, unreachable): (Vec<_>, Vec<_>) = failed.partition(|(_, failure)| is_refusal(failure));
    let texts = |failed: &[(&Replica, &Disconnected)]| {
        let texts = failed
            .iter()
            .map(|(replica, failure)| format!("{}: {}", replica.shown_address(), failure.reason));
        texts.collect::<Vec<String>>().join("; ")
    };
    if !refused.is_empty() {
        return Finding::warn(
            CHECK,
            format!("a replica refuses the user: {}", texts(&refused)),
            "give all servers of the cluster the same users: a replica does not receive the users of its master",
        );
    }
    if !unreachable.is_empty() {
        return Finding::warn(
            CHECK,
            format!("a replica cannot be reached at the address that it announces: {}", texts(&unreachable)),
            "set cluster-announce-ip, cluster-announce-hostname or cluster-announce-port of the replica to an address \
             that clients reach: after a failover, the node is at this address",
        );
    }
    if replicas.iter().any(|replica| replica.address.is_none()) {
        return Finding::unknown(
            CHECK,
            "the cluster names no host of a replica",
            "make sure that the replica has the same host as each server to which clients connect, or set \
             cluster-announce-hostname",
        );
    }
    let addresses: Vec<String> = replicas.iter().map(Replica::shown_address).collect();
    Finding::ok(
        CHECK,
        match &*addresses {
            [] => "the cluster names no replica".to_owned(),
            _ => format!("replicas can be reached at {}", addresses.join(", ")),
        },
    )
}

/// Whether a server refused the user, and not the connection.
fn is_refusal(failure: &Disconnected) -> bool {
    let error = match &failure.error {
        Some(NodeError::Handshake(error)) => Some(&**error),
        other => other.as_ref(),
    };
    matches!(error, Some(NodeError::NoAuth(_) | NodeError::NoPermission(_)))
}

fn coverage(requires_coverage: &Reply<String>) -> Finding {
    const CHECK: &str = "coverage";
    match requires_coverage {
        Ok(value) if value == "no" => Finding::ok(CHECK, "the node does not depend on other shards"),
        Ok(_) => Finding::warn(
            CHECK,
            "while any shard of the cluster has no master, the node gives no votes",
            "set cluster-require-full-coverage no on every server of the cluster",
        ),
        Err(text) => Finding::unknown(CHECK, text, "make sure that cluster-require-full-coverage is no"),
    }
}

fn slot(cluster: &ClusterFacts) -> Finding {
    const CHECK: &str = "slot";
    match &cluster.is_moving {
        Ok(false) => Finding::ok(CHECK, "the hash slot does not move"),
        Ok(true) => Finding::warn(
            CHECK,
            "the hash slot moves to another server",
            "complete the migration (`redis-cli --cluster fix HOST:PORT`): until then the node gives no votes, and then it \
             is in quarantine",
        ),
        Err(text) => Finding::unknown(CHECK, text, "make sure that no migration of the hash slot is open"),
    }
}

/// Judges whether the leases of a master that is cut off end before the promoted replica starts to vote.
fn failover(
    info: &Info,
    max_lag: &Reply<String>,
    node_timeout: &Reply<String>,
    expected: &ExpectedSettings,
) -> Finding {
    const CHECK: &str = "failover";
    let timeout = match node_timeout.as_deref().map(str::parse) {
        Ok(Ok(milliseconds)) => Duration::from_millis(milliseconds),
        Ok(Err(_)) => return Finding::unknown(CHECK, "no number", "check cluster-node-timeout"),
        Err(text) => {
            return Finding::unknown(
                CHECK,
                text,
                "make sure that cluster-node-timeout is much shorter than max_ttl",
            );
        }
    };
    let overlap = timeout.mul_f64(OVERLAP);
    let found = format!("a master that is cut off votes for up to {} after the promotion", shown(overlap));
    let room = expected.max_ttl.saturating_sub(expected.ttl) + ADDITIONAL_QUARANTINE;
    if overlap > room {
        let advice = format!(
            "set a shorter cluster-node-timeout, or a max_ttl of {} or more for a ttl of {}",
            shown((expected.ttl + overlap).saturating_sub(ADDITIONAL_QUARANTINE)),
            shown(expected.ttl)
        );
        return Finding::warn(CHECK, found, advice);
    }
    if !info.requires_replicas {
        return Finding::warn(
            CHECK,
            "a master that is cut off from the cluster continues to vote without replicas",
            "set min-replicas-to-write 1 and min-replicas-max-lag 10 on every server of the cluster",
        );
    }
    if let Ok(Ok(lag)) = max_lag.as_deref().map(|seconds| seconds.parse().map(Duration::from_secs))
        && lag.saturating_add(DETECTION) > room
    {
        return Finding::warn(
            CHECK,
            format!("a master votes for {} without replicas (min-replicas-max-lag)", shown(lag)),
            format!(
                "set min-replicas-max-lag 10 on every server of the cluster, or a max_ttl of {} or more for a ttl of {}",
                shown(
                    expected
                        .ttl
                        .saturating_add(lag.saturating_add(DETECTION))
                        .saturating_sub(ADDITIONAL_QUARANTINE)
                ),
                shown(expected.ttl)
            ),
        );
    }
    Finding::ok(CHECK, found)
}
