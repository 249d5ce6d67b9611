//! The findings about the server of a node: addresses, version, mode, role, replicas and latency.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use redquorum::RestartGuard;

use super::is_guarded;
use crate::{
    doctor::{facts::Info, finding::Finding, refusal::remedy},
    duration::shown,
};

/// The first Redis version with the commands of locks.
const MIN_VERSION: (u32, u32) = (6, 2);

/// The smallest ratio of the node timeout to the slowest measured answer that needs no warning.
const TIMEOUT_RATIO: u32 = 4;

/// Judges whether all IP addresses of the node's name lead to one server. Returns `None` for a name with one address.
pub(super) fn addresses(run_ids: &BTreeMap<IpAddr, String>) -> Option<Finding> {
    let (_, first) = run_ids.first_key_value()?;
    if run_ids.values().all(|run_id| run_id == first) {
        return (run_ids.len() > 1).then(|| Finding::ok("addresses", "all lead to one server"));
    }
    let servers: Vec<String> =
        run_ids.iter().map(|(address, run_id)| format!("{address} (run_id {run_id})")).collect();
    Some(Finding::warn(
        "addresses",
        format!("the name leads to several servers: {}", servers.join(", ")),
        "give each server a name of its own: otherwise votes are lost without a restart, whenever the name leads to \
         another server",
    ))
}

pub(super) fn version(info: &Info) -> Finding {
    let Info { kind, version, .. } = info;
    let mut numbers = version.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        let found = format!("cannot tell: {kind} reports version {version:?}");
        return Finding::warn("version", found, "make sure that the server is compatible with Redis 6.2");
    };
    if (major, minor) < MIN_VERSION {
        return Finding::fail("version", format!("{kind} {version}"), "run Redis 6.2 or later, or Valkey");
    }
    Finding::ok("version", format!("{kind} {version}"))
}

/// Whether the server is a Sentinel, which cannot be a node.
pub(super) fn is_sentinel(info: &Info) -> bool {
    info.mode == "sentinel"
}

pub(super) fn mode(info: &Info, is_in_cluster: bool) -> Finding {
    match info.mode.as_str() {
        "cluster" if is_in_cluster => Finding::ok("mode", "a Redis Cluster, as one node"),
        "standalone" => Finding::ok("mode", "standalone"),
        "cluster" => Finding::fail(
            "mode",
            "a node of a Redis Cluster, which moves keys and promotes replicas",
            "run three small standalone servers beside the cluster (docs/CLUSTER.md), and name these: cluster-enabled no, \
             and no data of a cluster; or name the whole cluster as one node: redis+cluster://HOST:PORT",
        ),
        "sentinel" => Finding::fail(
            "mode",
            "a Sentinel, which keeps no keys",
            "name a master instead: redis+sentinel://HOST:PORT/NAME leads to the master that the Sentinel watches under \
             that name",
        ),
        other => Finding::warn(
            "mode",
            format!("cannot tell: {other:?}"),
            "make sure that the server is a standalone master",
        ),
    }
}

pub(super) fn role(info: &Info) -> Finding {
    match info.role.as_str() {
        "master" => Finding::ok("role", "master"),
        "slave" | "replica" => Finding::fail(
            "role",
            "a replica, which grants no locks",
            "name its master instead of this replica",
        ),
        other => {
            Finding::warn("role", format!("cannot tell: {other:?}"), "make sure that the server is a master")
        }
    }
}

pub(super) fn replicas(info: &Info, guard: RestartGuard) -> Finding {
    let found = match info.replicas {
        0 => return Finding::ok("replicas", "none"),
        1 => "1 replica is connected".to_owned(),
        more => format!("{more} replicas are connected"),
    };
    let advice = if is_guarded(guard) {
        "do not let this address lead to a promoted replica: a promotion causes a quarantine, without a benefit"
    } else {
        "never let this address lead to a promoted replica: without a restart guard, two clients could then hold one \
         lock"
    };
    Finding::warn("replicas", found, advice)
}

/// Judges a server that refused `INFO`.
pub(super) fn without_info(text: &str, guard: RestartGuard) -> Finding {
    let advice = remedy(text, "info", "");
    if is_guarded(guard) {
        let advice = format!("{advice}: with a restart guard, clients refuse a node without INFO");
        return Finding::fail("info", text, advice);
    }
    Finding::unknown("info", text, format!("{advice}: without INFO, most checks of the server are unknown"))
}

pub(super) fn latency(latencies: &[Duration], node_timeout: Duration) -> Finding {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let (Some(median), Some(worst)) = (sorted.get(sorted.len() / 2), sorted.last()) else {
        return Finding::unknown("latency", "no answer was measured", "check again");
    };
    let found = format!(
        "median {}, worst {} of {}, for a node timeout of {}",
        shown(*median),
        shown(*worst),
        sorted.len(),
        shown(node_timeout)
    );
    if *worst >= node_timeout {
        return Finding::fail(
            "latency",
            found,
            "move the node nearer, reduce its load, or set a longer node timeout",
        );
    }
    if *worst * TIMEOUT_RATIO > node_timeout {
        let advice = "reduce the node's load, or set a longer node timeout: it should be several times the slowest \
            answer";
        return Finding::warn("latency", found, advice);
    }
    Finding::ok("latency", found)
}
