//! The findings about a node that is a Redis Cluster. The cluster may promote a replica that lacks the last votes.

use std::time::Duration;

use crate::{
    doctor::{
        facts::{ClusterFacts, ExpectedSettings, Info, Replica},
        finding::Finding,
    },
    duration::shown,
};

/// The largest time for which a master that is cut off from its cluster takes writes after its replica was promoted, as a
/// multiple of `cluster-node-timeout`. The replica is promoted after one timeout at the earliest, and the master stops
/// after 2.3 timeouts at the latest (docs/CLUSTER.md).
const OVERLAP: f64 = 1.3;

/// The time by which the quarantine of a node in a cluster is longer than usual.
const ADDITIONAL_QUARANTINE: Duration = Duration::from_secs(1);

pub(super) fn judge(info: &Info, cluster: &ClusterFacts, expected: &ExpectedSettings) -> [Finding; 5] {
    [replicas(info), announced(cluster), coverage(cluster), slot(cluster), failover(info, cluster, expected)]
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
    let unreachable = replicas.iter().filter_map(|replica| {
        replica.unreachable.as_ref().map(|reason| format!("{}: {reason}", replica.shown_address()))
    });
    let unreachable: Vec<String> = unreachable.collect();
    if !unreachable.is_empty() {
        return Finding::warn(
            CHECK,
            format!(
                "a replica cannot be reached at the address that it announces: {}",
                unreachable.join("; ")
            ),
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

fn coverage(cluster: &ClusterFacts) -> Finding {
    const CHECK: &str = "coverage";
    match &cluster.requires_coverage {
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
            "end the migration: until then the node gives no votes, and a quarantine follows",
        ),
        Err(text) => Finding::unknown(CHECK, text, "make sure that no migration of the hash slot is open"),
    }
}

/// Judges whether the leases of a master that is cut off end before the promoted replica starts to vote.
fn failover(info: &Info, cluster: &ClusterFacts, expected: &ExpectedSettings) -> Finding {
    const CHECK: &str = "failover";
    let timeout = match cluster.node_timeout.as_deref().map(str::parse) {
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
    Finding::ok(CHECK, found)
}
