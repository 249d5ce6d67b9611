//! What is known of the nodes.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use redquorum::RestartGuard;

use crate::connect::{Disconnected, Reply};

/// What is known of the nodes, and what they are to be.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) expected: Expected,
    pub(crate) nodes: Vec<Node>,
}

/// What the settings ask of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) fingerprint: String,
    pub(crate) votes_needed: usize,
    pub(crate) guard: RestartGuard,
    pub(crate) node_timeout: Duration,
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) drift: f64,
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    /// The machines that the address leads to; empty if unknown.
    pub(crate) hosts: Vec<IpAddr>,
    /// Where there are several: the server that answers at each, by its `run_id`.
    pub(crate) run_ids: BTreeMap<IpAddr, String>,
    /// Whether Sentinels name its server, and may promote another one.
    pub(crate) is_behind_sentinel: bool,
    /// Or why it could not be asked.
    pub(crate) server: Result<Server, Disconnected>,
}

/// What a node told. Where it refused, its words are there instead.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) info: Reply<Info>,
    pub(crate) persistence: Persistence,
    /// `min-replicas-max-lag`, in seconds.
    pub(crate) max_lag: Reply<String>,
    /// How long it took to answer, each time.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) clock: Reply<ClockReading>,
    pub(crate) access: Access,
    /// Its metadata; `None` if it belongs to no quorum.
    pub(crate) metadata: Reply<Option<NodeMetadata>>,
    /// How long it must not vote; `None` if it may.
    pub(crate) quarantine: Reply<Option<Duration>>,
}

/// What `INFO` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// `redis`, `valkey`, ...
    pub(crate) kind: String,
    pub(crate) version: String,
    /// `standalone`, `cluster` or `sentinel`.
    pub(crate) mode: String,
    pub(crate) run_id: String,
    pub(crate) replication_id: String,
    /// `master` or `slave`.
    pub(crate) role: String,
    pub(crate) replicas: u64,
    /// Whether it takes writes only as long as enough replicas follow it.
    pub(crate) requires_replicas: bool,
    pub(crate) used_memory: u64,
    /// 0: no limit.
    pub(crate) max_memory: u64,
    pub(crate) eviction: String,
    /// Whether it has an append-only file.
    pub(crate) appends: bool,
}

/// Settings that only `CONFIG GET` tells.
#[derive(Clone, Debug)]
pub(crate) struct Persistence {
    pub(crate) appendfsync: Reply<String>,
    pub(crate) no_appendfsync_on_rewrite: Reply<String>,
    pub(crate) aof_load_truncated: Reply<String>,
}

/// A node's clock beside this machine's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockReading {
    /// How many seconds it is ahead of this machine's.
    pub(crate) ahead: f64,
    /// By how many seconds that may be wrong: half the round trip.
    pub(crate) within: f64,
    /// How it runs; `None` if it was not watched.
    pub(crate) rate: Option<Rate>,
}

/// How a node's clock runs beside this machine's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// How many seconds it gains in each.
    pub(crate) gains: f64,
    /// By how much that may be wrong.
    pub(crate) within: f64,
    /// How many seconds it was watched.
    pub(crate) watched: f64,
}

/// What the user may do there.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Whether a script runs by its text, is loaded, and runs by its hash.
    pub(crate) by_text: Reply<()>,
    pub(crate) loads: Reply<()>,
    pub(crate) by_hash: Reply<()>,
    /// What came of trying each command; the server's words if no script ran that could try it.
    pub(crate) trial: Reply<Trial>,
    /// Whether a published notice arrives.
    pub(crate) notices: Reply<()>,
}

/// What came of trying every command that locks need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Commands that were refused for want of a permission, each with the server's words.
    pub(crate) forbidden: Vec<(String, String)>,
    /// Why one failed otherwise.
    pub(crate) failure: Option<String>,
}

/// What a node knows of its quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeMetadata {
    pub(crate) incarnation: String,
    pub(crate) fingerprint: String,
}
